#pragma once
// Creates layers from texts that describe them, as in a spec's train.layers.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {

/// Creates layers for images of the given shape. Each text in `layer_texts` describes one layer:
///
///   dense N                          conv2d CHANNELS SIZE [stride S] [same] [nobias]
///   relu | tanh | sigmoid | silu     depthwise SIZE [stride S] [same] [nobias]
///   maxpool SIZE [stride S] [same]   squeeze-excite N
///   avgpool SIZE [stride S] | all    batchnorm [sync]
///   dropout RATE                     flatten
///   residual: LAYER; ... [; shortcut; LAYER; ...]
///
/// 'same' pads so that a stride of 1 keeps height and width: convolutions pad with zeros, and
/// maxpool ignores the padding. 'nobias' leaves out the biases, which a batchnorm after the layer
/// would cancel. depthwise convolves each channel by itself. squeeze-excite scales each channel by
/// a factor. Two dense layers, with N channels between the two, compute the factors from the means
/// of all channels. 'avgpool all' gives the mean of each channel. The stride of a pool defaults to
/// its size. dense flattens its input. batchnorm works per channel; with sync, over the samples of
/// all ranks. A residual block adds the output of its layers to its input, or to the output of the
/// layers after `shortcut`. The last layer must have `classes` outputs. Weights use He's scheme if
/// a relu or silu follows, directly or after a batchnorm, else Glorot's. Fails with kUsage; the
/// message names the wrong layer (number and text) and the reason, or says that the layers together
/// do not have `classes` outputs.
template <typename T>
[[nodiscard]] Result<Layers<T>> make_layers(std::span<const std::string> layer_texts,
                                            const ImageShape& input, std::size_t classes);

/// Returns the texts of the layers of a named model, for make_layers(). Every model ends with a
/// dense layer of `classes` outputs.
/// - mlp: dense layers of the widths in `hidden`, with relu between them.
/// - cnn: the network of Keras's mnist_cnn and Horovod's MNIST examples (conv2d 32 3, conv2d 64 3,
///   maxpool 2, dropout 0.25, dense 128, dropout 0.5, with relu after both convolutions and dense
///   128).
/// - resnet18: the 18 layers of He et al. 2016, table 1, for images with sides of 25 to 32 pixels
///   (first a 3x3 convolution of stride 1 and no maxpool, as used on CIFAR-10).
/// - resnet50: the 50 layers of the same table, for images of any size. A block has its stride in
///   the 3x3 convolution, as in torchvision and others ("v1.5").
/// - efficientnet-b0: Tan & Le 2019, table 1, as in torchvision, without the stochastic depth.
///
/// Fails with kUsage for other names.
[[nodiscard]] Result<std::vector<std::string>> layer_texts_of(const std::string& name,
                                                              std::span<const std::size_t> hidden,
                                                              std::size_t classes);

/// Returns the names of the models, separated by "|".
[[nodiscard]] const std::string& model_names();

}  // namespace dlrun::trainer
