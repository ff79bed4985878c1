// What dlrun's communicator costs over the library under it: all-reduce of float32 through each, in the same process,
// in turns.
//
//   mpirun -n 2 build/release/bin/bench_all_reduce
//
// Prints a table: bytes, median microseconds of MPI_Allreduce, of the mpi backend, of the gloo and shm backends, and
// the ratios mpi to MPI and MPI to shm. Their ranks meet through a store in a folder of rank 0's temporary directory:
// one machine only.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "common/env.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/comm/make_communicator.h"

namespace {

using namespace dlrun;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;  // of each way, in turns

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// Microseconds of each of repeats calls.
template <typename Call>
void measure(std::vector<double>& times, int repeats, Call&& call) {
  for (int i = 0; i < repeats; ++i) {
    const auto before = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
}

Result<std::string> shared_folder(Communicator& comm) {
  std::array<std::uint8_t, 16> name{};
  if (comm.rank() == 0) {
    const auto random = from_hex(random_hex(name.size()));
    std::copy(random->begin(), random->end(), name.begin());
  }
  DLRUN_TRY(comm.broadcast(std::span(name), 0));
  return (std::filesystem::temp_directory_path() / ("dlrun-bench-" + to_hex(name))).string();
}

Result<> run() {
  CommunicatorOptions options;
  const auto world = read_world(Env::of_process(), WorldReader::kProgram);
  if (!world) return tl::unexpected(world.error());
  options.world = *world;
  options.checked_calls = 0;
  auto mpi = make_communicator("mpi", options);
  if (!mpi) return tl::unexpected(mpi.error());
  const auto folder = shared_folder(**mpi);
  if (!folder) return tl::unexpected(folder.error());
  auto store = open_store("file:" + *folder);
  if (!store) return tl::unexpected(store.error());
  options.store = store->get();
  auto gloo = make_communicator("gloo", options);
  if (!gloo) return tl::unexpected(gloo.error());
  auto shm = make_communicator("shm", options);
  if (!shm) return tl::unexpected(shm.error());

  if (world->rank == 0)
    std::fputs(fmt::format("{} ranks\n{:>10} {:>12} {:>12} {:>12} {:>12} {:>8} {:>8}\n", world->size, "bytes", "MPI us",
                           "mpi us", "gloo us", "shm us", "mpi/MPI", "MPI/shm")
                   .c_str(),
               stdout);
  for (std::size_t bytes = 4; bytes <= (std::size_t{16} << 20U); bytes *= 4) {
    std::vector<float> values(bytes / sizeof(float), 1.0F);
    const int repeats = static_cast<int>(std::clamp<std::size_t>((std::size_t{8} << 20U) / bytes, 5, 400));
    std::array<std::vector<double>, 4> times;
    Result<> failed;
    for (int round = 0; round < kRounds; ++round) {
      DLRUN_TRY((*mpi)->barrier());
      measure(times[0], repeats, [&] {
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
      });
      DLRUN_TRY((*mpi)->barrier());
      measure(times[1], repeats, [&] {
        if (failed) failed = (*mpi)->all_reduce(std::span(values), ReduceOp::kMax);
      });
      DLRUN_TRY((*mpi)->barrier());
      measure(times[2], repeats, [&] {
        if (failed) failed = (*gloo)->all_reduce(std::span(values), ReduceOp::kMax);
      });
      DLRUN_TRY((*mpi)->barrier());
      measure(times[3], repeats, [&] {
        if (failed) failed = (*shm)->all_reduce(std::span(values), ReduceOp::kMax);
      });
      if (!failed) return failed;
    }
    const std::array us{median(times[0]), median(times[1]), median(times[2]), median(times[3])};
    if (world->rank == 0)
      std::fputs(fmt::format("{:>10} {:>12.1f} {:>12.1f} {:>12.1f} {:>12.1f} {:>8.3f} {:>8.2f}\n", bytes, us[0], us[1],
                             us[2], us[3], us[1] / us[0], us[0] / us[3])
                     .c_str(),
                 stdout);
  }
  DLRUN_TRY((*mpi)->barrier());
  std::error_code ignored;
  if (world->rank == 0) std::filesystem::remove_all(*folder, ignored);
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (done) return 0;
  std::fputs(("bench_all_reduce: " + done.error().message + "\n").c_str(), stderr);
  return 1;
}
