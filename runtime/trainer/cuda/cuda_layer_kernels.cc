#include "runtime/trainer/cuda/cuda_layer_kernels.h"

#include <algorithm>
#include <limits>

#include "runtime/trainer/cuda/cudnn_convolutions.h"
#include "runtime/trainer/cuda/layer_loops.h"

namespace dlrun::trainer::cuda {
namespace {

class CudaLayerKernels final : public LayerKernels<float> {
 public:
  CudaLayerKernels(Kernels<float>& device, DeviceStatus& status)
      : device_(device),
        status_(status),
        stream_(static_cast<cudaStream_t>(device.stream())),
        convolutions_(device) {}

  /// Returns no limit: a GPU is fastest with as much work as possible.
  [[nodiscard]] std::size_t samples_per_part(std::size_t /*bytes_per_sample*/) const override {
    return std::numeric_limits<std::size_t>::max();
  }

  void convolve(const Window& window, std::size_t n, const float* x, const float* w,
                const float* bias, bool with_relu, float* y) override {
    if (window.is_depthwise) {
      depthwise(window, n, x, w, bias, with_relu, y, stream_);
      return status_.remember_launch_error("depthwise");
    }
    status_.remember_error(convolutions_.forward(window, n, x, w, y));
    if (bias == nullptr) {
      if (with_relu) device_.relu(y, y, n * window.output.size());
      return;
    }
    add_channel_bias(y, bias, n * window.output.height * window.output.width,
                     window.output.channels, with_relu, stream_);
    status_.remember_launch_error("add_channel_bias");
  }

  void convolve_backward_input(const Window& window, std::size_t n, const float* w, const float* dy,
                               float* dx) override {
    if (window.is_depthwise) {
      depthwise_backward_input(window, n, w, dy, dx, stream_);
      return status_.remember_launch_error("depthwise_backward_input");
    }
    status_.remember_error(convolutions_.backward_input(window, n, w, dy, dx));
  }

  void convolve_backward_weights(const Window& window, std::size_t n, const float* x,
                                 const float* dy, float* dw, float* dbias) override {
    const std::size_t rows = n * window.output.height * window.output.width;
    double* const partials = allocate_sums(rows, window.output.channels);
    if (partials == nullptr) return;
    if (window.is_depthwise) {
      depthwise_backward_weights(window, n, x, dy, partials, dw, stream_);
      status_.remember_launch_error("depthwise_backward_weights");
    } else {
      status_.remember_error(convolutions_.backward_weights(window, n, x, dy, dw));
    }
    if (dbias == nullptr) return;
    channel_sums(dy, rows, window.output.channels, partials, dbias, stream_);
    status_.remember_launch_error("channel_sums");
  }

  void max_pool(const Window& window, std::size_t n, const float* x, float* y) override {
    cuda::max_pool(window, n, x, y, stream_);
    status_.remember_launch_error("max_pool");
  }

  void max_pool_backward(const Window& window, std::size_t n, const float* x, const float* y,
                         const float* dy, float* dx) override {
    cuda::max_pool_backward(window, n, x, y, dy, dx, stream_);
    status_.remember_launch_error("max_pool_backward");
  }

  void average_pool(const Window& window, std::size_t n, const float* x, float* y) override {
    cuda::average_pool(window, n, x, y, stream_);
    status_.remember_launch_error("average_pool");
  }

  void average_pool_backward(const Window& window, std::size_t n, const float* dy,
                             float* dx) override {
    cuda::average_pool_backward(window, n, dy, dx, stream_);
    status_.remember_launch_error("average_pool_backward");
  }

  void channel_means(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                     float* means) override {
    cuda::channel_means(n, pixels, channels, x, means, stream_);
    status_.remember_launch_error("channel_means");
  }
  void channel_means_backward(std::size_t n, std::size_t pixels, std::size_t channels,
                              const float* dmeans, bool is_added, float* dx) override {
    cuda::channel_means_backward(n, pixels, channels, dmeans, is_added, dx, stream_);
    status_.remember_launch_error("channel_means_backward");
  }
  void scale_channels(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                      const float* factors, float* y) override {
    cuda::scale_channels(n, pixels, channels, x, factors, y, stream_);
    status_.remember_launch_error("scale_channels");
  }
  void channel_products(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                        const float* dy, float* products) override {
    cuda::channel_products(n, pixels, channels, x, dy, products, stream_);
    status_.remember_launch_error("channel_products");
  }

  void batch_statistics(const float* x, std::size_t rows, std::size_t channels,
                        const SumOverRanks* sum_over_ranks, double sample_fraction,
                        const float* running, float* statistics, float* observed) override {
    double* const partials = allocate_sums(rows, channels);
    if (partials != nullptr) {
      batch_sums(x, running, rows, channels, partials, sums_.data(), stream_);
      status_.remember_launch_error("batch_sums");
    }
    const double all_rows = add_up_over_ranks(rows, channels, sum_over_ranks);
    if (rows == 0 || partials == nullptr) return;
    cuda::batch_statistics(sums_.data(), all_rows, sample_fraction, channels, running, statistics,
                           observed, stream_);
    status_.remember_launch_error("batch_statistics");
  }

  void statistics_from_running(const float* running, std::size_t channels,
                               float* statistics) override {
    cuda::statistics_from_running(running, channels, statistics, stream_);
    status_.remember_launch_error("statistics_from_running");
  }

  void normalise(const float* x, const float* statistics, const float* parameters, std::size_t rows,
                 std::size_t channels, bool with_relu, float* y) override {
    cuda::normalise(x, statistics, parameters, rows, channels, with_relu, y, stream_);
    status_.remember_launch_error("normalise");
  }

  void normalise_backward_sums(const float* x, const float* dy, const float* statistics,
                               std::size_t rows, std::size_t channels,
                               const SumOverRanks* sum_over_ranks, float* gradients,
                               float* means) override {
    double* const partials = allocate_sums(rows, channels);
    if (partials != nullptr) {
      backward_sums(x, dy, statistics, rows, channels, partials, sums_.data(), stream_);
      status_.remember_launch_error("backward_sums");
      normalisation_parameter_gradients(sums_.data(), channels, gradients, stream_);
      status_.remember_launch_error("normalisation_parameter_gradients");
    }
    const double all_rows = add_up_over_ranks(rows, channels, sum_over_ranks);
    if (rows == 0 || partials == nullptr) return;
    normalisation_backward_means(sums_.data(), all_rows, channels, means, stream_);
    status_.remember_launch_error("normalisation_backward_means");
  }

  void normalise_backward_input(const float* x, const float* dy, const float* statistics,
                                const float* gamma, const float* means, std::size_t rows,
                                std::size_t channels, float* dx) override {
    cuda::normalise_backward_input(x, dy, statistics, gamma, means, rows, channels, dx, stream_);
    status_.remember_launch_error("normalise_backward_input");
  }

  void dropout_factors(std::uint64_t seed, std::uint64_t key,
                       std::span<const std::uint32_t> samples, std::size_t n, std::size_t width,
                       double rate, float* factors) override {
    const std::size_t sample_count = std::min(n, samples.size());
    if (sample_count > samples_.size()) samples_ = Array<std::uint32_t>(device_, sample_count);
    if (sample_count > 0 && samples_.data() == nullptr) return;  // status_ holds the error
    if (sample_count > 0)
      device_.copy_from_host(samples_.data(), samples.data(), sample_count * sizeof(std::uint32_t));
    cuda::dropout_factors(seed, key, samples_.data(), sample_count, n, width, rate, factors,
                          stream_);
    status_.remember_launch_error("dropout_factors");
  }

  void change_images(const ImageShape& shape, std::span<const ImageChange> changes, const float* x,
                     float* y) override {
    const std::size_t n = changes.size();
    if (n > changes_.size()) changes_ = Array<ImageChange>(device_, n);
    if (n == 0) return;
    if (changes_.data() == nullptr) return;  // status_ holds the error
    device_.copy_from_host(changes_.data(), changes.data(), changes.size_bytes());
    cuda::change_images(shape, changes_.data(), n, x, y, stream_);
    status_.remember_launch_error("change_images");
  }

  void sigmoid_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                             std::size_t classes, float scale, float* gradient,
                             float* totals) override {
    cuda::sigmoid_cross_entropy(logits, labels, n, classes, scale, gradient, totals, stream_);
    status_.remember_launch_error("sigmoid_cross_entropy");
  }

  void count_confusions(const float* logits, const std::uint8_t* labels, std::size_t n,
                        std::size_t classes, std::uint32_t* counts) override {
    cuda::count_confusions(logits, labels, n, classes, counts, stream_);
    status_.remember_launch_error("count_confusions");
  }

  void hyperbolic_tangent(const float* x, float* y, std::size_t count) override {
    cuda::hyperbolic_tangent(x, y, count, stream_);
    status_.remember_launch_error("hyperbolic_tangent");
  }
  void hyperbolic_tangent_backward(const float* y, const float* dy, float* dx,
                                   std::size_t count) override {
    cuda::hyperbolic_tangent_backward(y, dy, dx, count, stream_);
    status_.remember_launch_error("hyperbolic_tangent_backward");
  }
  void logistic(const float* x, float* y, std::size_t count) override {
    cuda::logistic(x, y, count, stream_);
    status_.remember_launch_error("logistic");
  }
  void logistic_backward(const float* y, const float* dy, float* dx, std::size_t count) override {
    cuda::logistic_backward(y, dy, dx, count, stream_);
    status_.remember_launch_error("logistic_backward");
  }
  void silu(const float* x, float* y, std::size_t count) override {
    cuda::silu(x, y, count, stream_);
    status_.remember_launch_error("silu");
  }
  void silu_backward(const float* x, const float* dy, float* dx, std::size_t count) override {
    cuda::silu_backward(x, dy, dx, count, stream_);
    status_.remember_launch_error("silu_backward");
  }
  void multiply(const float* a, const float* b, float* product, std::size_t count) override {
    cuda::multiply(a, b, product, count, stream_);
    status_.remember_launch_error("multiply");
  }
  void add(const float* a, const float* b, bool with_relu, float* sum, std::size_t count) override {
    cuda::add(a, b, with_relu, sum, count, stream_);
    status_.remember_launch_error("add");
  }
  void copy(const float* x, float* y, std::size_t count) override {
    status_.remember_error(
        cudaMemcpyAsync(y, x, count * sizeof(float), cudaMemcpyDeviceToDevice, stream_),
        "copy on the GPU");
  }

  [[nodiscard]] std::vector<std::string> implementations() const override {
    return convolutions_.implementations();
  }
  [[nodiscard]] Result<> status() const override { return status_.result(); }

 private:
  /// Allocates sums_, and returns scratch memory for the partial sums; nullptr if out of memory
  /// (`status_` then holds the error).
  double* allocate_sums(std::size_t rows, std::size_t channels) {
    const std::size_t needed = count_of_partials(rows, channels);
    if (needed > partials_.size()) partials_ = Array<double>(device_, needed);
    if (2 * channels > sums_.size()) sums_ = Array<double>(device_, 2 * channels);
    return sums_.data() == nullptr ? nullptr : partials_.data();
  }

  /// Replaces sums_ by its sum over all ranks whose batches are normalised together. Returns the
  /// number of rows of these ranks. Waits for the device if there are other ranks.
  double add_up_over_ranks(std::size_t rows, std::size_t channels,
                           const SumOverRanks* sum_over_ranks) {
    if (sum_over_ranks == nullptr) return static_cast<double>(rows);
    // If this rank's device has failed, this rank still takes part, so that the other ranks do not
    // wait in vain: it sends its number of rows, and sums that mean nothing. The next check of the
    // device finds the failure.
    host_sums_.assign(2 * channels + 1, 0);
    const std::size_t bytes = 2 * channels * sizeof(double);
    if (sums_.data() != nullptr) device_.copy_to_host(host_sums_.data(), sums_.data(), bytes);
    host_sums_.back() = static_cast<double>(rows);
    (*sum_over_ranks)(host_sums_);
    if (sums_.data() != nullptr) device_.copy_from_host(sums_.data(), host_sums_.data(), bytes);
    return host_sums_.back();
  }

  Kernels<float>& device_;
  DeviceStatus& status_;
  cudaStream_t stream_;
  CudnnConvolutions convolutions_;
  Array<double> partials_;
  Array<double> sums_;
  std::vector<double> host_sums_;
  Array<std::uint32_t> samples_;  // for dropout_factors()
  Array<ImageChange> changes_;    // for change_images()
};

}  // namespace

std::unique_ptr<LayerKernels<float>> make_cuda_layer_kernels(Kernels<float>& device,
                                                             DeviceStatus& status) {
  return std::make_unique<CudaLayerKernels>(device, status);
}

}  // namespace dlrun::trainer::cuda
