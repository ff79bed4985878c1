#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// The workspace holds the factor of each element: width per sample, [n x width] in all.
template <typename T>
class Dropout final : public Layer<T> {
 public:
  Dropout(std::size_t width, double rate, std::uint64_t index)
      : width_(width), rate_(rate), index_(index) {}

  [[nodiscard]] std::string description() const override {
    return fmt::format("dropout {:g}", rate_);
  }
  [[nodiscard]] std::size_t outputs() const override { return width_; }
  [[nodiscard]] std::size_t workspace_size() const override { return width_; }
  [[nodiscard]] bool can_work_in_place() const override { return true; }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    if (!call.batch.is_training) {
      if (x != y) call.kernels.layer_kernels().copy(x, y, call.n * width_);
      return;
    }
    call.kernels.layer_kernels().dropout_factors(
        call.batch.seed, mix(mix(call.batch.step) ^ index_), call.batch.samples, call.n, width_,
        rate_, call.workspace);
    call.kernels.layer_kernels().multiply(x, call.workspace, y, call.n * width_);
  }

  void backward(const LayerCall<T>& call, const T* /*x*/, const T* /*y*/, const T* dy,
                T* /*gradients*/, T* dx) const override {
    if (dx != nullptr)
      call.kernels.layer_kernels().multiply(dy, call.workspace, dx, call.n * width_);
  }

 private:
  std::size_t width_;
  double rate_;
  std::uint64_t index_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_dropout(std::size_t width, double rate, std::uint64_t index) {
  return std::make_unique<Dropout<T>>(width, rate, index);
}
template std::unique_ptr<Layer<float>> make_dropout(std::size_t, double, std::uint64_t);
template std::unique_ptr<Layer<double>> make_dropout(std::size_t, double, std::uint64_t);

}  // namespace dlrun::trainer
