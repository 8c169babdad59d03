// The layout of checkpoints, said once for writing and reading: visit_state walks over
// everything of a TrainingState in a fixed order, and the archive given to it writes or
// reads each item and adds its name and bytes to the digest. Layers count from 0.
//
//   /network @layers @scale_trained
//   /network/layerL @in @out @grid @order @base
//       grid (in, G+2k+1), coef (in, out, G+k), scale_base (in, out), scale_spline (in,
//       out), mask (in, out)
//   /optimizer @step @moments, /optimizer/layerL/{m, v}/{coef, scale_base, scale_spline}
//   /data @digest, /data/{input,target}_{scale,shift} (column)
//   /state @step @epoch @position @seed ..., /state/epoch_outside (layer)
//
// Included by the sources of checkpoints and of parameter files only.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "io/hdf5.hpp"
#include "io/info.hpp"
#include "kan/state.hpp"

namespace kan::io::detail {

/// XXH3 (64 bit) over named items.
class Digest {
 public:
  Digest();
  ~Digest();
  void add(const std::string& name, const void* data, std::size_t bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_string(Base base);
/// Error(Code::checkpoint) for a name that is none.
Base base_from(const std::string& name, const std::string& path);

/// Number of moments the optimizer keeps: 0, 1 or 2.
template <class T>
int moments_of(const TrainingState<T>& state) {
  if (state.first_moment.empty()) return 0;
  return state.second_moment.empty() ? 1 : 2;
}

struct Labels {
  const char* units;
  const char* dims;
  const char* description;
};

class WriteArchive {
 public:
  static constexpr bool kReading = false;
  explicit WriteArchive(Hdf5File& file) : file_(file) {}

  void group(const std::string& name) { file_.make_group(name); }
  void attribute(const std::string& object, const char* name, std::int64_t value) {
    file_.write_attribute(object, name, value);
    digest_.add(object + "@" + name, &value, sizeof value);
  }
  void attribute(const std::string& object, const char* name, double value) {
    file_.write_attribute(object, name, value);
    digest_.add(object + "@" + name, &value, sizeof value);
  }
  void attribute(const std::string& object, const char* name, const std::string& value) {
    file_.write_attribute(object, name, value);
    digest_.add(object + "@" + name, value.data(), value.size());
  }
  template <class V>
  void dataset(const std::string& name, const std::vector<V>& values,
               const std::vector<std::int64_t>& shape, const Labels& labels) {
    file_.write(name, values, shape, {.fletcher32 = true});
    describe(file_, name, labels.units, labels.dims, labels.description);
    digest_.add(name, values.data(), values.size() * sizeof(V));
  }
  template <class V>
  void column(const std::string& name, const std::vector<V>& values,
              const Labels& labels) {
    dataset(name, values, {static_cast<std::int64_t>(values.size())}, labels);
  }
  const Digest& digest() const { return digest_; }

 private:
  Hdf5File& file_;
  Digest digest_;
};

class ReadArchive {
 public:
  static constexpr bool kReading = true;
  explicit ReadArchive(const Hdf5File& file) : file_(file) {}

  const std::string& path() const { return file_.path(); }
  void group(const std::string&) {}
  void attribute(const std::string& object, const char* name, std::int64_t& value) {
    value = file_.read_int_attribute(object, name);
    digest_.add(object + "@" + name, &value, sizeof value);
  }
  void attribute(const std::string& object, const char* name, double& value) {
    value = file_.read_double_attribute(object, name);
    digest_.add(object + "@" + name, &value, sizeof value);
  }
  void attribute(const std::string& object, const char* name, std::string& value) {
    value = file_.read_string_attribute(object, name);
    digest_.add(object + "@" + name, value.data(), value.size());
  }
  template <class V>
  void dataset(const std::string& name, std::vector<V>& values,
               const std::vector<std::int64_t>& shape, const Labels&) {
    values = file_.read<V>(name, shape);
    digest_.add(name, values.data(), values.size() * sizeof(V));
  }
  template <class V>
  void column(const std::string& name, std::vector<V>& values, const Labels&) {
    values = file_.read<V>(name);
    digest_.add(name, values.data(), values.size() * sizeof(V));
  }
  const Digest& digest() const { return digest_; }

 private:
  const Hdf5File& file_;
  Digest digest_;
};

/// An integer of any width or a bool as the 64 bits that the files hold.
template <class Archive, class Member>
void whole(Archive& archive, const std::string& object, const char* name,
           Member& member) {
  std::int64_t value = 0;
  if constexpr (!Archive::kReading) value = static_cast<std::int64_t>(member);
  archive.attribute(object, name, value);
  if constexpr (Archive::kReading) {
    member = static_cast<Member>(value);
    if (static_cast<std::int64_t>(member) != value) {
      throw Error(Code::checkpoint, fmt::format("{} has an impossible value: {}@{} = {}",
                                                archive.path(), object, name, value));
    }
  }
}

/// Sizes of one layer; checked where read, so that they can be multiplied.
template <class Archive, class Shape>
void visit_shape(Archive& archive, const std::string& at, Shape& shape) {
  archive.group(at);
  whole(archive, at, "in", shape.in);
  whole(archive, at, "out", shape.out);
  whole(archive, at, "grid", shape.grid);
  whole(archive, at, "order", shape.order);
  std::string base = to_string(shape.base);
  archive.attribute(at, "base", base);
  if constexpr (Archive::kReading) {
    shape.base = base_from(base, archive.path());
    constexpr int kMost = 1 << 26;
    for (const int size : {shape.in, shape.out, shape.grid}) {
      if (size < 1 || size > kMost || shape.order < 0 || shape.order > kMost) {
        throw Error(
            Code::checkpoint,
            fmt::format("{} has a layer of impossible size in {}", archive.path(), at));
      }
    }
  }
}

/// The arrays of one layer, of the parameters or of a moment (what: "" or "moment of ").
template <class Archive, class Arrays>
void visit_arrays(Archive& archive, const std::string& at, const LayerShape& shape,
                  bool scale_trained, Arrays& arrays, bool moment) {
  const std::int64_t in = shape.in, out = shape.out, count = shape.grid + shape.order;
  archive.dataset(at + "/coef", arrays.coef, {in, out, count},
                  {"1", "in, out, basis",
                   moment ? "optimizer moment of coef" : "spline coefficients"});
  if (shape.base != Base::none) {
    archive.dataset(
        at + "/scale_base", arrays.scale_base, {in, out},
        {"1", "in, out",
         moment ? "optimizer moment of scale_base" : "factors of the base function"});
  }
  if (scale_trained) {
    archive.dataset(
        at + "/scale_spline", arrays.scale_spline, {in, out},
        {"1", "in, out",
         moment ? "optimizer moment of scale_spline" : "factors of the spline part"});
  }
}

template <class Archive, class State>
void visit_network(Archive& archive, State& state) {
  archive.group("/network");
  std::int64_t layers = static_cast<std::int64_t>(state.shape.size());
  archive.attribute("/network", "layers", layers);
  whole(archive, "/network", "scale_trained", state.scale_trained);
  if constexpr (Archive::kReading) {
    if (layers < 1 || layers > 10000) {
      throw Error(Code::checkpoint,
                  fmt::format("{} has an impossible number of layers, {}", archive.path(),
                              layers));
    }
    const std::size_t count = static_cast<std::size_t>(layers);
    state.shape.resize(count);
    state.grid.resize(count);
    state.parameters.resize(count);
  }
  for (std::size_t l = 0; l < state.shape.size(); ++l) {
    const std::string at = fmt::format("/network/layer{}", l);
    visit_shape(archive, at, state.shape[l]);
    const LayerShape& shape = state.shape[l];
    archive.dataset(at + "/grid", state.grid[l],
                    {shape.in, shape.grid + 2 * shape.order + 1},
                    {"1", "in, knot", "knots of each input, in ascending order"});
    visit_arrays(archive, at, shape, state.scale_trained, state.parameters[l], false);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(shape.in) * shape.out, 1);
    archive.dataset(at + "/mask", mask, {shape.in, shape.out},
                    {"1", "in, out", "1 where the edge is in use, 0 where it is pruned"});
    for (const std::uint8_t used : mask) {
      if (used != 1) {
        throw Error(
            Code::checkpoint,
            fmt::format("a checkpoint with pruned edges ({}/mask) was written by a "
                        "later version; go on with that one",
                        at));
      }
    }
  }
}

template <class Archive, class State>
void visit_optimizer(Archive& archive, State& state) {
  archive.group("/optimizer");
  whole(archive, "/optimizer", "step", state.progress.optimizer_step);
  std::int64_t moments = moments_of(state);
  archive.attribute("/optimizer", "moments", moments);
  if constexpr (Archive::kReading) {
    if (moments > 0) state.first_moment.resize(state.shape.size());
    if (moments > 1) state.second_moment.resize(state.shape.size());
  }
  for (std::size_t l = 0; l < state.shape.size() && moments > 0; ++l) {
    const std::string at = fmt::format("/optimizer/layer{}", l);
    visit_arrays(archive, at + "/m", state.shape[l], state.scale_trained,
                 state.first_moment[l], true);
    if (moments > 1) {
      visit_arrays(archive, at + "/v", state.shape[l], state.scale_trained,
                   state.second_moment[l], true);
    }
  }
}

template <class Archive, class State>
void visit_progress(Archive& archive, State& state) {
  auto& progress = state.progress;
  const std::string at = "/state";
  archive.group(at);
  whole(archive, at, "step", progress.step);
  whole(archive, at, "epoch", progress.epoch);
  whole(archive, at, "position", progress.position);
  whole(archive, at, "seed", progress.seed);
  whole(archive, at, "samples_seen", progress.samples_seen);
  whole(archive, at, "history_rows", progress.history_rows);
  whole(archive, at, "best_epoch", progress.best_epoch);
  whole(archive, at, "epoch_correct", progress.epoch_correct);
  whole(archive, at, "shards", state.shards);
  whole(archive, at, "vector_bytes", state.vector_bytes);
  archive.attribute(at, "elapsed", progress.elapsed);
  archive.attribute(at, "best_loss", progress.best_loss);
  archive.attribute(at, "epoch_loss_sum", progress.epoch_loss_sum);
  archive.attribute(at, "engine", state.engine);
  archive.column(at + "/epoch_outside", progress.epoch_outside,
                 {"1", "layer", "inputs outside the grid, of this epoch's rows so far"});
}

template <class Archive, class State>
void visit_state(Archive& archive, State& state) {
  visit_network(archive, state);
  visit_optimizer(archive, state);
  archive.group("/data");
  archive.attribute("/data", "digest", state.data_digest);
  const Labels scale{"1", "column", "y_scaled = (y - shift) / scale"};
  archive.column("/data/input_scale", state.input_scaling.scale, scale);
  archive.column("/data/input_shift", state.input_scaling.shift, scale);
  archive.column("/data/target_scale", state.target_scaling.scale, scale);
  archive.column("/data/target_shift", state.target_scaling.shift, scale);
  visit_progress(archive, state);
}

}  // namespace kan::io::detail
