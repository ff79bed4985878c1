#include "runtime/trainer/nn/onednn_convolutions.h"

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <dnnl.hpp>

namespace dlrun::trainer {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// oneDNN's descriptions of the arrays of a window at a batch size. any_w: the weights in a layout
/// that oneDNN chooses.
struct Shapes {
  memory::desc x, y, w, any_w, bias;
  memory::dims strides, padding;

  Shapes(const Window& window, std::size_t n) {
    const auto dim = [](std::size_t value) { return static_cast<memory::dim>(value); };
    const auto image = [&](const ImageShape& shape) {
      return memory::desc({dim(n), dim(shape.channels), dim(shape.height), dim(shape.width)},
                          memory::data_type::f32, Tag::nhwc);
    };
    // oneDNN sees a depthwise convolution as groups of one channel each.
    const memory::dims weights =
        window.is_depthwise
            ? memory::dims{dim(window.output.channels), 1, 1, dim(window.size), dim(window.size)}
            : memory::dims{dim(window.output.channels), dim(window.input.channels),
                           dim(window.size), dim(window.size)};
    x = image(window.input);
    y = image(window.output);
    w = memory::desc(weights, memory::data_type::f32, window.is_depthwise ? Tag::hwigo : Tag::hwio);
    any_w = memory::desc(weights, memory::data_type::f32, Tag::any);
    bias = memory::desc({dim(window.output.channels)}, memory::data_type::f32, Tag::x);
    strides = {dim(window.stride), dim(window.stride)};
    padding = {dim(window.padding), dim(window.padding)};
  }
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

/// Returns desc, moved to its first implementation without a known bug for this window, or to its
/// last implementation if all have the bug. For a window of one pixel with a stride above 1,
/// oneDNN's 1x1 implementation copies the pixels that the stride selects into a workspace. If the
/// number of channels is not a multiple of kChannelsAtATime, this implementation may write beyond
/// the workspace's end (oneDNN issue 6035; version 2.6 with AVX2 crashes or computes wrong
/// gradients).
template <typename Desc>
Desc without_known_bug(Desc desc, const Window& window) {
  constexpr std::size_t kChannelsAtATime = 16;
  const auto is_unsafe = [&] {
    return std::string_view(desc.impl_info_str()).starts_with("jit_1x1");
  };
  if (window.size > 1 || window.stride == 1 || window.input.channels % kChannelsAtATime == 0)
    return desc;
  while (is_unsafe() && desc.next_impl()) continue;
  return desc;
}

/// Removes const, because oneDNN reads through non-const pointers.
void* without_const(const float* data) {
  return const_cast<float*>(data);
}

}  // namespace

struct OnednnConvolutions::Impl {
  /// One pass of a window at a batch size: forward, or backward for the input or the weights.
  struct Pass {
    dnnl::primitive primitive;
    memory w;        // in oneDNN's layout
    memory plain_w;  // in our layout
    dnnl::reorder reorder;
  };
  /// The passes of a window at a batch size.
  struct Entry {
    Window window;
    std::size_t n = 0;
    Shapes shapes;
    std::array<Pass, 4> forward;  // with or without bias and ReLU
    Pass backward_input, backward_weights;
  };
  using ForwardDesc = dnnl::convolution_forward::primitive_desc;

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::unique_ptr<Entry>> entries;  // few entries: layers times batch sizes
  std::vector<std::string> implementations;

  /// Returns the entry of the window and the batch size; creates it at the first call.
  Entry& find_or_make_entry(const Window& window, std::size_t n) {
    for (const auto& existing : entries) {
      if (existing->window == window && existing->n == n) return *existing;
    }
    entries.push_back(std::unique_ptr<Entry>(new Entry{window, n, Shapes(window, n), {}, {}, {}}));
    return *entries.back();
  }

  [[nodiscard]] ForwardDesc forward_desc(const Shapes& s, bool has_bias, bool with_relu) const {
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    using Desc = dnnl::convolution_forward::desc;
    const Desc desc =
        has_bias
            ? Desc(kKind, kAlgorithm, s.x, s.any_w, s.bias, s.y, s.strides, s.padding, s.padding)
            : Desc(kKind, kAlgorithm, s.x, s.any_w, s.y, s.strides, s.padding, s.padding);
    dnnl::primitive_attr attributes;
    if (with_relu) {
      dnnl::post_ops relu;
      relu.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(relu);
    }
    return {desc, attributes, engine};
  }

  // Each of these functions returns its pass, and creates the pass at the first call.

  Pass& forward_pass(Entry& entry, bool has_bias, bool with_relu) {
    Pass& pass = entry.forward[(has_bias ? 2U : 0U) + (with_relu ? 1U : 0U)];
    if (!pass.primitive) {
      const ForwardDesc desc = forward_desc(entry.shapes, has_bias, with_relu);
      pass = make_pass(desc, desc.weights_desc(), entry.shapes, true);
    }
    return pass;
  }

  Pass& backward_input_pass(Entry& entry) {
    if (!entry.backward_input.primitive) {
      const Shapes& s = entry.shapes;
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kAlgorithm, s.x, s.any_w, s.y, s.strides, s.padding, s.padding}, engine,
          forward_desc(s, false, false));
      entry.backward_input = make_pass(desc, desc.weights_desc(), s, true);
    }
    return entry.backward_input;
  }

  Pass& backward_weights_pass(Entry& entry) {
    if (!entry.backward_weights.primitive) {
      const Shapes& s = entry.shapes;
      const auto desc =
          without_known_bug(dnnl::convolution_backward_weights::primitive_desc(
                                {kAlgorithm, s.x, s.any_w, s.y, s.strides, s.padding, s.padding},
                                engine, forward_desc(s, false, false)),
                            entry.window);
      entry.backward_weights = make_pass(desc, desc.diff_weights_desc(), s, false);
    }
    return entry.backward_weights;
  }

  /// Creates a pass. `chosen` is the layout that oneDNN chose for the weights, or for their
  /// gradient if `reads_weights` is false.
  template <typename Desc>
  Pass make_pass(const Desc& desc, const memory::desc& chosen, const Shapes& s,
                 bool reads_weights) {
    implementations.emplace_back(desc.impl_info_str());
    Pass made;
    made.primitive = dnnl::primitive(desc);
    made.plain_w = memory(s.w, engine, nullptr);
    made.w = chosen == s.w ? made.plain_w : memory(chosen, engine);
    if (chosen != s.w) {
      made.reorder =
          reads_weights ? dnnl::reorder(made.plain_w, made.w) : dnnl::reorder(made.w, made.plain_w);
    }
    return made;
  }

  /// Makes the pass use the weights w. Copies them if the primitive reads another layout.
  void set_weights(Pass& pass, const float* w) {
    pass.plain_w.set_data_handle(without_const(w));
    if (pass.reorder) pass.reorder.execute(stream, pass.plain_w, pass.w);
  }

  /// Calls work(), waits for the stream, and converts oneDNN's exceptions to an error.
  template <typename Work>
  Result<> run_and_wait(const Work& work) {
    try {
      work();
      stream.wait();
      return {};
    } catch (const dnnl::error& error) {
      return fail(Errc::kInternal, "oneDNN: convolution: {} (status {})", error.message,
                  static_cast<int>(error.status));
    }
  }
};

OnednnConvolutions::OnednnConvolutions() = default;
OnednnConvolutions::~OnednnConvolutions() = default;

Result<> OnednnConvolutions::forward(const Window& window, std::size_t n, const float* x,
                                     const float* w, const float* bias, bool with_relu, float* y) {
  if (impl_ == nullptr) impl_ = std::make_unique<Impl>();
  return impl_->run_and_wait([&] {
    Impl& impl = *impl_;
    Impl::Entry& entry = impl.find_or_make_entry(window, n);
    const Shapes& s = entry.shapes;
    Impl::Pass& pass = impl.forward_pass(entry, bias != nullptr, with_relu);
    impl.set_weights(pass, w);
    std::unordered_map<int, memory> arrays{
        {DNNL_ARG_SRC, memory(s.x, impl.engine, without_const(x))},
        {DNNL_ARG_WEIGHTS, pass.w},
        {DNNL_ARG_DST, memory(s.y, impl.engine, y)}};
    if (bias != nullptr)
      arrays.emplace(DNNL_ARG_BIAS, memory(s.bias, impl.engine, without_const(bias)));
    pass.primitive.execute(impl.stream, arrays);
  });
}

Result<> OnednnConvolutions::backward_input(const Window& window, std::size_t n, const float* w,
                                            const float* dy, float* dx) {
  if (impl_ == nullptr) impl_ = std::make_unique<Impl>();
  return impl_->run_and_wait([&] {
    Impl& impl = *impl_;
    Impl::Entry& entry = impl.find_or_make_entry(window, n);
    const Shapes& s = entry.shapes;
    Impl::Pass& pass = impl.backward_input_pass(entry);
    impl.set_weights(pass, w);
    pass.primitive.execute(impl.stream,
                           {{DNNL_ARG_DIFF_DST, memory(s.y, impl.engine, without_const(dy))},
                            {DNNL_ARG_WEIGHTS, pass.w},
                            {DNNL_ARG_DIFF_SRC, memory(s.x, impl.engine, dx)}});
  });
}

Result<> OnednnConvolutions::backward_weights(const Window& window, std::size_t n, const float* x,
                                              const float* dy, float* dw) {
  if (impl_ == nullptr) impl_ = std::make_unique<Impl>();
  return impl_->run_and_wait([&] {
    Impl& impl = *impl_;
    Impl::Entry& entry = impl.find_or_make_entry(window, n);
    const Shapes& s = entry.shapes;
    Impl::Pass& pass = impl.backward_weights_pass(entry);
    pass.plain_w.set_data_handle(dw);
    pass.primitive.execute(impl.stream,
                           {{DNNL_ARG_SRC, memory(s.x, impl.engine, without_const(x))},
                            {DNNL_ARG_DIFF_DST, memory(s.y, impl.engine, without_const(dy))},
                            {DNNL_ARG_DIFF_WEIGHTS, pass.w}});
    if (pass.reorder) pass.reorder.execute(impl.stream, pass.w, pass.plain_w);
  });
}

const std::vector<std::string>& OnednnConvolutions::implementations() const {
  static const std::vector<std::string> kNone;
  return impl_ == nullptr ? kNone : impl_->implementations;
}

}  // namespace dlrun::trainer
