#include "runtime/trainer/nn/network.h"

#include <fmt/core.h>

namespace dlrun::trainer {

template <typename T>
Network<T>::Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs, std::size_t max_batch, std::size_t extra,
                    std::size_t padding, const AllocateFlat& allocate_flat)
    : kernels_(kernels), layers_(std::move(layers)), inputs_(inputs), max_batch_(max_batch), extra_(extra) {
  std::size_t offset = 0;
  std::size_t running = 0;
  const auto name_all = [](std::size_t i, std::vector<ParameterShape> shapes, std::size_t& at,
                           std::vector<TensorView>& views) {
    for (ParameterShape& shape : shapes) {
      const std::size_t count = shape.count();
      views.push_back({fmt::format("layers.{}.{}", i, shape.name), std::move(shape.shape), at});
      at += count;
    }
  };
  outputs_.push_back(allocate(inputs));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer<T>& layer = *layers_[i];
    first_.push_back(offset);
    first_running_.push_back(running);
    name_all(i, layer.parameters(), offset, tensors_);
    name_all(i, layer.statistics(), running, running_tensors_);
    // Half of the memory, and of its traffic, goes where a function of each element writes over what it reads.
    const bool is_in_place = layer.is_in_place() && i > 0 && !layers_[i - 1]->reads_output();
    outputs_.push_back(is_in_place ? outputs_.back() : allocate(layer.outputs()));
    deltas_.push_back(is_in_place ? deltas_.back() : allocate(layer.outputs()));
    workspaces_.push_back(layer.workspace() > 0 ? allocate(layer.workspace()) : nullptr);
  }
  first_.push_back(offset);
  const std::size_t parameters = offset + padding;
  const std::size_t gradients = offset + extra + running + padding;
  FlatMemory flat =
      allocate_flat ? allocate_flat(parameters * sizeof(T), gradients * sizeof(T))
                    : FlatMemory{kernels_.allocate(parameters * sizeof(T)), kernels_.allocate(gradients * sizeof(T))};
  parameters_ = Array<T>(std::move(flat.parameters), parameters);
  running_ = Array<T>(kernels_, running);
  gradients_ = Array<T>(std::move(flat.gradients), gradients);
}

template <typename T>
T* Network<T>::allocate(std::size_t width) {
  memory_.emplace_back(kernels_, max_batch_ * width);
  return memory_.back().data();
}

template <typename T>
void Network<T>::initialise(std::uint64_t seed) {
  std::vector<T> values(first_.back());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Random random(seed, Purpose::kInit, i);
    layers_[i]->initialise(std::span(values).subspan(first_[i], first_[i + 1] - first_[i]), random);
  }
  kernels_.copy_from_host(parameters_.data(), values.data(), values.size() * sizeof(T));
  std::vector<T> statistics(running_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i]->initialise_statistics(std::span(statistics).subspan(first_running_[i]));
  kernels_.copy_from_host(running_.data(), statistics.data(), statistics.size() * sizeof(T));
}

template <typename T>
void Network<T>::keep_observed() {
  constexpr T kNew = T(0.1);
  kernels_.add_scaled(running_.data(), -kNew, running_.data(), running_.size());
  kernels_.add_scaled(running_.data(), kNew, observed().data(), running_.size());
}

template <typename T>
void Network<T>::forward(std::size_t n, const BatchInfo& batch) {
  batch_ = batch;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (n > 0 || layers_[i]->joins_ranks()) layers_[i]->forward(call(i, n), outputs_[i], outputs_[i + 1]);
  }
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
