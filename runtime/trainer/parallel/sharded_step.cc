#include "runtime/trainer/parallel/sharded_step.h"

#include <algorithm>
#include <cmath>

#include "runtime/comm/reduce.h"
#include "runtime/trainer/nn/cpu_loops.h"

namespace dlrun::trainer {

using Clock = std::chrono::steady_clock;

namespace {

/// Elements of a piece: fits into the second-level cache with the optimizer's states, and is enough
/// work for two threads.
constexpr std::size_t kPiece = 16'384;

}  // namespace

ShardedStep::ShardedStep(Communicator& communicator, Kernels<float>& kernels,
                         std::size_t parameters, const SharedArrays* shared)
    : communicator_(communicator),
      kernels_(kernels),
      parameters_(parameters),
      part_(part(parameters, communicator.size())),
      begin_(std::min(parameters, part_ * static_cast<std::size_t>(communicator.rank()))),
      count_(std::min(part_, parameters - begin_)),
      shared_(shared != nullptr && shared->is_shared() ? shared : nullptr),
      gradients_(kernels, part_),
      piece_(kernels, shared_ != nullptr ? std::min(kPiece, part_) : 0) {}

Result<> ShardedStep::step(const Optimizer<float>& rule, float* parameters, const float* gradients,
                           std::span<float* const> states, StepInfo info, double clip_norm) {
  const Clock::time_point start = Clock::now();
  DLRUN_TRY(sum(gradients));
  if (clip_norm > 0) {
    const TensorPart all{0, count_};
    double sum = 0;
    kernels_.sums_of_squares(gradients_.data(), std::span(&all, 1), &sum);
    DLRUN_TRY(communicator_.all_reduce(std::span(&sum, 1), ReduceOp::kSum));
    info.gradient_scale = clipping_scale(std::sqrt(sum), clip_norm);
  }
  timing_.summed = Clock::now();
  waited_ = timing_.summed - start;
  float* const mine = parameters + part_ * static_cast<std::size_t>(communicator_.rank());
  if (shared_ != nullptr) {
    step_shared(rule, mine, states, info);
  } else {
    rule.step(kernels_, {mine, gradients_.data(), states, count_, {}}, info);
  }
  timing_.stepped = Clock::now();
  if (shared_ != nullptr) {
    DLRUN_TRY(communicator_.barrier());
  } else {
    const std::size_t all = part_ * static_cast<std::size_t>(communicator_.size());
    DLRUN_TRY(communicator_.all_gather(ConstBuffer(mine, part_, DataType::kFloat32),
                                       Buffer(parameters, all, DataType::kFloat32)));
  }
  timing_.end = Clock::now();
  waited_ += timing_.end - timing_.stepped;
  return {};
}

Result<> ShardedStep::sum(const float* gradients) {
  if (shared_ == nullptr) {
    const std::size_t all = part_ * static_cast<std::size_t>(communicator_.size());
    return communicator_.reduce_scatter(ConstBuffer(gradients, all, DataType::kFloat32),
                                        Buffer(gradients_.span()), ReduceOp::kSum);
  }
  // Add in the order of the ranks, in blocks that keep the partial sum in the first-level cache.
  constexpr std::size_t kFew = 2048;
  const std::vector<const float*>& of_rank = shared_->gradients();
  for (std::size_t at = 0; at < count_; at += kFew) {
    const std::size_t n = std::min(kFew, count_ - at);
    float* const to = gradients_.data() + at;
    combine(ReduceOp::kSum, to, of_rank[0] + begin_ + at, of_rank[1] + begin_ + at, n);
    for (std::size_t rank = 2; rank < of_rank.size(); ++rank)
      combine(ReduceOp::kSum, to, to, of_rank[rank] + begin_ + at, n);
  }
  return {};
}

void ShardedStep::step_shared(const Optimizer<float>& rule, float* mine,
                              std::span<float* const> states, const StepInfo& info) {
  std::vector<float*> states_of_piece(states.begin(), states.end());
  for (std::size_t at = 0; at < count_; at += kPiece) {
    const std::size_t n = std::min(kPiece, count_ - at);
    std::copy_n(mine + at, n, piece_.data());
    rule.step(kernels_, {piece_.data(), gradients_.data() + at, states_of_piece, n, {}}, info);
    loops::publish(piece_.data(), mine + at, n);
    for (float*& state : states_of_piece) state += n;
  }
}

Result<std::vector<float>> ShardedStep::whole(std::span<const float> mine) {
  std::vector<float> part(part_);
  kernels_.copy_to_host(part.data(), mine.data(), mine.size_bytes());
  std::vector<float> all(part_ * static_cast<std::size_t>(communicator_.size()));
  if (auto gathered = communicator_.all_gather(std::span(part), std::span(all)); !gathered)
    return tl::unexpected(gathered.error());
  all.resize(parameters_);
  return all;
}

void ShardedStep::take(const std::vector<float>& whole, std::span<float> mine) {
  kernels_.copy_from_host(mine.data(), whole.data() + begin_, count_ * sizeof(float));
}

}  // namespace dlrun::trainer
