// The float functions are compiled for several instruction sets (each_isa.h). This file is compiled
// with -ffp-contract=off, so that all instruction sets give the same bits.

#include "runtime/trainer/nn/normalise_loops.h"

#include "runtime/trainer/nn/each_isa.h"
#include "runtime/trainer/nn/layer_elements.h"

namespace dlrun::trainer::loops {
namespace {

template <typename T>
[[gnu::always_inline]] inline void centred_sums(const T* __restrict x, const T* __restrict centre,
                                                std::size_t rows, std::size_t channels,
                                                double* __restrict sums) {
  for (std::size_t row = 0; row < rows; ++row, x += channels) {
    for (std::size_t k = 0; k < channels; ++k) {
      const double value = double{x[k]} - double{centre[k]};
      sums[k] += value;
      sums[channels + k] += value * value;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void backward_sums(const T* __restrict x, const T* __restrict dy,
                                                 const T* __restrict statistics, std::size_t rows,
                                                 std::size_t channels, double* __restrict sums) {
  for (std::size_t row = 0; row < rows; ++row, x += channels, dy += channels) {
    for (std::size_t k = 0; k < channels; ++k) {
      const T z = (x[k] - statistics[k]) * statistics[channels + k];
      sums[k] += double{dy[k]};
      sums[channels + k] += double{dy[k]} * double{z};
    }
  }
}

template <bool kWithRelu, typename T>
[[gnu::always_inline]] inline void normalise_rows(const T* __restrict x,
                                                  const T* __restrict statistics,
                                                  const T* __restrict parameters, std::size_t rows,
                                                  std::size_t channels, T* __restrict y) {
  for (std::size_t row = 0; row < rows; ++row, x += channels, y += channels) {
    for (std::size_t k = 0; k < channels; ++k) {
      const T value = normalised(x[k], k, channels, statistics, parameters);
      y[k] = !kWithRelu || value > 0 ? value : T{0};
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void normalise_all(const T* x, const T* statistics,
                                                 const T* parameters, std::size_t rows,
                                                 std::size_t channels, bool with_relu, T* y) {
  if (with_relu) {
    normalise_rows<true>(x, statistics, parameters, rows, channels, y);
  } else {
    normalise_rows<false>(x, statistics, parameters, rows, channels, y);
  }
}

template <typename T>
[[gnu::always_inline]] inline void backward_rows(const T* __restrict x, const T* __restrict dy,
                                                 const T* __restrict statistics,
                                                 const T* __restrict gamma,
                                                 const T* __restrict gradient_means,
                                                 std::size_t rows, std::size_t channels,
                                                 T* __restrict dx) {
  for (std::size_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
    for (std::size_t k = 0; k < channels; ++k)
      dx[k] = normalised_backward(x[k], dy[k], k, channels, statistics, gamma, gradient_means);
  }
}

template <typename T>
[[gnu::always_inline]] inline void add_elements(const T* a, const T* b, bool with_relu, T* sum,
                                                std::size_t n) {
  if (with_relu) {
    for (std::size_t i = 0; i < n; ++i) {
      const T value = a[i] + b[i];
      sum[i] = value > 0 ? value : T{0};
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
  }
}

}  // namespace

DLRUN_EACH_ISA void add(const float* a, const float* b, bool with_relu, float* sum, std::size_t n) {
  add_elements(a, b, with_relu, sum, n);
}
void add(const double* a, const double* b, bool with_relu, double* sum, std::size_t n) {
  add_elements(a, b, with_relu, sum, n);
}

DLRUN_EACH_ISA void add_centred_sums(const float* x, const float* centre, std::size_t rows,
                                     std::size_t channels, double* sums) {
  centred_sums(x, centre, rows, channels, sums);
}
void add_centred_sums(const double* x, const double* centre, std::size_t rows, std::size_t channels,
                      double* sums) {
  centred_sums(x, centre, rows, channels, sums);
}

DLRUN_EACH_ISA void add_backward_sums(const float* x, const float* dy, const float* statistics,
                                      std::size_t rows, std::size_t channels, double* sums) {
  backward_sums(x, dy, statistics, rows, channels, sums);
}
void add_backward_sums(const double* x, const double* dy, const double* statistics,
                       std::size_t rows, std::size_t channels, double* sums) {
  backward_sums(x, dy, statistics, rows, channels, sums);
}

DLRUN_EACH_ISA void normalise(const float* x, const float* statistics, const float* parameters,
                              std::size_t rows, std::size_t channels, bool with_relu, float* y) {
  normalise_all(x, statistics, parameters, rows, channels, with_relu, y);
}
void normalise(const double* x, const double* statistics, const double* parameters,
               std::size_t rows, std::size_t channels, bool with_relu, double* y) {
  normalise_all(x, statistics, parameters, rows, channels, with_relu, y);
}

DLRUN_EACH_ISA void normalise_backward(const float* x, const float* dy, const float* statistics,
                                       const float* gamma, const float* gradient_means,
                                       std::size_t rows, std::size_t channels, float* dx) {
  backward_rows(x, dy, statistics, gamma, gradient_means, rows, channels, dx);
}
void normalise_backward(const double* x, const double* dy, const double* statistics,
                        const double* gamma, const double* gradient_means, std::size_t rows,
                        std::size_t channels, double* dx) {
  backward_rows(x, dy, statistics, gamma, gradient_means, rows, channels, dx);
}

}  // namespace dlrun::trainer::loops
