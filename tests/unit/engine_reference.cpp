// Outputs, loss and gradients against PyKAN and efficient-kan, for every form of the
// kernels, in double and float, with the closed form and with the form for any knots.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "io/hdf5.hpp"
#include "support/run_engine.hpp"
#include "support/source_file.hpp"

using namespace kan;
using io::Hdf5File;

namespace {

const Hdf5File& reference() {
  static const Hdf5File file =
      Hdf5File::open(kan::test::source_file("tests/data/kan_forward_backward.h5"));
  return file;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    // The mean gradients of the reference are of order 1e-3..1; floats are compared in
    // units of max(1, |b|).
    const double error = std::abs(a[k] - b[k]) / std::max(1.0, std::abs(b[k]));
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  return worst;
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// efficient-kan stores (out, in, ...) where we have (in, out, ...).
std::vector<double> swap_in_out(const std::vector<double>& a, int out, int in) {
  const std::size_t tail = a.size() / (std::size_t(out) * in);
  std::vector<double> b(a.size());
  for (int o = 0; o < out; ++o)
    for (int i = 0; i < in; ++i)
      for (std::size_t j = 0; j < tail; ++j)
        b[(std::size_t(i) * out + o) * tail + j] =
            a[(std::size_t(o) * in + i) * tail + j];
  return b;
}

template <class T>
Network<T> load_network(const std::string& model, bool general) {
  const Hdf5File& file = reference();
  const int layers = int(file.read_int_attribute(model, "n_layers"));
  const int order = int(file.read_int_attribute(model, "k"));
  std::vector<LayerShape> shape;
  std::vector<LayerArrays<T>> arrays(layers);
  for (int l = 0; l < layers; ++l) {
    const std::string group = model + "/layer" + std::to_string(l);
    const auto size = file.info(group + "/coef").shape;
    shape.push_back(
        {int(size[0]), int(size[1]), int(size[2]) - order, order, Base::silu});
    arrays[l].coef = file.read<T>(group + "/coef");
    arrays[l].scale_base = file.read<T>(group + "/scale_base");
    arrays[l].scale_spline = file.read<T>(group + "/scale_sp");
  }
  Network<T> network(Shape(shape, true), -1, 1);
  for (int l = 0; l < layers; ++l)
    network.set_knots(
        l, file.read<double>(model + "/layer" + std::to_string(l) + "/grid"), general);
  network.pack(arrays, network.parameters());
  return network;
}

template <class T>
void check_model(const std::string& model, Kernels kernels, bool general) {
  INFO(model << (kernels == Kernels::host ? " host" : " team")
             << (general ? " general knots" : ""));
  const Hdf5File& file = reference();
  const double tolerance = sizeof(T) == 8 ? 1e-12 : 1e-5;
  const Network<T> network = load_network<T>(model, general);
  if (!general)
    CHECK(network.knots(0).uniform ==
          (file.read_int_attribute(model, "uniform_grid") == 1));
  const auto x = file.read<double>(model + "/input");
  const auto y = file.read<double>(model + "/target");
  const auto r = test::run_engine(network, kernels, LossKind::mse, x, y);
  for (const std::string peer : {"/pykan", "/efficient_kan"}) {
    const bool pykan = peer == "/pykan";
    CHECK(std::abs(r.loss - file.read<double>(model + peer + "/loss")[0]) <
          tolerance * std::max(1.0, r.loss));
    CHECK(distance(r.output, file.read<double>(model + peer + "/output")) < tolerance);
    CHECK(distance(r.input_gradient, file.read<double>(model + peer + "/grad_input")) <
          tolerance);
    for (int l = 0; l < network.shape().layers(); ++l) {
      const LayerShape& s = network.shape().layer(l);
      const std::string group = model + peer + "/layer" + std::to_string(l);
      const auto compare = [&](const std::vector<T>& ours, const std::string& name,
                               const std::string& efficient_name) {
        const auto theirs =
            pykan ? file.read<double>(group + "/" + name)
                  : swap_in_out(file.read<double>(group + "/" + efficient_name), s.out,
                                s.in);
        INFO(group << " " << name);
        CHECK(distance(widen(ours), theirs) < tolerance);
      };
      compare(r.layers[l].coef, "grad_coef", "grad_spline_weight");
      compare(r.layers[l].scale_base, "grad_scale_base", "grad_base_weight");
      compare(r.layers[l].scale_spline, "grad_scale_sp", "grad_spline_scaler");
    }
  }
}

template <class T>
void check_all(Kernels kernels) {
  for (const char* model :
       {"m1_2_64_1", "m2_2_5_1", "m3_4_8_8_2", "m4_1_1", "m5_3_3_3_3", "m6_2_128_1"})
    for (bool general : {false, true}) check_model<T>(model, kernels, general);
}

}  // namespace

TEST_CASE("PyKAN and efficient-kan, host form, double") {
  check_all<double>(Kernels::host);
}
TEST_CASE("PyKAN and efficient-kan, host form, float") {
  check_all<float>(Kernels::host);
}
TEST_CASE("PyKAN and efficient-kan, team form, double") {
  check_all<double>(Kernels::team);
}
TEST_CASE("PyKAN and efficient-kan, team form, float") {
  check_all<float>(Kernels::team);
}
