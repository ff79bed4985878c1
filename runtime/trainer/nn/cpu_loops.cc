// Compiled with -ffp-contract=off. Every rank updates the parameters by itself, and ranks on
// processors with and without fused multiply-add must get the same bits.

#include "runtime/trainer/nn/cpu_loops.h"

#include <algorithm>
#include <array>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Compiles one copy of a loop per instruction set; the best is chosen when the program starts.
// Sanitizers cannot run the function that chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DLRUN_EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DLRUN_EACH_ISA
#endif

namespace dlrun::trainer::loops {

// Coefficients are copied so that the compiler sees that no store changes them.

DLRUN_EACH_ISA void adam(float* p, const float* g, float* m, float* v, std::size_t n,
                         const AdamCoefficients<float>& k) {
  const AdamCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) adam_element(p[i], g[i], m[i], v[i], c);
}
void adam(double* p, const double* g, double* m, double* v, std::size_t n,
          const AdamCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) adam_element(p[i], g[i], m[i], v[i], c);
}

DLRUN_EACH_ISA void momentum(float* p, const float* g, float* velocity, std::size_t n,
                             const SgdCoefficients<float>& k) {
  const SgdCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) momentum_element(p[i], g[i], velocity[i], c);
}
void momentum(double* p, const double* g, double* velocity, std::size_t n,
              const SgdCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) momentum_element(p[i], g[i], velocity[i], c);
}

DLRUN_EACH_ISA void sgd(float* p, const float* g, std::size_t n, const SgdCoefficients<float>& k) {
  const SgdCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) sgd_element(p[i], g[i], c);
}
void sgd(double* p, const double* g, std::size_t n, const SgdCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) sgd_element(p[i], g[i], c);
}

DLRUN_EACH_ISA void rmsprop(float* p, const float* g, float* v, std::size_t n,
                            const RmspropCoefficients<float>& k) {
  const RmspropCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) rmsprop_element(p[i], g[i], v[i], c);
}
void rmsprop(double* p, const double* g, double* v, std::size_t n,
             const RmspropCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) rmsprop_element(p[i], g[i], v[i], c);
}

DLRUN_EACH_ISA void rmsprop_momentum(float* p, const float* g, float* v, float* velocity,
                                     std::size_t n, const RmspropCoefficients<float>& k) {
  const RmspropCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) rmsprop_momentum_element(p[i], g[i], v[i], velocity[i], c);
}
void rmsprop_momentum(double* p, const double* g, double* v, double* velocity, std::size_t n,
                      const RmspropCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) rmsprop_momentum_element(p[i], g[i], v[i], velocity[i], c);
}

DLRUN_EACH_ISA void lamb(const float* p, float* g, float* m, float* v, std::size_t n,
                         const LambCoefficients<float>& k) {
  const LambCoefficients<float> c = k;
  for (std::size_t i = 0; i < n; ++i) lamb_element(p[i], g[i], m[i], v[i], c);
}
void lamb(const double* p, double* g, double* m, double* v, std::size_t n,
          const LambCoefficients<double>& c) {
  for (std::size_t i = 0; i < n; ++i) lamb_element(p[i], g[i], m[i], v[i], c);
}

DLRUN_EACH_ISA void add_scaled(float* y, float scale, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += scale * x[i];
}
void add_scaled(double* y, double scale, const double* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

DLRUN_EACH_ISA void relu(const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
void relu(const double* x, double* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}

DLRUN_EACH_ISA void relu_backward(const float* y, const float* dy, float* dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    // Read unconditionally: a read after a branch would prevent vectorisation.
    const float gradient = dy[i];
    dx[i] = y[i] > 0 ? gradient : 0;
  }
}
void relu_backward(const double* y, const double* dy, double* dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    // Read unconditionally: a read after a branch would prevent vectorisation.
    const double gradient = dy[i];
    dx[i] = y[i] > 0 ? gradient : 0;
  }
}

namespace {

template <typename T>
[[gnu::always_inline]] inline void larger_of(const T* x, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
}

template <bool kAdds, typename T>
[[gnu::always_inline]] inline void to_equal(const T* __restrict x, const T* __restrict y,
                                            T* __restrict left, T* __restrict dx, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_equal = x[i] == y[i];
    const T given = left[i];
    const T share = is_equal ? given : 0;
    dx[i] = kAdds ? dx[i] + share : share;
    left[i] = is_equal ? 0 : given;
  }
}

/// Sums kColumns columns at a time in registers. Returns the first column that is left.
template <std::size_t kColumns, typename T>
[[gnu::always_inline]] inline std::size_t add_columns(const T* x, std::size_t rows,
                                                      std::size_t stride, std::size_t at,
                                                      std::size_t columns, T* sums) {
  for (; at + kColumns <= columns; at += kColumns) {
    std::array<T, kColumns> lanes{};
    for (std::size_t row = 0; row < rows; ++row) {
      const T* from = x + row * stride + at;
      for (std::size_t lane = 0; lane < kColumns; ++lane) lanes[lane] += from[lane];
    }
    for (std::size_t lane = 0; lane < kColumns; ++lane) sums[at + lane] = lanes[lane];
  }
  return at;
}

template <typename T>
[[gnu::always_inline]] inline void add_all_columns(const T* x, std::size_t rows, std::size_t stride,
                                                   std::size_t columns, T* sums) {
  std::size_t at = add_columns<64>(x, rows, stride, 0, columns, sums);
  at = add_columns<16>(x, rows, stride, at, columns, sums);
  add_columns<1>(x, rows, stride, at, columns, sums);
}

}  // namespace

DLRUN_EACH_ISA void keep_larger(const float* x, float* y, std::size_t n) {
  larger_of(x, y, n);
}
DLRUN_EACH_ISA void give_to_equal(const float* x, const float* y, float* left, float* dx,
                                  std::size_t n) {
  to_equal<false>(x, y, left, dx, n);
}
DLRUN_EACH_ISA void add_to_equal(const float* x, const float* y, float* left, float* dx,
                                 std::size_t n) {
  to_equal<true>(x, y, left, dx, n);
}
DLRUN_EACH_ISA void sum_columns(const float* x, std::size_t rows, std::size_t stride,
                                std::size_t columns, float* sums) {
  add_all_columns(x, rows, stride, columns, sums);
}
void keep_larger(const double* x, double* y, std::size_t n) {
  larger_of(x, y, n);
}
void give_to_equal(const double* x, const double* y, double* left, double* dx, std::size_t n) {
  to_equal<false>(x, y, left, dx, n);
}
void add_to_equal(const double* x, const double* y, double* left, double* dx, std::size_t n) {
  to_equal<true>(x, y, left, dx, n);
}
void sum_columns(const double* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 double* sums) {
  add_all_columns(x, rows, stride, columns, sums);
}

namespace {

constexpr std::size_t kLanes = 16;

template <typename T>
[[gnu::always_inline]] inline double lane_sums(const T* x, std::size_t n) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) {
    const double value = x[i];
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

DLRUN_EACH_ISA double sum_of_squares(const float* x, std::size_t n) {
  return lane_sums(x, n);
}
double sum_of_squares(const double* x, std::size_t n) {
  return lane_sums(x, n);
}

DLRUN_EACH_ISA void scale_bytes(const std::uint8_t* from, float scale, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale;
}
void scale_bytes(const std::uint8_t* from, double scale, double* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from[i] * scale;
}

void publish(const float* from, float* to, std::size_t n) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64 / sizeof(float);
  constexpr std::size_t kStore = sizeof(__m128) / sizeof(float);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) / sizeof(float) % kLine;
  std::size_t i = std::min(n, (kLine - past) % kLine);
  std::copy_n(from, i, to);
  // Write whole lines: a partial line would be written to memory separately.
  for (; i + kLine <= n; i += kLine) {
    for (std::size_t k = i; k < i + kLine; k += kStore)
      _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
  }
  std::copy_n(from + i, n - i, to + i);
  _mm_sfence();
#else
  std::copy_n(from, n, to);
#endif
}

}  // namespace dlrun::trainer::loops
