#pragma once
// The GPU's half of nn/layer_kernels.h.

#include <memory>

#include "runtime/trainer/cuda/device_status.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer::cuda {

/// Works on device's stream with memory of device's; keeps its failures in status. Both outlive it.
[[nodiscard]] std::unique_ptr<LayerKernels<float>> make_cuda_layer_kernels(Kernels<float>& device,
                                                                           DeviceStatus& status);

}  // namespace dlrun::trainer::cuda
