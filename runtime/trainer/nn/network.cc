#include "runtime/trainer/nn/network.h"

#include <fmt/core.h>

namespace dlrun::trainer {

template <typename T>
Network<T>::Network(Kernels<T>& kernels, Layers layers, std::size_t inputs, std::size_t max_batch, std::size_t extra)
    : kernels_(kernels), layers_(std::move(layers)), inputs_(inputs), max_batch_(max_batch) {
  std::size_t offset = 0;
  activations_.emplace_back(kernels_, max_batch * inputs);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    first_.push_back(offset);
    for (ParameterShape& parameter : layers_[i]->parameters()) {
      const std::size_t count = parameter.count();
      tensors_.push_back({fmt::format("layers.{}.{}", i, parameter.name), std::move(parameter.shape), offset});
      offset += count;
    }
    activations_.emplace_back(kernels_, max_batch * layers_[i]->outputs());
    deltas_.emplace_back(kernels_, max_batch * layers_[i]->outputs());
  }
  first_.push_back(offset);
  parameters_ = Array<T>(kernels_, offset);
  gradients_ = Array<T>(kernels_, offset + extra);
}

template <typename T>
void Network<T>::initialise(std::uint64_t seed) {
  std::vector<T> values(parameters_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Random random(seed, Purpose::kInit, i);
    layers_[i]->initialise(std::span(values).subspan(first_[i], first_[i + 1] - first_[i]), random);
  }
  kernels_.copy_from_host(parameters_.data(), values.data(), values.size() * sizeof(T));
}

template <typename T>
void Network<T>::forward(std::size_t n) {
  if (n == 0) return;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(kernels_, parameters_.data() + first_[i], activations_[i].data(), activations_[i + 1].data(),
                        n);
  }
}

template <typename T>
void Network<T>::backward(std::size_t n, const std::function<void(std::size_t)>& layer_done) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    T* input_gradient = i == 0 ? nullptr : deltas_[i - 1].data();
    layers_[i]->backward(kernels_, parameters_.data() + first_[i], activations_[i].data(), activations_[i + 1].data(),
                         deltas_[i].data(), gradients_.data() + first_[i], input_gradient, n);
    layer_done(i);
  }
}

template <typename T>
std::string Network<T>::description() const {
  std::string text = fmt::format("{}", inputs_);
  for (const auto& layer : layers_) {
    text += fmt::format(" - {}", layer->kind());
    if (!layer->parameters().empty()) text += fmt::format(" {}", layer->outputs());
  }
  return text;
}

template class Network<float>;
template class Network<double>;

template <typename T>
typename Network<T>::Layers make_mlp(std::size_t inputs, std::span<const std::size_t> hidden, std::size_t classes) {
  typename Network<T>::Layers layers;
  for (const std::size_t width : hidden) {
    layers.push_back(make_dense<T>(inputs, width, Initialisation::kHe));
    layers.push_back(make_relu<T>(width));
    inputs = width;
  }
  layers.push_back(make_dense<T>(inputs, classes, Initialisation::kGlorot));
  return layers;
}
template Network<float>::Layers make_mlp<float>(std::size_t, std::span<const std::size_t>, std::size_t);
template Network<double>::Layers make_mlp<double>(std::size_t, std::span<const std::size_t>, std::size_t);

}  // namespace dlrun::trainer
