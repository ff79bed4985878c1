// The CPU's kernels: matrix products (by oneDNN in float), and the loops of cpu_loops.cc spread
// over threads.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include <omp.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"
#include "runtime/trainer/nn/matrix_product.h"
#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {
namespace {

/// The size of a cache line in bytes.
constexpr std::size_t kCacheLine = 64;
/// Number of elements below which a second thread costs more than it gains.
constexpr std::size_t kSerialElements = 16'384;

#if defined(__SSE2__)
/// The bits of the control register that make denormal results and denormal inputs zero.
constexpr unsigned kDenormalBits = _MM_FLUSH_ZERO_ON | 0x40U;
#endif

/// Returns the bits of kDenormalBits that are set in this thread's control register. They say how
/// the thread treats denormal numbers.
unsigned denormal_bits_of_this_thread() {
#if defined(__SSE2__)
  return _mm_getcsr() & kDenormalBits;
#else
  return 0;
#endif
}

void set_denormal_bits_of_this_thread([[maybe_unused]] unsigned bits) {
#if defined(__SSE2__)
  _mm_setcsr((_mm_getcsr() & ~kDenormalBits) | bits);
#endif
}

/// Makes this thread treat denormal numbers as zero. An operation on a denormal number costs a
/// hundred cycles. If a pixel is almost always 0, Adam's moments of its weights become denormal.
void flush_denormals_of_this_thread() {
#if defined(__SSE2__)
  set_denormal_bits_of_this_thread(kDenormalBits);
#endif
}

/// Computes Kernels<double>::gemm with plain loops, as the tests' reference. The overload for
/// float is oneDNN's product (matrix_product.h).
void multiply_matrices(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k,
                       const double* a, const double* b, double beta, double* c) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += (ta == Transpose::kYes ? a[l * m + i] : a[i * k + l]) *
               (tb == Transpose::kYes ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = sum + (beta == 0 ? 0 : beta * c[i * n + j]);
    }
  }
}

template <typename T>
class CpuKernels final : public Kernels<T> {
 public:
  explicit CpuKernels(int threads)
      : threads_(threads), layer_kernels_(make_cpu_layer_kernels<T>(threads)) {
    omp_set_num_threads(threads);  // for OpenMP teams of this thread, including oneDNN's
    if constexpr (std::is_same_v<T, float>) {
#pragma omp parallel num_threads(threads)
      flush_denormals_of_this_thread();
    }
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("cpu, {} thread{}", threads_, threads_ == 1 ? "" : "s");
  }
  [[nodiscard]] bool uses_host_memory() const override {
    return true;
  }
  [[nodiscard]] Result<> synchronise() override {
    return status_ ? layer_kernels_->status() : status_;
  }
  [[nodiscard]] LayerKernels<T>& layer_kernels() override {
    return *layer_kernels_;
  }

  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    void* memory = std::aligned_alloc(kCacheLine, std::max(rounded, kCacheLine));
    if (memory == nullptr) {
      status_ = fail(Errc::kInternal, "no memory for {} bytes", bytes);
    } else {
      std::memset(memory, 0, rounded);
    }
    return {memory, std::free};
  }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);  // both pointers of an empty array may be null
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  [[nodiscard]] DeviceData upload(const Dataset& data) override {
    const auto borrow = [](const std::vector<std::uint8_t>& bytes) {
      return std::shared_ptr<const std::uint8_t>(std::shared_ptr<void>(), bytes.data());
    };
    return {borrow(data.images), borrow(data.labels), data.size(),
            data.features,       data.classes,        data.label_width};
  }

  void gather(const DeviceData& data, std::span<const std::uint32_t> samples, T scale, T* x,
              std::uint8_t* labels) override {
    // Prefetch distance in images. The samples are scattered over tens of megabytes.
    constexpr std::size_t kAhead = 2;
    for_each_row(samples.size(), data.features, [&](std::size_t i) {
      if (i + kAhead < samples.size()) {
        const std::uint8_t* later = data.images.get() + samples[i + kAhead] * data.features;
        for (std::size_t byte = 0; byte < data.features; byte += kCacheLine)
          __builtin_prefetch(later + byte);
      }
      loops::scale_bytes(data.images.get() + samples[i] * data.features, scale,
                         x + i * data.features, data.features);
      std::copy_n(data.labels.get() + samples[i] * data.label_width, data.label_width,
                  labels + i * data.label_width);
    });
  }

  void gemm(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k, const T* a,
            const T* b, T beta, T* c) override {
    if (k == 0) {
      for (std::size_t i = 0; i < m * n; ++i) c[i] = beta == 0 ? 0 : beta * c[i];
    } else {
      multiply_matrices(ta, tb, m, n, k, a, b, beta, c);
    }
  }

  void dense(std::size_t n, std::size_t inputs, std::size_t outputs, const T* x, const T* w,
             const T* bias, bool with_relu, T* y) override {
    gemm(Transpose::kNo, Transpose::kNo, n, outputs, inputs, x, w, 0, y);
    for_each_row(n, outputs, [&](std::size_t i) {
      loops::add_scaled(y + i * outputs, T{1}, bias, outputs);
      if (with_relu) loops::relu(y + i * outputs, y + i * outputs, outputs);
    });
  }

  void sum_columns(const T* x, T* sums, std::size_t n, std::size_t width) override {
    std::fill_n(sums, width, T{0});
    for (std::size_t i = 0; i < n; ++i) loops::add_scaled(sums, T{1}, x + i * width, width);
  }

  void relu(const T* x, T* y, std::size_t count) override {
    for_each_part(count, [&](std::size_t at, std::size_t n) { loops::relu(x + at, y + at, n); });
  }

  void relu_backward(const T* y, const T* dy, T* dx, std::size_t count) override {
    for_each_part(count, [&](std::size_t at, std::size_t n) {
      loops::relu_backward(y + at, dy + at, dx + at, n);
    });
  }

  void softmax_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                             std::size_t classes, T scale, T* gradient, T* totals) override {
    for (std::size_t i = 0; i < n; ++i) {
      const T* row = logits + i * classes;
      const T* largest = std::max_element(row, row + classes);
      T sum = 0;
      for (std::size_t j = 0; j < classes; ++j) sum += std::exp(row[j] - *largest);
      totals[0] += std::log(sum) - (row[labels[i]] - *largest);
      totals[1] += largest == row + labels[i] ? 1 : 0;
      if (gradient == nullptr) continue;
      for (std::size_t j = 0; j < classes; ++j) {
        gradient[i * classes + j] =
            (std::exp(row[j] - *largest) / sum - (j == labels[i] ? 1 : 0)) * scale;
      }
    }
  }

  void update(const Update<T>& formula, const UpdateArrays<T>& arrays) override {
    for_each_part(arrays.count, [&](std::size_t at, std::size_t n) {
      loops::update(formula, arrays.part(at, n));
    });
  }

  void zero(T* y, std::size_t count) override {
    std::fill_n(y, count, T{0});
  }

  void add_scaled(T* y, T scale, const T* x, std::size_t count) override {
    for_each_part(
        count, [&](std::size_t at, std::size_t n) { loops::add_scaled(y + at, scale, x + at, n); });
  }

  void sums_of_squares(const T* x, std::span<const TensorRange> tensors, double* sums) override {
    // Sum each block, then add the sums of the blocks in order. Each thread processes whole blocks,
    // so the result does not depend on the number of threads.
    constexpr std::size_t kBlock = 8192;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::size_t blocks = (tensors[i].count + kBlock - 1) / kBlock;
      block_sums_.assign(blocks, 0);
#pragma omp parallel for num_threads(threads_) if (tensors[i].count >= kSerialElements) \
    schedule(static)
      for (std::size_t block = 0; block < blocks; ++block) {
        const std::size_t at = block * kBlock;
        block_sums_[block] = loops::sum_of_squares(x + tensors[i].begin + at,
                                                   std::min(kBlock, tensors[i].count - at));
      }
      sums[i] = std::accumulate(block_sums_.begin(), block_sums_.end(), 0.0);
    }
  }

 private:
  /// Divides `count` elements into at most one part for each thread, or into a single part if
  /// `count` is small. Calls work(begin, n) for each part.
  template <typename Work>
  void for_each_part(std::size_t count, const Work& work) const {
    if (threads_ == 1 || count < kSerialElements) return work(0, count);
    const auto parts = static_cast<std::size_t>(threads_);
    // The size of a part is a multiple of 64 elements, so that each part starts on a cache line if
    // the array does.
    constexpr std::size_t kMultiple = 64;
    const std::size_t part_size = (count / parts + kMultiple) / kMultiple * kMultiple;
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t at = std::min(i * part_size, count);
      if (at < count) work(at, std::min(part_size, count - at));
    }
  }

  /// Calls work(row) for each row < `rows`, spread over the threads. A row has `width` elements.
  template <typename Work>
  void for_each_row(std::size_t rows, std::size_t width, const Work& work) const {
    if (threads_ == 1 || rows * width < kSerialElements) {
      for (std::size_t row = 0; row < rows; ++row) work(row);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (std::size_t row = 0; row < rows; ++row) work(row);
  }

  int threads_;
  std::unique_ptr<LayerKernels<T>> layer_kernels_;
  std::vector<double> block_sums_;
  Result<> status_;
};

}  // namespace

ScopedCpuKernelSettings::ScopedCpuKernelSettings()
    : threads_(omp_get_max_threads()), denormal_bits_(denormal_bits_of_this_thread()) {
  omp_set_num_threads(1);
  flush_denormals_of_this_thread();
}
ScopedCpuKernelSettings::~ScopedCpuKernelSettings() {
  omp_set_num_threads(threads_);
  set_denormal_bits_of_this_thread(denormal_bits_);
}

template <typename T>
std::unique_ptr<Kernels<T>> make_cpu_kernels(int threads) {
  return std::make_unique<CpuKernels<T>>(threads);
}
template std::unique_ptr<Kernels<float>> make_cpu_kernels(int);
template std::unique_ptr<Kernels<double>> make_cpu_kernels(int);

}  // namespace dlrun::trainer
