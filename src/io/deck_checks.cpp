// Checks between values. Each function looks at one block; a value that is broken or
// missing makes the checks that need it silent, because its own error is listed.
#include "io/deck_checks.hpp"

#include <algorithm>

#include "io/text.hpp"

namespace kan::io {

namespace {

class Checker {
 public:
  Checker(const Deck& deck, const std::set<Slot>& broken, ErrorList& errors)
      : deck_(deck), broken_(broken), errors_(errors) {}

  void check() {
    check_missing();
    check_run();
    check_network();
    check_data();
    check_split("validation", key::data_validation, key::data_validation_inputs,
                key::data_validation_targets);
    check_split("test", key::data_test, key::data_test_inputs, key::data_test_targets);
    check_loss();
    check_outputs();
    check_parallel();
  }

 private:
  /// The value where it is good, used and there.
  template <class T>
  std::optional<T> value(Key<T> key, int number = 0) const {
    const Slot slot{key.index, number};
    if (broken_.contains(slot) || use_of(deck_, slot) != Use::yes) return std::nullopt;
    return deck_.find(key, number);
  }
  template <class T>
  bool is_broken(Key<T> key, int number = 0) const {
    return broken_.contains({key.index, number});
  }
  template <class T>
  void fail(Key<T> key, const std::string& message, int number = 0) {
    const Slot slot{key.index, number};
    errors_.add(deck_.place(slot), slot.text() + ": " + message);
  }

  void check_missing() {
    for (const auto& [slot, entry] : deck_.entries()) {
      const Parameter& parameter = slot.declared();
      if (!parameter.required || entry.value || broken_.contains(slot) ||
          use_of(deck_, slot) != Use::yes)
        continue;
      std::string what = type_text(parameter);
      if (!parameter.choices.empty()) what = join(words(parameter.choices));
      errors_.add({deck_.name()},
                  slot.text() + " is missing (" + what + ")" +
                      (parameter.when.key.empty()
                           ? ""
                           : "; it is needed with " + goes_with(parameter)));
    }
  }

  void check_run() {
    if (auto name = value(key::job_name))
      if (name->find_first_of("/\n\t") != std::string::npos || *name == "." ||
          *name == "..")
        fail(key::job_name,
             "'" + shown(*name) +
                 "' cannot begin the name of a file; -d sets the directory");
    const auto steps = value(key::run_steps);
    if (value(key::run_mode) == Mode::train && !steps && !is_broken(key::run_steps) &&
        !value(key::run_epochs) && !is_broken(key::run_epochs))
      errors_.add({deck_.name()},
                  "run/epochs or run/steps is missing (how long to train)");
    if (!steps) return;
    const auto too_long = [&](auto key) {
      const auto warmup = value(key);
      if (warmup && *warmup > 0 && *warmup >= *steps)
        fail(key, std::to_string(*warmup) +
                      " is not below run/steps = " + std::to_string(*steps));
    };
    too_long(key::run_warmup_steps);
    too_long(key::schedule_warmup);
  }

  template <class T>
  void check_layers(Key<T> key, std::size_t layers) {
    const auto list = value(key);
    if (list && list->size() != 1 && list->size() != layers)
      fail(key, std::to_string(list->size()) + " values for " + std::to_string(layers) +
                    " layers: give one, or one a layer");
  }

  void check_network() {
    const auto widths = value(key::network_widths);
    if (widths && widths->size() < 2) {
      fail(key::network_widths, "at least two entries are needed: inputs and outputs");
    } else if (widths) {
      const std::size_t layers = widths->size() - 1;
      check_layers(key::network_grid, layers);
      check_layers(key::network_order, layers);
      check_layers(key::network_base, layers);
    }
    check_order(value(key::network_grid_low), value(key::network_grid_high),
                key::network_grid_low, "network/grid_high");
  }

  template <class T>
  void check_order(std::optional<double> low, std::optional<double> high, Key<T> key,
                   const std::string& other) {
    if (low && high && !(*low < *high))
      fail(key, real_text(*low) + " is not below " + other + " = " + real_text(*high));
  }

  void check_data() {
    const auto source = value(key::data_source);
    if (source == DataSource::function) check_function();
    if (source == DataSource::hdf5 && !value(key::data_inputs) &&
        !is_broken(key::data_inputs))
      errors_.add({deck_.name()},
                  "data/inputs is missing (path of a dataset); it is needed "
                  "with source = hdf5");
    if (const auto range = value(key::data_row_range)) {
      try {
        parse_row_range(*range);
      } catch (const Error& bad) {
        errors_.add(deck_.place({key::data_row_range.index, 0}), bad.what());
      }
    }
    const auto validation = value(key::data_validation), test = value(key::data_test);
    if (validation && test && validation->fraction + test->fraction >= 1)
      fail(key::data_test, real_text(test->fraction) + " and data/validation = " +
                               real_text(validation->fraction) +
                               " leave no rows to train on");
    if (test && value(key::data_split_column))
      fail(key::data_split_column, "data/test is given too: keep one of them");
  }

  void check_function() {
    const auto widths = value(key::network_widths);
    if (!widths || widths->size() < 2) return;
    const std::int64_t count = widths->front();
    const std::string wanted = std::to_string(count);
    if (const auto inputs = value(key::data_inputs))
      if (inputs->size() != 1 || inputs->front() != wanted)
        fail(key::data_inputs, "with source = function it is the number of variables, " +
                                   wanted + " as network/widths says; leave it out");
    if (const auto formulas = value(key::data_expressions)) {
      const bool classes = value(key::optimizer_loss) == LossKind::cross_entropy;
      const std::int64_t targets = classes ? 1 : widths->back();
      if (static_cast<std::int64_t>(formulas->size()) != targets &&
          !is_broken(key::optimizer_loss))
        fail(key::data_expressions,
             std::to_string(formulas->size()) + " given, " + std::to_string(targets) +
                 (classes ? " expected with cross_entropy: the number of the class"
                          : " expected: one an output of network/widths; a formula that "
                            "holds a comma needs quotes"));
    }
    const auto low = value(key::data_low), high = value(key::data_high);
    const auto fits = [&](const auto& list, const key::Reals& key) {
      const bool good =
          !list || list->size() == 1 || static_cast<std::int64_t>(list->size()) == count;
      if (!good)
        fail(key, std::to_string(list->size()) + " values for " + wanted +
                      " variables: give one, or one a variable");
      return list && good;
    };
    const bool low_fits = fits(low, key::data_low),
               high_fits = fits(high, key::data_high);
    if (!low_fits || !high_fits) return;
    for (std::size_t i = 0; i < std::max(low->size(), high->size()); ++i) {
      const double from = (*low)[low->size() == 1 ? 0 : i];
      const double to = (*high)[high->size() == 1 ? 0 : i];
      if (from < to) continue;
      check_order(from, to, key::data_low, "data/high");
      return;
    }
  }

  /// A validation or test set is a fraction, a file, or datasets beside the training's.
  void check_split(const std::string& name, const Key<FractionOrFile>& part,
                   const key::Texts& inputs, const key::Texts& targets) {
    const auto given = value(part);
    if (given && !given->file.empty() && value(key::data_source) == DataSource::function)
      fail(part, "with source = function it is a fraction, not a file ('" +
                     shown(given->file) + "')");
    const bool has_inputs = value(inputs).has_value(),
               has_targets = value(targets).has_value();
    if (!has_inputs && !has_targets) return;
    const key::Texts& one = has_inputs ? inputs : targets;
    if (given && given->file.empty())
      fail(one, "data/" + name +
                    " is a fraction of the training's rows: it has no dataset "
                    "of its own");
    if (!given && !is_broken(part) && has_inputs != has_targets)
      fail(one, "without a file in data/" + name + " both data/" + name +
                    "_inputs and data/" + name + "_targets are needed");
  }

  void check_loss() {
    if (value(key::optimizer_loss) != LossKind::cross_entropy) return;
    const auto widths = value(key::network_widths);
    if (widths && widths->size() >= 2 && widths->back() < 2)
      fail(key::optimizer_loss,
           "cross_entropy needs one output a class, at least 2; "
           "network/widths ends with " +
               std::to_string(widths->back()));
    const auto scaling = value(key::data_scale_targets);
    if (scaling && *scaling != ScalingKind::none)
      fail(key::data_scale_targets,
           "with loss = cross_entropy targets are numbers of "
           "classes and cannot be scaled");
  }

  void check_parallel() {
    const bool measures = value(key::run_measure).value_or(false);
    const bool same_bits = value(key::parallel_reproducible).value_or(false);
    if (value(key::parallel_backend) == Backend::null && !measures)
      fail(key::parallel_backend,
           "null trains nothing: ranks do not add up their gradients; say run/measure = "
           "true if the cost of that sum is to be measured");
    if (!same_bits) return;
    if (value(key::parallel_average_every).value_or(1) > 1)
      fail(key::parallel_average_every,
           "with averages results depend on the number of ranks; they cannot be "
           "reproducible");
    if (value(key::parallel_backend) == Backend::null)
      fail(key::parallel_backend,
           "null leaves out the sums that parallel/reproducible is about");
    if (value(key::parallel_algorithm) == parallel::Algorithm::library)
      fail(key::parallel_algorithm,
           "library: the sums of a message library depend on the number of ranks; with "
           "parallel/reproducible = true leave it out");
    if (value(key::parallel_message) == parallel::MessageLayout::tensors)
      fail(key::parallel_message,
           "tensors: reproducible sums have messages of their own; with "
           "parallel/reproducible = true leave it out");
  }

  void check_outputs() {
    int history = 0, restart = 0;
    for (int number : deck_.numbers(key::output_type)) {
      const int cadences = has(key::output_dstep, number) +
                           has(key::output_depoch, number) +
                           has(key::output_dwall, number);
      if (cadences != 1)
        errors_.add({deck_.name()},
                    "<" + block_text("output", number) + "> has " +
                        (cadences == 0 ? "none" : std::to_string(cadences)) +
                        " of dstep, depoch, dwall: exactly one is needed");
      if (value(key::output_enabled, number) == false) continue;
      const auto type = value(key::output_type, number);
      check_one_of_a_kind(type == OutputType::history, number, history);
      check_one_of_a_kind(type == OutputType::restart, number, restart);
    }
  }

  /// A broken cadence counts as the one that was meant.
  template <class T>
  int has(Key<T> key, int number) const {
    return is_broken(key, number) || value(key, number) ? 1 : 0;
  }

  void check_one_of_a_kind(bool is, int number, int& first) {
    if (is && first > 0)
      fail(key::output_type,
           "<" + block_text("output", first) +
               "> writes the same files; give one block of this type",
           number);
    if (is && first == 0) first = number;
  }

  const Deck& deck_;
  const std::set<Slot>& broken_;
  ErrorList& errors_;
};

}  // namespace

Use use_of(const Deck& deck, const Slot& slot) {
  const When& when = slot.declared().when;
  if (when.key.empty()) return Use::yes;
  const int parameter = find_parameter(when.block, when.key);
  const int number = when.block == slot.declared().block ? slot.number : 0;
  const auto found = deck.entries().find({parameter, number});
  if (found == deck.entries().end() || !found->second.value) return Use::unknown;
  const auto index =
      static_cast<std::size_t>(std::get<std::int64_t>(*found->second.value));
  const auto chosen = words(kParameters[parameter].choices).at(index);
  return word_index(when.words, chosen) >= 0 ? Use::yes : Use::no;
}

std::string goes_with(const Parameter& parameter) {
  return std::string(parameter.when.key) + " = " +
         join(words(parameter.when.words), " or ");
}

void check_deck(const Deck& deck, const std::set<Slot>& broken, ErrorList& errors) {
  Checker(deck, broken, errors).check();
}

}  // namespace kan::io
