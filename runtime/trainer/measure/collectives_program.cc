// The command `dlrun-trainer collectives`: parses its arguments, starts ranks on this machine if
// --ranks asks for them, and runs one rank's measurements.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/bootstrap/world.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/trainer/measure/collective_times.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kLargestArrayBytes = std::size_t{1} << 32U;
constexpr int kMostRanks = 1024;
constexpr std::chrono::seconds kTimeout{120};

/// Parses "8", "64K" or "16M" into bytes; units are powers of 1024. Fails with kUsage for other
/// texts, for 0, and above kLargestArrayBytes.
Result<std::size_t> parse_bytes(std::string_view word) {
  std::string_view digits = word;
  unsigned shift = 0;
  if (word.ends_with('K')) shift = 10;
  if (word.ends_with('M')) shift = 20;
  if (word.ends_with('G')) shift = 30;
  if (shift > 0) digits.remove_suffix(1);
  const auto number = parse_int(digits);
  if (!number || *number < 1 || static_cast<std::size_t>(*number) > kLargestArrayBytes >> shift) {
    return fail(
        Errc::kUsage,
        "--sizes: '{}' is no size; write a number of bytes from 1 to 4G, such as 8, 64K or 16M",
        printable(word));
  }
  return static_cast<std::size_t>(*number) << shift;
}

/// Parses "8,64K,1M", or a range "8..16M" in which each size is four times the size before it, and
/// no size is above the range's end.
Result<std::vector<std::size_t>> parse_sizes(std::string_view text) {
  std::vector<std::size_t> sizes;
  for (const std::string_view word : split(text, ',')) {
    const std::size_t dots = word.find("..");
    const auto first = parse_bytes(word.substr(0, dots));
    if (!first) return tl::unexpected(first.error());
    DLRUN_TRY_ASSIGN(const auto last,
                     dots == std::string_view::npos ? first : parse_bytes(word.substr(dots + 2)));
    if (last < *first)
      return fail(Errc::kUsage, "--sizes: the range '{}' ends below its start", printable(word));
    for (std::size_t size = *first; size <= last; size *= 4) sizes.push_back(size);
  }
  return sizes;
}

/// Runs one rank: connects and measures; rank 0 prints.
Result<> run_rank(const CollectivesOptions& options, const Env& env, const World& world,
                  Store* store) {
  CommunicatorOptions comm_options;
  comm_options.world = world;
  comm_options.is_under_mpi_launcher = options.ranks == 0 && is_under_mpi_launcher(env);
  comm_options.store = store;
  comm_options.address = env.get_or("DLRUN_ADDR", "");
  comm_options.timeout = kTimeout;
  comm_options.calls_to_check = 0;  // a comparison of the calls would add to the measured time
  DLRUN_TRY_ASSIGN(const auto communicator, make_communicator(options.backend, comm_options));
  DLRUN_TRY_ASSIGN(auto kernels,
                   communicator->name() == "nccl"
                       ? make_cuda_kernels(world.local_rank)
                       : Result<std::unique_ptr<Kernels<float>>>(make_cpu_kernels<float>(1)));
  communicator->set_compute_stream(kernels->stream());
  const auto times = time_collective(*communicator, *kernels, options.collective, options.sizes);
  if (!times) {
    communicator->abandon();
    return tl::unexpected(times.error());
  }
  if (world.rank != 0) return {};
  for (const CollectiveTime& time : *times) {
    fmt::print(
        "{{\"backend\":\"{}\",\"operation\":\"{}\",\"ranks\":{},\"nodes\":{},\"bytes\":{},\"us\":{:"
        ".3f},\"algbw\":{:.6f},\"busbw\":{:.6f}}}\n",
        communicator->name(), to_string(options.collective), world.size, world.nnodes, time.bytes,
        time.microseconds, time.algorithm_gb_s(),
        time.algorithm_gb_s() * bus_factor(options.collective, world.size));
  }
  std::fflush(stdout);
  return {};
}

/// Kills the ranks that this process started and that have not ended. The entry of an ended rank is
/// 0.
void kill_remaining(const std::vector<pid_t>& children) {
  for (const pid_t child : children) {
    if (child > 0) ::kill(child, SIGKILL);
  }
}

Result<> start_ranks_and_wait(const CollectivesOptions& options, const Env& env) {
  if (options.backend == "mpi") {
    return fail(Errc::kUsage,
                "--ranks cannot start ranks of MPI; run: mpirun -n {} dlrun-trainer collectives "
                "--backend mpi",
                options.ranks);
  }
  std::string folder =
      (std::filesystem::temp_directory_path() / "dlrun-collectives-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr)
    return fail(Errc::kIo, "{}: {}", folder, errno_text(errno));
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  Result<> status;
  for (int rank = 0; rank < options.ranks && status; ++rank) {
    const pid_t child = ::fork();
    if (child < 0)
      status = fail(Errc::kIo, "rank {} cannot be started: {}", rank, errno_text(errno));
    if (child > 0) children.push_back(child);
    if (child != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    World world{
        .rank = rank, .size = options.ranks, .local_rank = rank, .local_size = options.ranks};
    const auto store = open_store("file:" + folder + "/store");
    const auto done = store ? run_rank(options, env, world, store->get())
                            : Result<>(tl::unexpected(store.error()));
    if (!done) {
      std::fputs(fmt::format("dlrun-trainer: rank {}: {}\n", rank, done.error().message).c_str(),
                 stderr);
    }
    std::fflush(nullptr);
    // If a library or a GPU is missing, every rank prints the error, and exit code 69 tells the
    // parent.
    ::_exit(done ? 0 : done.error().code == Errc::kUnavailable ? 69 : 1);
  }
  if (!status) kill_remaining(children);
  for (std::size_t left = children.size(); left > 0; --left) {
    int wait_status = 0;
    const pid_t ended = ::wait(&wait_status);
    const auto child = std::find(children.begin(), children.end(), ended);
    if (child == children.end()) break;
    *child = 0;  // kill_remaining() skips it
    if (!status || (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)) continue;
    const bool is_unavailable = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 69;
    status =
        fail(is_unavailable ? Errc::kUnavailable : Errc::kPeer, "rank {} failed{}",
             child - children.begin(),
             WIFSIGNALED(wait_status) ? fmt::format(" by signal {}", WTERMSIG(wait_status)) : "");
    kill_remaining(children);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

}  // namespace

Result<CollectivesOptions> parse_collectives_options(std::span<const std::string> args) {
  CollectivesOptions options;
  std::string sizes = "8..16M";
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") {
      options.wants_help = true;
      return options;
    }
    const std::string& name = args[i];
    if (name != "--backend" && name != "--operation" && name != "--sizes" && name != "--ranks")
      return fail(Errc::kUsage, "unknown option '{}'; --help lists all", printable(name));
    if (++i == args.size()) return fail(Errc::kUsage, "{} needs a value", name);
    const std::string& value = args[i];
    if (name == "--backend") {
      const auto known = communicator_backends();
      if (value != "auto" && std::find(known.begin(), known.end(), value) == known.end())
        return fail(Errc::kUsage,
                    "--backend: no collective backend is called '{}'; there are auto, {}",
                    printable(value), fmt::join(known, ", "));
      options.backend = value;
    }
    if (name == "--sizes") sizes = value;
    if (name == "--operation") {
      const auto collective = parse_collective(value);
      if (!collective)
        return fail(
            Errc::kUsage,
            "--operation: expected all_reduce, broadcast, all_gather or reduce_scatter, got '{}'",
            printable(value));
      options.collective = *collective;
    }
    if (name == "--ranks") {
      const auto ranks = parse_int(value);
      if (!ranks || *ranks < 1 || *ranks > kMostRanks)
        return fail(Errc::kUsage, "--ranks: expected a number from 1 to {}, got '{}'", kMostRanks,
                    printable(value));
      options.ranks = static_cast<int>(*ranks);
    }
  }
  DLRUN_TRY_ASSIGN(options.sizes, parse_sizes(sizes));
  return options;
}

std::string collectives_help_text() {
  return fmt::format(
      "usage: dlrun-trainer collectives [OPTIONS]\n\n"
      "Measures a collective; rank 0 prints a line of JSON for each size. `dlrun bench "
      "collectives` makes a table.\n\n"
      "  --backend WORD                    auto|mpi|gloo|shm|nccl|rccl|single (auto)\n"
      "  --operation WORD                  all_reduce|broadcast|all_gather|reduce_scatter "
      "(all_reduce)\n"
      "  --sizes SIZE[,SIZE...]            bytes from 1 to 4G, such as 8, 64K (65536) or 16M; "
      "in a range such as 8..16M each size is four times the size before it (8..16M)\n"
      "  --ranks N                         start N ranks (1 to {}) on this machine; without "
      "--ranks this process is one of the launcher's ranks\n",
      kMostRanks);
}

Result<> run_collectives(const CollectivesOptions& options, const Env& env) {
  if (options.ranks > 0) return start_ranks_and_wait(options, env);
  DLRUN_TRY_ASSIGN(const auto world, read_world(env, ProcessKind::kProgram));
  DLRUN_TRY_ASSIGN(const auto store, open_store_for(options.backend, world, env));
  return run_rank(options, env, world, store.get());
}

}  // namespace dlrun::trainer
