// Trains a linear model on generated digits, data-parallel on one or more ranks. The numbered
// comments mark the five changes that make a program data-parallel. The build makes the program
// `data-parallel` from this file.
//
// To build it outside this repository:
//   find_package(dlrun) and target_link_libraries(data-parallel PRIVATE dlrun::runtime)
// To run it: build/release/bin/data-parallel, or mpirun -n 4 data-parallel, or with a spec:
//   launch: {preset: mpi, command: [./data-parallel]}

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "common/files.h"
#include "runtime/trainer/checkpoint/safetensors.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/sampler.h"
#include "runtime/trainer/parallel/distributed_job.h"

using namespace dlrun;
using namespace dlrun::trainer;

constexpr std::size_t kPixels = 784, kClasses = 10, kWeights = kPixels * kClasses;

/// Computes softmax regression (Bishop 2006, 4.3.4) over the samples of `range`. w and gradient:
/// [784 x 10]. Adds the gradient of the mean loss to `gradient`. Returns the mean loss.
double regress(const Dataset& data, Range range, const std::vector<float>& w,
               std::vector<float>& gradient) {
  double loss = 0;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const std::uint8_t* x = &data.images[i * kPixels];
    double p[kClasses] = {}, sum = 0;
    for (std::size_t j = 0; j < kPixels; ++j)
      for (std::size_t k = 0; x[j] != 0 && k < kClasses; ++k)
        p[k] += w[j * kClasses + k] * (x[j] / 255.0);
    for (double& value : p) sum += value = std::exp(value);
    loss -= std::log(p[data.labels[i]] / sum) / static_cast<double>(range.size());
    for (std::size_t k = 0; k < kClasses; ++k) {
      const double delta =
          (p[k] / sum - (k == data.labels[i] ? 1 : 0)) / static_cast<double>(range.size());
      for (std::size_t j = 0; j < kPixels; ++j)
        gradient[j * kClasses + k] += static_cast<float>(delta * (x[j] / 255.0));
    }
  }
  return loss;
}

Result<> train(const std::filesystem::path& file) {
  auto job = DistributedJob::initialise();  // 1. find this rank and the others
  if (!job) return tl::unexpected(job.error());
  // 2. with a GPU: cudaSetDevice(job->gpu(number of visible GPUs))
  // 3. the learning rate: unscaled, because the global batch is the same for any number of ranks
  const double rate = job->scaled(0.02, LrScaling::kNone);
  std::vector<float> w(kWeights), gradient(kWeights);
  // 4. update the weights with the mean of all ranks' gradients
  auto optimizer = DistributedOptimizer::create(*job, {.name = "sgd"}, w.size());
  if (!optimizer) return tl::unexpected(optimizer.error());
  if (job->is_root()) std::fill(w.begin(), w.end(), 1e-3F);
  DLRUN_TRY(job->broadcast(w));  // 5. all ranks start with rank 0's values

  const Dataset data = generate_digits(840, 1, false);
  for (int step = 1; step <= 30; ++step) {
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    double loss = regress(data, even_part(data.size(), job->rank(), job->size()), w, gradient);
    DLRUN_TRY(optimizer->step(w, gradient, rate));
    DLRUN_TRY(job->average({&loss, 1}));
    if (job->is_root() && step % 10 == 0)
      std::printf("step %d, %d ranks: loss %.4f\n", step, job->size(), loss);
  }
  return job->on_root([&] {  // only rank 0 writes files
    const std::vector<NamedArray> arrays{{"weight", {kPixels, kClasses}, w}};
    return write_file_atomic(file, to_safetensors(arrays, {}));
  });
}

int main(int argc, char** argv) {
  const auto done = train(argc > 1 ? argv[1] : "data-parallel.safetensors");
  if (!done) std::fprintf(stderr, "data-parallel: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
