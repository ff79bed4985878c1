#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

constexpr double kEpsilon = 1e-5;

/// Its workspace holds mean and 1 / sqrt(variance + epsilon) of the batch, [2 x channels].
template <typename T>
class BatchNorm final : public Layer<T> {
 public:
  BatchNorm(std::size_t places, std::size_t channels, bool is_synchronised)
      : places_(places), channels_(channels), is_synchronised_(is_synchronised) {}

  [[nodiscard]] std::string description() const override { return is_synchronised_ ? "batchnorm sync" : "batchnorm"; }
  [[nodiscard]] std::size_t outputs() const override { return places_ * channels_; }
  [[nodiscard]] std::size_t workspace() const override { return 2 * channels_; }
  [[nodiscard]] bool joins_ranks() const override { return is_synchronised_; }

  [[nodiscard]] std::vector<ParameterShape> parameters() const override {
    return {{"weight", {channels_}}, {"bias", {channels_}}};
  }
  void initialise(std::span<T> parameters, Random& /*random*/) const override { ones_and_zeros(parameters, T{1}); }

  [[nodiscard]] std::vector<ParameterShape> statistics() const override {
    return {{"running_mean", {channels_}}, {"running_var", {channels_}}};
  }
  void initialise_statistics(std::span<T> running) const override { ones_and_zeros(running, T{0}); }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    T* const mean = call.workspace;
    T* const scale = call.workspace + channels_;
    if (call.batch.is_training) {
      // Sums about the running mean, which all ranks share: the variance is no difference of two large numbers.
      std::vector<double> sums(2 * channels_ + 1);
      call.kernels.layers()->channel_sums(x, call.running, call.n * places_, channels_, sums.data());
      const double rows = add_up(call, sums);
      if (call.n == 0) return;
      const double share = static_cast<double>(call.n) /
                           static_cast<double>(call.batch.global_samples > 0 ? call.batch.global_samples : call.n);
      for (std::size_t k = 0; k < channels_; ++k) {
        const double offset = sums[k] / rows;
        const double variance = std::max(0.0, sums[channels_ + k] / rows - offset * offset);
        mean[k] = static_cast<T>(call.running[k] + offset);
        scale[k] = static_cast<T>(1 / std::sqrt(variance + kEpsilon));
        if (call.observed == nullptr) continue;
        call.observed[k] += static_cast<T>(share * (call.running[k] + offset));
        call.observed[channels_ + k] += static_cast<T>(share * variance * (rows > 1 ? rows / (rows - 1) : 1));
      }
    } else {
      for (std::size_t k = 0; k < channels_; ++k) {
        mean[k] = call.running[k];
        scale[k] = static_cast<T>(1 / std::sqrt(call.running[channels_ + k] + kEpsilon));
      }
    }
    call.kernels.layers()->normalise(x, mean, scale, call.parameters, call.parameters + channels_, call.n * places_,
                                     channels_, y);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients, T* dx) const override {
    // With z = (x - mean) scale: dgamma = sum dy z, dbeta = sum dy, of this rank's samples: the ranks' gradients are
    // added later. dx = gamma scale (dy - mean of dy - z mean of dy z), the means over all samples that were normalised
    // together.
    const T* const mean = call.workspace;
    const T* const scale = call.workspace + channels_;
    std::vector<double> sums(2 * channels_ + 1);
    call.kernels.layers()->normalise_backward_sums(x, dy, mean, scale, call.n * places_, channels_, sums.data());
    for (std::size_t k = 0; k < channels_; ++k) {
      gradients[k] = static_cast<T>(sums[channels_ + k]);
      gradients[channels_ + k] = static_cast<T>(sums[k]);
    }
    const double rows = add_up(call, sums);
    if (call.n == 0 || dx == nullptr) return;
    std::vector<T> means(2 * channels_);
    for (std::size_t k = 0; k < means.size(); ++k) means[k] = static_cast<T>(sums[k] / rows);
    call.kernels.layers()->normalise_backward_input(x, dy, mean, scale, call.parameters, means.data(), call.n * places_,
                                                    channels_, dx);
  }

 private:
  /// Puts the number of rows behind sums and adds up both over what is normalised together. Returns the rows.
  double add_up(const LayerCall<T>& call, std::vector<double>& sums) const {
    sums.back() = static_cast<double>(call.n * places_);
    if (is_synchronised_ && call.batch.sum_over_ranks != nullptr) (*call.batch.sum_over_ranks)(sums);
    return sums.back();
  }

  void ones_and_zeros(std::span<T> values, T first) const {
    std::fill_n(values.begin(), channels_, first);
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(channels_), channels_, 1 - first);
  }

  std::size_t places_;  // height x width
  std::size_t channels_;
  bool is_synchronised_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_batchnorm(std::size_t places, std::size_t channels, bool is_synchronised) {
  return std::make_unique<BatchNorm<T>>(places, channels, is_synchronised);
}
template std::unique_ptr<Layer<float>> make_batchnorm(std::size_t, std::size_t, bool);
template std::unique_ptr<Layer<double>> make_batchnorm(std::size_t, std::size_t, bool);

}  // namespace dlrun::trainer
