#pragma once
// Convolutions in double with plain loops, the tests' reference. The CPU's pooling
// (cpu_layer_kernels.cc) uses this file's functions that visit windows and pixels.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// Visits the elements of the window that belongs to output row i and column j, except those
/// outside the image. Calls visit(a, b, r, c) for each: a and b are the row and the column in the
/// window, r and c the row and the column in the input image.
template <typename Visit>
void for_each_inside(const Window& w, std::size_t i, std::size_t j, const Visit& visit) {
  for (std::size_t a = 0; a < w.size; ++a) {
    const std::size_t r = i * w.stride + a;
    if (r < w.padding || r - w.padding >= w.input.height) continue;
    for (std::size_t b = 0; b < w.size; ++b) {
      const std::size_t c = j * w.stride + b;
      if (c < w.padding || c - w.padding >= w.input.width) continue;
      visit(a, b, r - w.padding, c - w.padding);
    }
  }
}

/// Returns a pointer to the channels of a pixel.
template <typename T>
T* pixel(T* images, const ImageShape& shape, std::size_t image, std::size_t row,
         std::size_t column) {
  return images + ((image * shape.height + row) * shape.width + column) * shape.channels;
}

/// Calls visit(row, column) for every output pixel of an image.
template <typename Visit>
void for_each_output(const Window& w, const Visit& visit) {
  for (std::size_t i = 0; i < w.output.height; ++i) {
    for (std::size_t j = 0; j < w.output.width; ++j) visit(i, j);
  }
}

/// The convolutions that the tests use as reference. They follow the definitions in
/// layer_kernels.h.
struct PlainConvolutions {
  explicit PlainConvolutions(int /*threads*/) {}

  static Result<> forward(const Window& w, std::size_t n, const double* x, const double* weights,
                          const double* bias, bool with_relu, double* y) {
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        double* out = pixel(y, w.output, image, i, j);
        if (bias != nullptr) {
          std::copy_n(bias, w.output.channels, out);
        } else {
          std::fill_n(out, w.output.channels, 0);
        }
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          const double* from = pixel(x, w.input, image, r, c);
          for_each_weight(w, a, b, [&](std::size_t k, std::size_t o, std::size_t at) {
            out[o] += from[k] * weights[at];
          });
        });
        if (with_relu) loops::relu(out, out, w.output.channels);
      });
    }
    return {};
  }

  static Result<> backward_input(const Window& w, std::size_t n, const double* weights,
                                 const double* dy, double* dx) {
    std::fill_n(dx, n * w.input.size(), 0);
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const double* dout = pixel(dy, w.output, image, i, j);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          double* to = pixel(dx, w.input, image, r, c);
          for_each_weight(w, a, b, [&](std::size_t k, std::size_t o, std::size_t at) {
            to[k] += dout[o] * weights[at];
          });
        });
      });
    }
    return {};
  }

  static Result<> backward_weights(const Window& w, std::size_t n, const double* x,
                                   const double* dy, double* dw) {
    std::fill_n(dw, w.weight_count(), 0);
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const double* dout = pixel(dy, w.output, image, i, j);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          const double* from = pixel(x, w.input, image, r, c);
          for_each_weight(w, a, b, [&](std::size_t k, std::size_t o, std::size_t at) {
            dw[at] += from[k] * dout[o];
          });
        });
      });
    }
    return {};
  }

  [[nodiscard]] static std::vector<std::string> implementations() { return {}; }

 private:
  /// Calls visit(k, o, at) for each weight of window row a and column b. k: the input channel, o:
  /// the output channel, at: the weight's index. In a depthwise window, k equals o.
  template <typename Visit>
  static void for_each_weight(const Window& w, std::size_t a, std::size_t b, const Visit& visit) {
    const std::size_t position = a * w.size + b;
    const std::size_t output_channels = w.output.channels;
    for (std::size_t k = 0; k < w.input.channels; ++k) {
      if (w.is_depthwise) {
        visit(k, k, position * output_channels + k);
        continue;
      }
      for (std::size_t o = 0; o < output_channels; ++o)
        visit(k, o, (position * w.input.channels + k) * output_channels + o);
    }
  }
};

}  // namespace dlrun::trainer
