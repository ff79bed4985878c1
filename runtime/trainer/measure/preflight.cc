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

// Size in bytes: more than one step of a ring, and less than a second on any network.
constexpr std::array<std::size_t, 1> kSizes{std::size_t{4} << 20U};
constexpr int kMostSeconds = 3600;

Result<> report(Store& store, const Json& message) {
  return store.report_progress(message.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Runs the check. Sets has_arrived to true once this rank has its device: a later failure is then
/// a failure between ranks. Sets it to false again if this rank lacks the backend.
Result<> check(const PreflightOptions& options, const Env& env, Store& store, bool& has_arrived) {
  DLRUN_TRY_ASSIGN(const auto world, read_world(env, WorldReader::kProgram));
  DLRUN_TRY_ASSIGN(auto kernels,
                   options.backend == "nccl"
                       ? make_cuda_kernels(world.local_rank)
                       : Result<std::unique_ptr<Kernels<float>>>(make_cpu_kernels<float>(1)));
  DLRUN_TRY(report(store, {{"check", "arrived"}}));
  has_arrived = true;
  CommunicatorOptions comm;
  comm.world = world;
  comm.store = &store;
  comm.prefix = "preflight";  // the program that starts after this check uses the same store
  comm.address = env.get_or("DLRUN_ADDR", "");
  comm.timeout = options.timeout;
  const auto communicator = make_communicator(options.backend, comm);
  if (!communicator) {
    has_arrived = communicator.error().code != Errc::kUnavailable;
    return tl::unexpected(communicator.error());
  }
  (*communicator)->set_compute_stream(kernels->stream());
  const auto times = time_collective(**communicator, *kernels, Collective::kAllReduce, kSizes);
  if (times) return {};
  (*communicator)->abandon();
  return tl::unexpected(times.error());
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
    } else if (args[at] == "--timeout" && number && *number >= 1 && *number <= kMostSeconds) {
      options.timeout = std::chrono::seconds(*number);
    } else {
      return fail(
          Errc::kUsage,
          "unknown option or wrong value '{} {}'; expected --backend NAME or --timeout SECONDS",
          printable(args[at]), printable(value));
    }
  }
  return options;
}

Result<> run_preflight(const PreflightOptions& options, const Env& env) {
  const auto where = env.get("DLRUN_STORE");
  if (!where)
    return fail(Errc::kUsage,
                "there is no DLRUN_STORE: dlrun-agent starts this check, see health.preflight");
  DLRUN_TRY_ASSIGN(const auto store, open_store(*where));
  bool has_arrived = false;
  const auto done = check(options, env, *store, has_arrived);
  if (!done) {
    const Json failure{
        {"check", "failed"}, {"words", done.error().message}, {"is_own", !has_arrived}};
    if (auto reported = report(*store, failure); !reported) return reported;
  }
  return done;
}

}  // namespace dlrun::trainer
