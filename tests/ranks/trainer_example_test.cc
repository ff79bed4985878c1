// Tests `data-parallel`, the example program of the library: the result does not depend on the
// number of ranks, rank 0 writes, and an error ends all ranks. The example trains for 30 steps.
// Also tests the classes DistributedJob and DistributedOptimizer, which the example uses.

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "runtime/trainer/checkpoint/safetensors.h"
#include "runtime/trainer/parallel/distributed_job.h"
#include "tests/ranks/run_program.h"
#include "tests/temporary_directory.h"

// Functions of the OpenMP runtime, which the trainer's library links.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace dlrun::trainer {
namespace {

const std::string kExample = DLRUN_BINARY_DIR "/bin/data-parallel";

#ifdef DLRUN_MPIEXEC
std::vector<float> read_weight_tensor(const std::filesystem::path& path) {
  const auto text = read_file(path, 1U << 20U);
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  const auto parsed = parse_safetensors(
      path.string(), {reinterpret_cast<const std::uint8_t*>(text->data()), text->size()});
  REQUIRE(parsed.has_value());
  const auto& bytes = parsed->tensors.at("weight").bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
#endif

/// Returns the number after the last "loss ".
double last_loss(const std::string& text) {
  const std::size_t at = text.rfind("loss ");
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + 5));
}

}  // namespace

TEST_CASE(
    "the data-parallel example learns, gives nearly the same result on N ranks, and names the rank "
    "of an error") {
  const TemporaryDirectory folder;
  const auto alone = run({kExample, "alone"}, folder.path());
  REQUIRE_MESSAGE(alone.exit_code == 0, alone.err);
  CHECK(last_loss(alone.out) < 1.6);  // the loss starts at log 10
#ifdef DLRUN_MPIEXEC
  const std::vector<float> want = read_weight_tensor(folder / "alone");
  for (const std::string size : {"2", "4", "7"}) {
    CAPTURE(size);
    const auto many =
        run({DLRUN_MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", size, kExample, size},
            folder.path());
    REQUIRE_MESSAGE(many.exit_code == 0, many.err);
    CHECK(many.out.find("step 30, " + size + " ranks: ") != std::string::npos);
    CHECK(last_loss(many.out) == doctest::Approx(last_loss(alone.out)).epsilon(1e-4));
    const std::vector<float> got = read_weight_tensor(folder / size);
    REQUIRE(got.size() == want.size());
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::abs(double{got[i]} - double{want[i]}));
    CHECK(largest < 1e-6);  // 30 steps of the same sums in another order
  }
  const auto refused = run(
      {DLRUN_MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", "2", kExample, "no/such/file"},
      folder.path());
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("data-parallel: rank 0 on ") != std::string::npos);
  CHECK(refused.err.find("no/such") != std::string::npos);
#endif
}

TEST_CASE(
    "a DistributedJob of one rank has GPU 0 and keeps the learning rate, and its optimizer refuses "
    "wrong names and shapes") {
  Env env;
  auto job = DistributedJob::initialise("auto", env);
  REQUIRE_MESSAGE(job.has_value(), job.error().message);
  CHECK(job->size() == 1);
  CHECK(job->is_root());
  CHECK(job->gpu(4) == 0);
  CHECK(job->gpu(0) == 0);
  CHECK(job->scaled(0.5) == 0.5);
  CHECK_FALSE(job->on_root([]() -> Result<> { return fail(Errc::kIo, "full"); }).has_value());
  CHECK(DistributedOptimizer::create(*job, {.name = "sdg"}, 3)
            .error()
            .message.find("expected one of adam") != std::string::npos);
  auto optimizer = DistributedOptimizer::create(*job, {.name = "sgd", .momentum = 0}, 3);
  REQUIRE(optimizer.has_value());
  std::vector<float> parameters{1, 2, 3};
  std::vector<float> gradients{1, 0, -1};
  REQUIRE(optimizer->step(parameters, gradients, 0.5).has_value());
  CHECK(parameters == std::vector<float>{0.5F, 2, 3.5F});
  CHECK(optimizer->step(parameters, std::span(gradients).first(2), 0.5).error().code ==
        Errc::kShape);
  env.set("OMPI_COMM_WORLD_RANK", "7");
  env.set("OMPI_COMM_WORLD_SIZE", "2");
  CHECK_FALSE(DistributedJob::initialise("auto", env).has_value());
}

TEST_CASE(
    "the optimizer restores the caller's number of OpenMP threads and handling of denormal "
    "numbers") {
  auto job = DistributedJob::initialise("auto", Env());
  REQUIRE_MESSAGE(job.has_value(), job.error().message);
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  const auto check_settings = [] {
    CHECK(omp_get_max_threads() == 3);
    volatile float small = std::numeric_limits<float>::min();
    CHECK(small * 0.5F > 0);
  };
  auto optimizer = DistributedOptimizer::create(*job, {.name = "sgd", .momentum = 0}, 1);
  REQUIRE(optimizer.has_value());
  check_settings();
  // In step() a denormal number is zero, as in the trainer.
  const float denormal = std::numeric_limits<float>::min() / 2;
  std::vector<float> parameters{denormal};
  std::vector<float> gradients{0};
  REQUIRE(optimizer->step(parameters, gradients, 0.5).has_value());
  CHECK(std::fpclassify(parameters[0]) == FP_ZERO);
  check_settings();
  omp_set_num_threads(before);
}

}  // namespace dlrun::trainer
