#pragma once
// A list of layers over one flat array of parameters and one of gradients.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {

/// Where a tensor lies in the flat arrays.
struct TensorView {
  std::string name;  ///< "layers.0.weight"
  std::vector<std::size_t> shape;
  std::size_t offset = 0;  ///< elements
};

template <typename T>
class Network {
 public:
  using Layers = std::vector<std::unique_ptr<Layer<T>>>;

  /// Layers in order of computation; the first takes `inputs` elements a sample. Room for batches of up to max_batch.
  /// The gradients' array has `extra` elements more than the parameters', at its end: words that travel with them.
  Network(Kernels<T>& kernels, Layers layers, std::size_t inputs, std::size_t max_batch, std::size_t extra);

  /// First values from seed alone: the same on every rank and for every world size.
  void initialise(std::uint64_t seed);

  /// input() filled with [n x inputs] -> output() [n x outputs]. n <= max_batch.
  void forward(std::size_t n);

  /// output_gradient() filled with dL/doutput -> gradients(). Layers go backwards; after each, layer_done(index) says
  /// that its gradients are final.
  void backward(std::size_t n, const std::function<void(std::size_t)>& layer_done);

  [[nodiscard]] T* input() { return activations_.front().data(); }
  [[nodiscard]] const T* output() const { return activations_.back().data(); }
  [[nodiscard]] T* output_gradient() { return deltas_.back().data(); }

  [[nodiscard]] std::span<T> parameters() { return parameters_.span(); }
  [[nodiscard]] std::span<T> gradients() { return gradients_.span().first(parameters_.size()); }
  [[nodiscard]] std::span<T> gradients_and_extra() { return gradients_.span(); }

  [[nodiscard]] std::size_t layers() const { return layers_.size(); }
  [[nodiscard]] std::size_t max_batch() const { return max_batch_; }
  /// Elements of layer i in the flat arrays: [first(i), first(i + 1)).
  [[nodiscard]] std::size_t first(std::size_t layer) const { return first_[layer]; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] std::string description() const;  ///< "784 - dense 512 - relu - dense 10"

 private:
  Kernels<T>& kernels_;
  Layers layers_;
  std::size_t inputs_;
  std::size_t max_batch_;
  std::vector<std::size_t> first_;  // one more than layers
  std::vector<TensorView> tensors_;
  Array<T> parameters_;
  Array<T> gradients_;
  std::vector<Array<T>> activations_;  // [0]: the input; [i + 1]: layer i's output, [max_batch x outputs]
  std::vector<Array<T>> deltas_;       // [i]: dL / d(layer i's output)
};

/// A multi-layer perceptron: hidden dense layers with ReLU, then a dense layer of `classes` logits.
template <typename T>
[[nodiscard]] typename Network<T>::Layers make_mlp(std::size_t inputs, std::span<const std::size_t> hidden,
                                                   std::size_t classes);

}  // namespace dlrun::trainer
