// Allocates the arrays of all layers and runs the layers forwards and backwards. Layers that work
// in place share arrays; the first layers may process a batch in parts.

#include "runtime/trainer/nn/network.h"

#include <algorithm>

#include <fmt/core.h>

namespace dlrun::trainer {

template <typename T>
Network<T>::Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs,
                    std::size_t max_batch, std::size_t extra, std::size_t padding,
                    const AllocateFlat& allocate_flat)
    : kernels_(kernels),
      layers_(std::move(layers)),
      inputs_(inputs),
      max_batch_(max_batch),
      extra_(extra) {
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
  plan_parts();
  widths_.push_back(inputs);
  outputs_.push_back(allocate(inputs, max_batch));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer<T>& layer = *layers_[i];
    first_.push_back(offset);
    first_running_.push_back(running);
    name_all(i, layer.parameters(), offset, tensors_);
    name_all(i, layer.statistics(), running, running_tensors_);
    // Layers that work in place share the array of their input, which halves
    // memory and memory traffic.
    widths_.push_back(layer.outputs());
    outputs_.push_back(is_in_place(i) ? outputs_.back() : allocate(layer.outputs(), max_batch));
    deltas_.push_back(
        is_in_place(i) ? deltas_.back()
                       : allocate(layer.outputs(), i < whole_delta_ ? part_samples_ : max_batch));
    workspaces_.push_back(layer.workspace() > 0 ? allocate(layer.workspace(), max_batch) : nullptr);
    is_taken_.push_back(layer.is_relu() && is_in_place(i) && layers_[i - 1]->takes_relu());
  }
  first_.push_back(offset);
  const std::size_t parameters = offset + padding;
  const std::size_t gradients = offset + extra + running + padding;
  FlatMemory flat = allocate_flat ? allocate_flat(parameters * sizeof(T), gradients * sizeof(T))
                                  : FlatMemory{kernels_.allocate(parameters * sizeof(T)),
                                               kernels_.allocate(gradients * sizeof(T))};
  parameters_ = Array<T>(std::move(flat.parameters), parameters);
  running_ = Array<T>(kernels_, running);
  gradients_ = Array<T>(std::move(flat.gradients), gradients);
}

template <typename T>
bool Network<T>::is_in_place(std::size_t layer) const {
  return layers_[layer]->is_in_place() && layer > 0 && !layers_[layer - 1]->reads_output();
}

template <typename T>
void Network<T>::plan_parts() {
  std::size_t widest = 0;
  std::size_t parameters = 0;
  for (const auto& layer : layers_) {
    std::size_t own = 0;
    for (const ParameterShape& shape : layer->parameters()) own += shape.count();
    // Stop if adding up the parts' gradients would cost much compared with the layer's
    // work on a single sample.
    if (!layer->goes_in_parts() || own > layer->outputs()) break;
    parameters += own;
    widest = std::max(widest, layer->outputs());
    ++parts_;
  }
  part_samples_ = kernels_.layers().samples_at_once(widest * sizeof(T));
  if (part_samples_ >= max_batch_) parts_ = 0;
  if (parts_ == 0) return;
  part_gradients_ = Array<T>(kernels_, parameters);
  // The last layer's delta comes from a layer that processes the whole batch. In place, it is also
  // the delta of the layers before it.
  whole_delta_ = parts_ - 1;
  while (is_in_place(whole_delta_)) --whole_delta_;
}

template <typename T>
T* Network<T>::allocate(std::size_t width, std::size_t rows) {
  memory_.emplace_back(kernels_, rows * width);
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
  for (std::size_t at = 0; parts_ > 0 && at < n; at += part_samples_) {
    for (std::size_t i = 0; i < parts_; ++i) forward_layer(i, at, std::min(part_samples_, n - at));
  }
  for (std::size_t i = parts_; i < layers_.size(); ++i) {
    if (n > 0 || layers_[i]->joins_ranks()) forward_layer(i, 0, n);
  }
}

template <typename T>
void Network<T>::forward_layer(std::size_t i, std::size_t at, std::size_t n) {
  if (!is_taken_[i]) layers_[i]->forward(call(i, n), output(i, at), output(i + 1, at));
}

template <typename T>
void Network<T>::backward(std::size_t n, const std::function<void(std::size_t)>& layer_done) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (i + 1 == parts_) backward_parts(n);
    if (i >= parts_) backward_layer(i, 0, n, gradients_.data());
    layer_done(i);
  }
}

template <typename T>
void Network<T>::backward_parts(std::size_t n) {
  for (std::size_t at = 0; at == 0 || at < n; at += part_samples_) {
    T* const gradients = at == 0 ? gradients_.data() : part_gradients_.data();
    for (std::size_t i = parts_; i-- > 0;)
      backward_layer(i, at, std::min(part_samples_, n - at), gradients);
    if (at > 0) kernels_.add_scaled(gradients_.data(), 1, gradients, first_[parts_]);
  }
}

template <typename T>
void Network<T>::backward_layer(std::size_t i, std::size_t at, std::size_t n, T* gradients) {
  const auto delta = [&](std::size_t of) {
    return deltas_[of] + (of < whole_delta_ ? 0 : at * widths_[of + 1]);
  };
  layers_[i]->backward(call(i, n), output(i, at), output(i + 1, at), delta(i),
                       gradients + first_[i], i == 0 ? nullptr : delta(i - 1));
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
