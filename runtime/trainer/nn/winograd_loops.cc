// The body of each loop computes one channel, with the small matrix products written out. The
// compiler vectorises the loop over the channels.

#include "runtime/trainer/nn/winograd_loops.h"

#include "runtime/trainer/nn/each_isa.h"

namespace dlrun::trainer::loops {
namespace {

// The points +-p and +-q, and the factors in G. The factor of a point is 1 / the product of the
// differences between this point and the other finite points.
constexpr float kP = 0.75F;
constexpr float kQ = 1.5F;
constexpr float kP2 = kP * kP;
constexpr float kQ2 = kQ * kQ;
constexpr float kFactor0 = 1 / (kP2 * kQ2);
constexpr float kFactorP = 1 / (2 * kP2 * (kP2 - kQ2));
constexpr float kFactorQ = 1 / (2 * kQ2 * (kQ2 - kP2));

// The products of a matrix with a vector, for kLanes channels at a time. from(i) and to(i) return
// the address of element i of the first channel; the other channels follow it.

constexpr std::size_t kLanes = kWinogradLanes;

/// t = B^T x
template <typename From, typename To>
[[gnu::always_inline]] inline void multiply_bt(const From& from, const To& to) {
  const float *x0 = from(0), *x1 = from(1), *x2 = from(2), *x3 = from(3), *x4 = from(4),
              *x5 = from(5);
  float *t0 = to(0), *t1 = to(1), *t2 = to(2), *t3 = to(3), *t4 = to(4), *t5 = to(5);
#pragma omp simd
  for (std::size_t l = 0; l < kLanes; ++l) {
    const float even_p = x4[l] - kQ2 * x2[l];
    const float odd_p = kP * (x3[l] - kQ2 * x1[l]);
    const float even_q = x4[l] - kP2 * x2[l];
    const float odd_q = kQ * (x3[l] - kP2 * x1[l]);
    const float first = kP2 * kQ2 * x0[l] - (kP2 + kQ2) * x2[l] + x4[l];
    const float last = kP2 * kQ2 * x1[l] - (kP2 + kQ2) * x3[l] + x5[l];
    t0[l] = first;
    t1[l] = even_p + odd_p;
    t2[l] = even_p - odd_p;
    t3[l] = even_q + odd_q;
    t4[l] = even_q - odd_q;
    t5[l] = last;
  }
}

/// y = A^T t
template <typename From, typename To>
[[gnu::always_inline]] inline void multiply_at(const From& from, const To& to) {
  const float *t0 = from(0), *t1 = from(1), *t2 = from(2), *t3 = from(3), *t4 = from(4),
              *t5 = from(5);
  float *y0 = to(0), *y1 = to(1), *y2 = to(2), *y3 = to(3);
#pragma omp simd
  for (std::size_t l = 0; l < kLanes; ++l) {
    const float sum_p = t1[l] + t2[l];
    const float difference_p = t1[l] - t2[l];
    const float sum_q = t3[l] + t4[l];
    const float difference_q = t3[l] - t4[l];
    const float first = t0[l] + sum_p + sum_q;
    const float last = kP * kP2 * difference_p + kQ * kQ2 * difference_q + t5[l];
    y0[l] = first;
    y1[l] = kP * difference_p + kQ * difference_q;
    y2[l] = kP2 * sum_p + kQ2 * sum_q;
    y3[l] = last;
  }
}

/// t = A y
template <typename From, typename To>
[[gnu::always_inline]] inline void multiply_a(const From& from, const To& to) {
  const float *y0 = from(0), *y1 = from(1), *y2 = from(2), *y3 = from(3);
  float *t0 = to(0), *t1 = to(1), *t2 = to(2), *t3 = to(3), *t4 = to(4), *t5 = to(5);
#pragma omp simd
  for (std::size_t l = 0; l < kLanes; ++l) {
    const float first = y0[l];
    const float last = y3[l];
    const float even_p = first + kP2 * y2[l];
    const float odd_p = kP * (y1[l] + kP2 * last);
    const float even_q = first + kQ2 * y2[l];
    const float odd_q = kQ * (y1[l] + kQ2 * last);
    t0[l] = first;
    t1[l] = even_p + odd_p;
    t2[l] = even_p - odd_p;
    t3[l] = even_q + odd_q;
    t4[l] = even_q - odd_q;
    t5[l] = last;
  }
}

/// t = G w
template <typename From, typename To>
[[gnu::always_inline]] inline void multiply_g(const From& from, const To& to) {
  const float *w0 = from(0), *w1 = from(1), *w2 = from(2);
  float *t0 = to(0), *t1 = to(1), *t2 = to(2), *t3 = to(3), *t4 = to(4), *t5 = to(5);
#pragma omp simd
  for (std::size_t l = 0; l < kLanes; ++l) {
    const float first = w0[l];
    const float last = w2[l];
    const float even_p = kFactorP * (first + kP2 * last);
    const float odd_p = kFactorP * kP * w1[l];
    const float even_q = kFactorQ * (first + kQ2 * last);
    const float odd_q = kFactorQ * kQ * w1[l];
    t0[l] = kFactor0 * first;
    t1[l] = even_p + odd_p;
    t2[l] = even_p - odd_p;
    t3[l] = even_q + odd_q;
    t4[l] = even_q - odd_q;
    t5[l] = last;
  }
}

/// w = G^T t
template <typename From, typename To>
[[gnu::always_inline]] inline void multiply_gt(const From& from, const To& to) {
  const float *t0 = from(0), *t1 = from(1), *t2 = from(2), *t3 = from(3), *t4 = from(4),
              *t5 = from(5);
  float *w0 = to(0), *w1 = to(1), *w2 = to(2);
#pragma omp simd
  for (std::size_t l = 0; l < kLanes; ++l) {
    const float sum_p = kFactorP * (t1[l] + t2[l]);
    const float difference_p = kFactorP * (t1[l] - t2[l]);
    const float sum_q = kFactorQ * (t3[l] + t4[l]);
    const float difference_q = kFactorQ * (t3[l] - t4[l]);
    const float last = kP2 * sum_p + kQ2 * sum_q + t5[l];
    w0[l] = kFactor0 * t0[l] + sum_p + sum_q;
    w1[l] = kP * difference_p + kQ * difference_q;
    w2[l] = last;
  }
}

/// Computes M X M^T, where the matrix X is the tile of a channel, for all channels. X:
/// [kFrom x kFrom], the result: [kTo x kTo]. from(i, k) and to(i, k) return the address of element
/// i of channel k. one_side(from, to) multiplies M with a vector.
template <std::size_t kFrom, std::size_t kTo, typename From, typename To, typename OneSide>
[[gnu::always_inline]] inline void on_both_sides(std::size_t channels, const From& from,
                                                 const To& to, const OneSide& one_side) {
  for (std::size_t k = 0; k < channels; k += kLanes) {
    alignas(64) float mx[kTo * kFrom][kLanes];  // M X
    for (std::size_t j = 0; j < kFrom; ++j) {
      one_side(
          [&](std::size_t i) __attribute__((always_inline)) { return from(i * kFrom + j, k); },
          [&](std::size_t i) __attribute__((always_inline)) { return mx[i * kFrom + j]; });
    }
    for (std::size_t i = 0; i < kTo; ++i) {
      one_side(
          [&](std::size_t j) __attribute__((always_inline)) { return mx[i * kFrom + j]; },
          [&](std::size_t j) __attribute__((always_inline)) { return to(i * kTo + j, k); });
    }
  }
}

#define DLRUN_ONE_SIDE(function)                                                  \
  [](const auto& part_from, const auto& part_to) __attribute__((always_inline)) { \
    function(part_from, part_to);                                                 \
  }

}  // namespace

DLRUN_EACH_ISA void winograd_weights(const float* w, std::size_t pairs, bool is_reversed,
                                     std::size_t plane_size, float* transformed) {
  on_both_sides<3, 6>(
      pairs,
      [=](std::size_t i, std::size_t k) { return w + (is_reversed ? 8 - i : i) * pairs + k; },
      [=](std::size_t i, std::size_t k) { return transformed + i * plane_size + k; },
      DLRUN_ONE_SIDE(multiply_g));
}

DLRUN_EACH_ISA void winograd_inputs(const TileInputs& x, std::size_t channels,
                                    std::size_t plane_size, float* transformed) {
  on_both_sides<6, 6>(
      channels, [&](std::size_t i, std::size_t k) { return x[i] + k; },
      [=](std::size_t i, std::size_t k) { return transformed + i * plane_size + k; },
      DLRUN_ONE_SIDE(multiply_bt));
}

DLRUN_EACH_ISA void winograd_outputs(const float* transformed, std::size_t channels,
                                     std::size_t plane_size, const TileOutputs& y) {
  on_both_sides<6, 4>(
      channels, [=](std::size_t i, std::size_t k) { return transformed + i * plane_size + k; },
      [&](std::size_t i, std::size_t k) { return y[i] + k; }, DLRUN_ONE_SIDE(multiply_at));
}

DLRUN_EACH_ISA void winograd_output_gradients(const TileOutputGradients& dy, std::size_t channels,
                                              std::size_t plane_size, float* transformed) {
  on_both_sides<4, 6>(
      channels, [&](std::size_t i, std::size_t k) { return dy[i] + k; },
      [=](std::size_t i, std::size_t k) { return transformed + i * plane_size + k; },
      DLRUN_ONE_SIDE(multiply_a));
}

DLRUN_EACH_ISA void winograd_weight_gradients(const float* transformed, std::size_t pairs,
                                              std::size_t plane_size, float* dw) {
  on_both_sides<6, 3>(
      pairs, [=](std::size_t i, std::size_t k) { return transformed + i * plane_size + k; },
      [=](std::size_t i, std::size_t k) { return dw + i * pairs + k; },
      DLRUN_ONE_SIDE(multiply_gt));
}

DLRUN_EACH_ISA void add_bias(const float* bias, std::size_t rows, std::size_t channels,
                             bool with_relu, float* y) {
  for (std::size_t row = 0; row < rows; ++row, y += channels) {
    for (std::size_t k = 0; k < channels; ++k) {
      const float value = bias == nullptr ? y[k] : y[k] + bias[k];
      y[k] = !with_relu || value > 0 ? value : 0;
    }
  }
}

}  // namespace dlrun::trainer::loops
