#pragma once
// oneDNN's product of two matrices in float.

#include <cstddef>

#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

/// Computes c = op(a) op(b) + beta c, like Kernels::gemm, for k > 0. Host memory, float32. Within
/// an OpenMP region, uses only the calling thread.
void multiply_matrices(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                       std::size_t k, const float* a, const float* b, float beta, float* c);

}  // namespace dlrun::trainer
