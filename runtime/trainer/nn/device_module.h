#pragma once
// The object that lib/dlrun/dlrun-trainer-cuda.so exports as `dlrun_trainer_device`. CUDA is in a
// separate library so that the program starts on machines without CUDA.

#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

struct DeviceModule {
  /// Identifies the version and the headers of the build. Must equal the program's value.
  const char* interface = DLRUN_DEVICE_INTERFACE;
  /// See make_cuda_kernels().
  Result<std::unique_ptr<Kernels<float>>> (*make)(int local_rank,
                                                  const GpuOptions& options) = nullptr;
};

}  // namespace dlrun::trainer
