// A residual block is a layer that contains two branches of layers. Both branches use the block's
// parameters, statistics and workspace at fixed offsets.

#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

std::size_t element_count(const std::vector<NamedShape>& shapes) {
  std::size_t count = 0;
  for (const NamedShape& shape : shapes) count += shape.count();
  return count;
}

/// One branch of a residual block: layers one after another, with their offsets into the block's
/// arrays. Offsets into the workspace (output, its gradient, the layer's workspace) are in
/// elements per sample, offsets into parameters and statistics in elements.
template <typename T>
class Branch {
 public:
  /// The first elements of the block's arrays that no layer uses yet.
  struct NextFree {
    std::size_t workspace = 0, parameters = 0, statistics = 0;
  };
  /// Offsets of one layer's arrays in the block's arrays.
  struct LayerOffsets {
    std::size_t output = 0, gradient = 0, workspace = 0, parameters = 0, statistics = 0;
    bool is_fused = false;  // a ReLU that the layer before it computes: Layer::can_fuse_relu()
  };

  /// Assigns each layer the offsets from `next_free` on, and advances `next_free`.
  Branch(Layers<T> layers, NextFree& next_free) : layers_(std::move(layers)) {
    for (const auto& layer : layers_) {
      LayerOffsets offsets{.workspace = next_free.workspace,
                           .parameters = next_free.parameters,
                           .statistics = next_free.statistics};
      const Layer<T>* const before =
          offsets_.empty() ? nullptr : layers_[offsets_.size() - 1].get();
      if (layer->can_work_in_place() && before != nullptr && !before->reads_output()) {
        offsets.output = offsets_.back().output;
        offsets.gradient = offsets_.back().gradient;
        offsets.is_fused = layer->is_relu() && before->can_fuse_relu();
      } else {
        offsets.output = next_free.workspace;
        offsets.gradient = offsets.output + aligned_elements(layer->outputs());
        offsets.workspace = offsets.gradient + aligned_elements(layer->outputs());
      }
      next_free.workspace = offsets.workspace + aligned_elements(layer->workspace_size());
      next_free.parameters += element_count(layer->parameters());
      next_free.statistics += element_count(layer->running_statistics());
      offsets_.push_back(offsets);
    }
  }

  [[nodiscard]] const Layers<T>& layers() const { return layers_; }
  [[nodiscard]] const LayerOffsets& offsets_of(std::size_t layer) const { return offsets_[layer]; }

  /// Computes the branch's output for x and returns a pointer to this output: x itself if the
  /// branch has no layers.
  const T* forward(const LayerCall<T>& call, const T* x) const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      T* to = call.workspace + call.n * offsets_[i].output;
      if (!offsets_[i].is_fused && (call.n > 0 || layers_[i]->communicates()))
        layers_[i]->forward(call_of_layer(call, i), x, to);
      x = to;
    }
    return x;
  }

  /// From dy, computes the gradients of the branch's parameters into `gradients` and, unless dx is
  /// nullptr, the gradient of its input into dx. Returns dx, or dy if the branch has no layers.
  const T* backward(const LayerCall<T>& call, const T* x, const T* dy, T* gradients, T* dx) const {
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const T* input = i == 0 ? x : call.workspace + call.n * offsets_[i - 1].output;
      T* input_gradient = i == 0 ? dx : call.workspace + call.n * offsets_[i - 1].gradient;
      layers_[i]->backward(call_of_layer(call, i), input,
                           call.workspace + call.n * offsets_[i].output, dy,
                           gradients + offsets_[i].parameters, input_gradient);
      dy = input_gradient;
    }
    return dy;
  }

 private:
  [[nodiscard]] LayerCall<T> call_of_layer(const LayerCall<T>& call, std::size_t i) const {
    const LayerOffsets& offsets = offsets_[i];
    return {call.kernels,
            call.parameters + offsets.parameters,
            call.workspace + call.n * offsets.workspace,
            call.n,
            call.batch,
            call.running == nullptr ? nullptr : call.running + offsets.statistics,
            call.observed == nullptr ? nullptr : call.observed + offsets.statistics,
            i + 1 < offsets_.size() && offsets_[i + 1].is_fused};
  }

  Layers<T> layers_;
  std::vector<LayerOffsets> offsets_;  // of each layer
};

template <typename T>
class Residual final : public Layer<T> {
 public:
  Residual(std::size_t inputs, std::size_t outputs, Layers<T> inner, Layers<T> shortcut)
      : inputs_(inputs),
        outputs_(outputs),
        inner_(std::move(inner), next_free_),
        shortcut_(std::move(shortcut), next_free_) {}

  [[nodiscard]] std::string description() const override {
    std::string text = "residual (";
    for (const auto& layer : inner_.layers())
      text += (text.back() == '(' ? "" : " - ") + layer->description();
    if (!shortcut_.layers().empty()) text += "; shortcut";
    for (const auto& layer : shortcut_.layers()) text += " - " + layer->description();
    return text + ")";
  }
  [[nodiscard]] std::size_t outputs() const override { return outputs_; }
  /// Returns the space for the arrays of all layers and for the gradients of both branches' inputs.
  [[nodiscard]] std::size_t workspace_size() const override {
    return next_free_.workspace + 2 * aligned_elements(inputs_);
  }
  [[nodiscard]] bool can_fuse_relu() const override { return true; }
  [[nodiscard]] bool communicates() const override {
    const auto is_communicating = [](const auto& layer) { return layer->communicates(); };
    return std::ranges::any_of(inner_.layers(), is_communicating) ||
           std::ranges::any_of(shortcut_.layers(), is_communicating);
  }

  [[nodiscard]] std::vector<NamedShape> parameters() const override {
    return named_tensors([](const Layer<T>& layer) { return layer.parameters(); });
  }
  [[nodiscard]] std::vector<NamedShape> running_statistics() const override {
    return named_tensors([](const Layer<T>& layer) { return layer.running_statistics(); });
  }

  void initialise(std::span<T> parameters, Random& random) const override {
    for_each_layer([&](const Layer<T>& layer, const auto& offsets) {
      layer.initialise(parameters.subspan(offsets.parameters, element_count(layer.parameters())),
                       random);
    });
  }
  void initialise_running_statistics(std::span<T> running) const override {
    for_each_layer([&](const Layer<T>& layer, const auto& offsets) {
      layer.initialise_running_statistics(
          running.subspan(offsets.statistics, element_count(layer.running_statistics())));
    });
  }

  void forward(const LayerCall<T>& call, const T* x, T* y) const override {
    const T* shortcut_output = shortcut_.forward(call, x);
    const T* inner_output = inner_.forward(call, x);
    call.kernels.layer_kernels().add(shortcut_output, inner_output, call.with_relu, y,
                                     call.n * outputs_);
  }

  void backward(const LayerCall<T>& call, const T* x, const T* /*y*/, const T* dy, T* gradients,
                T* dx) const override {
    T* const input_gradients = call.workspace + call.n * next_free_.workspace;
    const T* shortcut_gradient =
        shortcut_.backward(call, x, dy, gradients, dx == nullptr ? nullptr : input_gradients);
    const T* inner_gradient = inner_.backward(
        call, x, dy, gradients,
        dx == nullptr ? nullptr : input_gradients + call.n * aligned_elements(inputs_));
    if (dx != nullptr)
      call.kernels.layer_kernels().add(shortcut_gradient, inner_gradient, false, dx,
                                       call.n * inputs_);
  }

 private:
  /// Calls visit(layer, offsets) for the layers of both branches, in the order of their parameters.
  template <typename Visit>
  void for_each_layer(const Visit& visit) const {
    for (const Branch<T>* branch : {&inner_, &shortcut_}) {
      for (std::size_t i = 0; i < branch->layers().size(); ++i)
        visit(*branch->layers()[i], branch->offsets_of(i));
    }
  }

  /// Returns tensors_of(layer) for all layers, with their names in the block, for example
  /// "0.weight" and "shortcut.0.weight".
  template <typename TensorsOf>
  [[nodiscard]] std::vector<NamedShape> named_tensors(const TensorsOf& tensors_of) const {
    std::vector<NamedShape> all;
    for (const Branch<T>* branch : {&inner_, &shortcut_}) {
      for (std::size_t i = 0; i < branch->layers().size(); ++i) {
        for (NamedShape& shape : tensors_of(*branch->layers()[i]))
          all.push_back(
              {fmt::format("{}{}.{}", branch == &inner_ ? "" : "shortcut.", i, shape.name),
               std::move(shape.shape)});
      }
    }
    return all;
  }

  std::size_t inputs_;
  std::size_t outputs_;
  // After construction, the number of elements that both branches use of each array. Must be
  // declared before the branches, because their constructors advance it.
  typename Branch<T>::NextFree next_free_;
  Branch<T> inner_;
  Branch<T> shortcut_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> make_residual(std::size_t inputs, std::size_t outputs, Layers<T> inner,
                                        Layers<T> shortcut) {
  return std::make_unique<Residual<T>>(inputs, outputs, std::move(inner), std::move(shortcut));
}
template std::unique_ptr<Layer<float>> make_residual(std::size_t, std::size_t, Layers<float>,
                                                     Layers<float>);
template std::unique_ptr<Layer<double>> make_residual(std::size_t, std::size_t, Layers<double>,
                                                      Layers<double>);

}  // namespace dlrun::trainer
