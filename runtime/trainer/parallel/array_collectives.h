#pragma once
// Collectives on arrays in kernels' memory, also for GPU memory that the communicator cannot
// read.

#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

/// Returns true if the communicator can use the kernels' memory directly. A single rank exchanges
/// nothing, so the result is then true, too. If the result is false, the functions below copy the
/// data through host memory.
[[nodiscard]] inline bool can_use_memory_of(const Communicator& communicator,
                                            const Kernels<float>& kernels) {
  return kernels.uses_host_memory() || communicator.name() == "nccl" ||
         communicator.name() == "single";
}

/// Copies the root's array, in kernels' memory, to the arrays of all ranks, which have the same
/// size.
[[nodiscard]] Result<> broadcast_array(Communicator& communicator, Kernels<float>& kernels,
                                       std::span<float> array, int root);

/// Replaces an array in kernels' memory by its sum over all ranks; the result is identical on all
/// ranks.
[[nodiscard]] Result<> sum_array(Communicator& communicator, Kernels<float>& kernels,
                                 std::span<float> array);

/// Copies an array from kernels' memory to the host.
[[nodiscard]] std::vector<float> to_host(Kernels<float>& kernels, std::span<const float> array);

}  // namespace dlrun::trainer
