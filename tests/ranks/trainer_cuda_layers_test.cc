// Compares convolutional networks on the GPU with the CPU: each operation, each layer, and
// several steps.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/nn/layer_kernels.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/optim/formulas.h"
#include "tests/ranks/on_gpu.h"

namespace dlrun::trainer {
namespace {

using LayerTexts = std::vector<std::string>;

constexpr std::size_t kImages = 4;

/// Returns a window over the image that computes `channels` output channels.
Window window_of(ImageShape image, std::size_t channels, std::size_t size, std::size_t stride,
                 std::size_t padding) {
  return {image,
          {(image.height + 2 * padding - size) / stride + 1,
           (image.width + 2 * padding - size) / stride + 1, channels},
          size,
          stride,
          padding};
}

/// Runs an operation on the GPU and on the CPU, and checks that the results are close, as
/// check_close() does with `tolerance` and `scale`. If tolerance is 0, the numbers must be equal.
struct Comparison {
  Kernels<float>& device;
  std::unique_ptr<Kernels<float>> host = make_cpu_kernels<float>(1);

  void operator()(const char* what, const std::vector<std::vector<float>>& arrays,
                  const Operation& operation, double tolerance, double scale = 1) const {
    CAPTURE(what);
    const auto expected = result_of(*host, arrays, operation);
    const auto got = result_of(device, arrays, operation);
    if (tolerance == 0) {
      CHECK(got == expected);
    } else {
      check_close(got, expected, tolerance, scale);
    }
  }
};

/// The results of a few steps of SGD: output and gradients of the first step, and the network after
/// the last step.
struct SgdResults {
  std::vector<float> output;     // of the first step
  std::vector<float> gradients;  // of the first step
  std::vector<float> parameters;
  std::vector<float> running_statistics;
  std::vector<float> last_output;  // of the trained network for the images of the last step
};

/// Trains on random images in batches of kBatch. A step has the operations of Trainer::step().
template <typename T>
SgdResults run_sgd(Kernels<T>& kernels, const LayerTexts& layer_texts, const ImageShape& image,
                   int steps) {
  constexpr std::size_t kBatch = 12;
  constexpr std::size_t kClasses = 10;
  auto layers = make_layers<T>(layer_texts, image, kClasses);
  REQUIRE_MESSAGE(layers.has_value(), layers.error().message);
  Network<T> network(kernels, std::move(*layers), image.size(), kBatch, 2);
  network.initialise(3);
  Array<std::uint8_t> labels(kernels, kBatch);
  std::vector<std::uint32_t> samples(kBatch);
  SgdResults result;
  const auto to_host = [&](const T* data, std::size_t count, std::vector<float>& to) {
    std::vector<T> values(count);
    kernels.copy_to_host(values.data(), data, count * sizeof(T));
    to.assign(values.begin(), values.end());
  };
  for (int step = 0; step < steps; ++step) {
    Random random(static_cast<std::uint64_t>(step), Purpose::kShuffle);
    std::vector<T> images(kBatch * image.size());
    for (T& pixel : images) pixel = static_cast<T>(random.uniform());
    std::vector<std::uint8_t> host_labels(kBatch);
    for (std::uint8_t& label : host_labels)
      label = static_cast<std::uint8_t>(random.below(kClasses));
    for (std::uint32_t& sample : samples) sample = static_cast<std::uint32_t>(random.below(1000));
    kernels.copy_from_host(network.input(), images.data(), images.size() * sizeof(T));
    kernels.copy_from_host(labels.data(), host_labels.data(), host_labels.size());
    kernels.zero(network.observed_statistics().data(), network.observed_statistics().size());
    network.forward(kBatch, {.is_training = true,
                             .seed = 5,
                             .step = static_cast<std::uint64_t>(step),
                             .samples = samples});
    kernels.softmax_cross_entropy(network.output(), labels.data(), kBatch, kClasses, T{1} / kBatch,
                                  network.output_gradient(), network.extra().data());
    if (step == 0) to_host(network.output(), kBatch * kClasses, result.output);
    network.backward(kBatch, [](std::size_t) {});
    if (step == 0)
      to_host(network.gradients().data(), network.gradients().size(), result.gradients);
    kernels.update(SgdFormula<T>{T(0.05), 0, 0}, {.parameters = network.parameters().data(),
                                                  .gradients = network.gradients().data(),
                                                  .count = network.parameters().size()});
    network.update_running_statistics();
  }
  network.forward(kBatch);
  to_host(network.output(), kBatch * kClasses, result.last_output);
  to_host(network.parameters().data(), network.parameters().size(), result.parameters);
  to_host(network.running_statistics().data(), network.running_statistics().size(),
          result.running_statistics);
  const auto done = kernels.synchronise();
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  return result;
}

/// Checks that each number differs by at most tolerance times the sum of its absolute value and the
/// largest absolute value of its array.
void check_sgd_close(const SgdResults& got, const SgdResults& expected, double tolerance) {
  for (const auto array : {&SgdResults::output, &SgdResults::gradients, &SgdResults::parameters,
                           &SgdResults::running_statistics, &SgdResults::last_output}) {
    double largest = 0;
    for (const float number : expected.*array)
      largest = std::max(largest, std::abs(double{number}));
    check_close(got.*array, expected.*array, tolerance, largest);
  }
}

/// Returns |got - expected| / |expected| in the Euclidean norm.
double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference_squares = 0;
  double expected_squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference_squares += std::pow(double{got[i]} - double{expected[i]}, 2);
    expected_squares += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference_squares / expected_squares);
}

}  // namespace

TEST_CASE(
    "convolutions on the GPU give the CPU's numbers in float32, and weight gradients have the same "
    "bits each time") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const Comparison compare{*device};
  // Windows of cnn, of resnet18 and others: one channel, odd channel counts, strides that leave a
  // remainder, a padded 5 x 5, a depthwise 3 x 3.
  for (const Window& w :
       {window_of({28, 28, 1}, 32, 3, 1, 0), window_of({26, 26, 32}, 64, 3, 1, 0),
        window_of({32, 32, 3}, 64, 3, 1, 1), window_of({16, 16, 64}, 128, 3, 2, 1),
        window_of({16, 16, 64}, 128, 1, 2, 0), window_of({7, 7, 64}, 64, 3, 2, 1),
        window_of({9, 6, 5}, 7, 5, 1, 2), window_of({8, 5, 2}, 3, 2, 3, 0),
        window_of({1, 1, 6}, 4, 1, 1, 0), Window{{12, 9, 40}, {6, 5, 40}, 3, 2, 1, true}}) {
    CAPTURE(w.input.height);
    CAPTURE(w.input.channels);
    CAPTURE(w.output.channels);
    CAPTURE(w.size);
    CAPTURE(w.stride);
    const auto x = random_numbers(kImages * w.input.size(), 1);
    const auto dy = random_numbers(kImages * w.output.size(), 2);
    const auto kernel = random_numbers(w.weight_count(), 3);
    const auto bias = random_numbers(w.output.channels, 4);
    // Each result is a sum of up to 3136 products of numbers below 1. The sums are about 20. Their
    // relative rounding error is 1e-5; with TF32 it would be 1e-3.
    constexpr double kTolerance = 1e-5;
    constexpr double kScale = 20;
    for (const bool with_relu : {false, true}) {
      compare(
          "convolve", {dy, x, kernel, bias},
          [&](auto& kernels, const auto& p) {
            kernels.layer_kernels().convolve(w, kImages, p[1], p[2], p[3], with_relu, p[0]);
          },
          kTolerance, kScale);
    }
    compare(
        "convolve_backward_input", {x, kernel, dy},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().convolve_backward_input(w, kImages, p[1], p[2], p[0]);
        },
        kTolerance, kScale);
    const Operation backward_weights = [&](auto& kernels, const auto& p) {
      kernels.layer_kernels().convolve_backward_weights(w, kImages, p[1], p[2], p[0], p[3]);
    };
    compare("convolve_backward_weights", {kernel, x, dy, bias}, backward_weights, kTolerance,
            kScale);
    compare(
        "convolve_backward_weights, gradient of the biases", {bias, x, dy, kernel},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().convolve_backward_weights(w, kImages, p[1], p[2], p[3], p[0]);
        },
        kTolerance, kScale);
    CHECK(result_of(*device, {kernel, x, dy, bias}, backward_weights) ==
          result_of(*device, {kernel, x, dy, bias}, backward_weights));
  }
  for (const std::string& name : device->layer_kernels().implementations()) MESSAGE(name);
}

TEST_CASE("pooling, dropout and the sigmoid loss on the GPU give the CPU's numbers") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const Comparison compare{*device};
  for (const auto& pair :
       std::array<std::array<std::size_t, 2>, 4>{{{2, 2}, {3, 1}, {3, 2}, {2, 3}}}) {
    const std::size_t size = pair[0];
    const std::size_t stride = pair[1];
    const Window w = window_of({9, 8, 37}, 37, size, stride, 0);
    CAPTURE(size);
    CAPTURE(stride);
    auto x = random_numbers(kImages * w.input.size(), 1);
    // Rounding makes windows that hold their largest number more than once.
    for (float& value : x) value = std::round(value * 4);
    const auto dy = random_numbers(kImages * w.output.size(), 2);
    compare(
        "max_pool", {dy, x},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().max_pool(w, kImages, p[1], p[0]);
        },
        0);
    compare(
        "max_pool_backward", {x, x, dy, dy},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().max_pool(w, kImages, p[1], p[2]);
          kernels.layer_kernels().max_pool_backward(w, kImages, p[1], p[2], p[3], p[0]);
        },
        1e-6);  // sums of at most four numbers, with or without fused multiply-add
    compare(
        "average_pool", {dy, x},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().average_pool(w, kImages, p[1], p[0]);
        },
        1e-6);
    compare(
        "average_pool_backward", {x, dy},
        [&](auto& kernels, const auto& p) {
          kernels.layer_kernels().average_pool_backward(w, kImages, p[1], p[0]);
        },
        1e-6);
  }
  const std::vector<std::uint32_t> samples{7, 11, 60000};
  compare(
      "dropout_factors", {random_numbers(5 * 700, 1)},
      [&](auto& kernels, const auto& p) {
        kernels.layer_kernels().dropout_factors(5, 9, samples, 5, 700, 0.3, p[0]);
      },
      0);
  const std::vector<std::uint8_t> labels{0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1};
  for (const bool compares_totals : {false, true}) {
    compare(
        "sigmoid_cross_entropy",
        {random_numbers(15, 1), random_numbers(15, 2), random_numbers(15, 3)},
        [&](auto& kernels, const auto& p) {
          Array<std::uint8_t> device_labels(kernels, labels.size());
          kernels.copy_from_host(device_labels.data(), labels.data(), labels.size());
          kernels.layer_kernels().sigmoid_cross_entropy(p[1], device_labels.data(), 5, 3, 0.5F,
                                                        compares_totals ? p[2] : p[0],
                                                        compares_totals ? p[0] : p[2]);
        },
        1e-5);
  }
}

TEST_CASE(
    "batch normalisation on the GPU gives the CPU's numbers, with and without sums of other "
    "ranks") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const Comparison compare{*device};
  // Sums over one thread block and over many; fewer channels than a warp has threads, and more.
  for (const auto& pair :
       std::array<std::array<std::size_t, 2>, 4>{{{1, 3}, {50, 1}, {3000, 70}, {70000, 5}}}) {
    const std::size_t rows = pair[0];
    const std::size_t channels = pair[1];
    CAPTURE(rows);
    CAPTURE(channels);
    auto x = random_numbers(rows * channels, 1);
    for (float& value : x) value = 3 + value / 4;
    const auto dy = random_numbers(rows * channels, 2);
    std::vector<float> running(2 * channels, 2.5F);
    int calls = 0;
    const SumOverRanks others = [&](std::span<double> sums) {
      ++calls;
      for (double& sum : sums) sum += 1;
    };
    for (const SumOverRanks* sum_over_ranks :
         {static_cast<const SumOverRanks*>(nullptr), &others}) {
      const auto statistics = [&](Kernels<float>& kernels, const float* input,
                                  const float* running_input, float* result, float* observed) {
        kernels.layer_kernels().batch_statistics(input, rows, channels, sum_over_ranks, 0.25,
                                                 running_input, result, observed);
      };
      // The sums are computed in double; only the rounding of the results differs.
      compare(
          "statistics", {running, x, running, running},
          [&](auto& kernels, const auto& p) { statistics(kernels, p[1], p[2], p[0], p[3]); }, 1e-6);
      compare(
          "observed", {running, x, running, running},
          [&](auto& kernels, const auto& p) { statistics(kernels, p[1], p[2], p[3], p[0]); }, 1e-6);
      compare(
          "normalise", {dy, x, running, running, random_numbers(2 * channels, 3)},
          [&](auto& kernels, const auto& p) {
            statistics(kernels, p[1], p[2], p[3], nullptr);
            kernels.layer_kernels().normalise(p[1], p[3], p[4], rows, channels, false, p[0]);
          },
          1e-5);
      for (const bool compares_input_gradient : {false, true}) {
        compare(
            compares_input_gradient ? "normalise_backward_input" : "gradients",
            {compares_input_gradient ? x : running, x, running, running, dy,
             random_numbers(2 * channels, 3), running},
            [&](auto& kernels, const auto& p) {
              auto& layers = kernels.layer_kernels();
              statistics(kernels, p[1], p[2], p[3], nullptr);
              layers.normalise_backward_sums(p[1], p[4], p[3], rows, channels, sum_over_ranks,
                                             compares_input_gradient ? p[2] : p[0], p[6]);
              if (compares_input_gradient)
                layers.normalise_backward_input(p[1], p[4], p[3], p[5], p[6], rows, channels, p[0]);
            },
            1e-5, 10);
      }
    }
    CHECK(calls > 0);
  }
}

TEST_CASE("forward and backward of every layer on the GPU give the CPU's numbers") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto host = make_cpu_kernels<float>(1);
  const std::vector<LayerTexts> models{
      {"dense 24", "relu", "dense 10"},
      {"conv2d 6 3", "tanh", "conv2d 5 3 same", "sigmoid", "flatten", "dense 10"},
      {"conv2d 4 3 stride 2 same", "relu", "dense 10"},
      {"conv2d 6 3 same", "relu", "maxpool 2", "relu", "dense 10"},
      {"conv2d 3 3 same", "maxpool 3 stride 1", "tanh", "conv2d 2 2", "avgpool 2 stride 1",
       "dense 10"},
      {"dense 32", "dropout 0.3", "tanh", "dropout 0.5", "dense 10"},
      {"conv2d 3 3 same", "relu", "residual: conv2d 3 3 same; tanh; dropout 0.2; conv2d 3 3 same",
       "tanh", "dense 10"},
      {"conv2d 3 3 same", "batchnorm", "tanh", "dense 20", "batchnorm sync", "tanh", "dense 10"},
      {"residual: conv2d 4 3 stride 2 same; batchnorm; tanh; conv2d 4 3 same; batchnorm; shortcut; "
       "conv2d 4 1 stride 2",
       "tanh", "residual: batchnorm; shortcut; tanh; dropout 0.2; batchnorm", "dense 10"},
      {"depthwise 3 stride 2 same nobias", "silu", "squeeze-excite 3", "maxpool 3 stride 1 same",
       "conv2d 6 1 nobias", "relu", "avgpool all", "dense 10"},
  };
  for (const LayerTexts& layer_texts : models) {
    CAPTURE(layer_texts.front());
    constexpr ImageShape kImage{9, 7, 2};
    // On the CPU, float differs from double by at most 2e-6.
    check_sgd_close(run_sgd(*device, layer_texts, kImage, 1),
                    run_sgd(*host, layer_texts, kImage, 1), 2e-5);
  }
}

TEST_CASE(
    "in bf16, convolutions of bfloat16 inputs differ from float32 by at most the rounding of the "
    "results") {
  const auto device = gpu_kernels({.precision = Precision::kBfloat16});
  if (device == nullptr) return;
  const auto host = make_cpu_kernels<float>(1);
  for (const Window& w :
       {window_of({28, 28, 1}, 32, 3, 1, 0), window_of({26, 26, 32}, 64, 3, 1, 0),
        window_of({16, 16, 64}, 128, 3, 2, 1), window_of({9, 6, 5}, 7, 5, 1, 2)}) {
    CAPTURE(w.input.height);
    CAPTURE(w.input.channels);
    const auto x = rounded_to_bfloat16(random_numbers(kImages * w.input.size(), 1));
    const auto dy = rounded_to_bfloat16(random_numbers(kImages * w.output.size(), 2));
    const auto kernel = rounded_to_bfloat16(
        random_numbers(w.size * w.size * w.input.channels * w.output.channels, 3));
    const auto bias = random_numbers(w.output.channels, 4);
    const auto compare = [&](const char* what, const std::vector<std::vector<float>>& arrays,
                             const Operation& operation) {
      CAPTURE(what);
      // Rounding to bfloat16 changes results by up to 2^-8 of their value, before a bias below 1 is
      // added. The order of the sums changes them by only 1e-5.
      check_close(result_of(*device, arrays, operation), result_of(*host, arrays, operation),
                  0x1p-8, 1);
    };
    compare("convolve", {dy, x, kernel, bias}, [&](auto& kernels, const auto& p) {
      kernels.layer_kernels().convolve(w, kImages, p[1], p[2], p[3], false, p[0]);
    });
    compare("convolve_backward_input", {x, kernel, dy}, [&](auto& kernels, const auto& p) {
      kernels.layer_kernels().convolve_backward_input(w, kImages, p[1], p[2], p[0]);
    });
    compare("convolve_backward_weights", {kernel, x, dy, bias}, [&](auto& kernels, const auto& p) {
      kernels.layer_kernels().convolve_backward_weights(w, kImages, p[1], p[2], p[0], p[3]);
    });
  }
  for (const std::string& name : device->layer_kernels().implementations()) MESSAGE(name);
}

TEST_CASE(
    "a step of mlp and cnn in bf16 differs from float32 by at most twice PyTorch's rounding "
    "errors") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto bf16_device = gpu_kernels({.precision = Precision::kBfloat16});
  struct Case {
    std::string model;
    double output, gradients;  ///< largest relative error, in the Euclidean norm
  };
  // Twice the errors of PyTorch on the CPU (tests/reference/bf16_rounding.py). A number that
  // rounding moves across a ReLU's 0, or past another number of a pooling window, changes the path
  // of its gradient, so gradients of cnn differ most.
  for (const Case& one : {Case{"mlp", 0.011, 0.09}, Case{"cnn", 0.013, 0.17}}) {
    CAPTURE(one.model);
    const std::vector<std::size_t> hidden{512};
    const LayerTexts layer_texts = *layer_texts_of(one.model, hidden, 10);
    const SgdResults in_float32 = run_sgd(*device, layer_texts, {28, 28, 1}, 1);
    const SgdResults in_bf16 = run_sgd(*bf16_device, layer_texts, {28, 28, 1}, 1);
    CHECK(relative_error(in_bf16.output, in_float32.output) < one.output);
    CHECK(relative_error(in_bf16.gradients, in_float32.gradients) < one.gradients);
    CHECK(in_bf16.output != in_float32.output);  // rounding has an effect
    CHECK(run_sgd(*bf16_device, layer_texts, {28, 28, 1}, 1).parameters == in_bf16.parameters);
  }
}

TEST_CASE("cnn and a residual network trained on the GPU match those trained on the CPU") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto host = make_cpu_kernels<float>(1);
  const LayerTexts residual{
      "conv2d 16 3 same",
      "batchnorm",
      "relu",
      "residual: conv2d 16 3 same; batchnorm; relu; conv2d 16 3 same; batchnorm",
      "relu",
      "residual: conv2d 32 3 stride 2 same; batchnorm; relu; conv2d 32 3 same; "
      "batchnorm; shortcut; "
      "conv2d 32 1 stride 2; batchnorm",
      "relu",
      "avgpool 8",
      "dense 10"};
  // On the CPU, float differs from double by 8e-7. The tolerance is larger, because some of a
  // million numbers are so near to a ReLU's 0, or to the largest number of their window, that
  // rounding decides the path of their gradient.
  constexpr double kTolerance = 1e-3;
  const LayerTexts cnn = *layer_texts_of("cnn", {}, 10);
  check_sgd_close(run_sgd(*device, cnn, {28, 28, 1}, 5), run_sgd(*host, cnn, {28, 28, 1}, 5),
                  kTolerance);
  check_sgd_close(run_sgd(*device, residual, {16, 16, 3}, 5),
                  run_sgd(*host, residual, {16, 16, 3}, 5), kTolerance);
}

}  // namespace dlrun::trainer
