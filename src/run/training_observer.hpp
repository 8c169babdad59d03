// Between the training loop and the files: history, checkpoints and other outputs when
// they are due, progress on the screen, and the reasons to stop that this rank sees
// (signals, time limit, request files).
//
// All ranks must agree on what is written, since a state is collected from all. Cadences
// in steps and epochs give every rank the same answer; what only rank 0 sees (clock,
// request files, signals to it) travels as a flag with the next gradient.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/cadence.hpp"
#include "io/outputs.hpp"
#include "kan/trainer.hpp"
#include "run/session.hpp"

namespace kan::run {

/// What a run needs to scale its predictions back, and to identify its data.
struct DataFacts {
  Scaling input_scaling, target_scaling;
  std::string digest;
};

template <class T>
class TrainingObserver final : public Observer<T> {
 public:
  /// test: rows that prediction outputs are made of. progress: of the state that training
  /// starts from.
  TrainingObserver(Session& session, const TrainOptions& options, const DataFacts& facts,
                   const RowSet<T>& test, int layers, const Progress& progress);

  parallel::StopFlags flags() override;
  void on_step(const StepRecord& record) override;
  void on_epoch(const EpochRecord& record, bool best) override;
  void on_boundary(Trainer<T>& trainer, bool epoch_end, bool best,
                   const parallel::StopFlags& decided) override;

  /// Collective. The last checkpoint, unless the state was just written, and the history
  /// as one file. Returns the names of what was written, for the report.
  std::vector<std::string> finish(Trainer<T>& trainer, ExitReason reason);
  /// After a failure: puts the history rows so far on the disk. Does not throw.
  void save_history(const Progress& progress) noexcept;
  /// On rank 0, after finish(): the last epoch of all launches, from the history.
  std::optional<EpochRecord> last_epoch() const {
    return outputs_ ? outputs_->last_epoch() : std::nullopt;
  }
  const std::string& last_checkpoint() const { return last_checkpoint_; }

 private:
  struct Scheduled {
    io::OutputOptions options;
    io::Cadence cadence;  ///< in steps and epochs
    bool by_clock;        ///< has a cadence in seconds, which only rank 0 follows
  };
  TrainingState<T> collect(Trainer<T>& trainer) const;
  void write(Trainer<T>& trainer, const io::OutputOptions& output, io::Reason reason);
  void save(Trainer<T>& trainer, io::Reason reason);
  bool no_time_left();

  Session& session_;
  TrainOptions options_;
  const DataFacts& facts_;
  const RowSet<T>& test_;
  std::vector<Scheduled> scheduled_;
  std::unique_ptr<io::Outputs> outputs_;  ///< rank 0
  std::int64_t diagnose_every_, walltime_;
  std::int64_t last_saved_step_ = -1;
  std::string last_checkpoint_;
  double save_seconds_ = 0, longest_step_ = 0, last_step_ = 0;
  double window_start_ = 0;  ///< elapsed at the last progress line
  std::int64_t window_rows_ = 0, window_steps_ = 0;
  std::int64_t total_updates_ = -1, total_epochs_ = -1;
  bool wall_due_ = false;  ///< rank 0: an output is due by the clock
};

}  // namespace kan::run
