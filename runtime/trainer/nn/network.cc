#include "runtime/trainer/nn/network.h"

#include <fmt/core.h>

namespace dlrun::trainer {

template <typename T>
Network<T>::Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs, std::size_t max_batch, std::size_t extra)
    : kernels_(kernels), layers_(std::move(layers)), inputs_(inputs), max_batch_(max_batch) {
  std::size_t offset = 0;
  outputs_.push_back(allocate(inputs));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer<T>& layer = *layers_[i];
    first_.push_back(offset);
    for (ParameterShape& parameter : layer.parameters()) {
      const std::size_t count = parameter.count();
      tensors_.push_back({fmt::format("layers.{}.{}", i, parameter.name), std::move(parameter.shape), offset});
      offset += count;
    }
    // Half of the memory, and of its traffic, goes where a function of each element writes over what it reads.
    const bool is_in_place = layer.is_in_place() && i > 0 && !layers_[i - 1]->reads_output();
    outputs_.push_back(is_in_place ? outputs_.back() : allocate(layer.outputs()));
    deltas_.push_back(is_in_place ? deltas_.back() : allocate(layer.outputs()));
    workspaces_.push_back(layer.workspace() > 0 ? allocate(layer.workspace()) : nullptr);
  }
  first_.push_back(offset);
  parameters_ = Array<T>(kernels_, offset);
  gradients_ = Array<T>(kernels_, offset + extra);
}

template <typename T>
T* Network<T>::allocate(std::size_t width) {
  memory_.emplace_back(kernels_, max_batch_ * width);
  return memory_.back().data();
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
void Network<T>::forward(std::size_t n, const BatchInfo& batch) {
  batch_ = batch;
  if (n == 0) return;
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i]->forward(call(i, n), outputs_[i], outputs_[i + 1]);
}

template <typename T>
void Network<T>::backward(std::size_t n, const std::function<void(std::size_t)>& layer_done) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layers_[i]->backward(call(i, n), outputs_[i], outputs_[i + 1], deltas_[i], gradients_.data() + first_[i],
                         i == 0 ? nullptr : deltas_[i - 1]);
    layer_done(i);
  }
}

template <typename T>
std::string Network<T>::description() const {
  std::string text = fmt::format("{}", inputs_);
  for (const auto& layer : layers_) text += " - " + layer->description();
  return text;
}

template class Network<float>;
template class Network<double>;

}  // namespace dlrun::trainer
