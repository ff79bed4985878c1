// Measures the highest rates of one core. bench/trainer computes from them the floor of a training
// step: the least time that it can take. Prints the rate of the core's fused multiply-adds in GF/s,
// and the rate in GB/s at which the core reads four arrays and writes three of them back, as Adam
// does. Each array has one element for each parameter of the model.
//
// usage: bench_floor NUMBER_OF_PARAMETERS

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

namespace {

constexpr std::size_t kLanes = 16;
// Number of independent sums. A core never waits for a result if this number is at least the
// latency of a multiply-add in cycles, times the multiply-adds that begin in a cycle (4 x 2). The
// number is below the number of registers.
constexpr std::size_t kSums = 12;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using Lanes8 = float __attribute__((vector_size(8 * sizeof(float))));
using Lanes4 = float __attribute__((vector_size(4 * sizeof(float))));

template <typename Vector>
[[gnu::always_inline]] inline float multiply_add_vectors(std::size_t repeats) {
  std::array<Vector, kSums> sums{};
  for (std::size_t i = 1; i < kSums; ++i)
    sums[i] += static_cast<float>(i);  // each sum starts with its own value
  Vector factor = sums[0] + 0.999F;
  Vector term = sums[0] + 0.001F;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term;
  }
  Vector all = sums[0];
  for (std::size_t i = 1; i < kSums; ++i) all += sums[i];
  return all[0];
}

// Each function uses vectors as wide as a register. Wider vectors would need two registers each,
// and leave too few registers for the sums.
[[gnu::target("arch=x86-64-v4")]] float multiply_add_512(std::size_t repeats) {
  return multiply_add_vectors<Lanes>(repeats);
}
[[gnu::target("arch=x86-64-v3")]] float multiply_add_256(std::size_t repeats) {
  return multiply_add_vectors<Lanes8>(repeats);
}
float multiply_add_128(std::size_t repeats) {
  return multiply_add_vectors<Lanes4>(repeats);
}

struct MultiplyAdd {
  float (*run)(std::size_t repeats);
  std::size_t lanes;
};
/// Returns the function with the widest vectors that this processor has.
MultiplyAdd widest_multiply_add() {
  if (__builtin_cpu_supports("x86-64-v4")) return {multiply_add_512, kLanes};
  if (__builtin_cpu_supports("x86-64-v3")) return {multiply_add_256, 8};
  return {multiply_add_128, 4};
}

EACH_ISA void stream(Lanes* __restrict p, const Lanes* __restrict g, Lanes* __restrict m,
                     Lanes* __restrict v, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    m[i] += g[i];
    v[i] += g[i];
    p[i] -= g[i];
  }
}

/// Returns the time of the shortest run, which other work on the machine has disturbed least.
template <typename Work>
double shortest_seconds(int runs, const Work& work) {
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (count == 0) {
    std::fputs("usage: bench_floor NUMBER_OF_PARAMETERS\n", stderr);
    return 2;
  }
  constexpr std::size_t kRepeats = 200'000;
  volatile float keep = 0;
  const MultiplyAdd multiply_add = widest_multiply_add();
  const double multiply_seconds = shortest_seconds(10, [&] { keep = multiply_add.run(kRepeats); });
  const std::size_t lines = (count + kLanes - 1) / kLanes;
  struct Line {
    alignas(sizeof(Lanes)) Lanes values;
  };
  std::vector<Line> p(lines), g(lines), m(lines), v(lines);
  const double stream_seconds = shortest_seconds(
      100, [&] { stream(&p[0].values, &g[0].values, &m[0].values, &v[0].values, lines); });
  std::printf(
      "%.1f %.1f\n",
      static_cast<double>(2 * multiply_add.lanes * kSums * kRepeats) / multiply_seconds * 1e-9,
      static_cast<double>(7 * sizeof(float) * count) / stream_seconds * 1e-9);
}
