#pragma once
// The CPU's inner loops over flat arrays, on one thread. Each exists for float, compiled for
// several instruction sets of which the best is chosen when the program starts, and for double, the
// tests' reference. All copies give the same bits.

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/optim/adam.h"
#include "runtime/trainer/optim/lamb.h"
#include "runtime/trainer/optim/rmsprop.h"
#include "runtime/trainer/optim/sgd.h"

namespace dlrun::trainer::loops {

// One step of a rule over n elements; formulas in optim/.
void adam(float* p, const float* g, float* m, float* v, std::size_t n,
          const AdamCoefficients<float>& c);
void adam(double* p, const double* g, double* m, double* v, std::size_t n,
          const AdamCoefficients<double>& c);
void momentum(float* p, const float* g, float* velocity, std::size_t n,
              const SgdCoefficients<float>& c);
void momentum(double* p, const double* g, double* velocity, std::size_t n,
              const SgdCoefficients<double>& c);
void sgd(float* p, const float* g, std::size_t n, const SgdCoefficients<float>& c);
void sgd(double* p, const double* g, std::size_t n, const SgdCoefficients<double>& c);
void rmsprop(float* p, const float* g, float* v, std::size_t n,
             const RmspropCoefficients<float>& c);
void rmsprop(double* p, const double* g, double* v, std::size_t n,
             const RmspropCoefficients<double>& c);
void rmsprop_momentum(float* p, const float* g, float* v, float* velocity, std::size_t n,
                      const RmspropCoefficients<float>& c);
void rmsprop_momentum(double* p, const double* g, double* v, double* velocity, std::size_t n,
                      const RmspropCoefficients<double>& c);
void lamb(const float* p, float* g, float* m, float* v, std::size_t n,
          const LambCoefficients<float>& c);
void lamb(const double* p, double* g, double* m, double* v, std::size_t n,
          const LambCoefficients<double>& c);

/// y += scale * x.
void add_scaled(float* y, float scale, const float* x, std::size_t n);
void add_scaled(double* y, double scale, const double* x, std::size_t n);

/// y = max(x, 0); dx = dy where y > 0, else 0. x and y, dy and dx may be the same array.
void relu(const float* x, float* y, std::size_t n);
void relu(const double* x, double* y, std::size_t n);
void relu_backward(const float* y, const float* dy, float* dx, std::size_t n);
void relu_backward(const double* y, const double* dy, double* dx, std::size_t n);

/// y = max(x, y).
void keep_larger(const float* x, float* y, std::size_t n);
void keep_larger(const double* x, double* y, std::size_t n);

/// Where x == y, left goes to dx and is 0 from then on; elsewhere dx gets 0. give: dx = that; add:
/// dx += that.
void give_to_equal(const float* x, const float* y, float* left, float* dx, std::size_t n);
void give_to_equal(const double* x, const double* y, double* left, double* dx, std::size_t n);
void add_to_equal(const float* x, const float* y, float* left, float* dx, std::size_t n);
void add_to_equal(const double* x, const double* y, double* left, double* dx, std::size_t n);

/// sums[j] = x[0, j] + x[1, j] + ..., in this order. x: rows that begin `stride` elements apart;
/// sums: [columns].
void sum_columns(const float* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 float* sums);
void sum_columns(const double* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 double* sums);

/// The sum of x[i]^2, in double, in sixteen lanes that are added in order.
[[nodiscard]] double sum_of_squares(const float* x, std::size_t n);
[[nodiscard]] double sum_of_squares(const double* x, std::size_t n);

/// to[i] = from[i] * scale.
void scale_bytes(const std::uint8_t* from, float scale, float* to, std::size_t n);
void scale_bytes(const std::uint8_t* from, double scale, double* to, std::size_t n);

/// to[i] = from[i], past this processor's caches. Lines that other processors have read are not
/// asked back one by one, as they are for ordinary stores (ten times slower where the ranks' cores
/// share no cache); the others read them from memory. What is written is seen by who sees a later
/// store of this thread.
void publish(const float* from, float* to, std::size_t n);

}  // namespace dlrun::trainer::loops
