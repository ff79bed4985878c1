#include "runtime/trainer/parallel/optimizer_state.h"

#include <algorithm>
#include <cmath>

#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {

EvenParts::EvenParts(Communicator& communicator, Kernels<float>& kernels, std::size_t element_count)
    : communicator_(communicator),
      kernels_(kernels),
      element_count_(element_count),
      part_size_(part_size(element_count, communicator.size())),
      own_begin_(std::min(element_count, part_offset())),
      own_size_(std::min(part_size_, element_count - own_begin_)) {}

Result<std::vector<float>> EvenParts::gather_whole(std::span<const float> mine) const {
  std::vector<float> part(part_size_);
  kernels_.copy_to_host(part.data(), mine.data(), mine.size_bytes());
  std::vector<float> all(room());
  if (auto gathered = communicator_.all_gather(std::span(part), std::span(all)); !gathered)
    return tl::unexpected(gathered.error());
  all.resize(element_count_);
  return all;
}

void EvenParts::copy_part(const std::vector<float>& whole, std::span<float> mine) const {
  kernels_.copy_from_host(mine.data(), whole.data() + own_begin_, own_size_ * sizeof(float));
}

Result<double> EvenParts::clipping_scale_of(const float* mine, double max_norm) const {
  const TensorRange all{0, own_size_};
  double sum = 0;
  kernels_.sums_of_squares(mine, std::span(&all, 1), &sum);
  if (auto summed = communicator_.all_reduce(std::span(&sum, 1), ReduceOp::kSum); !summed)
    return tl::unexpected(summed.error());
  return clipping_scale(std::sqrt(sum), max_norm);
}

OptimizerState::OptimizerState(Communicator& communicator, Kernels<float>& kernels,
                               const Optimizer<float>& optimizer, std::size_t parameter_count,
                               std::size_t tensor_count, bool is_divided)
    : communicator_(communicator),
      kernels_(kernels),
      parts_(communicator, kernels, parameter_count),
      is_divided_(is_divided) {
  for (const StateArrayInfo& state : optimizer.states()) {
    arrays_.emplace_back(kernels, state.is_per_tensor ? tensor_count
                                  : is_divided        ? parts_.part_size()
                                                      : parameter_count);
    pointers_.push_back(arrays_.back().data());
  }
}

std::vector<std::span<float>> OptimizerState::spans() {
  std::vector<std::span<float>> spans;
  for (Array<float>& array : arrays_) spans.push_back(array.span());
  return spans;
}

Result<std::vector<std::vector<float>>> OptimizerState::gather() {
  std::vector<std::vector<float>> all;
  const bool is_root = communicator_.rank() == 0;
  for (Array<float>& array : arrays_) {
    if (!is_divided_) {
      if (is_root) all.push_back(to_host(kernels_, array.span()));
      continue;
    }
    DLRUN_TRY_ASSIGN(auto whole, parts_.gather_whole(array.span()));
    if (is_root) all.push_back(std::move(whole));
  }
  return all;
}

Result<> OptimizerState::restore(const std::vector<std::vector<float>>* saved, bool is_resumed) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const std::span<float> array = arrays_[i].span();
    if (!is_divided_) {
      if (saved != nullptr)
        kernels_.copy_from_host(array.data(), (*saved)[i].data(), array.size_bytes());
      DLRUN_TRY(broadcast_array(communicator_, kernels_, array, 0));
    } else if (is_resumed) {
      std::vector<float> whole =
          saved != nullptr ? (*saved)[i] : std::vector<float>(parts_.element_count());
      DLRUN_TRY(communicator_.broadcast(std::span(whole), 0));
      parts_.copy_part(whole, array);
      DLRUN_TRY(kernels_.synchronise());
    }
  }
  return {};
}

}  // namespace dlrun::trainer
