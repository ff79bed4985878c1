#pragma once
// The CPU's loops of batch normalisation and residual blocks, on one thread, over rows of channels.
// All instruction sets give the same bits, as in cpu_loops.h. The arrays are those of
// nn/layer_kernels.h.

#include <cstddef>

namespace dlrun::trainer::loops {

/// Adds x - centre and its square to sums, [2 x channels]. x: [rows x channels], centre:
/// [channels].
void add_centred_sums(const float* x, const float* centre, std::size_t rows, std::size_t channels,
                      double* sums);
void add_centred_sums(const double* x, const double* centre, std::size_t rows, std::size_t channels,
                      double* sums);

/// Adds dy, and the product dy * (x - mean) * scale, to sums, [2 x channels]. x, dy: [rows x
/// channels], statistics (mean and scale): [2 x channels].
void add_backward_sums(const float* x, const float* dy, const float* statistics, std::size_t rows,
                       std::size_t channels, double* sums);
void add_backward_sums(const double* x, const double* dy, const double* statistics,
                       std::size_t rows, std::size_t channels, double* sums);

/// Computes y = (x - mean) * scale * gamma + beta, then max(y, 0) if with_relu. x, y: [rows x
/// channels], statistics (mean, scale), parameters (gamma, beta): [2 x channels].
void normalise(const float* x, const float* statistics, const float* parameters, std::size_t rows,
               std::size_t channels, bool with_relu, float* y);
void normalise(const double* x, const double* statistics, const double* parameters,
               std::size_t rows, std::size_t channels, bool with_relu, double* y);

/// Computes dx = gamma scale (dy - m0 - (x - mean) scale m1), where m0 and m1 are the halves of
/// `gradient_means`, [2 x channels]. x, dy, dx: [rows x channels].
void normalise_backward(const float* x, const float* dy, const float* statistics,
                        const float* gamma, const float* gradient_means, std::size_t rows,
                        std::size_t channels, float* dx);
void normalise_backward(const double* x, const double* dy, const double* statistics,
                        const double* gamma, const double* gradient_means, std::size_t rows,
                        std::size_t channels, double* dx);

/// Computes sum = a + b, then max(sum, 0) if with_relu. a, b, sum: [n].
void add(const float* a, const float* b, bool with_relu, float* sum, std::size_t n);
void add(const double* a, const double* b, bool with_relu, double* sum, std::size_t n);

}  // namespace dlrun::trainer::loops
