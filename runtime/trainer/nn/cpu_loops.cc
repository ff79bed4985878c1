// This file is compiled with -ffp-contract=off: usually every rank updates all parameters by itself
// (parallel/gradient_exchange.h), and ranks on processors with and without fused multiply-add must
// get the same bits.

#include "runtime/trainer/nn/cpu_loops.h"

#include <algorithm>
#include <array>
#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "runtime/trainer/nn/each_isa.h"

namespace dlrun::trainer::loops {

namespace {

/// Applies the formula to all elements. Does nothing if the formula has no operator() for kStates
/// state arrays.
template <int kStates, typename Formula, typename T>
[[gnu::always_inline]] inline void update_all(const Formula& formula, const UpdateArrays<T>& all) {
  if constexpr (kTakesStates<Formula, T, kStates>) {
    // Work on copies, so that the compiler sees that no store changes the coefficients.
    const Formula coefficients = formula;
    const UpdateArrays<T> arrays = all;
    for (std::size_t i = 0; i < arrays.count; ++i) update_element<kStates>(coefficients, arrays, i);
  }
}

/// Applies *formula to all elements. Does nothing if formula is nullptr.
template <typename Formula, typename T>
[[gnu::always_inline]] inline void update_if(const Formula* formula,
                                             const UpdateArrays<T>& arrays) {
  if (formula == nullptr) return;
  switch (arrays.state_count()) {
    case 0:
      return update_all<0>(*formula, arrays);
    case 1:
      return update_all<1>(*formula, arrays);
    default:
      return update_all<2>(*formula, arrays);
  }
}

/// Runs the loop of the formula that `any` holds. The calling function is copied for each
/// instruction set (DLRUN_EACH_ISA), and the loop is inlined into each copy. std::visit is not
/// used, because it would call the loop through a function pointer, and the loop would then be
/// compiled for one instruction set only.
template <typename T, typename... Formula>
[[gnu::always_inline]] inline void update_any(const std::variant<Formula...>& any,
                                              const UpdateArrays<T>& arrays) {
  (update_if(std::get_if<Formula>(&any), arrays), ...);
}

}  // namespace

DLRUN_EACH_ISA void update(const Update<float>& formula, const UpdateArrays<float>& arrays) {
  update_any(formula, arrays);
}
void update(const Update<double>& formula, const UpdateArrays<double>& arrays) {
  update_any(formula, arrays);
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
[[gnu::always_inline]] inline void max_of_elements(const T* x, T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
}

template <bool kAdds, typename T>
[[gnu::always_inline]] inline void max_gradient(const T* __restrict x, const T* __restrict y,
                                                T* __restrict remaining, T* __restrict dx,
                                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_equal = x[i] == y[i];
    const T given = remaining[i];
    const T gradient = is_equal ? given : 0;
    dx[i] = kAdds ? dx[i] + gradient : gradient;
    remaining[i] = is_equal ? 0 : given;
  }
}

/// Sums kColumns columns at a time in registers. Returns the first column that is not yet summed.
template <std::size_t kColumns, typename T>
[[gnu::always_inline]] inline std::size_t store_column_sums(const T* x, std::size_t rows,
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
[[gnu::always_inline]] inline void store_all_column_sums(const T* x, std::size_t rows,
                                                         std::size_t stride, std::size_t columns,
                                                         T* sums) {
  std::size_t at = store_column_sums<64>(x, rows, stride, 0, columns, sums);
  at = store_column_sums<16>(x, rows, stride, at, columns, sums);
  store_column_sums<1>(x, rows, stride, at, columns, sums);
}

}  // namespace

DLRUN_EACH_ISA void max_in_place(const float* x, float* y, std::size_t n) {
  max_of_elements(x, y, n);
}
DLRUN_EACH_ISA void store_max_gradient(const float* x, const float* y, float* remaining, float* dx,
                                       std::size_t n) {
  max_gradient<false>(x, y, remaining, dx, n);
}
DLRUN_EACH_ISA void add_max_gradient(const float* x, const float* y, float* remaining, float* dx,
                                     std::size_t n) {
  max_gradient<true>(x, y, remaining, dx, n);
}
DLRUN_EACH_ISA void sum_columns(const float* x, std::size_t rows, std::size_t stride,
                                std::size_t columns, float* sums) {
  store_all_column_sums(x, rows, stride, columns, sums);
}
void max_in_place(const double* x, double* y, std::size_t n) {
  max_of_elements(x, y, n);
}
void store_max_gradient(const double* x, const double* y, double* remaining, double* dx,
                        std::size_t n) {
  max_gradient<false>(x, y, remaining, dx, n);
}
void add_max_gradient(const double* x, const double* y, double* remaining, double* dx,
                      std::size_t n) {
  max_gradient<true>(x, y, remaining, dx, n);
}
void sum_columns(const double* x, std::size_t rows, std::size_t stride, std::size_t columns,
                 double* sums) {
  store_all_column_sums(x, rows, stride, columns, sums);
}

namespace {

constexpr std::size_t kLanes = 16;

template <typename T>
[[gnu::always_inline]] inline double sum_squares_in_lanes(const T* x, std::size_t n) {
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
  return sum_squares_in_lanes(x, n);
}
double sum_of_squares(const double* x, std::size_t n) {
  return sum_squares_in_lanes(x, n);
}

DLRUN_EACH_ISA void scale_bytes(const std::uint8_t* from, float scale, float* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale;
}
void scale_bytes(const std::uint8_t* from, double scale, double* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from[i] * scale;
}

void copy_past_caches(const float* from, float* to, std::size_t n) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64 / sizeof(float);
  constexpr std::size_t kStore = sizeof(__m128) / sizeof(float);
  const std::size_t past_line_start = reinterpret_cast<std::uintptr_t>(to) / sizeof(float) % kLine;
  std::size_t i = std::min(n, (kLine - past_line_start) % kLine);
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
