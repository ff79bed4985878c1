// dlrun-trainer does the measurements. mpirun starts the ranks of the backend mpi. The trainer
// starts the ranks of all other backends itself.

#include "launcher/bench/collectives_bench.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

/// The time limit for one backend with one number of ranks.
constexpr std::chrono::minutes kMeasurementTimeout{10};
constexpr int kMostRanks = 1024;
constexpr int kTrainerUsageExitCode = 64;  // exit code of dlrun-trainer for wrong options

Command command_of(const Env& env, const std::filesystem::path& trainer,
                   const CollectivesRequest& request, const std::string& backend, int ranks) {
  Command command;
  command.env = env;
  // dlrun may itself run in a rank of a job. That rank's variables must not reach the ranks of the
  // measurement.
  command.env.remove_matching({"DLRUN_*", "PMI*", "OMPI_COMM_*"}, {});
  command.timeout = kMeasurementTimeout;
  std::vector<std::string> trainer_argv{trainer.string(), "collectives", "--backend",
                                        backend,          "--operation", request.operation,
                                        "--sizes",        request.sizes};
  if (backend == "mpi") {
    command.argv = {"mpirun", "--oversubscribe",       "--bind-to", "none",
                    "-n",     fmt::format("{}", ranks)};
    if (::geteuid() == 0) command.argv.emplace_back("--allow-run-as-root");
  } else {
    trainer_argv.insert(trainer_argv.end(), {"--ranks", fmt::format("{}", ranks)});
  }
  command.argv.insert(command.argv.end(), trainer_argv.begin(), trainer_argv.end());
  return command;
}

/// Returns the reason of a failed measurement: the trainer's first error message, else the first
/// line of standard error, else the exit code.
std::string reason_of(const FinishedCommand& finished) {
  for (const std::string_view line : split(finished.err, '\n')) {
    if (const auto at = line.find("dlrun-trainer: "); at != std::string_view::npos)
      return std::string(trim(line.substr(at + std::string_view("dlrun-trainer: ").size())));
  }
  const std::string_view first = trim(split(finished.err, '\n').front());
  return first.empty() ? fmt::format("exit code {}", finished.exit_code) : std::string(first);
}

/// Reads the lines that `dlrun-trainer collectives` has printed, and appends one measurement for
/// each line of JSON.
Result<> append_measurements(const std::string& text, const std::string& backend,
                             CollectiveMeasurements& measurements) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with('{')) continue;
    const Json json = parse_json<Json>(line);
    if (json.is_discarded() || !json.contains("busbw"))
      return fail(Errc::kInternal,
                  "dlrun-trainer collectives printed '{}', which is no measurement",
                  printable(line));
    measurements.push_back({backend, json.value("ranks", 0), json.value("bytes", std::uint64_t{0}),
                            json.value("us", 0.0), json.value("algbw", 0.0),
                            json.value("busbw", 0.0)});
  }
  return {};
}

/// Measures one backend and appends its measurements. Returns the reason if the backend is left
/// out; nullopt if it was measured.
Result<std::optional<std::string>> measure_one(const Command& command, const std::string& backend,
                                               CollectiveMeasurements& measurements) {
  const auto finished = run_command(command);
  if (!finished) {
    if (finished.error().code == Errc::kNotFound) return finished.error().message;
    return tl::unexpected(finished.error());
  }
  if (finished->exit_code == 0) {
    DLRUN_TRY(append_measurements(finished->out, backend, measurements));
    return std::nullopt;
  }
  if (finished->signal == SIGINT) return fail(Errc::kInterrupted, "interrupted");
  std::string reason = reason_of(*finished);
  if (finished->exit_code == kTrainerUsageExitCode) return fail(Errc::kUsage, "{}", reason);
  return reason;
}

template <typename Value, typename Get>
std::vector<Value> distinct(const CollectiveMeasurements& measurements, Get get) {
  std::vector<Value> values;
  for (const CollectiveMeasurement& measurement : measurements) {
    const Value value = get(measurement);
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

}  // namespace

Result<std::vector<int>> parse_rank_counts(const std::string& text) {
  std::vector<int> rank_counts;
  for (const std::string_view word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > kMostRanks)
      return fail(Errc::kUsage, "--ranks: '{}' is not a number from 1 to {}", printable(word),
                  kMostRanks);
    rank_counts.push_back(static_cast<int>(*number));
  }
  return rank_counts;
}

Result<MeasuredCollectives> measure_collectives(
    const Env& env, const std::filesystem::path& trainer, const CollectivesRequest& request,
    const std::function<void(const LeftOutBackend&)>& on_left_out) {
  MeasuredCollectives measured;
  for (const int ranks : request.rank_counts) {
    for (const std::string& backend : request.backends) {
      DLRUN_TRY_ASSIGN(auto reason, measure_one(command_of(env, trainer, request, backend, ranks),
                                                backend, measured.measurements));
      if (!reason) continue;
      measured.left_out.push_back({backend, ranks, std::move(*reason)});
      on_left_out(measured.left_out.back());
    }
  }
  return measured;
}

std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "this machine";
  name.resize(name.find('\0'));
  return name;
}

long processors_online() {
  return ::sysconf(_SC_NPROCESSORS_ONLN);
}

Json collectives_json(const std::string& operation, const MeasuredCollectives& measured) {
  Json json;
  json["operation"] = operation;
  json["host"] = host_name();
  json["processors"] = processors_online();
  Json& results = json["results"] = Json::array();
  for (const CollectiveMeasurement& m : measured.measurements) {
    results.push_back({{"backend", m.backend},
                       {"ranks", m.ranks},
                       {"bytes", m.bytes},
                       {"us", m.microseconds},
                       {"algbw_gb_s", m.algorithm_bandwidth},
                       {"busbw_gb_s", m.bus_bandwidth}});
  }
  Json& left_out = json["left_out"] = Json::array();
  for (const LeftOutBackend& one : measured.left_out)
    left_out.push_back({{"backend", one.backend}, {"ranks", one.ranks}, {"reason", one.reason}});
  return json;
}

std::vector<std::string> backends_of(const CollectiveMeasurements& measurements) {
  return distinct<std::string>(measurements,
                               [](const CollectiveMeasurement& m) { return m.backend; });
}

std::vector<int> rank_counts_of(const CollectiveMeasurements& measurements) {
  return distinct<int>(measurements, [](const CollectiveMeasurement& m) { return m.ranks; });
}

std::vector<std::uint64_t> sizes_of(const CollectiveMeasurements& measurements, int ranks) {
  std::vector<std::uint64_t> sizes;
  for (const CollectiveMeasurement& measurement : measurements) {
    if (measurement.ranks == ranks) sizes.push_back(measurement.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

const CollectiveMeasurement* find_measurement(const CollectiveMeasurements& measurements,
                                              const std::string& backend, int ranks,
                                              std::uint64_t bytes) {
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const CollectiveMeasurement& measurement) {
                                    return measurement.backend == backend &&
                                           measurement.ranks == ranks && measurement.bytes == bytes;
                                  });
  return found == measurements.end() ? nullptr : &*found;
}

std::string rank_count_text(int ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

}  // namespace dlrun
