#pragma once
// Collectives on arrays in the memory of a Kernels object, including GPU memory that the
// communicator cannot read.

#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

/// Returns true if the communicator can use the memory of `kernels` directly, or if there is only
/// one rank, which exchanges nothing. If the result is false, the functions below copy the data
/// through host memory.
[[nodiscard]] inline bool can_use_memory_of(const Communicator& communicator,
                                            const Kernels<float>& kernels) {
  return kernels.uses_host_memory() || communicator.name() == "nccl" ||
         communicator.name() == "single";
}

/// Copies the root's array to the arrays of all ranks. The arrays are in the memory of `kernels`
/// and have the same size.
[[nodiscard]] Result<> broadcast_array(Communicator& communicator, Kernels<float>& kernels,
                                       std::span<float> array, int root);

/// Replaces an array in the memory of `kernels` by its sum over all ranks. The result is identical
/// on all ranks.
[[nodiscard]] Result<> sum_array(Communicator& communicator, Kernels<float>& kernels,
                                 std::span<float> array);

/// Returns a copy, in host memory, of an array in the memory of `kernels`.
[[nodiscard]] std::vector<float> to_host(Kernels<float>& kernels, std::span<const float> array);

}  // namespace dlrun::trainer
