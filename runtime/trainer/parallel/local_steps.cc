#include "runtime/trainer/parallel/local_steps.h"

#include <utility>

#include "runtime/trainer/parallel/device_collectives.h"

namespace dlrun::trainer {
namespace {

/// Computes to = scale * from.
void scaled_copy(Kernels<float>& kernels, std::span<float> to, float scale,
                 std::span<const float> from) {
  kernels.zero(to.data(), from.size());
  kernels.add_scaled(to.data(), scale, from.data(), from.size());
}

}  // namespace

LocalSteps::LocalSteps(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
                       std::vector<std::span<float>> states)
    : communicator_(communicator),
      kernels_(kernels),
      network_(network),
      states_(std::move(states)) {}

void LocalSteps::took(std::size_t mine, std::size_t all) {
  ++steps_;
  samples_ += mine;
  all_samples_ += all;
}

Result<> LocalSteps::average() {
  const auto weight =
      static_cast<float>(static_cast<double>(samples_) / static_cast<double>(all_samples_));
  // The gradients are no longer needed. Their array carries the parameters, the words and the
  // statistics through one all-reduce.
  scaled_copy(kernels_, network_.gradients(), weight, network_.parameters());
  scaled_copy(kernels_, network_.observed(), weight, network_.running());
  DLRUN_TRY(sum_array(communicator_, kernels_, network_.gradients_and_extra()));
  scaled_copy(kernels_, network_.parameters(), 1, network_.gradients());
  scaled_copy(kernels_, network_.running(), 1, network_.observed());
  for (const std::span<float> state : states_) {
    scaled_copy(kernels_, network_.gradients(), weight, state);
    DLRUN_TRY(sum_array(communicator_, kernels_, network_.gradients()));
    scaled_copy(kernels_, state, 1, network_.gradients());
  }
  steps_ = samples_ = all_samples_ = 0;
  return {};
}

}  // namespace dlrun::trainer
