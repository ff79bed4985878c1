#include "runtime/trainer/parallel/sharded_step.h"

#include <algorithm>
#include <cmath>

namespace dlrun::trainer {

using Clock = std::chrono::steady_clock;

ShardedStep::ShardedStep(Communicator& communicator, Kernels<float>& kernels, std::size_t parameters,
                         const std::vector<TensorPart>& tensors)
    : communicator_(communicator),
      kernels_(kernels),
      parameters_(parameters),
      part_(part(parameters, communicator.size())),
      begin_(std::min(parameters, part_ * static_cast<std::size_t>(communicator.rank()))),
      count_(std::min(part_, parameters - begin_)),
      gradients_(kernels, part_) {
  for (const TensorPart& tensor : tensors) {
    const std::size_t first = std::max(tensor.begin, begin_);
    const std::size_t last = std::min(tensor.begin + tensor.count, begin_ + count_);
    if (first < last) tensors_.push_back({first - begin_, last - first, tensor.is_weight});
  }
}

Result<> ShardedStep::step(const Optimizer<float>& rule, float* parameters, const float* gradients,
                           std::span<float* const> states, StepInfo info, double clip_norm) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const Clock::time_point start = Clock::now();
  DLRUN_TRY(communicator_.reduce_scatter(ConstBuffer(gradients, part_ * ranks, DataType::kFloat32),
                                         Buffer(gradients_.span()), ReduceOp::kSum));
  if (clip_norm > 0) {
    const TensorPart all{0, count_};
    double sum = 0;
    kernels_.sums_of_squares(gradients_.data(), std::span(&all, 1), &sum);
    DLRUN_TRY(communicator_.all_reduce(std::span(&sum, 1), ReduceOp::kSum));
    info.gradient_scale = clipping_scale(std::sqrt(sum), clip_norm);
  }
  waited_ = Clock::now() - start;
  float* const mine = parameters + part_ * static_cast<std::size_t>(communicator_.rank());
  rule.step(kernels_, {mine, gradients_.data(), states, count_, tensors_}, info);
  const Clock::time_point stepped = Clock::now();
  DLRUN_TRY(communicator_.all_gather(ConstBuffer(mine, part_, DataType::kFloat32),
                                     Buffer(parameters, part_ * ranks, DataType::kFloat32)));
  waited_ += Clock::now() - stepped;
  return {};
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
