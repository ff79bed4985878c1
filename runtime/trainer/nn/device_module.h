#pragma once
// What lib/dlrun/dlrun-trainer-cuda.so exports as `dlrun_trainer_device`: the program starts on
// machines without CUDA.

#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

struct DeviceModule {
  const char* interface =
      DLRUN_DEVICE_INTERFACE;  ///< version and headers of the build: must be the program's own
  Result<std::unique_ptr<Kernels<float>>> (*make)(int local_rank,
                                                  const GpuOptions& options) = nullptr;
};

}  // namespace dlrun::trainer
