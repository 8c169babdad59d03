// Optimizers: trajectories of torch (tests/data/adam_trajectory.h5), closed forms, the
// schedule, and sums that do not depend on threads.
#include "kan/optimizer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "io/hdf5.hpp"
#include "kan/schedule.hpp"
#include "support/run_engine.hpp"
#include "support/source_file.hpp"

using namespace kan;
using io::Hdf5File;

namespace {

double relative(double a, double b) {
  return std::abs(a - b) / std::max(1e-3, std::abs(b));
}

void check_trajectory(const std::string& run, const OptimizerOptions& options,
                      Kernels kernels) {
  const Hdf5File file =
      Hdf5File::open(kan::test::source_file("tests/data/adam_trajectory.h5"));
  const Exec exec;
  Network<double> network(
      Shape({{2, 5, 5, 3, Base::silu}, {5, 1, 5, 3, Base::silu}}, true), -1, 1);
  const auto load = [&](int step) {
    std::vector<LayerArrays<double>> arrays(2);
    for (int l = 0; l < 2; ++l) {
      const std::string group =
          run + "/params_step" + std::to_string(step) + "/layer" + std::to_string(l);
      arrays[l].coef = file.read<double>(group + "/coef");
      arrays[l].scale_base = file.read<double>(group + "/scale_base");
      arrays[l].scale_spline = file.read<double>(group + "/scale_sp");
    }
    return arrays;
  };
  for (int l = 0; l < 2; ++l)
    network.set_knots(
        l, file.read<double>(run + "/fixed/layer" + std::to_string(l) + "/grid"));
  network.pack(load(0), network.parameters());
  const auto x = file.read<double>("input"), y = file.read<double>("target");
  const auto loss = file.read<double>(run + "/loss");
  const auto engine = make_engine(exec, network, kernels);
  Optimizer<double> optimizer(options, network.shape().parameters());
  const View1<double> gradient("gradient", network.shape().parameters());
  const View1<double> squares("squares", norm_blocks(gradient.size()));
  Batch<double> batch;
  batch.size = std::int64_t(y.size());
  batch.inputs = test::to_view<double>(x, y.size(), 2);
  batch.targets = test::to_view<double>(y, y.size(), 1);
  for (int step = 0; step <= 50; ++step) {
    if (step == 1 || step == 10 || step == 50) {
      const View1<double> expected("expected", network.shape().parameters());
      network.pack(load(step), expected);
      double worst = 0;
      for (std::size_t k = 0; k < expected.extent(0); ++k)
        worst = std::max(worst, relative(network.parameters()(k), expected(k)));
      INFO(run << " step " << step);
      CHECK(worst < 1e-10);
    }
    engine->form(exec, network.parameters());
    engine->gradient(exec, batch, LossKind::mse);
    CHECK(relative(engine->sums(exec).loss / double(batch.size), loss[step]) < 1e-10);
    engine->finish(exec, network.parameters(), engine->add(exec, 0, 1), gradient);
    scale_and_square(exec, gradient, 1.0 / double(batch.size), squares.data());
    optimizer.update(exec, network.parameters(), gradient, options.learning_rate, 1.0);
  }
}

template <class T>
double after_two_steps(const OptimizerOptions& options) {
  const Exec exec;
  Optimizer<T> optimizer(options, 1);
  const View1<T> p("p", 1), g("g", 1);
  p(0) = 2;
  g(0) = 0.5;
  for (int k = 0; k < 2; ++k) optimizer.update(exec, p, g, options.learning_rate, 1.0);
  return p(0);
}

}  // namespace

TEST_CASE("Adam and SGD follow torch") {
  OptimizerOptions adam{.type = OptimizerKind::adam, .learning_rate = 1e-2};
  OptimizerOptions sgd{.type = OptimizerKind::sgd, .learning_rate = 1e-2};
  OptimizerOptions momentum = sgd;
  momentum.momentum = 0.9;
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    check_trajectory("adam", adam, kernels);
    check_trajectory("sgd", sgd, kernels);
    check_trajectory("sgd_momentum", momentum, kernels);
  }
}

TEST_CASE("weight decay: added to the gradient, or decoupled") {
  OptimizerOptions o{
      .type = OptimizerKind::sgd, .learning_rate = 0.1, .weight_decay = 0.2};
  const double one = 2 - 0.1 * (0.5 + 0.2 * 2);
  CHECK(std::abs(after_two_steps<double>(o) - (one - 0.1 * (0.5 + 0.2 * one))) < 1e-15);
  o.type = OptimizerKind::adamw;
  // A constant gradient makes Adam's step lr g/(|g| + eps).
  const double move = 0.1 * 0.5 / (0.5 + 1e-8), keep = 1 - 0.1 * 0.2;
  CHECK(std::abs(after_two_steps<double>(o) - ((2 * keep - move) * keep - move)) < 1e-12);
  CHECK(std::abs(after_two_steps<float>(o) - ((2 * keep - move) * keep - move)) < 3e-6);
}

TEST_CASE("scaling and the norm of a gradient") {
  const Exec exec;
  for (std::int64_t n : {1, 7, 8, 1023, 1024, 1025, 5000}) {
    const View1<float> g("g", n);
    double expected = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      g(k) = float(k % 17) - 8;
      expected += std::pow(0.5 * double(g(k)), 2);
    }
    const MessageView1<double> squares("squares", norm_blocks(n));
    scale_and_square(exec, g, 0.5, squares.data());
    CHECK(add_blocks(exec, squares) == expected);  // halves of integers are exact
    CHECK(g(0) == -4);
  }
}

TEST_CASE("schedules") {
  ScheduleOptions o;
  CHECK(schedule_factor(o, 12345, 20000) == 1);
  o = {.type = ScheduleKind::step, .warmup = 4, .step_size = 10, .factor = 0.5};
  CHECK(schedule_factor(o, 0, 100) == 0.25);
  CHECK(schedule_factor(o, 3, 100) == 1);
  CHECK(schedule_factor(o, 13, 100) == 1);
  CHECK(schedule_factor(o, 14, 100) == 0.5);
  CHECK(schedule_factor(o, 24, 100) == 0.25);
  o = {.type = ScheduleKind::cosine};
  CHECK(schedule_factor(o, 0, 100) == 1);
  CHECK(std::abs(schedule_factor(o, 50, 100) - 0.5) < 1e-15);
  CHECK(schedule_factor(o, 100, 100) == 0);
}
