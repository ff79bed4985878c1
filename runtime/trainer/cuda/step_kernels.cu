// CUDA kernels for gathering batches, ReLU, the softmax loss, the optimizers, scaled additions,
// sums of squares, and conversions to and from bfloat16. All sums are added in a fixed order, so
// that every run gives the same bits.

#include <cstring>

#include "runtime/trainer/cuda/launch.h"
#include "runtime/trainer/cuda/step_kernels.h"

namespace dlrun::trainer::cuda {
namespace {

/// Uses one block per sample.
__global__ void gather_kernel(const std::uint8_t* images, const std::uint8_t* labels,
                              const std::uint32_t* samples, std::size_t features,
                              std::size_t label_width, float scale, float* x,
                              std::uint8_t* out_labels) {
  const std::size_t row = blockIdx.x;
  const std::size_t sample = samples == nullptr ? row : samples[row];
  for (std::size_t j = threadIdx.x; j < features; j += blockDim.x) {
    x[row * features + j] = static_cast<float>(images[sample * features + j]) * scale;
  }
  for (std::size_t j = threadIdx.x; j < label_width; j += blockDim.x)
    out_labels[row * label_width + j] = labels[sample * label_width + j];
}

__global__ void relu_kernel(const float* x, float* y, std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) y[i] = x[i] > 0 ? x[i] : 0;
}

__global__ void relu_backward_kernel(const float* y, const float* dy, float* dx,
                                     std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) dx[i] = y[i] > 0 ? dy[i] : 0;
}

/// Runs in a single block. Its thread t computes the rows t, t + kThreads, t + 2 kThreads and so
/// on. The sums of the threads are then added in a fixed order, so that every run gives the same
/// bits.
__global__ void softmax_cross_entropy_kernel(const float* logits, const std::uint8_t* labels,
                                             std::size_t n, std::size_t classes, float scale,
                                             float* gradient, float* totals) {
  float loss = 0;
  float correct = 0;
  for (std::size_t i = threadIdx.x; i < n; i += kThreads) {
    const float* row = logits + i * classes;
    std::size_t largest = 0;
    for (std::size_t j = 1; j < classes; ++j) {
      if (row[j] > row[largest]) largest = j;
    }
    float sum = 0;
    for (std::size_t j = 0; j < classes; ++j) sum += expf(row[j] - row[largest]);
    loss += logf(sum) - (row[labels[i]] - row[largest]);
    correct += largest == labels[i] ? 1.0F : 0.0F;
    if (gradient == nullptr) continue;
    for (std::size_t j = 0; j < classes; ++j) {
      gradient[i * classes + j] =
          (expf(row[j] - row[largest]) / sum - (j == labels[i] ? 1.0F : 0.0F)) * scale;
    }
  }
  add_to_totals(loss, correct, totals);
}

template <int kStates, typename Formula>
__global__ void update_kernel(Formula formula, UpdateArrays<float> arrays) {
  for (std::size_t i = first(); i < arrays.count; i += stride())
    update_element<kStates>(formula, arrays, i);
}

/// Queues the update if there are kStates state arrays and the formula can take that number.
template <int kStates, typename Formula>
void launch_update(const Formula& formula, const UpdateArrays<float>& arrays, cudaStream_t stream) {
  if constexpr (kTakesStates<Formula, float, kStates>) {
    if (arrays.state_count() != kStates) return;
    launch(update_kernel<kStates, Formula>, blocks_for(arrays.count), kThreads, stream, formula,
           arrays);
  }
}

__global__ void add_scaled_kernel(float* y, float scale, const float* x, std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) y[i] += scale * x[i];
}

/// Converts like Bfloat16 of runtime/comm/half.h. This file is C++17, so it cannot include half.h,
/// which is C++20.
__device__ std::uint16_t bfloat16_of(float value) {
  std::uint32_t wide = 0;
  memcpy(&wide, &value, sizeof wide);
  // Rounding could turn a NaN into infinity.
  const bool is_nan = (wide & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(is_nan ? (wide >> 16U) | 0x40U
                                           : (wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U);
}

__global__ void round_kernel(const float* x, std::uint16_t* y, std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) y[i] = bfloat16_of(x[i]);
}

__global__ void widen_kernel(const std::uint16_t* x, float* y, std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) {
    const std::uint32_t wide = std::uint32_t{x[i]} << 16U;
    memcpy(y + i, &wide, sizeof wide);
  }
}

/// Runs one block for each range. `ranges` has two numbers for each range: its offset in x and its
/// number of elements. The sums of a block's threads are added in a fixed order, so that
/// every run gives the same bits.
__global__ void sums_of_squares_kernel(const float* x, const std::size_t* ranges, double* sums) {
  __shared__ double partial[kThreads];
  const float* begin = x + ranges[2 * blockIdx.x];
  const std::size_t count = ranges[2 * blockIdx.x + 1];
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
    const double value = begin[i];
    sum += value * value;
  }
  partial[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

}  // namespace

// CUDA reports an error for an empty grid, so these functions return early if there is no work.

void gather(const std::uint8_t* images, const std::uint8_t* labels, const std::uint32_t* samples,
            std::size_t n, std::size_t features, std::size_t label_width, float scale, float* x,
            std::uint8_t* out_labels, cudaStream_t stream) {
  if (n == 0) return;
  launch(gather_kernel, static_cast<unsigned>(n), kThreads, stream, images, labels, samples,
         features, label_width, scale, x, out_labels);
}

void relu(const float* x, float* y, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(relu_kernel, blocks_for(count), kThreads, stream, x, y, count);
}

void relu_backward(const float* y, const float* dy, float* dx, std::size_t count,
                   cudaStream_t stream) {
  if (count == 0) return;
  launch(relu_backward_kernel, blocks_for(count), kThreads, stream, y, dy, dx, count);
}

void softmax_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                           std::size_t classes, float scale, float* gradient, float* totals,
                           cudaStream_t stream) {
  if (n == 0) return;
  launch(softmax_cross_entropy_kernel, 1, kThreads, stream, logits, labels, n, classes, scale,
         gradient, totals);
}

void update(const Update<float>& formula, const UpdateArrays<float>& arrays, cudaStream_t stream) {
  if (arrays.count == 0) return;
  std::visit(
      [&](const auto& one) {
        launch_update<0>(one, arrays, stream);
        launch_update<1>(one, arrays, stream);
        launch_update<2>(one, arrays, stream);
      },
      formula);
}

void add_scaled(float* y, float scale, const float* x, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(add_scaled_kernel, blocks_for(count), kThreads, stream, y, scale, x, count);
}

void round_to_bfloat16(const float* x, std::uint16_t* y, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(round_kernel, blocks_for(count), kThreads, stream, x, y, count);
}

void widen_bfloat16(const std::uint16_t* x, float* y, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(widen_kernel, blocks_for(count), kThreads, stream, x, y, count);
}

void sums_of_squares(const float* x, const std::size_t* ranges, std::size_t range_count,
                     double* sums, cudaStream_t stream) {
  if (range_count == 0) return;
  launch(sums_of_squares_kernel, static_cast<unsigned>(range_count), kThreads, stream, x, ranges,
         sums);
}

}  // namespace dlrun::trainer::cuda
