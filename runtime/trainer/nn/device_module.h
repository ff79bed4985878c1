#pragma once
// What lib/dlrun/dlrun-trainer-cuda.so exports as `dlrun_trainer_device`: the program starts on machines without CUDA.

#include <memory>

#include "common/result.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

struct DeviceModule {
  const char* version = DLRUN_VERSION;  ///< of the build; program and module come from the same one
  Result<std::unique_ptr<Kernels<float>>> (*make)(int local_rank) = nullptr;
};

}  // namespace dlrun::trainer
