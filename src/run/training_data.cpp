#include "run/training_data.hpp"

#include <fmt/format.h>

#include <string>

#include "io/options.hpp"
#include "run/start_checks.hpp"
#include "run/stream_feed.hpp"

namespace kan::run {
namespace {

bool is_streamed(const std::string& digest) {
  return digest.starts_with(io::kStreamedDigest);
}

// Whether windows begin where they did when the checkpoint was made.
bool same_windows(const Session& s) {
  io::DeckSources before;
  before.restart = s.sources.restart;
  const io::Deck then = io::resolve_deck(before);
  const auto same = [&](const auto& key) { return then.get(key) == s.deck.get(key); };
  return same(io::key::data_replicate_below) && same(io::key::optimizer_batch) &&
         same(io::key::optimizer_accumulate);
}

// Says what is not as it was when the checkpoint was made.
void compare_with_stored(Session& s, const std::string& digest, const std::string& before,
                         bool mid_epoch) {
  const bool now = is_streamed(digest);
  const char* const twice = "rows of the epoch under way may be seen twice or not at all";
  if (now != is_streamed(before)) {
    s.log->note(fmt::format(
        "data: rows are {} (data/replicate_below), they were {} when the checkpoint was "
        "made: validation and test rows that are fractions are other ones{}{}",
        now ? "streamed" : "kept in memory", now ? "kept in memory" : "streamed",
        mid_epoch ? ", and " : "", mid_epoch ? twice : ""));
    return;
  }
  if (digest != before) {
    const std::string text =
        "the data differ from those that the checkpoint was trained on (digest " +
        digest + ", then " + before + ")";
    if (s.command.warnings_are_errors) throw Error(Code::data, text);
    s.log->warning(text);
  }
  if (now && !same_windows(s))
    s.log->note(fmt::format(
        "data: optimizer/batch or data/replicate_below changed{}",
        mid_epoch ? fmt::format(" within an epoch of streamed rows: {}", twice)
                  : ": streamed rows come in another order than they would have"));
}

void require_sets_for_predictions(const Session& s, const io::Data& data) {
  if (data.validation.rows + data.test.rows > 0) return;
  for (const io::OutputOptions& output : io::output_options(s.deck))
    if (output.enabled && output.type == io::OutputType::prediction)
      throw Error(Code::usage,
                  fmt::format("output{}/type: predictions of training rows are not made "
                              "where they are streamed; give data/validation or "
                              "data/test, or set output{}/enabled = false",
                              output.number, output.number));
}

}  // namespace

std::int64_t TrainingData::window_bytes(int ranks, std::int64_t number_bytes) const {
  const std::int64_t own = (window + ranks - 1) / ranks;
  return own * window_row_bytes(shape.inputs + shape.targets, number_bytes) +
         window * std::int64_t(sizeof(std::uint32_t));
}

template <class T>
TrainingData load_training_data(Session& s, const TrainOptions& options,
                                const TrainingState<T>* stored) {
  TrainingData out;
  out.options = io::data_options(s.deck);
  out.shape = io::data_shape(s.deck);
  const Scaling* const inputs = stored ? &stored->input_scaling : nullptr;
  const Scaling* const targets = stored ? &stored->target_scaling : nullptr;
  if (io::must_stream(out.options, out.shape, *s.communicator)) {
    out.stream =
        io::open_stream(out.options, out.shape, *s.communicator, inputs, targets);
    const std::int64_t columns = out.shape.inputs + out.shape.targets;
    out.window = window_rows(out.options.replicate_below, columns, sizeof(T),
                             options.batch * options.accumulate, out.stream.rows);
    require_sets_for_predictions(s, out.data());
    s.log->line(fmt::format(
        "data: {} rows are streamed, {} window{} of {} rows an epoch, chunks of {} rows; "
        "looked through in {:.1f} s, {:.0f} MB/s",
        out.stream.rows, (out.stream.rows + out.window - 1) / out.window,
        out.window < out.stream.rows ? "s" : "", out.window, out.stream.chunk_rows,
        out.stream.seconds,
        8e-6 * double(out.stream.rows * columns) / std::max(out.stream.seconds, 1e-9)));
  } else {
    out.data() = stored ? io::load(out.options, out.shape, *inputs, *targets)
                        : io::load(out.options, out.shape);
  }
  check_data(*s.communicator, out.data());
  if (stored)
    compare_with_stored(s, out.data().digest, stored->data_digest,
                        stored->progress.position > 0);
  if (out.data().dropped > 0)
    s.log->note(
        fmt::format("data: rows dropped for missing values: {}", out.data().dropped));
  return out;
}

template <class T>
std::unique_ptr<RowFeed<T>> make_feed(const TrainingData& data, const RowSet<T>& rows,
                                      const TrainOptions& options, const RankParts& parts,
                                      parallel::Communicator& communicator) {
  if (!data.streamed())
    return std::make_unique<ResidentFeed<T>>(rows, options.seed, options.shuffle);
  return std::make_unique<StreamFeed<T>>(
      data.options, data.shape, data.stream, communicator,
      StreamFeedOptions{options.seed, options.shuffle, options.batch * options.accumulate,
                        data.window, parts});
}

#define KAN_TRAINING_DATA_INSTANCES(T)                                                  \
  template TrainingData load_training_data(Session&, const TrainOptions&,               \
                                           const TrainingState<T>*);                    \
  template std::unique_ptr<RowFeed<T>> make_feed(const TrainingData&, const RowSet<T>&, \
                                                 const TrainOptions&, const RankParts&, \
                                                 parallel::Communicator&);
KAN_TRAINING_DATA_INSTANCES(float)
KAN_TRAINING_DATA_INSTANCES(double)
#undef KAN_TRAINING_DATA_INSTANCES

}  // namespace kan::run
