#pragma once
// CUDA kernels of a training step: for most functions of Kernels<float> (nn/kernels.h), and for
// conversions to and from bfloat16. Two operations are elsewhere: cuBLAS computes the matrix
// products, and layer_loops.h has the sums of columns. Each function here queues a kernel on the
// stream and does not wait for it. Unless a comment says otherwise, arrays are device memory, and
// their contents are as in the function of Kernels<float> with the same name.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "runtime/trainer/optim/formulas.h"

namespace dlrun::trainer::cuda {

/// Computes Kernels::gather. samples: device memory, [n]; nullptr stands for 0, 1, ... n - 1.
/// label_width may be 0. x: [n x features]. out_labels: [n x label_width].
void gather(const std::uint8_t* images, const std::uint8_t* labels, const std::uint32_t* samples,
            std::size_t n, std::size_t features, std::size_t label_width, float scale, float* x,
            std::uint8_t* out_labels, cudaStream_t stream);
void relu(const float* x, float* y, std::size_t count, cudaStream_t stream);
void relu_backward(const float* y, const float* dy, float* dx, std::size_t count,
                   cudaStream_t stream);
void softmax_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                           std::size_t classes, float scale, float* gradient, float* totals,
                           cudaStream_t stream);
void update(const Update<float>& formula, const UpdateArrays<float>& arrays, cudaStream_t stream);
void add_scaled(float* y, float scale, const float* x, std::size_t count, cudaStream_t stream);
/// Rounds x, float32, to y, bfloat16: ties to even, NaN stays NaN. x, y: [count].
void round_to_bfloat16(const float* x, std::uint16_t* y, std::size_t count, cudaStream_t stream);
/// Converts x, bfloat16, to y, float32, without rounding. x, y: [count].
void widen_bfloat16(const std::uint16_t* x, float* y, std::size_t count, cudaStream_t stream);
/// Computes sums[i] = sum of squares of elements [ranges[2 i], ranges[2 i] + ranges[2 i + 1]).
/// ranges: [range_count x 2], sums: [range_count], in device memory.
void sums_of_squares(const float* x, const std::size_t* ranges, std::size_t range_count,
                     double* sums, cudaStream_t stream);

}  // namespace dlrun::trainer::cuda
