#pragma once
// A sequence of layers and the arrays on which they work: one flat array of parameters and one flat
// array of gradients.

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

/// The location of a tensor in the flat arrays.
struct TensorLocation {
  std::string name;  ///< for example "layers.0.weight"
  std::vector<std::size_t> shape;
  std::size_t offset = 0;  ///< in elements
};

/// The memory of the flat arrays.
struct FlatMemory {
  std::shared_ptr<void> parameters;
  std::shared_ptr<void> gradients;
};

/// Returns zeroed memory of the given sizes in bytes.
using AllocateFlat =
    std::function<FlatMemory(std::size_t parameter_bytes, std::size_t gradient_bytes)>;

template <typename T>
class Network {
 public:
  /// `layers` are in the order of computation; the first layer reads `inputs` elements per sample.
  /// Allocates memory for batches of up to max_batch samples. The gradient array holds the
  /// gradients, then `extra_count` elements for numbers that the ranks sum together with the
  /// gradients, then the observed statistics. The arrays of parameters and of gradients have
  /// `padding` more elements at the end. `allocate` provides the memory of both arrays; by default
  /// `kernels` does.
  Network(Kernels<T>& kernels, Layers<T> layers, std::size_t inputs, std::size_t max_batch,
          std::size_t extra_count, std::size_t padding = 0, const AllocateFlat& allocate = {});

  /// Sets initial parameters and running statistics. They depend only on the seed, so they are
  /// equal on all ranks and for any number of ranks.
  void initialise(std::uint64_t seed);

  /// Computes output() [n x outputs] from input() [n x inputs], which the caller has filled, for
  /// n <= max_batch. If the first layers allow it (Layer::can_run_in_parts), a few samples at a
  /// time pass through all of them, so that the data stays in the cache. Keeps `batch`: the arrays
  /// and functions to which it points must exist until backward() has returned. During training,
  /// adds this rank's share of the batch's statistics to observed_statistics().
  void forward(std::size_t n, const BatchInfo& batch = {});

  /// Computes gradients() from output_gradient(), which the caller has filled with dL/doutput, [n x
  /// outputs]. Runs the layers in reverse order and calls layer_done(index) when a layer's
  /// gradients are final.
  void backward(std::size_t n, const std::function<void(std::size_t)>& layer_done);

  /// Updates the running statistics: keeps 0.9 of them and adds 0.1 of observed_statistics(), which
  /// the caller must have summed over all ranks.
  void update_running_statistics();

  [[nodiscard]] T* input() { return input_; }
  [[nodiscard]] const T* output() const { return entries_.back().output; }
  [[nodiscard]] T* output_gradient() { return entries_.back().delta; }

  [[nodiscard]] std::span<T> parameters() { return parameters_.span().first(parameter_count_); }
  [[nodiscard]] std::span<T> gradients() { return gradients_.span().first(parameter_count_); }
  /// Returns the gradients, the extra elements and observed_statistics().
  [[nodiscard]] std::span<T> gradients_and_step_sums() {
    return gradients_.span().first(parameter_count_ + extra_count_ + running_.size());
  }
  [[nodiscard]] std::span<T> extra() {
    return gradients_.span().subspan(parameter_count_, extra_count_);
  }
  /// Returns the layers' running statistics (Layer::running_statistics).
  [[nodiscard]] std::span<T> running_statistics() { return running_.span(); }
  /// Returns the statistics of the current step's batch, in the order of running_statistics(). The
  /// caller sets them to zero before each step.
  [[nodiscard]] std::span<T> observed_statistics() {
    return gradients_and_step_sums().subspan(parameter_count_ + extra_count_);
  }

  /// Returns the number of layers.
  [[nodiscard]] std::size_t layer_count() const { return entries_.size(); }
  [[nodiscard]] std::size_t max_batch() const { return max_batch_; }
  /// Returns the index of a layer's first element in the flat arrays: layer i has the elements
  /// [first_element_of(i), first_element_of(i + 1)).
  [[nodiscard]] std::size_t first_element_of(std::size_t layer) const {
    return layer < entries_.size() ? entries_[layer].first_parameter : parameter_count_;
  }
  [[nodiscard]] const std::vector<TensorLocation>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<TensorLocation>& running_tensors() const {
    return running_tensors_;
  }
  /// Returns for example "784 - dense 512 - relu - dense 10".
  [[nodiscard]] std::string description() const;

 private:
  /// A layer with its offsets in the flat arrays and its own arrays. The pointers point into
  /// memory_. Layers that work in place share the arrays of the layer before them.
  struct LayerEntry {
    std::unique_ptr<Layer<T>> layer;
    std::size_t first_parameter = 0;  ///< offset in the arrays of parameters and gradients
    std::size_t first_running = 0;    ///< offset in the running and the observed statistics
    std::size_t width = 0;            ///< elements per sample of output and delta
    T* output = nullptr;              ///< [max_batch x width]
    /// dL / doutput. Has all rows of the batch if the index of this layer is at least
    /// first_whole_delta_, otherwise only the rows of one part.
    T* delta = nullptr;
    T* workspace = nullptr;    ///< nullptr if the layer needs none
    bool is_in_place = false;  ///< true if the layer overwrites its input
    bool is_fused = false;  ///< true for a ReLU that the layer before it computes: can_fuse_relu()
  };

  /// Makes the entries, without their arrays, and fills in tensors_ and running_tensors_.
  void add_layers(Layers<T> layers);
  /// Decides how many of the first layers process the batch in parts, and how large a part is.
  /// Allocates part_gradients_.
  void plan_parts();
  /// Allocates the arrays of the entries.
  void allocate_layers();
  /// Allocates the flat arrays and the running statistics.
  void allocate_flat(std::size_t padding, const AllocateFlat& allocate);
  /// Allocates an array of `rows` rows of `width` elements.
  [[nodiscard]] T* allocate_rows(std::size_t width, std::size_t rows);
  /// Returns the arguments of a call of the layer with n samples.
  [[nodiscard]] LayerCall<T> call_of_layer(std::size_t layer, std::size_t n) {
    const LayerEntry& entry = entries_[layer];
    return {kernels_,
            parameters_.data() + entry.first_parameter,
            entry.workspace,
            n,
            batch_,
            running_.data() + entry.first_running,
            gradients_.data() + parameter_count_ + extra_count_ + entry.first_running,
            layer + 1 < entries_.size() && entries_[layer + 1].is_fused};
  }
  /// Returns the input of layer i, from sample `at` on.
  [[nodiscard]] T* input_of(std::size_t i, std::size_t at) {
    return i == 0 ? input_ + at * inputs_ : entries_[i - 1].output + at * entries_[i - 1].width;
  }
  /// Returns the gradient of the output of layer i, from sample `at` on. `at` begins a part.
  [[nodiscard]] T* delta_of(std::size_t i, std::size_t at) {
    return entries_[i].delta + (i < first_whole_delta_ ? 0 : at * entries_[i].width);
  }
  void forward_layer(std::size_t i, std::size_t at, std::size_t n);
  void backward_layer(std::size_t i, std::size_t at, std::size_t n, T* gradients);
  /// Runs backward of layers [0, count_in_parts_), one part after another.
  void backward_parts(std::size_t n);

  Kernels<T>& kernels_;
  std::size_t inputs_;
  std::size_t max_batch_;
  std::size_t extra_count_;
  std::vector<LayerEntry> entries_;  // in the order of computation
  std::size_t parameter_count_ = 0;
  std::size_t running_size_ = 0;  // elements of running_
  // The layers [0, count_in_parts_) process the batch in parts.
  std::size_t count_in_parts_ = 0;
  std::size_t samples_per_part_ = 0;
  // The first layer whose delta holds the whole batch; the deltas of earlier layers hold one part.
  std::size_t first_whole_delta_ = 0;
  std::vector<TensorLocation> tensors_;
  std::vector<TensorLocation> running_tensors_;
  Array<T> parameters_;
  Array<T> running_;
  Array<T> gradients_;
  std::vector<Array<T>> memory_;
  Array<T> part_gradients_;  // of one part, for the layers [0, count_in_parts_)
  T* input_ = nullptr;       // [max_batch x inputs]
  BatchInfo batch_;
};

}  // namespace dlrun::trainer
