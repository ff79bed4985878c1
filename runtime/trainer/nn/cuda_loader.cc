#include <string_view>

#include "runtime/bootstrap/shared_module.h"
#include "runtime/trainer/nn/device_module.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

Result<std::unique_ptr<Kernels<float>>> make_cuda_kernels(int local_rank,
                                                          const GpuOptions& options) {
  auto object = load_module_object("trainer-cuda", "dlrun_trainer_device");
  if (!object) return within("GPU kernels", object.error());
  const auto* module = static_cast<const DeviceModule*>(*object);
  if (std::string_view(module->interface) != DLRUN_DEVICE_INTERFACE) {
    return fail(
        Errc::kUnavailable,
        "GPU kernels: the module in lib/dlrun belongs to dlrun {}, this program to {}; install "
        "both from one build",
        module->interface, DLRUN_DEVICE_INTERFACE);
  }
  return module->make(local_rank, options);
}

}  // namespace dlrun::trainer
