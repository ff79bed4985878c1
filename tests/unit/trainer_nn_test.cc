// Tests layers and loss: gradients against finite differences in double precision, and float
// against double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {
namespace {

using LayerTexts = std::vector<std::string>;

constexpr ImageShape kImage{6, 5, 2};
constexpr std::size_t kInputs = 6 * 5 * 2;
constexpr std::size_t kClasses = 4;
constexpr std::size_t kBatch = 6;
const LayerTexts kMlp{"dense 7", "relu", "dense 5", "relu", "dense 4"};

/// Networks that together contain every layer type. Each type comes after layers with parameters: a
/// wrong gradient of its input makes the gradients of these parameters wrong. No relu gets an input
/// of exactly 0, where it has no derivative.
const std::vector<LayerTexts> kModels{
    kMlp,
    {"conv2d 3 3", "tanh", "conv2d 2 3 same", "sigmoid", "flatten", "dense 4"},
    {"conv2d 4 3 stride 2 same", "relu", "dense 4"},
    {"conv2d 3 3 same", "relu", "maxpool 2", "relu", "dense 4"},
    {"conv2d 3 3 stride 2 same", "relu", "maxpool 3", "dense 4"},
    {"conv2d 3 3 same", "maxpool 3 stride 1", "tanh", "conv2d 2 2", "avgpool 2 stride 1",
     "dense 4"},
    {"dense 8", "dropout 0.3", "tanh", "dropout 0.5", "dense 4"},
    {"conv2d 3 3 same", "relu", "residual: conv2d 3 3 same; tanh; dropout 0.2; conv2d 3 3 same",
     "tanh", "dense 4"},
    {"residual: conv2d 4 3 same; tanh; conv2d 2 1", "avgpool 5", "tanh", "dense 4"},
    {"conv2d 3 3 same", "batchnorm", "tanh", "dense 8", "batchnorm sync", "tanh", "dense 4"},
    {"residual: conv2d 4 3 stride 2 same; batchnorm; tanh; conv2d 4 3 same; batchnorm; shortcut; "
     "conv2d 4 1 stride 2",
     "tanh", "residual: batchnorm; shortcut; tanh; dropout 0.2; batchnorm", "dense 4"},
    {"conv2d 8 3 same nobias", "batchnorm", "silu", "depthwise 3 stride 2 same", "silu",
     "squeeze-excite 3", "avgpool all", "dense 4"},
    {"depthwise 2", "tanh", "maxpool 3 stride 2 same", "depthwise 3 same nobias",
     "residual: squeeze-excite 2; silu", "dense 4"},
};

template <typename T>
Layers<T> layers_of(const LayerTexts& layer_texts, const ImageShape& image = kImage,
                    std::size_t classes = kClasses) {
  auto layers = make_layers<T>(layer_texts, image, classes);
  REQUIRE_MESSAGE(layers.has_value(), layers.error().message);
  return std::move(*layers);
}

template <typename T>
struct NetworkFixture {
  std::unique_ptr<Kernels<T>> kernels = make_cpu_kernels<T>(1);
  Network<T> network;
  std::vector<std::uint8_t> labels;
  std::vector<std::uint32_t> samples{11, 3, 7, 100, 0, 52};

  explicit NetworkFixture(const LayerTexts& layer_texts = kMlp)
      : network(*kernels, layers_of<T>(layer_texts), kInputs, kBatch, 2) {
    network.initialise(3);
    Random random(9, Purpose::kShuffle);
    for (std::size_t i = 0; i < kBatch * kInputs; ++i)
      network.input()[i] = static_cast<T>(random.uniform(-1, 1));
    for (std::size_t i = 0; i < kBatch; ++i)
      labels.push_back(static_cast<std::uint8_t>(random.below(kClasses)));
  }

  /// Returns the mean loss over the first n samples, with dropout as in training. If
  /// `with_gradients`, also computes the gradients.
  T loss(std::size_t n, bool with_gradients) {
    T totals[2] = {0, 0};
    const T scale = n > 0 ? T{1} / static_cast<T>(n) : T{0};
    network.forward(n, {.is_training = true, .seed = 5, .step = 3, .samples = samples});
    kernels->softmax_cross_entropy(network.output(), labels.data(), n, kClasses, scale,
                                   with_gradients ? network.output_gradient() : nullptr, totals);
    if (with_gradients) network.backward(n, [](std::size_t) {});
    return totals[0] * scale;
  }
};

}  // namespace

TEST_CASE(
    "every gradient of every layer equals the loss's derivative, by central differences in "
    "double") {
  for (const LayerTexts& layer_texts : kModels) {
    NetworkFixture<double> fixture(layer_texts);
    CAPTURE(fixture.network.description());
    fixture.loss(kBatch, true);
    const std::vector<double> gradients(fixture.network.gradients().begin(),
                                        fixture.network.gradients().end());
    // The error of central differences is h^2 * f''' / 6 + 2^-53 / h: about 1e-10 here.
    constexpr double kStep = 1e-5;
    double largest = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      double& parameter = fixture.network.parameters()[i];
      const double kept = parameter;
      parameter = kept + kStep;
      const double above = fixture.loss(kBatch, false);
      parameter = kept - kStep;
      const double below = fixture.loss(kBatch, false);
      parameter = kept;
      CAPTURE(i);
      CHECK(gradients[i] ==
            doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-6).scale(1e-2));
      largest = std::max(largest, std::abs(gradients[i]));
    }
    CHECK(largest > 0.01);  // a network of zeros would also pass the comparison
  }
}

TEST_CASE(
    "gradients in float match those in double, and no convolution uses oneDNN's slow reference") {
  for (const LayerTexts& layer_texts : kModels) {
    NetworkFixture<float> single(layer_texts);
    NetworkFixture<double> reference(layer_texts);
    CAPTURE(single.network.description());
    CHECK(single.loss(kBatch, true) == doctest::Approx(reference.loss(kBatch, true)).epsilon(1e-5));
    for (std::size_t i = 0; i < reference.network.gradients().size(); ++i) {
      CAPTURE(i);
      // Each gradient is a sum of up to a few hundred products, each with a relative error
      // of 2^-24.
      CHECK(single.network.gradients()[i] ==
            doctest::Approx(reference.network.gradients()[i]).epsilon(1e-4).scale(1e-2));
    }
    REQUIRE(single.kernels->synchronise().has_value());
    const std::string text = single.network.description();
    const bool has_convolutions =
        text.find("conv2d") != std::string::npos || text.find("depthwise") != std::string::npos;
    CHECK(single.kernels->layer_kernels().implementations().empty() != has_convolutions);
    for (const std::string& name : single.kernels->layer_kernels().implementations()) {
      CHECK_MESSAGE(name.find("ref") == std::string::npos, name);
    }
  }
}

TEST_CASE(
    "resnet50 on large images uses Winograd and matrix products, but never oneDNN's slow "
    "reference") {
  constexpr ImageShape kLarge{120, 120, 12};
  auto kernels = make_cpu_kernels<float>(1);
  const auto layer_texts = layer_texts_of("resnet50", {}, kClasses);
  REQUIRE(layer_texts.has_value());
  Network<float> network(*kernels, layers_of<float>(*layer_texts, kLarge), kLarge.size(), 1, 0);
  network.initialise(1);
  network.forward(1, {.is_training = true});
  network.backward(1, [](std::size_t) {});
  REQUIRE(kernels->synchronise().has_value());
  const std::vector<std::string> used = kernels->layer_kernels().implementations();
  for (const std::string& name : used) CHECK_MESSAGE(name.find("ref") == std::string::npos, name);
  for (const char* name : {"winograd", "product"}) CHECK(std::ranges::count(used, name) == 1);
}

TEST_CASE("backward overwrites old gradients, and reports layers from the last to the first") {
  NetworkFixture<double> fixture;
  fixture.loss(kBatch, true);
  const std::vector<double> once(fixture.network.gradients().begin(),
                                 fixture.network.gradients().end());
  fixture.loss(kBatch, true);
  CHECK(once == std::vector<double>(fixture.network.gradients().begin(),
                                    fixture.network.gradients().end()));
  std::vector<std::size_t> order;
  fixture.network.backward(kBatch, [&](std::size_t layer) { order.push_back(layer); });
  CHECK(order == std::vector<std::size_t>{4, 3, 2, 1, 0});
}

TEST_CASE("an empty batch has no loss and zero gradients") {
  NetworkFixture<float> fixture;
  fixture.loss(kBatch, true);
  CHECK(fixture.loss(0, true) == 0);
  for (const float gradient : fixture.network.gradients()) CHECK(gradient == 0);
  for (const LayerTexts& layer_texts : kModels) {
    NetworkFixture<float> other(layer_texts);
    CAPTURE(other.network.description());
    other.loss(kBatch, true);
    other.loss(0, true);
    for (const float gradient : other.network.gradients()) REQUIRE(gradient == 0);
  }
}

TEST_CASE(
    "the gradients of a batch's parts, each divided by the batch's size, add up to the batch's "
    "gradient") {
  NetworkFixture<double> fixture;
  fixture.loss(kBatch, true);
  const std::vector<double> whole(fixture.network.gradients().begin(),
                                  fixture.network.gradients().end());
  std::vector<double> sum(whole.size());
  const std::vector<double> inputs(fixture.network.input(),
                                   fixture.network.input() + kBatch * kInputs);
  std::size_t at = 0;
  for (const std::size_t n : {4U, 2U}) {
    std::copy_n(inputs.begin() + static_cast<std::ptrdiff_t>(at * kInputs), n * kInputs,
                fixture.network.input());
    double totals[2] = {0, 0};
    fixture.network.forward(n);
    fixture.kernels->softmax_cross_entropy(fixture.network.output(), fixture.labels.data() + at, n,
                                           kClasses, 1.0 / kBatch,
                                           fixture.network.output_gradient(), totals);
    fixture.network.backward(n, [](std::size_t) {});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += fixture.network.gradients()[i];
    at += n;
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    CHECK(sum[i] == doctest::Approx(whole[i]).epsilon(1e-12).scale(1e-3));
}

TEST_CASE_TEMPLATE(
    "a layer that computes a batch in parts gives each sample's outputs and the sum of all "
    "samples' gradients",
    T, float, double) {
  constexpr ImageShape kLarge{28, 28, 1};
  constexpr std::size_t kMany = 14;
  const std::vector<LayerTexts> models{
      {"conv2d 128 3", "relu", "maxpool 2", "dense 4"},
      {"conv2d 20 3 same", "tanh", "conv2d 84 3 same", "relu", "dense 4"}};
  for (const LayerTexts& layer_texts : models) {
    for (const int threads : {1, 2}) {
      auto kernels = make_cpu_kernels<T>(threads);
      Network<T> network(*kernels, layers_of<T>(layer_texts, kLarge), kLarge.size(), kMany, 0);
      CAPTURE(network.description());
      CAPTURE(threads);
      // A layer needs several parts for the batch; otherwise this test would check nothing.
      REQUIRE(kernels->layer_kernels().samples_per_part(26 * 26 * 128 * sizeof(T)) < kMany);
      network.initialise(3);
      Random random(9, Purpose::kShuffle);
      std::vector<T> images(kMany * kLarge.size());
      for (T& pixel : images) pixel = static_cast<T>(random.uniform(-1, 1));
      std::vector<T> deltas(kMany * kClasses);
      for (T& delta : deltas) delta = static_cast<T>(random.uniform(-1, 1));
      const auto run = [&](std::size_t first, std::size_t n) {
        std::copy_n(images.data() + first * kLarge.size(), n * kLarge.size(), network.input());
        network.forward(n);
        std::copy_n(deltas.data() + first * kClasses, n * kClasses, network.output_gradient());
        network.backward(n, [](std::size_t) {});
      };
      run(0, kMany);
      const std::vector<T> outputs(network.output(), network.output() + kMany * kClasses);
      const std::vector<T> whole(network.gradients().begin(), network.gradients().end());
      std::vector<double> sum(whole.size());
      // Float results are sums of some thousand products of numbers below 1.
      const double tolerance = std::is_same_v<T, float> ? 2e-4 : 1e-12;
      for (std::size_t i = 0; i < kMany; ++i) {
        run(i, 1);
        for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += double{network.gradients()[j]};
        for (std::size_t j = 0; j < kClasses; ++j)
          CHECK(network.output()[j] ==
                doctest::Approx(outputs[i * kClasses + j]).epsilon(tolerance).scale(1));
      }
      std::size_t wrong_count = 0;
      for (std::size_t j = 0; j < sum.size(); ++j) {
        if (whole[j] != doctest::Approx(sum[j]).epsilon(tolerance).scale(1)) ++wrong_count;
      }
      CHECK(wrong_count == 0);
      run(0, 0);
      CHECK(std::ranges::all_of(network.gradients(), [](T gradient) { return gradient == 0; }));
      CHECK(kernels->synchronise().has_value());
    }
  }
}

TEST_CASE(
    "a convolution with a fused ReLU gives the same bits as the two layers one after the other") {
  auto kernels = make_cpu_kernels<float>(1);
  Random random(4, Purpose::kInit);
  const auto drawn = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
    return values;
  };
  constexpr std::size_t kImages = 3;
  for (const Window& window :
       {Window{{28, 28, 1}, {26, 26, 32}, 3, 1, 0}, Window{{9, 9, 32}, {5, 5, 64}, 3, 2, 1},
        Window{{6, 5, 2}, {6, 5, 3}, 3, 1, 1}, Window{{8, 9, 64}, {8, 9, 64}, 3, 1, 1},
        Window{{9, 9, 64}, {5, 5, 64}, 3, 2, 1}}) {
    const auto x = drawn(kImages * window.input.size());
    const auto w =
        drawn(window.size * window.size * window.input.channels * window.output.channels);
    const auto bias = drawn(window.output.channels);
    std::vector<float> apart(kImages * window.output.size());
    std::vector<float> together(apart.size());
    kernels->layer_kernels().convolve(window, kImages, x.data(), w.data(), bias.data(), false,
                                      apart.data());
    kernels->relu(apart.data(), apart.data(), apart.size());
    kernels->layer_kernels().convolve(window, kImages, x.data(), w.data(), bias.data(), true,
                                      together.data());
    CHECK(apart == together);
    CHECK(std::ranges::count(together, 0.0F) > 0);
    CHECK(std::ranges::any_of(together, [](float value) { return value > 0; }));
  }
}

TEST_CASE(
    "softmax cross-entropy and its gradient are right for large logits, and right answers are "
    "counted") {
  auto kernels = make_cpu_kernels<double>(1);
  const double logits[] = {1000, 0, -1000, 0, 0, 0};
  const std::uint8_t labels[] = {0, 1};
  double gradient[6];
  double totals[2] = {0, 0};
  kernels->softmax_cross_entropy(logits, labels, 2, 3, 1, gradient, totals);
  CHECK(totals[0] == doctest::Approx(std::log(3)));  // 0 for the first sample, log 3 for the second
  CHECK(totals[1] == 1);  // the second sample is wrong: of equal logits, the first is the answer
  CHECK(gradient[0] == doctest::Approx(0));
  CHECK(gradient[3] == doctest::Approx(1.0 / 3));
  CHECK(gradient[4] == doctest::Approx(-2.0 / 3));
}

TEST_CASE("matrix products agree between float and double for every transposition") {
  auto single = make_cpu_kernels<float>(1);
  auto reference = make_cpu_kernels<double>(1);
  constexpr std::size_t kM = 5;
  constexpr std::size_t kN = 9;
  constexpr std::size_t kK = 13;
  Random random(1, Purpose::kInit);
  std::vector<double> a(kM * kK);
  std::vector<double> b(kK * kN);
  for (double& x : a) x = random.uniform(-1, 1);
  for (double& x : b) x = random.uniform(-1, 1);
  const std::vector<float> a_single(a.begin(), a.end());
  const std::vector<float> b_single(b.begin(), b.end());
  for (const auto ta : {Transpose::kNo, Transpose::kYes}) {
    for (const auto tb : {Transpose::kNo, Transpose::kYes}) {
      for (const int beta : {0, 1}) {
        std::vector<double> c(kM * kN, 2);
        std::vector<float> c_single(kM * kN, 2);
        reference->gemm(ta, tb, kM, kN, kK, a.data(), b.data(), beta, c.data());
        single->gemm(ta, tb, kM, kN, kK, a_single.data(), b_single.data(), static_cast<float>(beta),
                     c_single.data());
        for (std::size_t i = 0; i < c.size(); ++i)
          CHECK(c_single[i] == doctest::Approx(c[i]).epsilon(1e-5).scale(1));
      }
    }
  }
}

TEST_CASE("initial parameters depend only on the seed, and have the published variance") {
  auto kernels = make_cpu_kernels<float>(1);
  const std::vector<std::size_t> hidden{512};
  const auto mlp = [&] {
    return layers_of<float>(*layer_texts_of("mlp", hidden, 10), {28, 28, 1}, 10);
  };
  Network<float> a(*kernels, mlp(), 784, 1, 0);
  Network<float> b(*kernels, mlp(), 784, 8, 3);
  a.initialise(5);
  b.initialise(5);
  CHECK(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  b.initialise(6);
  CHECK_FALSE(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));

  const auto variance = [&](std::size_t begin, std::size_t count) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + count; ++i)
      sum += double{a.parameters()[i]} * a.parameters()[i];
    return sum / static_cast<double>(count);
  };
  CHECK(variance(0, 784 * 512) == doctest::Approx(2.0 / 784).epsilon(0.02));
  CHECK(variance(a.first_element_of(2), 512 * 10) ==
        doctest::Approx(2.0 / (512 + 10)).epsilon(0.1));
  CHECK(variance(784 * 512, 512) == 0);  // biases
  REQUIRE(a.tensors().size() == 4);
  CHECK(a.tensors()[0].name == "layers.0.weight");
  CHECK(a.tensors()[0].shape == std::vector<std::size_t>{784, 512});
  CHECK(a.tensors()[3].name == "layers.2.bias");
  CHECK(a.tensors()[3].offset == 784 * 512 + 512 + 512 * 10);
}

TEST_CASE(
    "cnn has the published layers 32c3, 64c3, maxpool 2, 128, 10 with dropouts, and an unknown "
    "model is refused") {
  auto kernels = make_cpu_kernels<float>(1);
  Network<float> cnn(*kernels, layers_of<float>(*layer_texts_of("cnn", {}, 10), {28, 28, 1}, 10),
                     784, 2, 0);
  CHECK(cnn.description() ==
        "784 - conv2d 32 3x3 - relu - conv2d 64 3x3 - relu - maxpool 2 - dropout 0.25 - dense 128 "
        "- relu - dropout 0.5 - "
        "dense 10");
  CHECK(cnn.parameters().size() == 320 + 18'496 + (12 * 12 * 64 * 128 + 128) + 1290);
  CHECK(layer_texts_of("cnm", {}, 10).error().message ==
        "--model cnm: expected one of mlp|cnn|resnet18|resnet50|efficientnet-b0");
}

TEST_CASE(
    "resnet18 has the published number of parameters, apart from its changes for small images") {
  auto kernels = make_cpu_kernels<float>(1);
  Network<float> resnet(
      *kernels, layers_of<float>(*layer_texts_of("resnet18", {}, 10), {32, 32, 3}, 10), 3072, 1, 0);
  // PyTorch's resnet18 has 11 689 512 parameters. Here the first window is 3x3 instead of 7x7, the
  // last layer has 10 outputs instead of 1000, and the 20 convolutions (3 of them shortcuts) have
  // biases, which batchnorm cancels.
  const std::size_t biases = 64 + 4 * 64 + 4 * 128 + 4 * 256 + 4 * 512 + 128 + 256 + 512;
  CHECK(resnet.parameters().size() == 11'689'512 - 64 * 3 * (49 - 9) - 513 * 990 + biases);
  CHECK(resnet.running_statistics().size() == 2 * biases);
  const auto is_mean = [](const TensorLocation& tensor) {
    return tensor.name == "layers.7.shortcut.1.running_mean";
  };
  CHECK(std::ranges::count_if(resnet.running_tensors(), is_mean) == 1);
}

TEST_CASE("resnet50 and efficientnet-b0 have the published numbers of parameters") {
  const auto parameters_of = [](const char* name, std::size_t edge) {
    std::size_t count = 0;
    for (const auto& layer :
         layers_of<float>(*layer_texts_of(name, {}, 1000), {edge, edge, 3}, 1000)) {
      for (const NamedShape& shape : layer->parameters()) count += shape.count();
    }
    return count;
  };
  // torchvision's documentation: ResNet50_Weights and EfficientNet_B0_Weights, num_params.
  for (const std::size_t edge : {32U, 120U, 224U}) {
    CHECK(parameters_of("resnet50", edge) == 25'557'032);
    CHECK(parameters_of("efficientnet-b0", edge) == 5'288'548);
  }
}

TEST_CASE(
    "resnet50 has 16 residual blocks, and its third stage halves height and width in a 3x3 "
    "convolution") {
  const LayerTexts layer_texts = *layer_texts_of("resnet50", {}, 10);
  CHECK(std::ranges::count_if(layer_texts, [](const std::string& text) {
          return text.starts_with("residual");
        }) == 16);
  CHECK(std::ranges::count(layer_texts,
                           "residual: conv2d 256 1 nobias; batchnorm; relu; conv2d 256 3 stride 2 "
                           "same nobias; batchnorm; relu; conv2d 1024 1 nobias; batchnorm; "
                           "shortcut; conv2d 1024 1 stride 2 nobias; batchnorm") == 1);
}

TEST_CASE("resnet50 and efficientnet-b0 can overfit a small batch") {
  struct Case {
    std::string name;
    float rate;
  };
  for (const auto& [name, rate] : {Case{"resnet50", 0.005F}, Case{"efficientnet-b0", 0.05F}}) {
    CAPTURE(name);
    constexpr ImageShape kSmall{32, 32, 3};
    const auto kernels = make_cpu_kernels<float>(1);
    Network<float> network(*kernels, layers_of<float>(*layer_texts_of(name, {}, kClasses), kSmall),
                           kSmall.size(), kBatch, 2);
    network.initialise(3);
    Random random(9, Purpose::kShuffle);
    const std::vector<std::uint8_t> labels{0, 1, 2, 3, 0, 1};
    std::vector<float> images(kBatch * kSmall.size());
    for (float& pixel : images) pixel = static_cast<float>(random.uniform(-1, 1));
    float first = 0;
    float last = 0;
    for (std::uint64_t step = 0; step < 12; ++step) {
      std::ranges::copy(images, network.input());
      network.forward(kBatch, {.is_training = true, .seed = 5, .step = step});
      float totals[2] = {0, 0};
      kernels->softmax_cross_entropy(network.output(), labels.data(), kBatch, kClasses,
                                     1.0F / kBatch, network.output_gradient(), totals);
      network.backward(kBatch, [](std::size_t) {});
      kernels->add_scaled(network.parameters().data(), -rate, network.gradients().data(),
                          network.parameters().size());
      (step == 0 ? first : last) = totals[0] / kBatch;
    }
    CHECK(first > 0.7);
    CHECK(last < first / 3);
    CHECK(kernels->synchronise().has_value());
    for (const std::string& used : kernels->layer_kernels().implementations())
      CHECK_MESSAGE(used.find("ref") == std::string::npos, used);
  }
}

TEST_CASE("convolution and pooling give numbers computed by hand") {
  auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  const Window window{{3, 3, 1}, {2, 2, 1}, 2, 1, 0};
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<float> w{1, 10, 100, 1000};
  const float bias = 0.5F;
  std::vector<float> y(4);
  layers.convolve(window, 1, x.data(), w.data(), &bias, false, y.data());
  CHECK(y == std::vector<float>{5421.5F, 6532.5F, 8754.5F, 9865.5F});
  const std::vector<float> with_ties{5, 5, 1, 5, 4, 3, 1, 2, 3};
  layers.max_pool(window, 1, with_ties.data(), y.data());
  CHECK(y == std::vector<float>{5, 5, 5, 4});
  const std::vector<float> dy{1, 2, 4, 8};
  std::vector<float> dx(9, -1);
  layers.max_pool_backward(window, 1, with_ties.data(), y.data(), dy.data(), dx.data());
  CHECK(dx == std::vector<float>{1, 2, 0, 4, 8, 0, 0, 0, 0});  // the first of equal values
  const Window tiles{{2, 4, 1}, {1, 2, 1}, 2, 2, 0};
  const std::vector<float> tiled{3, 7, 2, 2, 7, 1, 2, 2};
  layers.max_pool(tiles, 1, tiled.data(), y.data());
  CHECK(std::vector<float>(y.begin(), y.begin() + 2) == std::vector<float>{7, 2});
  dx.assign(8, -1);
  layers.max_pool_backward(tiles, 1, tiled.data(), y.data(), dy.data(), dx.data());
  CHECK(dx == std::vector<float>{0, 1, 2, 0, 0, 0, 0, 0});
  layers.average_pool(window, 1, x.data(), y.data());
  CHECK(y == std::vector<float>{3, 4, 6, 7});
}

TEST_CASE(
    "dropout depends only on seed, step, sample and layer, keeps the mean, and is off outside of "
    "training") {
  auto kernels = make_cpu_kernels<float>(1);
  constexpr std::size_t kWidth = 20'000;
  const auto layer = make_dropout<float>(kWidth, 0.25, 0);
  const auto other_layer = make_dropout<float>(kWidth, 0.25, 1);
  const std::vector<float> ones(2 * kWidth, 1);
  std::vector<float> workspace(2 * kWidth);
  const auto after_dropout = [&](const Layer<float>& dropout, std::vector<std::uint32_t> samples,
                                 std::uint64_t step, bool is_training = true) {
    const BatchInfo batch{is_training, 9, step, samples};
    std::vector<float> y(samples.size() * kWidth);
    dropout.forward({*kernels, nullptr, workspace.data(), samples.size(), batch}, ones.data(),
                    y.data());
    return y;
  };
  const auto both = after_dropout(*layer, {4, 8}, 1);
  const auto alone = after_dropout(*layer, {8}, 1);
  CHECK(std::equal(alone.begin(), alone.end(), both.begin() + kWidth));
  CHECK_FALSE(std::equal(alone.begin(), alone.end(), both.begin()));
  CHECK(after_dropout(*layer, {8}, 2) != alone);
  CHECK(after_dropout(*other_layer, {8}, 1) != alone);
  CHECK(after_dropout(*layer, {8}, 1, false) == std::vector<float>(kWidth, 1));
  const auto zeros = std::count(alone.begin(), alone.end(), 0.0F);
  // The limit is twenty standard deviations.
  CHECK(static_cast<double>(zeros) / kWidth == doctest::Approx(0.25).epsilon(0.05));
  CHECK(std::count(alone.begin(), alone.end(), 1 / 0.75F) + zeros == kWidth);
}

TEST_CASE("an invalid layer is refused with its number, its text and the reason") {
  const auto message = [](const LayerTexts& layer_texts) {
    const auto layers = make_layers<float>(layer_texts, {28, 28, 1}, 10);
    return layers ? "" : layers.error().message;
  };
  CHECK(message({"dense 10"}).empty());
  CHECK(message({"relu", "desne 10"}) ==
        "layer 2, 'desne 10': no layer is called 'desne'; did you mean 'dense'?");
  CHECK(message({"dense"}) ==
        "layer 1, 'dense': expected its width, a whole number from 1 to 1048576");
  CHECK(message({"conv2d 8 3 strid 2"}) == "layer 1, 'conv2d 8 3 strid 2': unexpected 'strid'");
  CHECK(message({"conv2d 8 29"}) ==
        "layer 1, 'conv2d 8 29': a window of 29 x 29 is larger than its image of 28 x 28");
  CHECK(message({"conv2d 8 2 same"}) ==
        "layer 1, 'conv2d 8 2 same': 'same' needs a window of odd size");
  CHECK(message({"conv2d 8 3 nobias same"}) ==
        "layer 1, 'conv2d 8 3 nobias same': unexpected 'same'");
  CHECK(message({"depthwise"}) ==
        "layer 1, 'depthwise': expected the size of its window, a whole number from 1 to 1048576");
  CHECK(message({"squeeze-excite"}) ==
        "layer 1, 'squeeze-excite': expected the number of its squeezed channels, a whole "
        "number from 1 to 1048576");
  CHECK(
      message({"avgpool 3 same"}) ==
      "layer 1, 'avgpool 3 same': avgpool cannot use 'same': the zeros of the padding would count "
      "in the means");
  CHECK(message({"siul"}) == "layer 1, 'siul': no layer is called 'siul'; did you mean 'silu'?");
  CHECK(message({"dropout 1"}) == "layer 1, 'dropout 1': expected its rate, from 0 to below 1");
  CHECK(message({"residual: conv2d 2 3"}).find("turn 28 x 28 x 1 into 26 x 26 x 2") !=
        std::string::npos);
  CHECK(message({"residual: conv2d 2 3; shortcut; conv2d 3 3"})
            .find("the shape of the shortcut's output, 26 x 26 x 3") != std::string::npos);
  CHECK(message({"residual: shortcut; relu"}).find("a branch has no layer") != std::string::npos);
  CHECK(message({"residual:"}) == "layer 1, 'residual:': a branch has no layer");
  CHECK(message({"residual: relu;"}) ==
        "layer 1, 'residual: relu;': a branch has an empty layer; leave out a ';'");
  CHECK(message({"batchnorm sinc"}) == "layer 1, 'batchnorm sinc': unexpected 'sinc'");
  CHECK(message({"residual: residual: relu"}).find("cannot contain another residual block") !=
        std::string::npos);
  CHECK(message({"flatten"}) ==
        "no layer computes anything; the last layer needs one output for each of 10 classes, as in "
        "'dense 10'");
  CHECK(message({"dense 9"}) == "the last layer has 9 outputs, the data have 10 classes");
  CHECK(message({""}) == "layer 1, '': is empty");
}

TEST_CASE("gather() copies the labels and the scaled pixels of a batch") {
  const Dataset digits = generate_digits(20, 1, false);
  auto kernels = make_cpu_kernels<float>(1);
  const DeviceData data = kernels->upload(digits);
  const std::vector<std::uint32_t> samples{7, 0, 19, 7};
  std::vector<float> x(samples.size() * digits.features);
  std::vector<std::uint8_t> labels(samples.size());
  kernels->gather(data, samples, 1.0F / 255, x.data(), labels.data());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CHECK(labels[i] == digits.labels[samples[i]]);
    for (std::size_t j = 0; j < digits.features; ++j) {
      REQUIRE(x[i * digits.features + j] ==
              static_cast<float>(digits.images[samples[i] * digits.features + j]) * (1.0F / 255));
    }
  }
}

TEST_CASE(
    "after a thread has made CPU kernels for float, denormal numbers are zero in this thread") {
  auto kernels = make_cpu_kernels<float>(1);
  volatile float small = 1e-38F;
  CHECK(small * 0.1F == 0);
}

}  // namespace dlrun::trainer
