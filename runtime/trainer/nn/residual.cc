#include <algorithm>

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

/// Its workspace holds, one after another: each inner layer's output, its gradient, and its own workspace; then the
/// gradient of the first one's input.
template <typename T>
class Residual final : public Layer<T> {
 public:
  Residual(std::size_t width, Layers<T> inner) : width_(width), inner_(std::move(inner)) {
    std::size_t at = 0;
    std::size_t first = 0;
    for (const auto& layer : inner_) {
      Place place;
      place.output = at;
      place.gradient = place.output + layer->outputs();
      place.workspace = place.gradient + layer->outputs();
      at = place.workspace + layer->workspace();
      place.parameters = first;
      for (const ParameterShape& parameter : layer->parameters()) first += parameter.count();
      places_.push_back(place);
    }
    input_gradient_ = at;
    workspace_ = at + width_;
  }

  [[nodiscard]] std::string description() const override {
    std::string text = "residual (";
    for (std::size_t i = 0; i < inner_.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : " - ", inner_[i]->description());
    return text + ")";
  }
  [[nodiscard]] std::size_t outputs() const override { return width_; }
  [[nodiscard]] std::size_t workspace() const override { return workspace_; }

  [[nodiscard]] std::vector<ParameterShape> parameters() const override {
    std::vector<ParameterShape> all;
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      for (ParameterShape& parameter : inner_[i]->parameters())
        all.push_back({fmt::format("{}.{}", i, parameter.name), std::move(parameter.shape)});
    }
    return all;
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      const std::size_t end = i + 1 < inner_.size() ? places_[i + 1].parameters : parameters.size();
      inner_[i]->initialise(parameters.subspan(places_[i].parameters, end - places_[i].parameters), random);
    }
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    const T* from = x;
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      T* to = call.workspace + call.n * places_[i].output;
      inner_[i]->forward(inner_call(call, i), from, to);
      from = to;
    }
    call.kernels.layers()->add(x, from, y, call.n * width_);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients, T* dx) const override {
    const T* gradient = dy;
    for (std::size_t i = inner_.size(); i-- > 0;) {
      const T* input = i == 0 ? x : call.workspace + call.n * places_[i - 1].output;
      const std::size_t to = i == 0 ? input_gradient_ : places_[i - 1].gradient;
      T* input_gradient = i == 0 && dx == nullptr ? nullptr : call.workspace + call.n * to;
      inner_[i]->backward(inner_call(call, i), input, call.workspace + call.n * places_[i].output, gradient,
                          gradients + places_[i].parameters, input_gradient);
      gradient = input_gradient;
    }
    if (dx != nullptr) call.kernels.layers()->add(dy, gradient, dx, call.n * width_);
  }

 private:
  /// Where an inner layer's things lie: elements a sample of the workspace, and elements of the parameters.
  struct Place {
    std::size_t output = 0, gradient = 0, workspace = 0, parameters = 0;
  };

  [[nodiscard]] LayerCall<T> inner_call(const LayerCall<T>& call, std::size_t i) const {
    return {call.kernels, call.parameters + places_[i].parameters, call.workspace + call.n * places_[i].workspace,
            call.n, call.batch};
  }

  std::size_t width_;
  Layers<T> inner_;
  std::vector<Place> places_;
  std::size_t input_gradient_ = 0;
  std::size_t workspace_ = 0;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_residual(std::size_t width, Layers<T> inner) {
  return std::make_unique<Residual<T>>(width, std::move(inner));
}
template std::unique_ptr<Layer<float>> make_residual(std::size_t, Layers<float>);
template std::unique_ptr<Layer<double>> make_residual(std::size_t, Layers<double>);

}  // namespace dlrun::trainer
