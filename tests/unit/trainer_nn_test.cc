// Layers and loss: gradients against finite differences in double precision, float against double.

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kInputs = 11;
constexpr std::size_t kClasses = 4;
constexpr std::size_t kBatch = 6;
const std::vector<std::size_t> kHidden{7, 5};

template <typename T>
struct Fixture {
  std::unique_ptr<Kernels<T>> kernels = make_cpu_kernels<T>(1);
  Network<T> network{*kernels, make_mlp<T>(kInputs, kHidden, kClasses), kInputs, kBatch, 2};
  std::vector<std::uint8_t> labels;

  Fixture() {
    network.initialise(3);
    Random random(9, Purpose::kShuffle);
    for (std::size_t i = 0; i < kBatch * kInputs; ++i) network.input()[i] = static_cast<T>(random.uniform(-1, 1));
    for (std::size_t i = 0; i < kBatch; ++i) labels.push_back(static_cast<std::uint8_t>(random.below(kClasses)));
  }

  /// Mean loss over the first n samples; with is_training, fills the gradients, too.
  T loss(std::size_t n, bool is_training) {
    T totals[2] = {0, 0};
    const T scale = n > 0 ? T{1} / static_cast<T>(n) : T{0};
    network.forward(n);
    kernels->softmax_cross_entropy(network.output(), labels.data(), n, kClasses, scale,
                                   is_training ? network.output_gradient() : nullptr, totals);
    if (is_training) network.backward(n, [](std::size_t) {});
    return totals[0] * scale;
  }
};

}  // namespace

TEST_CASE("every gradient of an mlp is the loss's derivative, by central differences in double") {
  Fixture<double> f;
  f.loss(kBatch, true);
  const std::vector<double> gradients(f.network.gradients().begin(), f.network.gradients().end());
  // Central differences err by h^2 * f''' / 6 + 2^-53 / h: about 1e-10 here.
  constexpr double kStep = 1e-5;
  double largest = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    double& p = f.network.parameters()[i];
    const double kept = p;
    p = kept + kStep;
    const double above = f.loss(kBatch, false);
    p = kept - kStep;
    const double below = f.loss(kBatch, false);
    p = kept;
    CAPTURE(i);
    CHECK(gradients[i] == doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-6).scale(1e-2));
    largest = std::max(largest, std::abs(gradients[i]));
  }
  CHECK(largest > 0.01);  // a network of zeros would pass, too
}

TEST_CASE("float gradients are the double ones up to float's precision") {
  Fixture<float> single;
  Fixture<double> reference;
  CHECK(single.loss(kBatch, true) == doctest::Approx(reference.loss(kBatch, true)).epsilon(1e-5));
  for (std::size_t i = 0; i < reference.network.gradients().size(); ++i) {
    CAPTURE(i);
    // Sums of up to 11 products, each with a relative error of 2^-24.
    CHECK(single.network.gradients()[i] == doctest::Approx(reference.network.gradients()[i]).epsilon(1e-4).scale(1e-2));
  }
}

TEST_CASE("backward overwrites what the gradients held, and tells layers from the last to the first") {
  Fixture<double> f;
  f.loss(kBatch, true);
  const std::vector<double> once(f.network.gradients().begin(), f.network.gradients().end());
  f.loss(kBatch, true);
  CHECK(once == std::vector<double>(f.network.gradients().begin(), f.network.gradients().end()));
  std::vector<std::size_t> order;
  f.network.backward(kBatch, [&](std::size_t layer) { order.push_back(layer); });
  CHECK(order == std::vector<std::size_t>{4, 3, 2, 1, 0});
}

TEST_CASE("an empty batch has no loss and zero gradients") {
  Fixture<float> f;
  f.loss(kBatch, true);
  CHECK(f.loss(0, true) == 0);
  for (const float gradient : f.network.gradients()) CHECK(gradient == 0);
}

TEST_CASE("gradients of parts of a batch, scaled by the whole, add up to the whole batch's") {
  Fixture<double> f;
  f.loss(kBatch, true);
  const std::vector<double> whole(f.network.gradients().begin(), f.network.gradients().end());
  std::vector<double> sum(whole.size());
  const std::vector<double> inputs(f.network.input(), f.network.input() + kBatch * kInputs);
  std::size_t at = 0;
  for (const std::size_t n : {4U, 2U}) {
    std::copy_n(inputs.begin() + static_cast<std::ptrdiff_t>(at * kInputs), n * kInputs, f.network.input());
    double totals[2] = {0, 0};
    f.network.forward(n);
    f.kernels->softmax_cross_entropy(f.network.output(), f.labels.data() + at, n, kClasses, 1.0 / kBatch,
                                     f.network.output_gradient(), totals);
    f.network.backward(n, [](std::size_t) {});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += f.network.gradients()[i];
    at += n;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == doctest::Approx(whole[i]).epsilon(1e-12).scale(1e-3));
}

TEST_CASE("softmax cross-entropy holds for large logits and counts right answers") {
  auto kernels = make_cpu_kernels<double>(1);
  const double logits[] = {1000, 0, -1000, 0, 0, 0};
  const std::uint8_t labels[] = {0, 1};
  double gradient[6];
  double totals[2] = {0, 0};
  kernels->softmax_cross_entropy(logits, labels, 2, 3, 1, gradient, totals);
  CHECK(totals[0] == doctest::Approx(std::log(3)));  // 0 for the first sample, log 3 for the second
  CHECK(totals[1] == 1);                             // of equal logits the first counts
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
        single->gemm(ta, tb, kM, kN, kK, a_single.data(), b_single.data(), static_cast<float>(beta), c_single.data());
        for (std::size_t i = 0; i < c.size(); ++i) CHECK(c_single[i] == doctest::Approx(c[i]).epsilon(1e-5).scale(1));
      }
    }
  }
}

TEST_CASE("first values come from the seed alone and have the published variance") {
  auto kernels = make_cpu_kernels<float>(1);
  const std::vector<std::size_t> hidden{512};
  Network<float> a(*kernels, make_mlp<float>(784, hidden, 10), 784, 1, 0);
  Network<float> b(*kernels, make_mlp<float>(784, hidden, 10), 784, 8, 3);
  a.initialise(5);
  b.initialise(5);
  CHECK(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  b.initialise(6);
  CHECK_FALSE(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));

  const auto variance = [&](std::size_t begin, std::size_t count) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + count; ++i) sum += double{a.parameters()[i]} * a.parameters()[i];
    return sum / static_cast<double>(count);
  };
  CHECK(variance(0, 784 * 512) == doctest::Approx(2.0 / 784).epsilon(0.02));
  CHECK(variance(a.first(2), 512 * 10) == doctest::Approx(2.0 / (512 + 10)).epsilon(0.1));
  CHECK(variance(784 * 512, 512) == 0);  // biases
  REQUIRE(a.tensors().size() == 4);
  CHECK(a.tensors()[0].name == "layers.0.weight");
  CHECK(a.tensors()[0].shape == std::vector<std::size_t>{784, 512});
  CHECK(a.tensors()[3].name == "layers.2.bias");
  CHECK(a.tensors()[3].offset == 784 * 512 + 512 + 512 * 10);
}

TEST_CASE("a batch is gathered as scaled bytes with its labels") {
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

TEST_CASE("denormal numbers are flushed to zero on a training thread") {
  auto kernels = make_cpu_kernels<float>(1);
  volatile float small = 1e-38F;
  CHECK(small * 0.1F == 0);
}

}  // namespace dlrun::trainer
