// The named models, as texts of layers (model.h). kModels is the only list of them.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "common/text.h"
#include "runtime/trainer/nn/model.h"

namespace dlrun::trainer {
namespace {

using LayerTexts = std::vector<std::string>;

template <typename... Text>
void add(LayerTexts& texts, const Text&... more) {
  (texts.emplace_back(more), ...);
}

LayerTexts mlp(std::span<const std::size_t> hidden) {
  LayerTexts texts;
  for (const std::size_t width : hidden) add(texts, fmt::format("dense {}", width), "relu");
  return texts;
}

LayerTexts cnn(std::span<const std::size_t> /*hidden*/) {
  return {"conv2d 32 3",  "relu",    "conv2d 64 3", "relu", "maxpool 2",
          "dropout 0.25", "flatten", "dense 128",   "relu", "dropout 0.5"};
}

LayerTexts resnet18(std::span<const std::size_t> /*hidden*/) {
  LayerTexts texts{"conv2d 64 3 same", "batchnorm", "relu"};
  for (const int channels : {64, 128, 256, 512}) {
    for (const bool halves_image : {channels > 64, false}) {
      texts.push_back(fmt::format(
          "residual: conv2d {0} 3{1} same; batchnorm; relu; conv2d {0} 3 same; batchnorm", channels,
          halves_image ? " stride 2" : ""));
      if (halves_image)
        texts.back() += fmt::format("; shortcut; conv2d {} 1 stride 2; batchnorm", channels);
      texts.emplace_back("relu");
    }
  }
  add(texts, "avgpool 4");
  return texts;
}

/// Follows torchvision/models/resnet.py: Bottleneck, with the stride in the 3x3 convolution
/// ("v1.5"), and resnet50's layers [3, 4, 6, 3].
LayerTexts resnet50(std::span<const std::size_t> /*hidden*/) {
  struct Stage {
    int channels, blocks, stride;
  };
  LayerTexts texts{"conv2d 64 7 stride 2 same nobias", "batchnorm", "relu",
                   "maxpool 3 stride 2 same"};
  for (const Stage& stage : {Stage{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}}) {
    for (int block = 0; block < stage.blocks; ++block) {
      const std::string stride =
          block == 0 && stage.stride > 1 ? fmt::format(" stride {}", stage.stride) : "";
      texts.push_back(fmt::format(
          "residual: conv2d {0} 1 nobias; batchnorm; relu; conv2d {0} 3{1} same nobias; batchnorm; "
          "relu; conv2d {2} 1 nobias; batchnorm",
          stage.channels, stride, 4 * stage.channels));
      if (block == 0) {
        texts.back() +=
            fmt::format("; shortcut; conv2d {} 1{} nobias; batchnorm", 4 * stage.channels, stride);
      }
      texts.emplace_back("relu");
    }
  }
  add(texts, "avgpool all");
  return texts;
}

/// Follows torchvision/models/efficientnet.py: MBConv with the settings of efficientnet_b0, without
/// the stochastic depth (which has no parameters).
LayerTexts efficientnet_b0(std::span<const std::size_t> /*hidden*/) {
  struct Stage {
    int expansion, size, stride, channels, blocks;
  };
  LayerTexts texts{"conv2d 32 3 stride 2 same nobias", "batchnorm", "silu"};
  int input_channels = 32;
  for (const Stage& stage : {Stage{1, 3, 1, 16, 1},
                             {6, 3, 2, 24, 2},
                             {6, 5, 2, 40, 2},
                             {6, 3, 2, 80, 3},
                             {6, 5, 1, 112, 3},
                             {6, 5, 2, 192, 4},
                             {6, 3, 1, 320, 1}}) {
    for (int block = 0; block < stage.blocks; ++block) {
      LayerTexts layers;
      if (stage.expansion > 1) {
        add(layers, fmt::format("conv2d {} 1 nobias", input_channels * stage.expansion),
            "batchnorm", "silu");
      }
      const bool halves_image = block == 0 && stage.stride > 1;
      add(layers,
          fmt::format("depthwise {}{} same nobias", stage.size, halves_image ? " stride 2" : ""),
          "batchnorm", "silu", fmt::format("squeeze-excite {}", input_channels / 4),
          fmt::format("conv2d {} 1 nobias", stage.channels), "batchnorm");
      // Only a block whose output has the shape of its input adds the input.
      if (halves_image || input_channels != stage.channels) {
        texts.insert(texts.end(), layers.begin(), layers.end());
      } else {
        texts.push_back("residual: " + join(layers, "; "));
      }
      input_channels = stage.channels;
    }
  }
  add(texts, "conv2d 1280 1 nobias", "batchnorm", "silu", "avgpool all", "dropout 0.2");
  return texts;
}

struct NamedModel {
  std::string_view name;
  LayerTexts (*texts)(std::span<const std::size_t> hidden);  // without the dense layer at the end
};
constexpr std::array<NamedModel, 5> kModels{{{"mlp", mlp},
                                             {"cnn", cnn},
                                             {"resnet18", resnet18},
                                             {"resnet50", resnet50},
                                             {"efficientnet-b0", efficientnet_b0}}};

}  // namespace

const std::string& model_names() {
  static const std::string kNames = [] {
    std::string all;
    for (const NamedModel& model : kModels)
      all += fmt::format("{}{}", all.empty() ? "" : "|", model.name);
    return all;
  }();
  return kNames;
}

Result<std::vector<std::string>> layer_texts_of(const std::string& name,
                                                std::span<const std::size_t> hidden,
                                                std::size_t classes) {
  for (const NamedModel& model : kModels) {
    if (model.name != name) continue;
    LayerTexts texts = model.texts(hidden);
    texts.push_back(fmt::format("dense {}", classes));
    return texts;
  }
  return fail(Errc::kUsage, "--model {}: expected one of {}", printable(name), model_names());
}

}  // namespace dlrun::trainer
