// Builder reads one layer after another, checks that the layer fits the output shape of the layer
// before it, and appends it.

#include "runtime/trainer/nn/model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/text.h"

namespace dlrun::trainer {
namespace {

constexpr std::int64_t kLargestNumber = 1 << 20;
constexpr std::string_view kResidual = "residual:";
constexpr std::string_view kShortcut = "shortcut";
constexpr std::string_view kBatchNorm = "batchnorm";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' ')) {
    if (!trim(word).empty()) words.push_back(trim(word));
  }
  return words;
}

/// Creates layers one after another. shape_ is the shape of the next layer's input.
template <typename T>
class Builder {
 public:
  explicit Builder(const ImageShape& input) : shape_(input) {}

  [[nodiscard]] const ImageShape& shape() const { return shape_; }

  /// Adds the first layer of `texts`. The layers after it decide how its weights are drawn.
  template <typename Text>
  Result<> add_first_layer(std::span<const Text> texts, Layers<T>& layers) {
    std::size_t next = 1;
    while (next < texts.size() && trim(texts[next]).starts_with(kBatchNorm)) ++next;
    const auto following = next < texts.size() ? trim(texts[next]) : std::string_view();
    return add(trim(texts.front()), following == "relu" || following == "silu", layers);
  }

 private:
  /// A kind of layer: its first word, and the function that reads the rest and adds the layer.
  struct Kind {
    std::string_view word;
    Result<> (Builder::*add)(Layers<T>&);
  };
  static const std::array<Kind, 13> kKinds;

  Result<> add(std::string_view text, bool is_before_rectifier, Layers<T>& layers) {
    if (text.starts_with(kResidual)) return residual(text.substr(kResidual.size()), layers);
    words_ = words_of(text);
    if (words_.empty()) return fail(Errc::kUsage, "is empty");
    at_ = 1;
    initialisation_ = is_before_rectifier ? Initialisation::kHe : Initialisation::kGlorot;
    for (const Kind& kind : kKinds) {
      if (kind.word != words_.front()) continue;
      DLRUN_TRY((this->*kind.add)(layers));
      return at_ == words_.size() ? Result<>()
                                  : fail(Errc::kUsage, "unexpected '{}'", printable(words_[at_]));
    }
    std::vector<std::string_view> known{kResidual};
    for (const Kind& kind : kKinds) known.push_back(kind.word);
    const auto near = nearest(words_.front(), known);
    return fail(Errc::kUsage, "no layer is called '{}'{}", printable(words_.front()),
                near ? fmt::format("; did you mean '{}'?", *near) : "");
  }

  /// Reads the next word as a whole number; `what` describes it in the message.
  Result<std::size_t> read_number(std::string_view what) {
    const auto value = at_ < words_.size() ? parse_int(words_[at_]) : std::nullopt;
    if (!value || *value < 1 || *value > kLargestNumber) {
      return fail(Errc::kUsage, "expected {}, a whole number from 1 to {}", what, kLargestNumber);
    }
    ++at_;
    return static_cast<std::size_t>(*value);
  }

  /// If the next word is `word`, reads it and returns true.
  bool accept(std::string_view word) {
    if (at_ == words_.size() || words_[at_] != word) return false;
    ++at_;
    return true;
  }

  /// Returns a window over shape_ whose output has `channels` channels.
  Result<Window> window(std::size_t size, std::size_t stride, std::size_t padding,
                        std::size_t channels) const {
    Window w{shape_, {}, size, stride, padding};
    if (shape_.height + 2 * padding < size || shape_.width + 2 * padding < size) {
      return fail(Errc::kUsage, "a window of {} x {} is larger than its image of {} x {}", size,
                  size, shape_.height, shape_.width);
    }
    w.output = {(shape_.height + 2 * padding - size) / stride + 1,
                (shape_.width + 2 * padding - size) / stride + 1, channels};
    return w;
  }

  Result<> dense(Layers<T>& layers) {
    DLRUN_TRY_ASSIGN(const auto outputs, read_number("its width"));
    layers.push_back(make_dense<T>(shape_.size(), outputs, initialisation_));
    shape_ = {1, 1, outputs};
    return {};
  }

  Result<> conv2d(Layers<T>& layers) {
    DLRUN_TRY_ASSIGN(const auto channels, read_number("the number of its channels"));
    return convolution(channels, false, layers);
  }

  Result<> depthwise(Layers<T>& layers) { return convolution(shape_.channels, true, layers); }

  /// Reads SIZE [stride S] [same] [nobias].
  Result<> convolution(std::size_t channels, bool is_depthwise, Layers<T>& layers) {
    DLRUN_TRY_ASSIGN(auto w, read_window(channels, 1));
    w.is_depthwise = is_depthwise;
    layers.push_back(make_conv2d<T>(w, initialisation_, !accept("nobias")));
    shape_ = w.output;
    return {};
  }

  /// Reads SIZE [stride S] [same]. If the text has no stride, the stride is `default_stride`, or
  /// the window's size if `default_stride` is 0.
  Result<Window> read_window(std::size_t channels, std::size_t default_stride) {
    DLRUN_TRY_ASSIGN(const auto size, read_number("the size of its window"));
    std::size_t stride = default_stride == 0 ? size : default_stride;
    if (accept("stride")) {
      DLRUN_TRY_ASSIGN(stride, read_number("its stride"));
    }
    const bool keeps_size = accept("same");
    if (keeps_size && size % 2 == 0) return fail(Errc::kUsage, "'same' needs a window of odd size");
    return window(size, stride, keeps_size ? size / 2 : 0, channels);
  }

  Result<> max_pool(Layers<T>& layers) {
    DLRUN_TRY_ASSIGN(const auto w, read_window(shape_.channels, 0));
    layers.push_back(make_max_pool<T>(w));
    shape_ = w.output;
    return {};
  }

  Result<> average_pool(Layers<T>& layers) {
    if (accept("all")) {
      layers.push_back(make_global_average_pool<T>(shape_));
      shape_ = {1, 1, shape_.channels};
      return {};
    }
    DLRUN_TRY_ASSIGN(const auto w, read_window(shape_.channels, 0));
    if (w.padding > 0)
      return fail(Errc::kUsage,
                  "avgpool cannot use 'same': the zeros of the padding would count in the means");
    layers.push_back(make_average_pool<T>(w));
    shape_ = w.output;
    return {};
  }

  template <std::unique_ptr<Layer<T>> (*kMake)(std::size_t)>
  Result<> activation(Layers<T>& layers) {
    layers.push_back(kMake(shape_.size()));
    return {};
  }

  Result<> squeeze_excite(Layers<T>& layers) {
    DLRUN_TRY_ASSIGN(const auto squeezed_channels,
                     read_number("the number of its squeezed channels"));
    layers.push_back(
        make_squeeze_excite<T>(shape_.height * shape_.width, shape_.channels, squeezed_channels));
    return {};
  }

  Result<> dropout(Layers<T>& layers) {
    const auto rate = at_ < words_.size() ? parse_double(words_[at_]) : std::nullopt;
    if (!rate || *rate < 0 || *rate >= 1)
      return fail(Errc::kUsage, "expected its rate, from 0 to below 1");
    ++at_;
    layers.push_back(make_dropout<T>(shape_.size(), *rate, dropout_count_++));
    return {};
  }

  Result<> flatten(Layers<T>& /*layers*/) {
    shape_ = {1, 1, shape_.size()};
    return {};
  }

  Result<> batchnorm(Layers<T>& layers) {
    const bool is_synchronised = accept("sync");
    layers.push_back(
        make_batchnorm<T>(shape_.height * shape_.width, shape_.channels, is_synchronised));
    return {};
  }

  Result<> residual(std::string_view text, Layers<T>& layers) {
    const ImageShape before = shape_;
    const std::vector<std::string_view> parts = split(text, ';');
    const auto shortcut =
        std::ranges::find_if(parts, [](std::string_view part) { return trim(part) == kShortcut; });
    const auto at = static_cast<std::size_t>(shortcut - parts.begin());
    Layers<T> inner;
    DLRUN_TRY(add_branch(std::span(parts).first(at), inner));
    const ImageShape after = std::exchange(shape_, before);
    Layers<T> shortcut_layers;
    if (shortcut != parts.end())
      DLRUN_TRY(add_branch(std::span(parts).subspan(at + 1), shortcut_layers));
    if (shape_ != after) {
      return fail(
          Errc::kUsage,
          "its layers turn {} x {} x {} into {} x {} x {}: the output must have the shape of {}",
          before.height, before.width, before.channels, after.height, after.width, after.channels,
          shortcut == parts.end() ? std::string("the input")
                                  : fmt::format("the shortcut's output, {} x {} x {}",
                                                shape_.height, shape_.width, shape_.channels));
    }
    layers.push_back(make_residual<T>(before.size(), after.size(), std::move(inner),
                                      std::move(shortcut_layers)));
    return {};
  }

  /// Adds the layers of one branch of a residual block. Each of `parts` is the text of a layer.
  Result<> add_branch(std::span<const std::string_view> parts, Layers<T>& layers) {
    if (parts.empty() || (parts.size() == 1 && trim(parts[0]).empty()))
      return fail(Errc::kUsage, "a branch has no layer");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (trim(parts[i]).empty())
        return fail(Errc::kUsage, "a branch has an empty layer; leave out a ';'");
      if (trim(parts[i]).starts_with(kResidual))
        return fail(Errc::kUsage, "a residual block cannot contain another residual block");
      DLRUN_TRY(add_first_layer(parts.subspan(i), layers));
    }
    return {};
  }

  ImageShape shape_;
  std::uint64_t dropout_count_ = 0;
  Initialisation initialisation_ = Initialisation::kGlorot;  // of the current layer's weights
  std::vector<std::string_view> words_;                      // of the current layer
  std::size_t at_ = 0;                                       // index of the next word
};

template <typename T>
const std::array<typename Builder<T>::Kind, 13> Builder<T>::kKinds{{
    {"dense", &Builder::dense},
    {"conv2d", &Builder::conv2d},
    {"depthwise", &Builder::depthwise},
    {"maxpool", &Builder::max_pool},
    {"avgpool", &Builder::average_pool},
    {"relu", &Builder::template activation<make_relu<T>>},
    {"tanh", &Builder::template activation<make_tanh<T>>},
    {"sigmoid", &Builder::template activation<make_sigmoid<T>>},
    {"silu", &Builder::template activation<make_silu<T>>},
    {"squeeze-excite", &Builder::squeeze_excite},
    {"dropout", &Builder::dropout},
    {"flatten", &Builder::flatten},
    {kBatchNorm, &Builder::batchnorm},
}};

}  // namespace

template <typename T>
Result<Layers<T>> make_layers(std::span<const std::string> layer_texts, const ImageShape& input,
                              std::size_t classes) {
  Layers<T> layers;
  Builder<T> builder(input);
  for (std::size_t i = 0; i < layer_texts.size(); ++i) {
    if (auto added = builder.add_first_layer(layer_texts.subspan(i), layers); !added) {
      return fail(Errc::kUsage, "layer {}, '{}': {}", i + 1, printable(layer_texts[i]),
                  added.error().message);
    }
  }
  if (layers.empty()) {
    return fail(Errc::kUsage,
                "no layer computes anything; the last layer needs one output for each of {} "
                "classes, as in 'dense {}'",
                classes, classes);
  }
  if (builder.shape().size() != classes) {
    return fail(Errc::kUsage, "the last layer has {} outputs, the data have {} classes",
                builder.shape().size(), classes);
  }
  return layers;
}
template Result<Layers<float>> make_layers(std::span<const std::string>, const ImageShape&,
                                           std::size_t);
template Result<Layers<double>> make_layers(std::span<const std::string>, const ImageShape&,
                                            std::size_t);

}  // namespace dlrun::trainer
