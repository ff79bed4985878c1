#include "runtime/trainer/measure/preflight.h"

#include <array>
#include <memory>

#include <nlohmann/json.hpp>

#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/bootstrap/world.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/trainer/measure/collective_times.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {
namespace {

using Json = nlohmann::ordered_json;

// Size in bytes of the checked all-reduce. An all-reduce of this size takes more than one step of a
// ring, and less than a second on any network.
constexpr std::size_t kCheckedBytes = std::size_t{4} << 20U;
constexpr int kLongestTimeoutSeconds = 3600;
// Sizes in bytes with which the speed is measured. A GPU needs the larger size to reach its full
// bandwidth.
constexpr std::size_t kSpeedBytesOfGpus = std::size_t{256} << 20U;
constexpr std::size_t kSpeedBytesOfCpus = std::size_t{32} << 20U;

Result<> report(Store& store, const Json& message) {
  return store.report_progress(message.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Fails with kInvalid if all-reduce is slower than expected_gb_s, and as time_collective() does.
/// Measures nothing if expected_gb_s is 0 or the communicator has one rank. among: words for the
/// ranks in the message.
Result<> check_speed(Communicator& communicator, Kernels<float>& kernels, bool has_gpus,
                     std::int64_t expected_gb_s, std::string_view among) {
  if (expected_gb_s == 0 || communicator.size() < 2) return {};
  const std::array sizes{has_gpus ? kSpeedBytesOfGpus : kSpeedBytesOfCpus};
  DLRUN_TRY_ASSIGN(const auto times,
                   time_collective(communicator, kernels, Collective::kAllReduce, sizes));
  const double reached_gb_s =
      times.front().algorithm_gb_s() * bus_factor(Collective::kAllReduce, communicator.size());
  if (reached_gb_s >= static_cast<double>(expected_gb_s)) return {};
  return fail(Errc::kInvalid,
              "all-reduce among {} is slower than the site expects [bus bandwidth {:.1f} GB/s with "
              "{} MiB, expected {} GB/s]",
              among, reached_gb_s, sizes[0] >> 20U, expected_gb_s);
}

/// Checks the speed among the ranks of this node, over a communicator of their own. Does nothing if
/// options.node_all_reduce_gb_s is 0, or the node has one rank.
Result<> check_node_speed(const PreflightOptions& options, CommunicatorOptions comm_options,
                          Kernels<float>& kernels) {
  if (options.node_all_reduce_gb_s == 0 || comm_options.world.local_size < 2) return {};
  comm_options.prefix = fmt::format("preflight-node-{}", comm_options.world.node_rank);
  comm_options.world.rank = comm_options.world.local_rank;
  comm_options.world.size = comm_options.world.local_size;
  comm_options.world.node_rank = 0;
  comm_options.world.nnodes = 1;
  const auto communicator = make_communicator(options.backend, comm_options);
  if (!communicator) return tl::unexpected(communicator.error());
  (*communicator)->set_compute_stream(kernels.stream());
  auto done = check_speed(**communicator, kernels, options.backend == "nccl",
                          options.node_all_reduce_gb_s, "the ranks of the node");
  if (!done) (*communicator)->abandon();
  return done;
}

/// Runs the checks of run_preflight(). After a failure, is_own_failure is true if this rank or its
/// node caused the failure: this rank's environment does not describe a world, this rank cannot use
/// the store, has no device or lacks the backend, or its node is too slow. Otherwise is_own_failure
/// is false: the failure is between ranks.
Result<> run_checks(const PreflightOptions& options, const Env& env, Store& store,
                    bool& is_own_failure) {
  is_own_failure = true;
  DLRUN_TRY_ASSIGN(const auto world, read_world(env, ProcessKind::kProgram));
  DLRUN_TRY_ASSIGN(auto kernels,
                   options.backend == "nccl"
                       ? make_cuda_kernels(world.local_rank)
                       : Result<std::unique_ptr<Kernels<float>>>(make_cpu_kernels<float>(1)));
  DLRUN_TRY(report(store, {{"check", "device_open"}}));
  is_own_failure = false;
  CommunicatorOptions comm_options;
  comm_options.world = world;
  comm_options.store = &store;
  // The user's program starts after this check and uses the same store, with another prefix.
  comm_options.prefix = "preflight";
  comm_options.address = env.get_or("DLRUN_ADDR", "");
  comm_options.timeout = options.timeout;
  const auto communicator = make_communicator(options.backend, comm_options);
  if (!communicator) {
    is_own_failure = communicator.error().code == Errc::kUnavailable;
    return tl::unexpected(communicator.error());
  }
  (*communicator)->set_compute_stream(kernels->stream());
  // comm_options.timeout limits each collective. check_collective() runs only one, so it takes at
  // most this time.
  auto works = check_collective(**communicator, *kernels, Collective::kAllReduce, kCheckedBytes);
  if (!works) {
    (*communicator)->abandon();
    return works;
  }
  if (auto done = check_node_speed(options, comm_options, *kernels); !done) {
    is_own_failure = done.error().code == Errc::kInvalid;  // the node is too slow
    (*communicator)->abandon();  // the other nodes would wait for this rank
    return done;
  }
  return check_speed(**communicator, *kernels, options.backend == "nccl", options.all_reduce_gb_s,
                     "all ranks");
}

}  // namespace

Result<PreflightOptions> parse_preflight_options(std::span<const std::string> args) {
  PreflightOptions options;
  for (std::size_t at = 0; at < args.size(); at += 2) {
    if (at + 1 == args.size()) return fail(Errc::kUsage, "{} needs a value", printable(args[at]));
    const std::string& value = args[at + 1];
    const auto number = parse_int(value);
    if (args[at] == "--backend") {
      options.backend = value;
    } else if (args[at] == "--all-reduce" && number && *number >= 0) {
      options.all_reduce_gb_s = *number;
    } else if (args[at] == "--node-all-reduce" && number && *number >= 0) {
      options.node_all_reduce_gb_s = *number;
    } else if (args[at] == "--timeout" && number && *number >= 1 &&
               *number <= kLongestTimeoutSeconds) {
      options.timeout = std::chrono::seconds(*number);
    } else {
      return fail(
          Errc::kUsage,
          "unknown option or wrong value '{} {}'; expected --backend NAME, --timeout SECONDS (1 to "
          "{}), --all-reduce GB/S or --node-all-reduce GB/S (whole numbers; 0: not measured)",
          printable(args[at]), printable(value), kLongestTimeoutSeconds);
    }
  }
  return options;
}

Result<> run_preflight(const PreflightOptions& options, const Env& env) {
  const auto store_address = env.get("DLRUN_STORE");
  if (!store_address)
    return fail(Errc::kUsage,
                "DLRUN_STORE is not set; dlrun-agent sets it when it starts this check: see "
                "health.preflight");
  DLRUN_TRY_ASSIGN(const auto store, open_store(*store_address));
  bool is_own_failure = true;
  const auto done = run_checks(options, env, *store, is_own_failure);
  if (!done) {
    const Json failure{
        {"check", "failed"}, {"words", done.error().message}, {"is_own", is_own_failure}};
    if (auto reported = report(*store, failure); !reported) return reported;
  }
  return done;
}

}  // namespace dlrun::trainer
