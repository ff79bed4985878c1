// Compares the operations of Kernels on the GPU with the CPU. Without a GPU, checks the error.
// trainer_cuda_layers_test.cc compares the operations of LayerKernels.

#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "common/text.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"
#include "tests/ranks/on_gpu.h"

namespace dlrun::trainer {
TEST_CASE(
    "the operations of Kernels give the CPU's numbers on the GPU, or the error names the missing "
    "GPU") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto host = make_cpu_kernels<float>(1);
  constexpr std::size_t kRows = 37;
  constexpr std::size_t kWidth = 53;
  constexpr std::size_t kClasses = 10;
  const auto compare = [&](const char* what, const std::vector<std::vector<float>>& arrays,
                           const Operation& operation) {
    CAPTURE(what);
    const auto expected = result_of(*host, arrays, operation);
    const auto got = result_of(*device, arrays, operation);
    check_close(got, expected, 1e-5, 1);  // sums of up to 53 floats in another order
  };
  const auto x = random_numbers(kRows * kWidth, 1);
  const auto y = random_numbers(kRows * kWidth, 2);
  for (const auto ta : {Transpose::kNo, Transpose::kYes}) {
    for (const auto tb : {Transpose::kNo, Transpose::kYes}) {
      for (const std::size_t k : {std::size_t{0}, kWidth}) {
        compare("gemm",
                {random_numbers(kRows * kClasses, 3), x, random_numbers(kClasses * kWidth, 4)},
                [&](auto& kernels, const auto& p) {
                  kernels.gemm(ta, tb, kRows, kClasses, k, p[1], p[2], 0.5F, p[0]);
                });
      }
    }
  }
  for (const bool with_relu : {false, true}) {
    for (const std::size_t offset : {0U, 1U}) {  // parameters need only a float's alignment
      compare("dense",
              {random_numbers(kRows * kClasses, 5), x, random_numbers(1 + kWidth * kClasses, 16),
               random_numbers(1 + kClasses, 17)},
              [&](auto& kernels, const auto& p) {
                kernels.dense(kRows, kWidth, kClasses, p[1], p[2] + offset, p[3] + offset,
                              with_relu, p[0]);
              });
    }
  }
  compare("sum_columns", {random_numbers(kWidth, 6), x},
          [](auto& kernels, const auto& p) { kernels.sum_columns(p[1], p[0], kRows, kWidth); });
  auto sixteenths = random_numbers(3 * 5000, 18);  // values whose sums are exact in float
  for (float& value : sixteenths) value = std::round(value * 16) / 16;
  compare("sum_columns of many", {random_numbers(3, 6), sixteenths},
          [](auto& kernels, const auto& p) { kernels.sum_columns(p[1], p[0], 5000, 3); });
  compare("sum_columns of none", {random_numbers(kWidth, 6), x},
          [](auto& kernels, const auto& p) { kernels.sum_columns(p[1], p[0], 0, kWidth); });
  compare("relu", {y, x},
          [](auto& kernels, const auto& p) { kernels.relu(p[1], p[0], kRows * kWidth); });
  compare("relu_backward", {random_numbers(kRows * kWidth, 7), x, y},
          [](auto& kernels, const auto& p) {
            kernels.relu_backward(p[1], p[2], p[0], kRows * kWidth);
          });
  for (const bool compares_totals : {false, true}) {
    compare("softmax_cross_entropy",
            {random_numbers(kRows * kClasses, 8), random_numbers(2, 9),
             random_numbers(kRows * kClasses, 10)},
            [&](auto& kernels, const auto& p) {
              std::vector<std::uint8_t> labels(kRows);
              for (std::size_t i = 0; i < kRows; ++i)
                labels[i] = static_cast<std::uint8_t>(i % kClasses);
              const auto memory = kernels.allocate(kRows);
              kernels.copy_from_host(memory.get(), labels.data(), kRows);
              kernels.softmax_cross_entropy(p[2], static_cast<std::uint8_t*>(memory.get()), kRows,
                                            kClasses, 0.25F, p[0], p[1]);
              // relu copies the totals (positive numbers) to the array that is compared.
              if (compares_totals) kernels.relu(p[1], p[0], 2);
            });
  }
  Dataset data;
  data.features = 5;
  data.classes = data.label_width = 3;
  for (std::uint8_t i = 0; i < 20; ++i) data.images.push_back(static_cast<std::uint8_t>(i * 12));
  data.labels = {0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1};
  const std::vector<std::uint32_t> samples{3, 0, 3};
  compare("gather", {std::vector<float>(15)}, [&](auto& kernels, const auto& p) {
    const DeviceData on_device = kernels.upload(data);
    Array<std::uint8_t> labels(kernels, 9);
    kernels.gather(on_device, samples, 0.5F, p[0], labels.data());
    std::vector<std::uint8_t> got(9);
    kernels.copy_to_host(got.data(), labels.data(), got.size());
    CHECK(got == std::vector<std::uint8_t>{1, 0, 1, 0, 1, 0, 1, 0, 1});
  });
  const std::vector<float> initial_state(kRows * kWidth, 0.3F);
  for (const std::string_view name : split(optimizer_names(), '|')) {
    for (const double momentum : {0.0, 0.9}) {
      CAPTURE(momentum);
      OptimizerOptions options;
      options.name = name;
      options.momentum = momentum;
      options.weight_decay = 0.1;
      const auto optimizer = make_optimizer<float>(options);
      REQUIRE(optimizer.has_value());
      compare(options.name.c_str(), {x, y, initial_state, initial_state},
              [&](auto& kernels, const auto& p) {
                const std::array<TensorRange, 2> tensors{
                    {{0, kRows * kWidth - 7, true}, {kRows * kWidth - 7, 7, false}}};
                const std::array<float*, 2> states{p[2], p[3]};
                (*optimizer)
                    ->step(kernels,
                           {p[0], p[1], std::span(states).first((*optimizer)->states().size()),
                            kRows * kWidth, tensors},
                           {0.01, 3, 0.5});
              });
    }
  }
  compare("add_scaled", {x, y}, [](auto& kernels, const auto& p) {
    kernels.add_scaled(p[0], -0.5F, p[1], kRows * kWidth);
  });
  compare("sums_of_squares", {random_numbers(2, 15), x}, [](auto& kernels, const auto& p) {
    const std::array<TensorRange, 2> parts{
        {{0, kWidth}, {kWidth + 1, kRows * kWidth - kWidth - 1}}};
    std::array<double, 2> sums{};
    kernels.sums_of_squares(p[1], parts, sums.data());
    const std::array<float, 2> singles{static_cast<float>(sums[0]), static_cast<float>(sums[1])};
    kernels.copy_from_host(p[0], singles.data(), sizeof singles);
  });
}

TEST_CASE("in bf16, products are computed from rounded inputs and added up in float32") {
  const auto device = gpu_kernels({.precision = Precision::kBfloat16});
  if (device == nullptr) return;
  CHECK(device->description().ends_with(", bf16"));
  const auto host = make_cpu_kernels<float>(1);
  // Widths of whole and of partial tiles. The parameters of a dense layer need only a float's
  // alignment.
  for (const std::size_t width : {std::size_t{64}, std::size_t{53}}) {
    constexpr std::size_t kRows = 37;
    constexpr std::size_t kOut = 10;
    CAPTURE(width);
    const auto x = random_numbers(kRows * width, 1);
    const auto w = random_numbers(width * kOut, 2);
    const auto compare = [&](const char* what, const Operation& operation) {
      CAPTURE(what);
      const std::vector<std::vector<float>> arrays{random_numbers(kRows * kOut, 5), x, w,
                                                   random_numbers(1 + kOut, 6)};
      const std::vector<std::vector<float>> rounded_arrays{arrays[0], rounded_to_bfloat16(x),
                                                           rounded_to_bfloat16(w), arrays[3]};
      // Products of 16-bit numbers are exact in float32. Only the order of float32's sums differs.
      check_close(result_of(*device, arrays, operation),
                  result_of(*host, rounded_arrays, operation), 1e-5, 1);
    };
    for (const auto ta : {Transpose::kNo, Transpose::kYes}) {
      for (const auto tb : {Transpose::kNo, Transpose::kYes}) {
        compare("gemm", [&](auto& kernels, const auto& p) {
          kernels.gemm(ta, tb, kRows, kOut, width, p[1], p[2], 0.5F, p[0]);
        });
      }
    }
    for (const bool with_relu : {false, true}) {
      compare("dense", [&](auto& kernels, const auto& p) {
        kernels.dense(kRows, width, kOut, p[1], p[2], p[3] + 1, with_relu, p[0]);
      });
    }
  }
}

}  // namespace dlrun::trainer
