// Runs the GPU's loops on the CPU (gpu_on_cpu/cuda_runtime.h) and compares them with the CPU's own
// loops. The tests check which element each thread takes, what the threads of a block share, and
// how partial sums are added. scripts/gpu-check compares the GPU itself with the CPU.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/comm/half.h"
#include "runtime/trainer/cuda/layer_loops.cu"
#include "runtime/trainer/cuda/step_graphs.h"
#include "runtime/trainer/cuda/step_kernels.cu"
#include "runtime/trainer/cuda/uploads.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"
#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {
namespace {

std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed, Purpose::kInit);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

template <typename T>
void check_close(const std::vector<T>& got, const std::vector<T>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(got[i]) ==
          doctest::Approx(static_cast<double>(expected[i])).epsilon(tolerance).scale(1));
  }
}

/// Returns an array of NaN. If the tested loop does not write an element of it, comparisons fail,
/// because NaN equals nothing.
std::vector<float> unwritten(std::size_t count) {
  return std::vector<float>(count, NAN);
}

/// Compares the GPU's update with the CPU's, bit for bit, with 0, 1 and 2 state arrays.
template <typename Formula>
void check_update() {
  std::array<float, sizeof(Formula) / sizeof(float)> coefficients{};
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    coefficients[i] = 0.9F - 0.07F * static_cast<float>(i);
  const auto formula = std::bit_cast<Formula>(coefficients);
  constexpr std::size_t kCount = 70'001;  // not a multiple of a block's threads
  for (int states = 0; states <= 2; ++states) {
    CAPTURE(states);
    std::array<std::vector<float>, 4> got{random_numbers(kCount, 1), random_numbers(kCount, 2),
                                          random_numbers(kCount, 3), random_numbers(kCount, 4)};
    for (float& value : got[2]) value = std::abs(value);
    for (float& value : got[3]) value = std::abs(value);
    auto expected = got;
    const auto views_of = [&](std::array<std::vector<float>, 4>& arrays) {
      return UpdateArrays<float>{arrays[0].data(), arrays[1].data(),
                                 states > 0 ? arrays[2].data() : nullptr,
                                 states > 1 ? arrays[3].data() : nullptr, kCount};
    };
    cuda::update(formula, views_of(got), nullptr);
    make_cpu_kernels<float>(1)->update(formula, views_of(expected));
    CHECK(got == expected);
  }
}

template <typename... Formula>
void check_updates(const std::variant<Formula...>& /*any*/) {
  (check_update<Formula>(), ...);
}

}  // namespace

TEST_CASE("the GPU's updates give the same bits as the CPU's for every formula of the optimizers") {
  check_updates(AnyFormula<float>());
}

TEST_CASE(
    "the GPU's transpose is right for matrices whose sizes are multiples of a tile, and for "
    "others") {
  for (const auto& pair : std::array<std::array<std::size_t, 2>, 5>{
           {{1, 1}, {32, 32}, {33, 70}, {9, 131}, {288, 5}}}) {
    const std::size_t rows = pair[0];
    const std::size_t columns = pair[1];
    CAPTURE(rows);
    CAPTURE(columns);
    const std::vector<float> x = random_numbers(rows * columns, 1);
    std::vector<float> y = unwritten(x.size());
    cuda::transpose(x.data(), rows, columns, y.data(), nullptr);
    bool is_transposed = true;
    for (std::size_t i = 0; i < x.size(); ++i)
      is_transposed = is_transposed && y[i % columns * rows + i / columns] == x[i];
    CHECK(is_transposed);
  }
}

TEST_CASE("the GPU's loops over images, samples and channels give the CPU's numbers") {
  const auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  constexpr std::size_t kImages = 3;
  // A row has more elements than a block has threads.
  const Window w{{7, 9, 41}, {3, 4, 41}, 3, 2, 0};
  auto x = random_numbers(kImages * w.input.size(), 1);
  for (float& value : x) value = std::round(value * 4);
  const auto dy = random_numbers(kImages * w.output.size(), 2);
  auto y = unwritten(dy.size());
  auto expected_y = y;
  auto dx = unwritten(x.size());
  auto expected_dx = dx;
  cuda::max_pool(w, kImages, x.data(), y.data(), nullptr);
  layers.max_pool(w, kImages, x.data(), expected_y.data());
  CHECK(y == expected_y);
  cuda::max_pool_backward(w, kImages, x.data(), y.data(), dy.data(), dx.data(), nullptr);
  layers.max_pool_backward(w, kImages, x.data(), y.data(), dy.data(), expected_dx.data());
  CHECK(dx == expected_dx);
  cuda::average_pool(w, kImages, x.data(), y.data(), nullptr);
  layers.average_pool(w, kImages, x.data(), expected_y.data());
  check_close(y, expected_y, 1e-6);
  cuda::average_pool_backward(w, kImages, dy.data(), dx.data(), nullptr);
  layers.average_pool_backward(w, kImages, dy.data(), expected_dx.data());
  check_close(dx, expected_dx, 1e-6);

  const Window depthwise_window{w.input, {4, 5, 41}, 3, 2, 1, true};
  const auto depthwise_dy = random_numbers(kImages * depthwise_window.output.size(), 8);
  const auto weights = random_numbers(depthwise_window.weight_count(), 5);
  const auto bias = random_numbers(depthwise_window.output.channels, 6);
  for (const float* const biases : {bias.data(), static_cast<const float*>(nullptr)}) {
    for (const bool with_relu : {false, true}) {
      auto z = unwritten(depthwise_dy.size());
      auto expected_z = z;
      cuda::depthwise(depthwise_window, kImages, x.data(), weights.data(), biases, with_relu,
                      z.data(), nullptr);
      layers.convolve(depthwise_window, kImages, x.data(), weights.data(), biases, with_relu,
                      expected_z.data());
      check_close(z, expected_z, 1e-6);
    }
  }
  dx = unwritten(dx.size());
  cuda::depthwise_backward_input(depthwise_window, kImages, weights.data(), depthwise_dy.data(),
                                 dx.data(), nullptr);
  layers.convolve_backward_input(depthwise_window, kImages, weights.data(), depthwise_dy.data(),
                                 expected_dx.data());
  check_close(dx, expected_dx, 1e-6);
  auto dw = unwritten(weights.size());
  auto expected_dw = dw;
  std::vector<double> partials(cuda::count_of_partials(
      kImages * depthwise_window.output.height * depthwise_window.output.width,
      depthwise_window.output.channels));
  cuda::depthwise_backward_weights(depthwise_window, kImages, x.data(), depthwise_dy.data(),
                                   partials.data(), dw.data(), nullptr);
  layers.convolve_backward_weights(depthwise_window, kImages, x.data(), depthwise_dy.data(),
                                   expected_dw.data(), nullptr);
  check_close(dw, expected_dw, 1e-5);

  constexpr std::size_t kPixels = std::size_t{7} * 9;
  constexpr std::size_t kChannels = 41;
  auto means = unwritten(kImages * kChannels);
  auto expected_means = means;
  cuda::channel_means(kImages, kPixels, kChannels, x.data(), means.data(), nullptr);
  layers.channel_means(kImages, kPixels, kChannels, x.data(), expected_means.data());
  check_close(means, expected_means, 1e-6);
  cuda::channel_products(kImages, kPixels, kChannels, x.data(), expected_dx.data(), means.data(),
                         nullptr);
  layers.channel_products(kImages, kPixels, kChannels, x.data(), expected_dx.data(),
                          expected_means.data());
  check_close(means, expected_means, 1e-5);
  cuda::scale_channels(kImages, kPixels, kChannels, x.data(), means.data(), dx.data(), nullptr);
  layers.scale_channels(kImages, kPixels, kChannels, x.data(), means.data(), expected_dx.data());
  CHECK(dx == expected_dx);
  for (const bool is_added : {true, false}) {
    cuda::channel_means_backward(kImages, kPixels, kChannels, means.data(), is_added, dx.data(),
                                 nullptr);
    layers.channel_means_backward(kImages, kPixels, kChannels, means.data(), is_added,
                                  expected_dx.data());
    check_close(dx, expected_dx, 1e-6);
  }
  cuda::silu(x.data(), dx.data(), x.size(), nullptr);
  layers.silu(x.data(), expected_dx.data(), x.size());
  check_close(dx, expected_dx, 1e-6);
  const auto gradients = random_numbers(x.size(), 7);
  cuda::silu_backward(x.data(), gradients.data(), dx.data(), x.size(), nullptr);
  layers.silu_backward(x.data(), gradients.data(), expected_dx.data(), x.size());
  check_close(dx, expected_dx, 1e-6);

  const std::vector<std::uint32_t> samples{7, 60000};
  auto factors = unwritten(std::size_t{3} * 300);
  auto expected_factors = factors;
  cuda::dropout_factors(5, 9, samples.data(), samples.size(), 3, 300, 0.3, factors.data(), nullptr);
  layers.dropout_factors(5, 9, samples, 3, 300, 0.3, expected_factors.data());
  CHECK(factors == expected_factors);

  const ImageShape square{9, 9, 35};
  const std::vector<ImageChange> changes{{1, 1, 2, -3}, {3, 0, 0, 1}, {2, 1, -1, 0}};
  const auto images = random_numbers(changes.size() * square.size(), 9);
  auto moved = unwritten(images.size());
  auto expected_moved = moved;
  cuda::change_images(square, changes.data(), changes.size(), images.data(), moved.data(), nullptr);
  layers.change_images(square, changes, images.data(), expected_moved.data());
  CHECK(moved == expected_moved);

  constexpr std::size_t kRows = 300;  // more than a block has threads
  constexpr std::size_t kClasses = 10;
  const auto logits = random_numbers(kRows * kClasses, 3);
  std::vector<std::uint8_t> labels(kRows * kClasses);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = i % 7 < 3 ? 1 : 0;
  std::vector<std::uint32_t> counts(3 * kClasses, 1);
  auto expected_counts = counts;
  cuda::count_confusions(logits.data(), labels.data(), kRows, kClasses, counts.data(), nullptr);
  layers.count_confusions(logits.data(), labels.data(), kRows, kClasses, expected_counts.data());
  CHECK(counts == expected_counts);
  for (const bool is_softmax : {false, true}) {
    auto dlogits = unwritten(logits.size());
    auto expected_dlogits = dlogits;
    std::vector<float> totals{0.5F, 2};
    auto expected_totals = totals;
    if (is_softmax) {
      cuda::softmax_cross_entropy(logits.data(), labels.data(), kRows, kClasses, 0.5F,
                                  dlogits.data(), totals.data(), nullptr);
      kernels->softmax_cross_entropy(logits.data(), labels.data(), kRows, kClasses, 0.5F,
                                     expected_dlogits.data(), expected_totals.data());
    } else {
      cuda::sigmoid_cross_entropy(logits.data(), labels.data(), kRows, kClasses, 0.5F,
                                  dlogits.data(), totals.data(), nullptr);
      layers.sigmoid_cross_entropy(logits.data(), labels.data(), kRows, kClasses, 0.5F,
                                   expected_dlogits.data(), expected_totals.data());
    }
    check_close(dlogits, expected_dlogits, 1e-6);
    check_close(totals, expected_totals, 1e-5);  // the 300 losses are added in another order
  }
}

TEST_CASE("the GPU's sums over rows, and batch normalisation from them, match the CPU's") {
  const auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  // The rows are one, none, those of one block, and those of several blocks. The channels fill a
  // part of a warp, or several warps.
  for (const auto& pair :
       std::array<std::array<std::size_t, 2>, 5>{{{1, 3}, {0, 4}, {50, 1}, {700, 70}, {3000, 5}}}) {
    const std::size_t rows = pair[0];
    const std::size_t channels = pair[1];
    CAPTURE(rows);
    CAPTURE(channels);
    auto x = random_numbers(rows * channels, 1);
    // The sums of these values are exact in float.
    for (float& value : x) value = 3 + std::round(value * 256) / 256;
    const auto dy = random_numbers(rows * channels, 2);
    const auto parameters = random_numbers(2 * channels, 3);
    const std::vector<float> running(2 * channels, 2.5F);
    std::vector<double> partials(cuda::count_of_partials(rows, channels), NAN);
    std::vector<double> sums(2 * channels, NAN);
    auto column_sums = unwritten(channels);
    auto expected_column_sums = column_sums;
    cuda::channel_sums(x.data(), rows, channels, partials.data(), column_sums.data(), nullptr);
    kernels->sum_columns(x.data(), expected_column_sums.data(), rows, channels);
    CHECK(column_sums == expected_column_sums);

    const auto all_rows = static_cast<double>(rows);
    auto statistics = unwritten(2 * channels);
    auto expected_statistics = statistics;
    std::vector<float> observed(2 * channels, 1);
    auto expected_observed = observed;
    cuda::batch_sums(x.data(), running.data(), rows, channels, partials.data(), sums.data(),
                     nullptr);
    if (rows == 0) {
      CHECK(sums == std::vector<double>(2 * channels, 0));
      continue;
    }
    cuda::batch_statistics(sums.data(), all_rows, 0.25, channels, running.data(), statistics.data(),
                           observed.data(), nullptr);
    layers.batch_statistics(x.data(), rows, channels, nullptr, 0.25, running.data(),
                            expected_statistics.data(), expected_observed.data());
    check_close(statistics, expected_statistics, 1e-6);
    check_close(observed, expected_observed, 1e-6);

    auto y = unwritten(x.size());
    auto expected_y = y;
    for (const bool with_relu : {true, false}) {
      cuda::normalise(x.data(), statistics.data(), parameters.data(), rows, channels, with_relu,
                      y.data(), nullptr);
      layers.normalise(x.data(), statistics.data(), parameters.data(), rows, channels, with_relu,
                       expected_y.data());
      check_close(y, expected_y, 1e-6);
    }

    auto gradients = unwritten(2 * channels);
    auto expected_gradients = gradients;
    auto means = gradients;
    auto expected_means = gradients;
    cuda::backward_sums(x.data(), dy.data(), statistics.data(), rows, channels, partials.data(),
                        sums.data(), nullptr);
    cuda::normalisation_parameter_gradients(sums.data(), channels, gradients.data(), nullptr);
    cuda::normalisation_backward_means(sums.data(), all_rows, channels, means.data(), nullptr);
    layers.normalise_backward_sums(x.data(), dy.data(), statistics.data(), rows, channels, nullptr,
                                   expected_gradients.data(), expected_means.data());
    check_close(gradients, expected_gradients, 1e-5);
    check_close(means, expected_means, 1e-6);
    cuda::normalise_backward_input(x.data(), dy.data(), statistics.data(), parameters.data(),
                                   means.data(), rows, channels, y.data(), nullptr);
    layers.normalise_backward_input(x.data(), dy.data(), statistics.data(), parameters.data(),
                                    means.data(), rows, channels, expected_y.data());
    check_close(y, expected_y, 1e-6);

    cuda::statistics_from_running(running.data(), channels, statistics.data(), nullptr);
    layers.statistics_from_running(running.data(), channels, expected_statistics.data());
    check_close(statistics, expected_statistics, 1e-6);
    for (const bool with_relu : {false, true}) {
      y = x;
      for (float& value : y) value -= 3;
      expected_y = y;
      cuda::add_channel_bias(y.data(), parameters.data(), rows, channels, with_relu, nullptr);
      for (std::size_t i = 0; i < y.size(); ++i) expected_y[i] += parameters[i % channels];
      if (with_relu) kernels->relu(expected_y.data(), expected_y.data(), y.size());
      CHECK(y == expected_y);
    }
  }
}

TEST_CASE("the GPU's element-wise functions, gather and sums of squares match the CPU's") {
  const auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  constexpr std::size_t kCount = 700;
  const auto a = random_numbers(kCount, 1);
  const auto b = random_numbers(kCount, 2);
  auto got = unwritten(kCount);
  auto expected = got;
  const auto compare_and_reset = [&](const char* what) {
    CAPTURE(what);
    check_close(got, expected, 1e-6);
    got = expected = unwritten(kCount);
  };
  cuda::hyperbolic_tangent(a.data(), got.data(), kCount, nullptr);
  layers.hyperbolic_tangent(a.data(), expected.data(), kCount);
  compare_and_reset("hyperbolic_tangent");
  cuda::hyperbolic_tangent_backward(a.data(), b.data(), got.data(), kCount, nullptr);
  layers.hyperbolic_tangent_backward(a.data(), b.data(), expected.data(), kCount);
  compare_and_reset("hyperbolic_tangent_backward");
  cuda::logistic(a.data(), got.data(), kCount, nullptr);
  layers.logistic(a.data(), expected.data(), kCount);
  compare_and_reset("logistic");
  cuda::logistic_backward(a.data(), b.data(), got.data(), kCount, nullptr);
  layers.logistic_backward(a.data(), b.data(), expected.data(), kCount);
  compare_and_reset("logistic_backward");
  cuda::multiply(a.data(), b.data(), got.data(), kCount, nullptr);
  layers.multiply(a.data(), b.data(), expected.data(), kCount);
  compare_and_reset("multiply");
  for (const bool with_relu : {true, false}) {
    cuda::add(a.data(), b.data(), with_relu, got.data(), kCount, nullptr);
    layers.add(a.data(), b.data(), with_relu, expected.data(), kCount);
    compare_and_reset("add");
  }
  cuda::relu(a.data(), got.data(), kCount, nullptr);
  kernels->relu(a.data(), expected.data(), kCount);
  compare_and_reset("relu");
  cuda::relu_backward(a.data(), b.data(), got.data(), kCount, nullptr);
  kernels->relu_backward(a.data(), b.data(), expected.data(), kCount);
  compare_and_reset("relu_backward");

  const std::vector<std::uint8_t> images{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> labels{0, 1, 1, 0, 1, 1};
  const std::vector<std::uint32_t> samples{2, 0};
  std::vector<float> x(4);
  std::vector<std::uint8_t> taken(4);
  cuda::gather(images.data(), labels.data(), samples.data(), 2, 2, 2, 0.5F, x.data(), taken.data(),
               nullptr);
  CHECK(x == std::vector<float>{2.5F, 3, 0.5F, 1});
  CHECK(taken == std::vector<std::uint8_t>{1, 1, 0, 1});
  // Without indices, the rows keep their order.
  cuda::gather(images.data(), nullptr, nullptr, 2, 2, 0, 0.5F, x.data(), nullptr, nullptr);
  CHECK(x == std::vector<float>{0.5F, 1, 1.5F, 2});

  const std::array<std::size_t, 4> ranges{0, 11, 12, kCount - 12};
  const std::array<TensorRange, 2> parts{{{0, 11}, {12, kCount - 12}}};
  std::vector<double> squares(2, NAN);
  std::vector<double> expected_squares(2, NAN);
  cuda::sums_of_squares(a.data(), ranges.data(), 2, squares.data(), nullptr);
  kernels->sums_of_squares(a.data(), parts, expected_squares.data());
  check_close(squares, expected_squares, 1e-12);
}

TEST_CASE(
    "the GPU rounds to bfloat16 like the collectives: to nearest, ties to even, and NaN stays "
    "NaN") {
  std::vector<float> values;
  // Signs, exponents, infinities and NaN.
  for (std::uint32_t high = 0; high < 0x10000; high += 7) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      values.push_back(std::bit_cast<float>(high << 16U | low));
  }
  for (const std::uint32_t bits :
       {0x7f7fffffU, 0x7f800000U, 0x7f800001U, 0xff800000U, 0xffffffffU, 0x80000000U, 1U})
    values.push_back(std::bit_cast<float>(bits));
  std::vector<std::uint16_t> halves(values.size(), 0x1234);
  cuda::round_to_bfloat16(values.data(), halves.data(), values.size(), nullptr);
  std::vector<std::uint16_t> expected;
  for (const float value : values) expected.push_back(Bfloat16(value).bits);
  CHECK(halves == expected);

  std::vector<float> wide(values.size());
  cuda::widen_bfloat16(halves.data(), wide.data(), halves.size(), nullptr);
  bool is_exact = true;
  for (std::size_t i = 0; i < wide.size(); ++i)
    is_exact = is_exact && std::bit_cast<std::uint32_t>(wide[i]) == std::uint32_t{halves[i]} << 16U;
  CHECK(is_exact);
}

TEST_CASE("a host array may change as soon as its copy to the GPU is queued") {
  constexpr std::size_t kChunk = cuda::Uploads::kChunkBytes;
  const std::array<std::size_t, 7> sizes{1, 12, 300, kChunk - 256, kChunk, 3 * kChunk + 5, 4096};
  cuda::Uploads uploads;
  REQUIRE(uploads.prepare(nullptr).has_value());
  std::vector<std::vector<std::uint8_t>> sent;
  std::vector<std::vector<std::uint8_t>> received;
  for (std::size_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    std::vector<std::uint8_t> bytes(sizes[i % sizes.size()]);
    for (std::size_t j = 0; j < bytes.size(); ++j)
      bytes[j] = static_cast<std::uint8_t>(i * 31 + j * 7 + j / 251);
    sent.push_back(bytes);
    received.emplace_back(bytes.size());
    REQUIRE(uploads.copy(received.back().data(), bytes.data(), bytes.size()).has_value());
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0xee});
    if (i == 4) CHECK(gpu_on_cpu::queue.done_count == 0);  // enough room, so no copy had to wait
  }
  CHECK(gpu_on_cpu::queue.done_count > 0);
  gpu_on_cpu::queue.run_until(gpu_on_cpu::queue.ever_queued_count());
  CHECK(received == sent);
}

TEST_CASE("a captured step runs once, when it is launched, with its own arguments and copies") {
  constexpr std::size_t kChunk = cuda::Uploads::kChunkBytes;
  cuda::Uploads uploads;
  cuda::StepGraphs graphs;
  REQUIRE(uploads.prepare(nullptr).has_value());
  std::vector<std::vector<std::uint8_t>> sent;
  std::vector<std::vector<std::uint8_t>> received;
  const auto send = [&](std::size_t bytes) {
    sent.emplace_back(bytes);
    for (std::size_t j = 0; j < bytes; ++j)
      sent.back()[j] = static_cast<std::uint8_t>(sent.size() * 31 + j * 7);
    received.emplace_back(bytes);
    std::vector<std::uint8_t> from = sent.back();
    REQUIRE(uploads.copy(received.back().data(), from.data(), bytes).has_value());
    std::fill(from.begin(), from.end(), std::uint8_t{0xee});
  };
  // Runs a step of one kind, which sends `bytes` bytes `times` times. The first step of a kind is
  // not captured; later steps are captured and then launched.
  const auto step = [&](std::size_t kind, std::size_t bytes, int times, bool is_first) {
    CAPTURE(kind);
    REQUIRE(graphs.begin_step(kind, nullptr).has_value());
    CHECK(graphs.is_capturing() == !is_first);
    if (!is_first) uploads.note_capture();
    const std::size_t before = gpu_on_cpu::queue.ever_queued_count();
    for (int i = 0; i < times; ++i) send(bytes);
    CHECK((gpu_on_cpu::queue.ever_queued_count() == before) == !is_first);
    if (is_first) return;
    REQUIRE(graphs.launch().has_value());
    REQUIRE(uploads.note_launch().has_value());
    CHECK_FALSE(graphs.is_capturing());
    for (int i = 0; i < 30; ++i) send(kChunk / 2);  // later copies reuse the ring's chunks
  };
  const std::size_t graphs_before = gpu_on_cpu::queue.instantiated_graph_count;
  step(32, 100, 5, true);
  step(32, 100, 5, false);
  step(12, kChunk / 3, 5, true);
  step(32, 2 * kChunk / 3, 5, false);
  step(12, kChunk, 5, false);
  step(32, 100, 5, false);
  // One graph per kind: only the arguments differed.
  CHECK(gpu_on_cpu::queue.instantiated_graph_count == graphs_before + 2);
  step(12, 12 * kChunk, 5, false);  // more than the ring holds
  CHECK(gpu_on_cpu::queue.instantiated_graph_count == graphs_before + 3);  // the operations differ
  step(12, 12 * kChunk, 5, false);
  CHECK(gpu_on_cpu::queue.instantiated_graph_count == graphs_before + 3);
  gpu_on_cpu::queue.run_until(gpu_on_cpu::queue.ever_queued_count());
  CHECK(received == sent);
}

TEST_CASE(
    "copies in a captured step fail while no host memory is available, and succeed afterwards") {
  constexpr std::size_t kChunk = cuda::Uploads::kChunkBytes;
  cuda::Uploads uploads;
  REQUIRE(uploads.prepare(nullptr).has_value());
  uploads.note_capture();
  std::vector<std::vector<std::uint8_t>> sent;
  std::vector<std::vector<std::uint8_t>> received;
  const auto try_to_send = [&] {
    const std::vector<std::uint8_t> bytes(kChunk, static_cast<std::uint8_t>(sent.size() + 1));
    std::vector<std::uint8_t> target(kChunk);
    if (!uploads.copy(target.data(), bytes.data(), kChunk)) return false;
    sent.push_back(bytes);
    received.push_back(std::move(target));
    return true;
  };
  for (std::size_t i = 0; i < cuda::Uploads::kInitialChunks; ++i) REQUIRE(try_to_send());
  gpu_on_cpu::has_host_memory = false;
  CHECK_FALSE(try_to_send());
  CHECK_FALSE(try_to_send());
  gpu_on_cpu::has_host_memory = true;
  CHECK(try_to_send());
  REQUIRE(uploads.note_launch().has_value());
  gpu_on_cpu::queue.run_until(gpu_on_cpu::queue.ever_queued_count());
  CHECK(received == sent);
}

TEST_CASE(
    "rows that are sent to the GPU arrive in order, even if they fill several chunks or one row "
    "exceeds a chunk") {
  for (const std::size_t width :
       {std::size_t{0}, std::size_t{1}, std::size_t{3000}, cuda::Uploads::kChunkBytes + 1}) {
    CAPTURE(width);
    constexpr std::size_t kSamples = 11;
    std::vector<std::uint8_t> from(kSamples * width);
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i] = static_cast<std::uint8_t>(i * 13 + i / 241);
    std::vector<std::uint32_t> rows(width > 3000 ? 12 : 900);
    Random random(1, Purpose::kShuffle);
    for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(random.below(kSamples));
    std::vector<std::uint8_t> expected;
    for (const std::uint32_t row : rows)
      expected.insert(expected.end(), from.data() + row * width, from.data() + (row + 1) * width);
    cuda::Uploads uploads;
    REQUIRE(uploads.prepare(nullptr).has_value());
    std::vector<std::uint8_t> received(rows.size() * width);
    REQUIRE(uploads.copy_rows(received.data(), from.data(), rows, width).has_value());
    std::fill(from.begin(), from.end(), std::uint8_t{0xee});
    gpu_on_cpu::queue.run_until(gpu_on_cpu::queue.ever_queued_count());
    CHECK(received == expected);
  }
}

}  // namespace dlrun::trainer
