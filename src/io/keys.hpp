// Typed handles of the declared parameters. A handle is found in the table when the code
// is compiled: `Key<T>("block", "name")` does not compile where the table has no such
// row or the row's type is not held in a T. Usage: `deck.get(key::optimizer_batch)`.
//
//   boolean bool; integer, duration (s), bytes std::int64_t; real double; text
//   std::string; choice an enum whose values follow the order of the table's words;
//   lists std::vector of these; fraction_or_file FractionOrFile.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "io/dataset/dataset.hpp"
#include "io/output_options.hpp"
#include "io/parameter_table.hpp"
#include "kan/options.hpp"
#include "parallel/communicator.hpp"
#include "parallel/groups.hpp"

namespace kan::io {

/// A share of the rows, or a file; file is empty where it is a share.
struct FractionOrFile {
  double fraction = 0;
  std::string file;
  bool operator==(const FractionOrFile&) const = default;
};

enum class Mode { train, evaluate };
enum class Precision { float_, double_ };
enum class DataSource { function, hdf5, csv };
enum class Backend { automatic, serial, mpi, nccl, null };

template <class T>
consteval bool holds(Type type) {
  if (std::is_same_v<T, bool>) return type == Type::boolean;
  if (std::is_same_v<T, std::int64_t>)
    return type == Type::integer || type == Type::duration || type == Type::bytes;
  if (std::is_same_v<T, double>) return type == Type::real;
  if (std::is_same_v<T, std::string>) return type == Type::text;
  if (std::is_enum_v<T>) return type == Type::choice;
  if (std::is_same_v<T, FractionOrFile>) return type == Type::fraction_or_file;
  if (std::is_same_v<T, std::vector<std::int64_t>>) return type == Type::integers;
  if (std::is_same_v<T, std::vector<double>>) return type == Type::reals;
  if (std::is_same_v<T, std::vector<std::string>>) return type == Type::texts;
  if constexpr (requires { typename T::value_type; })
    return std::is_enum_v<typename T::value_type> && type == Type::choices;
  return false;
}

template <class T>
struct Key {
  int index = -1;  ///< row of kParameters

  consteval Key(std::string_view block, std::string_view name) {
    for (int i = 0; i < static_cast<int>(std::size(kParameters)); ++i)
      if (kParameters[i].block == block && kParameters[i].name == name) index = i;
    if (index < 0) throw "no such parameter is declared";
    if (!holds<T>(kParameters[index].type)) throw "the parameter has another type";
  }
  const Parameter& parameter() const { return kParameters[index]; }
};

namespace key {
using Integer = Key<std::int64_t>;
using Integers = Key<std::vector<std::int64_t>>;
using Real = Key<double>;
using Reals = Key<std::vector<double>>;
using Text = Key<std::string>;
using Texts = Key<std::vector<std::string>>;
using Flag = Key<bool>;

inline constexpr Text job_name("job", "name");

inline constexpr Key<Mode> run_mode("run", "mode");
inline constexpr Key<Precision> run_precision("run", "precision");
inline constexpr Integer run_epochs("run", "epochs");
inline constexpr Integer run_steps("run", "steps");
inline constexpr Integer run_seed("run", "seed");
inline constexpr Integer run_threads("run", "threads");
inline constexpr Integer run_walltime("run", "walltime");
inline constexpr Integer run_ndiag("run", "ndiag");
inline constexpr Integer run_warmup_steps("run", "warmup_steps");
inline constexpr Flag run_measure("run", "measure");

inline constexpr Key<DataSource> data_source("data", "source");
inline constexpr Integer data_seed("data", "seed");
inline constexpr Integer data_rows("data", "rows");
inline constexpr Texts data_inputs("data", "inputs");
inline constexpr Texts data_expressions("data", "expressions");
inline constexpr Reals data_low("data", "low");
inline constexpr Reals data_high("data", "high");
inline constexpr Real data_noise("data", "noise");
inline constexpr Text data_file("data", "file");
inline constexpr Texts data_targets("data", "targets");
inline constexpr Text data_row_range("data", "row_range");
inline constexpr Flag data_has_header("data", "has_header");
inline constexpr Key<FractionOrFile> data_validation("data", "validation");
inline constexpr Key<FractionOrFile> data_test("data", "test");
inline constexpr Texts data_validation_inputs("data", "validation_inputs");
inline constexpr Texts data_validation_targets("data", "validation_targets");
inline constexpr Texts data_test_inputs("data", "test_inputs");
inline constexpr Texts data_test_targets("data", "test_targets");
inline constexpr Text data_split_column("data", "split_column");
inline constexpr Key<ScalingKind> data_scale_inputs("data", "scale_inputs");
inline constexpr Key<ScalingKind> data_scale_targets("data", "scale_targets");
inline constexpr Key<Nonfinite> data_nonfinite("data", "nonfinite");
inline constexpr Flag data_shuffle("data", "shuffle");
inline constexpr Integer data_replicate_below("data", "replicate_below");

inline constexpr Integers network_widths("network", "widths");
inline constexpr Integers network_grid("network", "grid");
inline constexpr Integers network_order("network", "order");
inline constexpr Key<std::vector<Base>> network_base("network", "base");
inline constexpr Real network_grid_low("network", "grid_low");
inline constexpr Real network_grid_high("network", "grid_high");
inline constexpr Key<SplineScale> network_spline_scale("network", "spline_scale");
inline constexpr Key<Initialization> network_initialization("network", "initialization");
inline constexpr Key<EngineKind> network_engine("network", "engine");
inline constexpr Key<Kernels> network_kernels("network", "kernels");

inline constexpr Key<OptimizerKind> optimizer_type("optimizer", "type");
inline constexpr Real optimizer_learning_rate("optimizer", "learning_rate");
inline constexpr Integer optimizer_batch("optimizer", "batch");
inline constexpr Integer optimizer_accumulate("optimizer", "accumulate");
inline constexpr Real optimizer_clip_norm("optimizer", "clip_norm");
inline constexpr Real optimizer_weight_decay("optimizer", "weight_decay");
inline constexpr Real optimizer_momentum("optimizer", "momentum");
inline constexpr Real optimizer_beta1("optimizer", "beta1");
inline constexpr Real optimizer_beta2("optimizer", "beta2");
inline constexpr Real optimizer_epsilon("optimizer", "epsilon");
inline constexpr Key<LossKind> optimizer_loss("optimizer", "loss");

inline constexpr Key<ScheduleKind> schedule_type("schedule", "type");
inline constexpr Integer schedule_warmup("schedule", "warmup");
inline constexpr Integer schedule_step_size("schedule", "step_size");
inline constexpr Real schedule_factor("schedule", "factor");

inline constexpr Real stop_target_loss("stop", "target_loss");
inline constexpr Integer stop_patience("stop", "patience");

inline constexpr Key<Backend> parallel_backend("parallel", "backend");
inline constexpr Key<parallel::GpuAware> parallel_gpu_aware("parallel", "gpu_aware");
inline constexpr Key<parallel::Algorithm> parallel_algorithm("parallel", "algorithm");
inline constexpr Key<parallel::MessageLayout> parallel_message("parallel", "message");
inline constexpr Flag parallel_reproducible("parallel", "reproducible");
inline constexpr Integer parallel_shard_rows("parallel", "shard_rows");
inline constexpr Integer parallel_max_shards("parallel", "max_shards");
inline constexpr Integer parallel_average_every("parallel", "average_every");
inline constexpr Integer parallel_average_warmup("parallel", "average_warmup");
inline constexpr Key<Moments> parallel_moments("parallel", "moments");
inline constexpr Integer parallel_timeout("parallel", "timeout");
inline constexpr Integer parallel_digest_every("parallel", "digest_every");
inline constexpr Flag parallel_diagnose("parallel", "diagnose");
inline constexpr Integer parallel_ranks("parallel", "ranks");
inline constexpr Key<parallel::Placement> parallel_placement("parallel", "placement");
inline constexpr Integer parallel_ranks_per_node("parallel", "ranks_per_node");

inline constexpr Key<OutputType> output_type("output", "type");
inline constexpr Integer output_dstep("output", "dstep");
inline constexpr Integer output_depoch("output", "depoch");
inline constexpr Integer output_dwall("output", "dwall");
inline constexpr Integer output_keep("output", "keep");
inline constexpr Flag output_enabled("output", "enabled");
}  // namespace key

}  // namespace kan::io
