#pragma once
// Collectives on arrays that may lie on a GPU, whatever memory the backend knows.

#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

/// The communicator can work on kernels' memory itself (a rank alone sums nothing up); else data
/// goes through host memory.
[[nodiscard]] inline bool reads_device_memory(const Communicator& communicator,
                                              const Kernels<float>& kernels) {
  return kernels.uses_host_memory() || communicator.name() == "nccl" ||
         communicator.name() == "single";
}

/// root's array on every rank. array: kernels' memory.
[[nodiscard]] Result<> broadcast_array(Communicator& communicator, Kernels<float>& kernels,
                                       std::span<float> array, int root);

/// In place the sum of all ranks' arrays, the same bytes on every rank. array: kernels' memory.
[[nodiscard]] Result<> sum_array(Communicator& communicator, Kernels<float>& kernels,
                                 std::span<float> array);

/// Host values of an array of kernels' memory.
[[nodiscard]] std::vector<float> to_host(Kernels<float>& kernels, std::span<const float> array);

}  // namespace dlrun::trainer
