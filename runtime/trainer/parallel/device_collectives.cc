#include "runtime/trainer/parallel/device_collectives.h"

namespace dlrun::trainer {

Result<> broadcast_array(Communicator& communicator, Kernels<float>& kernels, std::span<float> array, int root) {
  if (reads_device_memory(communicator, kernels)) return communicator.broadcast(array, root);
  std::vector<float> staging = to_host(kernels, array);
  DLRUN_TRY(communicator.broadcast(std::span(staging), root));
  kernels.copy_from_host(array.data(), staging.data(), array.size_bytes());
  return kernels.synchronise();  // before staging goes
}

std::vector<float> to_host(Kernels<float>& kernels, std::span<const float> array) {
  std::vector<float> values(array.size());
  kernels.copy_to_host(values.data(), array.data(), array.size_bytes());
  return values;
}

}  // namespace dlrun::trainer
