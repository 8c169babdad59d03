// Reading of checkpoints: the seal first, then version and precision, then the arrays and
// their digest. Whatever goes wrong becomes one line with Code::checkpoint.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "io/atomic_file.hpp"
#include "io/checkpoint.hpp"
#include "io/checkpoint_layout.hpp"

namespace kan::io {

namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Runs a reader of the verified file; every failure leaves as Error(Code::checkpoint).
template <class Read>
auto guarded(const std::string& path, Read read) {
  try {
    const std::vector<std::byte> bytes = read_sealed(path);
    const Hdf5File file = Hdf5File::open_bytes(bytes, path, Code::checkpoint);
    const std::int64_t version = file.read_int_attribute("/info", "format_version");
    if (version != kFormatVersion) {
      throw Error(
          Code::checkpoint,
          fmt::format("{} has format version {}, this program reads version {}; go "
                      "on with the version that wrote it ({})",
                      path, version, kFormatVersion,
                      file.read_string_attribute("/info", "code_version")));
    }
    if (!file.exists("/state")) {
      throw Error(Code::checkpoint, fmt::format("{} is a result of kan_driver, but not a "
                                                "checkpoint; name a *.rst.h5 file",
                                                path));
    }
    return read(file);
  } catch (const Error& error) {
    throw Error(Code::checkpoint, one_line(error.what()));
  } catch (const std::exception& error) {
    throw Error(Code::checkpoint,
                one_line(fmt::format("{} cannot be read: {}", path, error.what())));
  }
}

template <class Value>
void compare(const std::string& path, const char* key, const Value& deck,
             const Value& stored) {
  if (deck == stored) return;
  throw Error(Code::checkpoint,
              fmt::format("{}: {} = {} in the deck, {} in the checkpoint; use the "
                          "checkpoint's value, or start anew without -r",
                          path, key, deck, stored));
}

/// One value a layer as text, through `part`.
template <class Part>
std::string per_layer(const std::vector<LayerShape>& shape, Part part) {
  std::vector<std::string> parts;
  for (const LayerShape& layer : shape) parts.push_back(fmt::format("{}", part(layer)));
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string widths(const std::vector<LayerShape>& shape) {
  if (shape.empty()) return "";
  return fmt::format("{},{}", shape.front().in,
                     per_layer(shape, [](const LayerShape& layer) { return layer.out; }));
}

}  // namespace

CheckpointHeader read_checkpoint_header(const std::string& path) {
  return guarded(path, [&](const Hdf5File& file) {
    CheckpointHeader header;
    header.path = path;
    header.precision = file.read_string_attribute("/info", "precision");
    header.reason = file.read_string_attribute("/info", "reason");
    header.created_utc = file.read_string_attribute("/info", "created_utc");
    header.deck = file.read_string_attribute("/input", "deck");
    header.engine = file.read_string_attribute("/state", "engine");
    header.data_digest = file.read_string_attribute("/data", "digest");
    header.step = file.read_int_attribute("/state", "step");
    header.epoch = file.read_int_attribute("/state", "epoch");
    header.shards = file.read_int_attribute("/state", "shards");
    header.best_loss = file.read_double_attribute("/state", "best_loss");
    header.scale_trained = file.read_int_attribute("/network", "scale_trained") != 0;
    const std::int64_t layers = file.read_int_attribute("/network", "layers");
    detail::ReadArchive archive(file);
    for (std::int64_t l = 0; l < layers; ++l) {
      detail::visit_shape(archive, fmt::format("/network/layer{}", l),
                          header.shape.emplace_back());
    }
    return header;
  });
}

template <class T>
TrainingState<T> read_checkpoint(const std::string& path) {
  const std::string asked = std::is_same_v<T, float> ? "float" : "double";
  return guarded(path, [&](const Hdf5File& file) {
    compare(path, "run/precision", asked,
            file.read_string_attribute("/info", "precision"));
    TrainingState<T> state;
    detail::ReadArchive archive(file);
    detail::visit_state(archive, state);
    const std::string stored = file.read_string_attribute("/", "digest");
    if (archive.digest().hex() != stored) {
      throw Error(Code::checkpoint,
                  fmt::format("{} is damaged: its arrays have the digest {}, "
                              "{} was written",
                              path, archive.digest().hex(), stored));
    }
    return state;
  });
}

void check_same_network(const CheckpointHeader& header,
                        const std::vector<LayerShape>& shape, bool scale_trained) {
  const auto same = [&](const char* key, auto part) {
    compare(header.path, key, per_layer(shape, part), per_layer(header.shape, part));
  };
  compare(header.path, "network/widths", widths(shape), widths(header.shape));
  same("network/grid", [](const LayerShape& layer) { return layer.grid; });
  same("network/order", [](const LayerShape& layer) { return layer.order; });
  same("network/base",
       [](const LayerShape& layer) { return detail::to_string(layer.base); });
  const auto scale = [](bool trained) {
    return std::string(trained ? "trained" : "folded");
  };
  compare(header.path, "network/spline_scale", scale(scale_trained),
          scale(header.scale_trained));
}

template TrainingState<float> read_checkpoint<float>(const std::string&);
template TrainingState<double> read_checkpoint<double>(const std::string&);

}  // namespace kan::io
