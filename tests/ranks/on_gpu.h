#pragma once
// Helpers for tests that compare the GPU with the CPU. Without a GPU, gpu_kernels() checks the
// error of make_cuda_kernels().

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/comm/half.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

/// An operation on arrays of the kernels' device, GPU or CPU. Writes its result to the first array.
using Operation = std::function<void(Kernels<float>&, const std::vector<float*>&)>;

/// Copies the arrays to the kernels' device, runs the operation, and returns the first array.
inline std::vector<float> result_of(Kernels<float>& kernels,
                                    const std::vector<std::vector<float>>& arrays,
                                    const Operation& operation) {
  std::vector<Array<float>> memory;
  std::vector<float*> pointers;
  for (const auto& array : arrays) {
    memory.emplace_back(kernels, array.size());
    kernels.copy_from_host(memory.back().data(), array.data(), array.size() * sizeof(float));
    pointers.push_back(memory.back().data());
  }
  operation(kernels, pointers);
  std::vector<float> result(arrays[0].size());
  kernels.copy_to_host(result.data(), pointers[0], result.size() * sizeof(float));
  const auto done = kernels.synchronise();
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  return result;
}

/// Returns random numbers from -1 to 1.
inline std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed, Purpose::kInit);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

/// Rounds each value to the nearest bfloat16.
inline std::vector<float> rounded_to_bfloat16(std::vector<float> values) {
  for (float& value : values) value = Bfloat16(value);
  return values;
}

/// Returns the kernels of the first GPU. Without a GPU, checks the error and returns nullptr.
inline std::unique_ptr<Kernels<float>> gpu_kernels(const GpuOptions& options = {}) {
  auto kernels = make_cuda_kernels(0, options);
  if (kernels) return std::move(*kernels);
  REQUIRE(kernels.error().code == Errc::kUnavailable);
  CHECK(kernels.error().message.find("no GPU") != std::string::npos);
  CHECK(kernels.error().message.find("resources.gpus_per_node") != std::string::npos);
  MESSAGE("no comparison: " << kernels.error().message);
  return nullptr;
}

/// Checks that the numbers of both arrays differ by less than tolerance * (scale + the larger
/// absolute value of the two numbers).
inline void check_close(const std::vector<float>& got, const std::vector<float>& expected,
                        double tolerance, double scale) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(tolerance).scale(scale));
  }
}

}  // namespace dlrun::trainer
