#pragma once
// Layers one after another, and the arrays that they work on: one flat array of parameters, one of
// gradients.

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

/// The memory of the flat arrays.
struct FlatMemory {
  std::shared_ptr<void> parameters;
  std::shared_ptr<void> gradients;
};

/// Gives zeroed memory for so many bytes of either.
using AllocateFlat = std::function<FlatMemory(std::size_t parameters, std::size_t gradients)>;

template <typename T>
class Network {
 public:
  /// Layers in order of computation; the first takes `inputs` elements a sample. Room for batches
  /// of up to max_batch. The gradients' array has `extra` elements more than the parameters', at
  /// its end: words that travel with them. Behind either there is room for `padding` elements more.
  /// allocate: who gives their memory, if not kernels.
  Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs, std::size_t max_batch,
          std::size_t extra, std::size_t padding = 0, const AllocateFlat& allocate = {});

  /// First values from seed alone: the same on every rank and for every world size. Running
  /// statistics, too.
  void initialise(std::uint64_t seed);

  /// input() filled with [n x inputs] -> output() [n x outputs]. n <= max_batch. The first layers
  /// that allow it (Layer::goes_in_parts) take a few samples at a time through all of them, so that
  /// these stay in cache. batch is kept for backward, as is. Training adds this rank's share of the
  /// batch's statistics to observed().
  void forward(std::size_t n, const BatchInfo& batch = {});

  /// output_gradient() filled with dL/doutput -> gradients(). Layers go backwards; after each,
  /// layer_done(index) says that its gradients are final.
  void backward(std::size_t n, const std::function<void(std::size_t)>& layer_done);

  /// The running statistics go on by a step, to whose observed() all ranks have contributed.
  void keep_observed();

  [[nodiscard]] T* input() { return outputs_.front(); }
  [[nodiscard]] const T* output() const { return outputs_.back(); }
  [[nodiscard]] T* output_gradient() { return deltas_.back(); }

  [[nodiscard]] std::span<T> parameters() { return parameters_.span().first(first_.back()); }
  [[nodiscard]] std::span<T> gradients() { return gradients_.span().first(first_.back()); }
  /// The gradients, the extra words and observed().
  [[nodiscard]] std::span<T> gradients_and_extra() {
    return gradients_.span().first(first_.back() + extra_ + running_.size());
  }
  [[nodiscard]] std::span<T> extra() { return gradients_.span().subspan(first_.back(), extra_); }
  /// The layers' statistics (Layer::statistics), and what a step has seen of them: it starts from
  /// zeros.
  [[nodiscard]] std::span<T> running() { return running_.span(); }
  [[nodiscard]] std::span<T> observed() {
    return gradients_and_extra().subspan(first_.back() + extra_);
  }

  [[nodiscard]] std::size_t layers() const { return layers_.size(); }
  [[nodiscard]] std::size_t max_batch() const { return max_batch_; }
  /// Elements of layer i in the flat arrays: [first(i), first(i + 1)).
  [[nodiscard]] std::size_t first(std::size_t layer) const { return first_[layer]; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<TensorView>& running_tensors() const { return running_tensors_; }
  [[nodiscard]] std::string description() const;  ///< "784 - dense 512 - relu - dense 10"

 private:
  /// It writes over what it reads.
  [[nodiscard]] bool is_in_place(std::size_t layer) const;
  /// How many of the first layers go in parts, and how many samples are a part.
  void plan_parts();
  /// A new array of rows of width.
  [[nodiscard]] T* allocate(std::size_t width, std::size_t rows);
  [[nodiscard]] LayerCall<T> call(std::size_t layer, std::size_t n) {
    return {kernels_,
            parameters_.data() + first_[layer],
            workspaces_[layer],
            n,
            batch_,
            running_.data() + first_running_[layer],
            gradients_.data() + first_.back() + extra_ + first_running_[layer],
            layer + 1 < layers_.size() && is_taken_[layer + 1]};
  }
  /// outputs_[i] from sample `at` on.
  [[nodiscard]] T* output(std::size_t i, std::size_t at) { return outputs_[i] + at * widths_[i]; }
  void forward_layer(std::size_t i, std::size_t at, std::size_t n);
  void backward_layer(std::size_t i, std::size_t at, std::size_t n, T* gradients);
  /// Layers [0, parts_) backwards, part after part.
  void backward_parts(std::size_t n);

  Kernels<T>& kernels_;
  Layers<T> layers_;
  std::size_t inputs_;
  std::size_t max_batch_;
  std::size_t extra_;
  std::size_t parts_ = 0;         // the first so many layers go in parts
  std::size_t part_samples_ = 0;  // of so many samples
  std::size_t whole_delta_ =
      0;  // deltas_[i] holds the whole batch's from this i on, before it a part's
  std::vector<bool>
      is_taken_;  // a ReLU that the layer before it takes along, see Layer::takes_relu()
  std::vector<std::size_t> first_;          // one more than layers
  std::vector<std::size_t> first_running_;  // of each layer's statistics
  std::vector<TensorView> tensors_;
  std::vector<TensorView> running_tensors_;
  Array<T> parameters_;
  Array<T> running_;
  Array<T> gradients_;
  std::vector<Array<T>> memory_;
  Array<T> part_gradients_;          // of the layers that go in parts
  std::vector<std::size_t> widths_;  // of outputs_, a sample
  std::vector<T*> outputs_;     // [0]: the input; [i + 1]: layer i's output, [max_batch x outputs]
  std::vector<T*> deltas_;      // [i]: dL / d(layer i's output)
  std::vector<T*> workspaces_;  // of each layer; nullptr where it wants none
  BatchInfo batch_;
};

}  // namespace dlrun::trainer
