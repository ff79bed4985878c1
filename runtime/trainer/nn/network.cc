// Allocates the arrays of all layers and runs the layers forwards and backwards. Layers that work
// in place share arrays; the first layers may process a batch in parts.

#include "runtime/trainer/nn/network.h"

#include <algorithm>

#include <fmt/core.h>

namespace dlrun::trainer {

template <typename T>
Network<T>::Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs,
                    std::size_t max_batch, std::size_t extra_count, std::size_t padding,
                    const AllocateFlat& allocate)
    : kernels_(kernels), inputs_(inputs), max_batch_(max_batch), extra_count_(extra_count) {
  add_layers(std::move(layers));
  plan_parts();
  allocate_layers();
  allocate_flat(padding, allocate);
}

template <typename T>
void Network<T>::add_layers(Layers<T> layers) {
  const auto add_tensors = [](std::size_t i, std::vector<NamedShape> shapes, std::size_t& at,
                              std::vector<TensorLocation>& locations) {
    for (NamedShape& shape : shapes) {
      const std::size_t count = shape.count();
      locations.push_back({fmt::format("layers.{}.{}", i, shape.name), std::move(shape.shape), at});
      at += count;
    }
  };
  for (std::unique_ptr<Layer<T>>& layer : layers) {
    const std::size_t i = entries_.size();
    const Layer<T>* const before = i > 0 ? entries_.back().layer.get() : nullptr;
    LayerEntry entry;
    entry.first_parameter = parameter_count_;
    entry.first_running = running_size_;
    entry.width = layer->outputs();
    entry.is_in_place = layer->can_work_in_place() && before != nullptr && !before->reads_output();
    entry.is_fused = layer->is_relu() && entry.is_in_place && before->can_fuse_relu();
    add_tensors(i, layer->parameters(), parameter_count_, tensors_);
    add_tensors(i, layer->running_statistics(), running_size_, running_tensors_);
    entry.layer = std::move(layer);
    entries_.push_back(std::move(entry));
  }
}

template <typename T>
void Network<T>::plan_parts() {
  std::size_t widest = 0;
  for (const LayerEntry& entry : entries_) {
    // Stop if adding up the gradients of the parts would take long compared with the layer's work
    // on a single sample.
    const std::size_t layer_parameters =
        first_element_of(count_in_parts_ + 1) - first_element_of(count_in_parts_);
    if (!entry.layer->can_run_in_parts() || layer_parameters > entry.width) break;
    widest = std::max(widest, entry.width);
    ++count_in_parts_;
  }
  samples_per_part_ = kernels_.layer_kernels().samples_per_part(widest * sizeof(T));
  if (samples_per_part_ >= max_batch_) count_in_parts_ = 0;
  if (count_in_parts_ == 0) return;
  part_gradients_ = Array<T>(kernels_, first_element_of(count_in_parts_));
  // The last layer that works in parts gets its delta from a layer that processes the whole batch,
  // so this delta has all rows. If the last layer that works in parts also works in place, its
  // delta is in an array of an earlier layer, so go back to the layer that owns the array.
  first_whole_delta_ = count_in_parts_ - 1;
  while (entries_[first_whole_delta_].is_in_place) --first_whole_delta_;
}

template <typename T>
void Network<T>::allocate_layers() {
  input_ = allocate_rows(inputs_, max_batch_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    LayerEntry& entry = entries_[i];
    // Layers that work in place share the array of their input, which halves memory and memory
    // traffic.
    if (entry.is_in_place) {
      entry.output = entries_[i - 1].output;
      entry.delta = entries_[i - 1].delta;
    } else {
      entry.output = allocate_rows(entry.width, max_batch_);
      entry.delta =
          allocate_rows(entry.width, i < first_whole_delta_ ? samples_per_part_ : max_batch_);
    }
    if (entry.layer->workspace_size() > 0)
      entry.workspace = allocate_rows(entry.layer->workspace_size(), max_batch_);
  }
}

template <typename T>
void Network<T>::allocate_flat(std::size_t padding, const AllocateFlat& allocate) {
  const std::size_t parameter_room = parameter_count_ + padding;
  const std::size_t gradient_room = parameter_count_ + extra_count_ + running_size_ + padding;
  FlatMemory flat = allocate ? allocate(parameter_room * sizeof(T), gradient_room * sizeof(T))
                             : FlatMemory{kernels_.allocate(parameter_room * sizeof(T)),
                                          kernels_.allocate(gradient_room * sizeof(T))};
  parameters_ = Array<T>(std::move(flat.parameters), parameter_room);
  running_ = Array<T>(kernels_, running_size_);
  gradients_ = Array<T>(std::move(flat.gradients), gradient_room);
}

template <typename T>
T* Network<T>::allocate_rows(std::size_t width, std::size_t rows) {
  memory_.emplace_back(kernels_, rows * width);
  return memory_.back().data();
}

template <typename T>
void Network<T>::initialise(std::uint64_t seed) {
  std::vector<T> values(parameter_count_);
  std::vector<T> statistics(running_size_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const LayerEntry& entry = entries_[i];
    Random random(seed, Purpose::kInit, i);
    entry.layer->initialise(
        std::span(values).subspan(entry.first_parameter,
                                  first_element_of(i + 1) - entry.first_parameter),
        random);
    entry.layer->initialise_running_statistics(std::span(statistics).subspan(entry.first_running));
  }
  kernels_.copy_from_host(parameters_.data(), values.data(), values.size() * sizeof(T));
  kernels_.copy_from_host(running_.data(), statistics.data(), statistics.size() * sizeof(T));
}

template <typename T>
void Network<T>::update_running_statistics() {
  constexpr T kWeightOfNew = T(0.1);
  kernels_.add_scaled(running_.data(), -kWeightOfNew, running_.data(), running_.size());
  kernels_.add_scaled(running_.data(), kWeightOfNew, observed_statistics().data(), running_.size());
}

template <typename T>
void Network<T>::forward(std::size_t n, const BatchInfo& batch) {
  batch_ = batch;
  for (std::size_t at = 0; count_in_parts_ > 0 && at < n; at += samples_per_part_) {
    for (std::size_t i = 0; i < count_in_parts_; ++i)
      forward_layer(i, at, std::min(samples_per_part_, n - at));
  }
  for (std::size_t i = count_in_parts_; i < entries_.size(); ++i) {
    if (n > 0 || entries_[i].layer->communicates()) forward_layer(i, 0, n);
  }
}

template <typename T>
void Network<T>::forward_layer(std::size_t i, std::size_t at, std::size_t n) {
  const LayerEntry& entry = entries_[i];
  if (!entry.is_fused)
    entry.layer->forward(call_of_layer(i, n), input_of(i, at), entry.output + at * entry.width);
}

template <typename T>
void Network<T>::backward(std::size_t n, const std::function<void(std::size_t)>& layer_done) {
  for (std::size_t i = entries_.size(); i-- > 0;) {
    if (i + 1 == count_in_parts_) backward_parts(n);
    if (i >= count_in_parts_) backward_layer(i, 0, n, gradients_.data());
    layer_done(i);
  }
}

template <typename T>
void Network<T>::backward_parts(std::size_t n) {
  for (std::size_t at = 0; at == 0 || at < n; at += samples_per_part_) {
    T* const gradients = at == 0 ? gradients_.data() : part_gradients_.data();
    for (std::size_t i = count_in_parts_; i-- > 0;)
      backward_layer(i, at, std::min(samples_per_part_, n - at), gradients);
    if (at > 0)
      kernels_.add_scaled(gradients_.data(), 1, gradients, first_element_of(count_in_parts_));
  }
}

template <typename T>
void Network<T>::backward_layer(std::size_t i, std::size_t at, std::size_t n, T* gradients) {
  const LayerEntry& entry = entries_[i];
  entry.layer->backward(call_of_layer(i, n), input_of(i, at), entry.output + at * entry.width,
                        delta_of(i, at), gradients + entry.first_parameter,
                        i == 0 ? nullptr : delta_of(i - 1, at));
}

template <typename T>
std::string Network<T>::description() const {
  std::string text = fmt::format("{}", inputs_);
  for (const LayerEntry& entry : entries_) text += " - " + entry.layer->description();
  return text;
}

template class Network<float>;
template class Network<double>;

}  // namespace dlrun::trainer
