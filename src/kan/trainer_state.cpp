// From a trainer to what a checkpoint holds, and back.
#include <algorithm>
#include <string>

#include "kan/error.hpp"
#include "kan/trainer.hpp"

namespace kan {

template <class T>
TrainingState<T> Trainer<T>::state() {
  settle(0);
  publish();
  TrainingState<T> s;
  s.shape = network_.shape().all();
  s.scale_trained = network_.shape().scale_trained();
  for (int l = 0; l < network_.shape().layers(); ++l)
    s.grid.push_back(network_.knots(l).values);
  s.parameters = network_.unpack(network_.parameters());
  const Optimizer<T>& optimizer = update_.optimizer();
  if (optimizer.moments() > 0) s.first_moment = network_.unpack(optimizer.first());
  if (optimizer.moments() > 1) s.second_moment = network_.unpack(optimizer.second());
  update_.take_counts(progress_);
  s.progress = progress_;
  s.progress.optimizer_step = optimizer.steps();
  if (communicator_.size() > 1) {
    // Counts of this rank's rows become those of all rows.
    communicator_.allreduce_sum(std::span<std::int64_t>(s.progress.epoch_outside));
    communicator_.allreduce_sum(std::span<std::int64_t>(&s.progress.epoch_correct, 1));
  }
  s.engine = engine_.name();
  s.shards = leaves();
  s.vector_bytes = engine_.vector_bytes();
  return s;
}

template <class T>
void Trainer<T>::restore(const TrainingState<T>& stored) {
  network_.pack(stored.parameters, network_.parameters());
  const int moments = int(!stored.first_moment.empty()) + !stored.second_moment.empty();
  Optimizer<T>& optimizer = update_.optimizer();
  if (moments != optimizer.moments())
    throw Error(Code::checkpoint, "the checkpoint has " + std::to_string(moments) +
                                      " optimizer moments, optimizer/type needs " +
                                      std::to_string(optimizer.moments()));
  if (moments > 0) network_.pack(stored.first_moment, optimizer.first());
  if (moments > 1) network_.pack(stored.second_moment, optimizer.second());
  optimizer.set_steps(stored.progress.optimizer_step);
  progress_ = stored.progress;
  // Of a checkpoint's last epoch the loss is known where it was the best so far, as one
  // that meets a target is.
  if (progress_.best_epoch == progress_.epoch - 1) last_loss_ = progress_.best_loss;
  if (int(progress_.epoch_outside.size()) != network_.shape().layers())
    throw Error(Code::checkpoint, "the checkpoint's epoch sums do not fit the network");
  if (communicator_.rank() != 0) {
    progress_.epoch_correct = 0;
    std::fill(progress_.epoch_outside.begin(), progress_.epoch_outside.end(), 0);
  }
  if (progress_.position > train_.rows())
    throw Error(Code::checkpoint, "the checkpoint stands at row " +
                                      std::to_string(progress_.position) +
                                      " of an epoch of " + std::to_string(train_.rows()) +
                                      " rows: the training data changed");
  const auto differs = [](const std::string& what, const std::string& then,
                          const std::string& now) {
    throw Error(Code::checkpoint, "parallel/reproducible: the checkpoint was made with " +
                                      what + " " + then + ", this run has " + now);
  };
  if (options_.reproducible) {
    if (stored.engine != engine_.name()) differs("engine", stored.engine, engine_.name());
    if (stored.shards != leaves())
      differs("shards =", std::to_string(stored.shards), std::to_string(leaves()));
    if (stored.vector_bytes != engine_.vector_bytes())
      differs("vector bytes =", std::to_string(stored.vector_bytes),
              std::to_string(engine_.vector_bytes()));
  }
}

template TrainingState<float> Trainer<float>::state();
template TrainingState<double> Trainer<double>::state();
template void Trainer<float>::restore(const TrainingState<float>&);
template void Trainer<double>::restore(const TrainingState<double>&);

}  // namespace kan
