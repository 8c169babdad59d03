// Deck to option structs. What the configuration does not use, and values that are off,
// leave the option as the library presets it.
#include "io/options.hpp"

#include <algorithm>

#include "io/deck_checks.hpp"

namespace kan::io {

namespace {

template <class T, class Option>
void set(const Deck& deck, Key<T> key, Option& option, int number = 0) {
  if (use_of(deck, {key.index, number}) != Use::yes) return;
  if (auto value = deck.find(key, number)) option = static_cast<Option>(*value);
}

void set(const Deck& deck, const key::Integers& key, std::vector<int>& option) {
  const auto list = deck.get(key);
  option.resize(list.size());
  std::transform(list.begin(), list.end(), option.begin(),
                 [](std::int64_t value) { return static_cast<int>(value); });
}

SetOptions set_options(const Deck& deck, const Key<FractionOrFile>& part,
                       const key::Texts& inputs, const key::Texts& targets) {
  FractionOrFile given;
  set(deck, part, given);
  SetOptions options;
  options.fraction = given.fraction;
  options.file = given.file;
  set(deck, inputs, options.inputs);
  set(deck, targets, options.targets);
  return options;
}

}  // namespace

NetworkOptions network_options(const Deck& deck) {
  NetworkOptions options;
  set(deck, key::network_widths, options.widths);
  set(deck, key::network_grid, options.grid);
  set(deck, key::network_order, options.order);
  set(deck, key::network_base, options.base);
  set(deck, key::network_grid_low, options.grid_low);
  set(deck, key::network_grid_high, options.grid_high);
  set(deck, key::network_spline_scale, options.spline_scale);
  set(deck, key::network_initialization, options.initialization);
  set(deck, key::network_engine, options.engine);
  set(deck, key::network_kernels, options.kernels);
  return options;
}

TrainOptions train_options(const Deck& deck) {
  TrainOptions options;
  set(deck, key::optimizer_loss, options.loss);
  set(deck, key::optimizer_batch, options.batch);
  set(deck, key::optimizer_accumulate, options.accumulate);
  set(deck, key::run_epochs, options.epochs);
  set(deck, key::run_steps, options.steps);
  set(deck, key::run_warmup_steps, options.warmup_steps);
  set(deck, key::run_seed, options.seed);
  set(deck, key::data_shuffle, options.shuffle);
  set(deck, key::parallel_algorithm, options.algorithm);
  set(deck, key::parallel_message, options.message);
  set(deck, key::parallel_reproducible, options.reproducible);
  set(deck, key::parallel_shard_rows, options.shard_rows);
  set(deck, key::parallel_max_shards, options.max_shards);
  set(deck, key::parallel_average_every, options.average_every);
  set(deck, key::parallel_average_warmup, options.average_warmup);
  set(deck, key::parallel_moments, options.moments);
  set(deck, key::parallel_digest_every, options.digest_every);
  set(deck, key::parallel_diagnose, options.diagnose);
  set(deck, key::stop_target_loss, options.target_loss);
  set(deck, key::stop_patience, options.patience);

  OptimizerOptions& optimizer = options.optimizer;
  set(deck, key::optimizer_type, optimizer.type);
  set(deck, key::optimizer_learning_rate, optimizer.learning_rate);
  set(deck, key::optimizer_weight_decay, optimizer.weight_decay);
  set(deck, key::optimizer_momentum, optimizer.momentum);
  set(deck, key::optimizer_beta1, optimizer.beta1);
  set(deck, key::optimizer_beta2, optimizer.beta2);
  set(deck, key::optimizer_epsilon, optimizer.epsilon);
  set(deck, key::optimizer_clip_norm, optimizer.clip_norm);

  ScheduleOptions& schedule = options.schedule;
  set(deck, key::schedule_type, schedule.type);
  set(deck, key::schedule_warmup, schedule.warmup);
  set(deck, key::schedule_step_size, schedule.step_size);
  set(deck, key::schedule_factor, schedule.factor);
  return options;
}

DataOptions data_options(const Deck& deck) {
  DataOptions options;
  options.source = deck.word(key::data_source);
  set(deck, key::data_seed, options.seed);
  set(deck, key::data_rows, options.rows);
  set(deck, key::data_expressions, options.expressions);
  set(deck, key::data_low, options.low);
  set(deck, key::data_high, options.high);
  set(deck, key::data_noise, options.noise);
  set(deck, key::data_file, options.file);
  // For a function it is a count, which network/widths says already.
  if (deck.get(key::data_source) != DataSource::function)
    set(deck, key::data_inputs, options.inputs);
  set(deck, key::data_targets, options.targets);
  std::string range;
  set(deck, key::data_row_range, range);
  options.row_range = parse_row_range(range);
  std::optional<bool> header;
  set(deck, key::data_has_header, header);
  if (header) options.has_header = *header ? HasHeader::yes : HasHeader::no;
  set(deck, key::data_split_column, options.split_column);
  options.validation =
      set_options(deck, key::data_validation, key::data_validation_inputs,
                  key::data_validation_targets);
  options.test =
      set_options(deck, key::data_test, key::data_test_inputs, key::data_test_targets);
  set(deck, key::data_scale_inputs, options.scale_inputs);
  set(deck, key::data_scale_targets, options.scale_targets);
  set(deck, key::data_nonfinite, options.nonfinite);
  set(deck, key::data_shuffle, options.shuffle);
  set(deck, key::data_replicate_below, options.replicate_below);
  return options;
}

DataShape data_shape(const Deck& deck) {
  const auto widths = deck.get(key::network_widths);
  const int outputs = static_cast<int>(widths.back());
  const bool classes = deck.get(key::optimizer_loss) == LossKind::cross_entropy;
  DataShape shape;
  shape.inputs = static_cast<int>(widths.front());
  shape.targets = classes ? 1 : outputs;
  shape.classes = classes ? outputs : 0;
  set(deck, key::network_grid_low, shape.grid_low);
  set(deck, key::network_grid_high, shape.grid_high);
  return shape;
}

std::vector<OutputOptions> output_options(const Deck& deck) {
  std::vector<OutputOptions> outputs;
  for (int number : deck.numbers(key::output_type)) {
    OutputOptions output;
    output.number = number;
    set(deck, key::output_type, output.type, number);
    set(deck, key::output_dstep, output.dstep, number);
    set(deck, key::output_depoch, output.depoch, number);
    set(deck, key::output_dwall, output.dwall, number);
    set(deck, key::output_keep, output.keep, number);
    set(deck, key::output_enabled, output.enabled, number);
    outputs.push_back(output);
  }
  return outputs;
}

}  // namespace kan::io
