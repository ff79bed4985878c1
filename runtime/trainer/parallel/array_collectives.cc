#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {

namespace {

/// Calls collective(array). If the communicator cannot use the memory of `kernels`, the collective
/// works on a copy in host memory, and its result is copied back.
template <typename Collective>
Result<> on_array(Communicator& communicator, Kernels<float>& kernels, std::span<float> array,
                  const Collective& collective) {
  if (can_use_memory_of(communicator, kernels)) return collective(array);
  std::vector<float> staging = to_host(kernels, array);
  DLRUN_TRY(collective(std::span(staging)));
  kernels.copy_from_host(array.data(), staging.data(), array.size_bytes());
  return kernels.synchronise();
}

}  // namespace

Result<> broadcast_array(Communicator& communicator, Kernels<float>& kernels,
                         std::span<float> array, int root) {
  return on_array(communicator, kernels, array,
                  [&](std::span<float> data) { return communicator.broadcast(data, root); });
}

Result<> sum_array(Communicator& communicator, Kernels<float>& kernels, std::span<float> array) {
  return on_array(communicator, kernels, array, [&](std::span<float> data) {
    return communicator.all_reduce(data, ReduceOp::kSum);
  });
}

std::vector<float> to_host(Kernels<float>& kernels, std::span<const float> array) {
  std::vector<float> values(array.size());
  kernels.copy_to_host(values.data(), array.data(), array.size_bytes());
  return values;
}

}  // namespace dlrun::trainer
