// Measures the overhead of dlrun's communicators over the libraries that they call (MPI, Gloo). All
// methods all-reduce float32 arrays in turn, in the same process.
//
//   mpirun -n 2 build/release/bin/bench_all_reduce
//
// Prints a table with the number of bytes and the median microseconds of MPI_Allreduce, the mpi
// backend, gloo::allreduce, the gloo backend, the shm backend, and a sum over arrays in memory that
// all ranks share ("shared sum"), without and with the time to write the arrays. Also prints the
// ratios mpi to MPI, gloo to Gloo, MPI to shm and MPI to shared sum, each as the median over
// rounds. The ranks of gloo and shm find each other through a store in the temporary directory, so
// the benchmark runs on one machine only.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>

#include "common/env.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/comm/reduce.h"

namespace {

using namespace dlrun;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 21;  // each round measures every method

/// The methods to all-reduce, in the order of the table, and their number.
enum Method { kMpi, kOurMpi, kGloo, kOurGloo, kShm, kSharedSum, kSharedSumWithWrite, kMethodCount };

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// Appends the time of each of `repeats` calls, in microseconds.
template <typename Call>
void measure(std::vector<double>& times, int repeats, Call&& call) {
  for (int i = 0; i < repeats; ++i) {
    const auto before = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
}

/// Returns the path of a folder in the temporary directory, with a random name that is the same on
/// all ranks. Does not create the folder.
Result<std::string> agree_on_folder(Communicator& comm) {
  std::array<std::uint8_t, 16> name{};
  if (comm.rank() == 0) {
    const auto random = from_hex(random_hex(name.size()));
    std::copy(random->begin(), random->end(), name.begin());
  }
  DLRUN_TRY(comm.broadcast(std::span(name), 0));
  return (std::filesystem::temp_directory_path() / ("dlrun-bench-" + to_hex(name))).string();
}

/// The trainer's method on one node (runtime/trainer/parallel/shared_exchange.cc): all ranks can
/// read every rank's array, each rank sums its part of all arrays, and all ranks share the
/// resulting array.
class SharedSum {
 public:
  static Result<SharedSum> make(Communicator& comm, std::size_t count) {
    DLRUN_TRY_ASSIGN(auto memory, comm.allocate_shared((static_cast<std::size_t>(comm.size()) + 1) *
                                                       round_up_to_pages(count) * sizeof(float)));
    if (memory == nullptr)
      return fail(Errc::kIo, "no shared memory for {} floats of each rank", count);
    return SharedSum(comm, count, std::move(memory));
  }

  /// Writes this rank's array, as a backward pass does before each call. Other ranks have read the
  /// array, so the write must fetch it back from their caches.
  void write_own() { std::fill_n(array(comm_.rank()), count_, 1.0F); }

  Result<> all_reduce() {
    DLRUN_TRY(comm_.barrier());
    constexpr std::size_t kPieceFloats = 2048;  // stays in the first-level cache
    const auto size = static_cast<std::size_t>(comm_.size());
    const std::size_t part = (count_ + size - 1) / size;
    const std::size_t begin = std::min(count_, part * static_cast<std::size_t>(comm_.rank()));
    const std::size_t end = std::min(count_, begin + part);
    float* const sum = array(comm_.size());
    for (std::size_t at = begin; at < end; at += kPieceFloats) {
      const std::size_t n = std::min(kPieceFloats, end - at);
      combine(ReduceOp::kSum, sum + at, array(0) + at, array(1) + at, n);
      for (int rank = 2; rank < comm_.size(); ++rank)
        combine(ReduceOp::kSum, sum + at, sum + at, array(rank) + at, n);
    }
    return comm_.barrier();
  }

 private:
  SharedSum(Communicator& comm, std::size_t count, std::shared_ptr<std::byte> memory)
      : comm_(comm), count_(count), memory_(std::move(memory)) {}

  /// Returns `count`, rounded up to whole pages, so that the arrays of two ranks, which both ranks
  /// write at the same time, share no page. The parts of the sum may share pages.
  static std::size_t round_up_to_pages(std::size_t count) {
    constexpr std::size_t kFloatsPerPage = 4096 / sizeof(float);
    return (count + kFloatsPerPage - 1) / kFloatsPerPage * kFloatsPerPage;
  }

  /// Returns the array of a rank, or the array of the sum if rank == size().
  [[nodiscard]] float* array(int rank) const {
    return reinterpret_cast<float*>(memory_.get()) +
           static_cast<std::size_t>(rank) * round_up_to_pages(count_);
  }

  Communicator& comm_;
  std::size_t count_;
  std::shared_ptr<std::byte> memory_;
};

/// Gloo without dlrun, with Gloo's own store and Gloo's own sum.
class RawGloo {
 public:
  static Result<RawGloo> make(int rank, int size, const std::string& folder) {
    try {
      std::filesystem::create_directories(folder);
      gloo::rendezvous::FileStore store(folder);
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
      gloo::transport::tcp::attr attributes;
      attributes.hostname = "127.0.0.1";
      auto device = gloo::transport::tcp::CreateDevice(attributes);
      context->connectFullMesh(store, device);
      return RawGloo(std::move(context));
    } catch (const std::exception& caught) {
      return fail(Errc::kIo, "Gloo: {}", caught.what());
    }
  }

  void all_reduce(std::vector<float>& values) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    options.setTag(next_tag_++);
    gloo::allreduce(options);
  }

 private:
  explicit RawGloo(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  std::shared_ptr<gloo::Context> context_;
  std::uint32_t next_tag_ = 1;
};

/// The results of all rounds at one size.
struct Rounds {
  std::array<std::vector<double>, kMethodCount> medians_us;  // the median of each round

  [[nodiscard]] double median_of(Method method) const { return median(medians_us[method]); }
  /// Returns the median of the rounds' ratios. A disturbance of a round affects both sides of its
  /// ratio.
  [[nodiscard]] double ratio(Method a, Method b) const {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < medians_us[a].size(); ++round)
      ratios.push_back(medians_us[a][round] / medians_us[b][round]);
    return median(std::move(ratios));
  }
};

/// The compared communicators, and Gloo without dlrun.
struct Communicators {
  std::unique_ptr<Communicator> mpi, gloo, shm;
  RawGloo raw_gloo;
};

/// Measures one round at one size: appends the median of each method to `rounds`.
Result<> measure_round(Communicators& communicators, SharedSum& shared_sum,
                       std::vector<float>& values, int round, Rounds& rounds) {
  const int repeats = static_cast<int>(
      std::clamp<std::size_t>((std::size_t{8} << 20U) / (values.size() * sizeof(float)), 5, 400));
  Result<> outcome;  // the first failure of a call
  const auto all_reduce_by = [&](Communicator& communicator) {
    if (outcome) outcome = communicator.all_reduce(std::span(values), ReduceOp::kSum);
  };
  std::array<std::vector<double>, kMethodCount> times;
  const auto measure_method = [&](Method method, const auto& call) -> Result<> {
    DLRUN_TRY(communicators.mpi->barrier());
    measure(times[method], repeats, call);
    return {};
  };
  // The libraries run first in even rounds, and the backends run first in odd rounds.
  for (int half = 0; half < 2; ++half) {
    if ((half == 0) == (round % 2 == 0)) {
      DLRUN_TRY(measure_method(kMpi, [&] {
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
      }));
      DLRUN_TRY(measure_method(kGloo, [&] { communicators.raw_gloo.all_reduce(values); }));
    } else {
      DLRUN_TRY(measure_method(kOurMpi, [&] { all_reduce_by(*communicators.mpi); }));
      DLRUN_TRY(measure_method(kOurGloo, [&] { all_reduce_by(*communicators.gloo); }));
    }
  }
  DLRUN_TRY(measure_method(kShm, [&] { all_reduce_by(*communicators.shm); }));
  for (int i = 0; i < repeats; ++i) {
    measure(times[kSharedSumWithWrite], 1, [&] {
      shared_sum.write_own();
      if (outcome) outcome = communicators.shm->barrier();
      measure(times[kSharedSum], 1, [&] {
        if (outcome) outcome = shared_sum.all_reduce();
      });
    });
  }
  for (int method = 0; method < kMethodCount; ++method)
    rounds.medians_us[method].push_back(median(std::move(times[method])));
  return outcome;
}

void print_row(std::size_t bytes, const Rounds& rounds) {
  std::string line = fmt::format("| {} |", bytes);
  for (int method = 0; method < kMethodCount; ++method)
    line += fmt::format(" {:.1f} |", rounds.median_of(static_cast<Method>(method)));
  line += fmt::format(" {:.3f} | {:.3f} | {:.2f} | {:.2f} |\n", rounds.ratio(kOurMpi, kMpi),
                      rounds.ratio(kOurGloo, kGloo), rounds.ratio(kMpi, kShm),
                      rounds.ratio(kMpi, kSharedSum));
  std::fputs(line.c_str(), stdout);
}

Result<> run() {
  CommunicatorOptions options;
  DLRUN_TRY_ASSIGN(const auto world, read_world(Env::of_process(), ProcessKind::kProgram));
  if (world.size < 2)
    return fail(Errc::kUsage,
                "one rank has nothing to reduce; start bench_all_reduce with mpirun -n 2");
  options.world = world;
  options.calls_to_check = 0;
  DLRUN_TRY_ASSIGN(auto mpi, make_communicator("mpi", options));
  DLRUN_TRY_ASSIGN(const auto folder, agree_on_folder(*mpi));
  DLRUN_TRY_ASSIGN(auto store, open_store("file:" + folder));
  options.store = store.get();
  DLRUN_TRY_ASSIGN(auto gloo, make_communicator("gloo", options));
  DLRUN_TRY_ASSIGN(auto shm, make_communicator("shm", options));

  DLRUN_TRY_ASSIGN(auto raw_gloo, RawGloo::make(world.rank, world.size, folder + "/raw-gloo"));

  if (world.rank == 0)
    std::fputs(
        fmt::format("{} ranks, microseconds, medians of {} rounds\n\n| bytes | MPI | mpi | Gloo | "
                    "gloo | shm | shared sum | with its write | mpi/MPI | gloo/Gloo | MPI/shm | "
                    "MPI/shared sum |\n"
                    "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
                    world.size, kRounds)
            .c_str(),
        stdout);
  Communicators communicators{std::move(mpi), std::move(gloo), std::move(shm), std::move(raw_gloo)};
  for (std::size_t bytes = 4; bytes <= (std::size_t{16} << 20U); bytes *= 4) {
    std::vector<float> values(bytes / sizeof(float), 0.0F);
    DLRUN_TRY_ASSIGN(auto shared_sum, SharedSum::make(*communicators.shm, values.size()));
    Rounds rounds;
    for (int round = 0; round < kRounds; ++round)
      DLRUN_TRY(measure_round(communicators, shared_sum, values, round, rounds));
    if (world.rank == 0) print_row(bytes, rounds);
  }
  DLRUN_TRY(communicators.mpi->barrier());
  std::error_code ignored;
  if (world.rank == 0) std::filesystem::remove_all(folder, ignored);
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (done) return 0;
  std::fputs(("bench_all_reduce: " + done.error().message + "\n").c_str(), stderr);
  return 1;
}
