#pragma once
// The GPU's implementation of nn/layer_kernels.h.

#include <memory>

#include "runtime/trainer/cuda/device_status.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer::cuda {

/// Creates the implementation. It uses device's stream and memory, and reports failures in
/// `status`. `device` and `status` must outlive the result.
[[nodiscard]] std::unique_ptr<LayerKernels<float>> make_cuda_layer_kernels(Kernels<float>& device,
                                                                           DeviceStatus& status);

}  // namespace dlrun::trainer::cuda
