// Measures the start of MPI: MPI_Init_thread alone, or dlrun's communicator, which calls it.
//
//   mpirun -n 2 build/release/bin/bench_mpi_init raw|dlrun
//
// Prints the milliseconds that the slowest rank takes. bench/mpi-init runs both variants in turn.

#include <chrono>
#include <cstdio>
#include <string_view>

#include <mpi.h>

#include "common/env.h"
#include "runtime/comm/make_communicator.h"

namespace {

using namespace dlrun;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Result<> run_raw() {
  const auto start = Clock::now();
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return fail(Errc::kInternal, "MPI_Init_thread failed");
  double took = milliseconds_since(start);
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%.2f\n", took);
  MPI_Finalize();
  return {};
}

Result<> run_dlrun() {
  CommunicatorOptions options;
  DLRUN_TRY_ASSIGN(const auto world, read_world(Env::of_process(), ProcessKind::kProgram));
  options.world = world;
  const auto start = Clock::now();
  DLRUN_TRY_ASSIGN(auto communicator, make_communicator("mpi", options));
  double took = milliseconds_since(start);
  DLRUN_TRY(communicator->all_reduce(std::span(&took, 1), ReduceOp::kMax));
  if (world.rank == 0) std::printf("%.2f\n", took);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view variant = argc == 2 ? argv[1] : "";
  if (variant != "raw" && variant != "dlrun") {
    std::fputs("usage: mpirun -n N bench_mpi_init raw|dlrun\n", stderr);
    return 2;
  }
  const auto done = variant == "raw" ? run_raw() : run_dlrun();
  if (done) return 0;
  std::fputs(("bench_mpi_init: " + done.error().message + "\n").c_str(), stderr);
  return 1;
}
