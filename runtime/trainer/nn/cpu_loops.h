#pragma once
// The CPU's inner loops over flat arrays, on one thread. The float versions are compiled for
// several instruction sets, and the best is chosen when the program starts. The double versions are
// the tests' reference. All instruction sets give the same bits.

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/optim/formulas.h"

namespace dlrun::trainer::loops {

/// Applies a formula of an optimizer to each element of the arrays, [count], in place.
void update(const Update<float>& formula, const UpdateArrays<float>& arrays);
void update(const Update<double>& formula, const UpdateArrays<double>& arrays);

/// Computes y += scale * x. x, y: [n].
void add_scaled(float* y, float scale, const float* x, std::size_t n);
void add_scaled(double* y, double scale, const double* x, std::size_t n);

/// Computes y = max(x, 0). x, y: [n]; they may be the same array.
void relu(const float* x, float* y, std::size_t n);
void relu(const double* x, double* y, std::size_t n);
/// Computes dx = dy where y > 0, else 0. y, dy, dx: [n]; dy and dx may be the same array.
void relu_backward(const float* y, const float* dy, float* dx, std::size_t n);
void relu_backward(const double* y, const double* dy, double* dx, std::size_t n);

/// Computes y = max(x, y), element by element. x, y: [n].
void max_in_place(const float* x, float* y, std::size_t n);
void max_in_place(const double* x, double* y, std::size_t n);

/// Computes dx, the gradient of x. x is one of several arrays, and y holds the maximum of these
/// arrays. Call this function for the arrays in order, with the same `remaining`, which must equal
/// dy before the first call. Where x == y, dx = remaining, and `remaining` becomes 0, so that a
/// later array with the same value gets no gradient. Elsewhere dx = 0. All arrays: [n].
void store_max_gradient(const float* x, const float* y, float* remaining, float* dx, std::size_t n);
void store_max_gradient(const double* x, const double* y, double* remaining, double* dx,
                        std::size_t n);
/// Computes the gradient as store_max_gradient() does, but adds it to dx.
void add_max_gradient(const float* x, const float* y, float* remaining, float* dx, std::size_t n);
void add_max_gradient(const double* x, const double* y, double* remaining, double* dx,
                      std::size_t n);

/// Computes sums[j] = x[0, j] + x[1, j] + ..., in this order. x: [rows x columns], where the rows
/// begin `stride` elements apart; sums: [columns].
void sum_columns(const float* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 float* sums);
void sum_columns(const double* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 double* sums);

/// Returns the sum of x[i]^2 in double, added in sixteen lanes and then lane by lane.
[[nodiscard]] double sum_of_squares(const float* x, std::size_t n);
[[nodiscard]] double sum_of_squares(const double* x, std::size_t n);

/// Computes to[i] = from[i] * scale. from, to: [n].
void scale_bytes(const std::uint8_t* from, float scale, float* to, std::size_t n);
void scale_bytes(const std::uint8_t* from, double scale, double* to, std::size_t n);

/// Copies to[i] = from[i] with stores that bypass the caches. from, to: [n]. An ordinary store to a
/// line that another core has read must first fetch the line from that core's cache; between cores
/// that share no cache, ordinary stores are ten times slower. Readers get the data from memory. A
/// thread that sees a later store of the calling thread also sees the copied data.
void copy_past_caches(const float* from, float* to, std::size_t n);

}  // namespace dlrun::trainer::loops
