#pragma once
// From a list of layers in words, as a spec has it, to layers.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {

/// Layers for images of the given shape, in words:
///
///   dense N                    conv2d CHANNELS SIZE [stride S] [same]      maxpool SIZE [stride S]
///   relu | tanh | sigmoid      avgpool SIZE [stride S]                     dropout RATE
///   flatten                    batchnorm [sync]                          residual: LAYER; ... [;
///   shortcut; LAYER; ...]
///
/// 'same' pads with zeros so that a stride of 1 keeps height and width. A pool's stride is its size
/// unless given. dense flattens by itself. batchnorm goes by channels, sync over the samples of all
/// ranks together. A residual block adds what its layers give to what it gets, or to what the
/// layers behind `shortcut` make of that. The last layer must give `classes` values. Weights before
/// a relu, or a batchnorm with a relu behind it, are drawn by He's scheme, the others by Glorot's.
/// Fails with kUsage: which layer, by number and words, and why it does not fit.
template <typename T>
[[nodiscard]] Result<Layers<T>> make_layers(std::span<const std::string> words,
                                            const ImageShape& input, std::size_t classes);

/// What a named model stands for: mlp (dense layers of the hidden widths with relu between them);
/// cnn: the network of Keras's mnist_cnn and Horovod's MNIST examples (conv2d 32 3, conv2d 64 3,
/// maxpool 2, dropout 0.25, dense 128, dropout 0.5, relu after convolutions and dense); or
/// resnet18: the eighteen layers of He et al. 2016, table 1, on images of 25 to 32 pixels (a 3x3
/// convolution of stride 1 first and no maxpool, as they are used on CIFAR-10). All end with a
/// dense layer of `classes`. Fails with kUsage for another name.
[[nodiscard]] Result<std::vector<std::string>> named_model(const std::string& name,
                                                           std::span<const std::size_t> hidden,
                                                           std::size_t classes);

}  // namespace dlrun::trainer
