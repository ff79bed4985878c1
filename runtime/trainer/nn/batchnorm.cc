#include <algorithm>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// The workspace holds the batch's statistics, [2 x channels], and during backward also the means
/// of the gradients, [2 x channels].
template <typename T>
class BatchNorm final : public Layer<T> {
 public:
  BatchNorm(std::size_t pixels, std::size_t channels, bool is_synchronised)
      : pixels_(pixels), channels_(channels), is_synchronised_(is_synchronised) {}

  [[nodiscard]] std::string description() const override {
    return is_synchronised_ ? "batchnorm sync" : "batchnorm";
  }
  [[nodiscard]] std::size_t outputs() const override { return pixels_ * channels_; }
  /// The network allocates this number of elements for each sample. The layer needs it only once,
  /// for the whole batch, and leaves the rest unused.
  [[nodiscard]] std::size_t workspace_size() const override { return 4 * channels_; }
  [[nodiscard]] bool can_fuse_relu() const override { return true; }
  [[nodiscard]] bool communicates() const override { return is_synchronised_; }

  [[nodiscard]] std::vector<NamedShape> parameters() const override {
    return {{"weight", {channels_}}, {"bias", {channels_}}};
  }
  void initialise(std::span<T> parameters, Random& /*random*/) const override {
    fill_ones_and_zeros(parameters, T{1});
  }

  [[nodiscard]] std::vector<NamedShape> running_statistics() const override {
    return {{"running_mean", {channels_}}, {"running_var", {channels_}}};
  }
  void initialise_running_statistics(std::span<T> running) const override {
    fill_ones_and_zeros(running, T{0});
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    LayerKernels<T>& kernels = call.kernels.layer_kernels();
    const std::size_t rows = call.n * pixels_;
    if (call.batch.is_training) {
      const std::size_t samples = call.batch.step_samples > 0 ? call.batch.step_samples : call.n;
      const double sample_fraction =
          static_cast<double>(call.n) / static_cast<double>(std::max<std::size_t>(samples, 1));
      kernels.batch_statistics(x, rows, channels_, sum_function_of(call), sample_fraction,
                               call.running, call.workspace, call.observed);
    } else {
      kernels.statistics_from_running(call.running, channels_, call.workspace);
    }
    if (rows == 0) return;
    kernels.normalise(x, call.workspace, call.parameters, rows, channels_, call.with_relu, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    // With scale = 1 / sqrt(variance + epsilon) and z = (x - mean) * scale:
    // - dgamma = sum(dy * z) and dbeta = sum(dy) over this rank's samples; the ranks' gradients are
    //   added later;
    // - dx = gamma * scale * (dy - mean(dy) - z * mean(dy * z)), with means over all samples that
    //   were normalised together.
    LayerKernels<T>& kernels = call.kernels.layer_kernels();
    const std::size_t rows = call.n * pixels_;
    T* const means = call.workspace + 2 * channels_;
    kernels.normalise_backward_sums(x, dy, call.workspace, rows, channels_, sum_function_of(call),
                                    gradients, means);
    if (rows == 0 || dx == nullptr) return;
    kernels.normalise_backward_input(x, dy, call.workspace, call.parameters, means, rows, channels_,
                                     dx);
  }

 private:
  /// Returns the function that sums over the ranks whose batches are normalised together; nullptr
  /// if each rank normalises only its own batch.
  [[nodiscard]] const SumOverRanks* sum_function_of(const LayerCall<T>& call) const {
    return is_synchronised_ ? call.batch.sum_over_ranks : nullptr;
  }

  /// Fills the first channels_ values with `first` (0 or 1), and the next channels_ values with
  /// 1 - first.
  void fill_ones_and_zeros(std::span<T> values, T first) const {
    std::fill_n(values.begin(), channels_, first);
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(channels_), channels_, 1 - first);
  }

  std::size_t pixels_;  // height x width
  std::size_t channels_;
  bool is_synchronised_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_batchnorm(std::size_t pixels, std::size_t channels,
                                         bool is_synchronised) {
  return std::make_unique<BatchNorm<T>>(pixels, channels, is_synchronised);
}
template std::unique_ptr<Layer<float>> make_batchnorm(std::size_t, std::size_t, bool);
template std::unique_ptr<Layer<double>> make_batchnorm(std::size_t, std::size_t, bool);

}  // namespace dlrun::trainer
