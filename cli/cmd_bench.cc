// `dlrun bench collectives`: measures all-reduce and the other collectives on this machine, for
// each backend. bench_scaling.h has `dlrun bench scaling`.

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/bench_scaling.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/report.h"
#include "cli/terminal/collectives_chart.h"
#include "cli/terminal/print.h"
#include "common/bounded_json.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// Checks before minutes of measuring that the file can be written at the end. Fails with kIo.
Result<> check_folder_of(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return fail(Errc::kIo, "{}: {}", folder.string(), errno_text(errno));
}

using Json = nlohmann::ordered_json;

constexpr std::chrono::minutes kAtMost{10};  // for one backend with one number of workers
constexpr int kMostWorkers = 1024;

struct Options {
  std::string what, operation = "all_reduce", sizes = "8..16M";
  std::string backends = "mpi,gloo,shm,nccl", workers = "2,4,8";
  std::optional<std::string> svg;
  bool json = false;
  ScalingOptions scaling;
};

struct LeftOut {
  std::string backend;
  int workers;
  std::string reason;
};

Result<std::vector<int>> parse_workers(const std::string& text) {
  std::vector<int> workers;
  for (const std::string_view word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > kMostWorkers)
      return fail(Errc::kUsage, "--workers: '{}' is not a number from 1 to {}", printable(word),
                  kMostWorkers);
    workers.push_back(static_cast<int>(*number));
  }
  return workers;
}

/// Returns the command that measures one backend with one number of workers on this machine. mpirun
/// starts MPI's ranks; the trainer starts the others.
Command command_of(const Cli& cli, const Options& options, const std::string& backend,
                   int workers) {
  Command command;
  command.env = cli.env;
  // dlrun may itself run under a rank, whose variables must not reach the workers.
  command.env.remove_matching({"DLRUN_*", "PMI*", "OMPI_COMM_*"}, {});
  command.timeout = kAtMost;
  std::vector<std::string> measure{(cli.bin_dir / "dlrun-trainer").string(),
                                   "collectives",
                                   "--backend",
                                   backend,
                                   "--operation",
                                   options.operation,
                                   "--sizes",
                                   options.sizes};
  if (backend == "mpi") {
    command.argv = {"mpirun", "--oversubscribe",         "--bind-to", "none",
                    "-n",     fmt::format("{}", workers)};
    if (::geteuid() == 0) command.argv.emplace_back("--allow-run-as-root");
  } else {
    measure.insert(measure.end(), {"--ranks", fmt::format("{}", workers)});
  }
  command.argv.insert(command.argv.end(), measure.begin(), measure.end());
  return command;
}

/// Returns the trainer's first error line, the reason of a failed measurement.
std::string reason_of(const Finished& finished) {
  for (const std::string_view line : split(finished.err, '\n')) {
    if (const auto at = line.find("dlrun-trainer: "); at != std::string_view::npos)
      return std::string(trim(line.substr(at + std::string_view("dlrun-trainer: ").size())));
  }
  const std::string_view first = trim(split(finished.err, '\n').front());
  return first.empty() ? fmt::format("it ended with {}", finished.exit_code) : std::string(first);
}

Result<> read_figures(const std::string& text, const std::string& backend,
                      std::vector<CollectiveFigure>& figures) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with('{')) continue;
    const Json json = parse_json<Json>(line);
    if (json.is_discarded() || !json.contains("busbw"))
      return fail(Errc::kInternal, "dlrun-trainer collectives said '{}'", printable(line));
    figures.push_back({backend, json.value("ranks", 0), json.value("bytes", std::uint64_t{0}),
                       json.value("us", 0.0), json.value("algbw", 0.0), json.value("busbw", 0.0)});
  }
  return {};
}

std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "this machine";
  name.resize(name.find('\0'));
  return name;
}

Json json_of(const Options& options, const std::vector<CollectiveFigure>& figures,
             const std::vector<LeftOut>& left_out) {
  Json json;
  json["operation"] = options.operation;
  json["host"] = host_name();
  json["processors"] = ::sysconf(_SC_NPROCESSORS_ONLN);
  Json& results = json["results"] = Json::array();
  for (const CollectiveFigure& f : figures) {
    results.push_back({{"backend", f.backend},
                       {"workers", f.workers},
                       {"bytes", f.bytes},
                       {"us", f.microseconds},
                       {"algbw_gb_s", f.algorithm_bandwidth},
                       {"busbw_gb_s", f.bus_bandwidth}});
  }
  Json& missing = json["left_out"] = Json::array();
  for (const LeftOut& one : left_out)
    missing.push_back({{"backend", one.backend}, {"workers", one.workers}, {"reason", one.reason}});
  return json;
}

Result<int> bench(Cli& cli, const Options& options) {
  if (options.what == "scaling") {
    ScalingOptions scaling = options.scaling;
    scaling.svg = options.svg;
    scaling.json = options.json;
    if (scaling.svg) DLRUN_TRY(check_folder_of(cli.current_dir / *scaling.svg));
    return bench_scaling(cli, scaling);
  }
  if (options.what != "collectives" || !options.scaling.spec.file.empty())
    return fail(Errc::kUsage,
                "expected `dlrun bench collectives`, or `dlrun bench scaling SPEC --nodes 1,2,4`");
  const auto workers = parse_workers(options.workers);
  if (!workers) return tl::unexpected(workers.error());
  if (options.svg) DLRUN_TRY(check_folder_of(cli.current_dir / *options.svg));
  std::vector<CollectiveFigure> figures;
  std::vector<LeftOut> left_out;
  for (const int count : *workers) {
    for (const std::string_view word : split(options.backends, ',')) {
      const std::string backend(word);
      const auto finished = run_command(command_of(cli, options, backend, count));
      if (!finished && finished.error().code != Errc::kNotFound)
        return tl::unexpected(finished.error());
      if (finished && finished->exit_code == 0) {
        DLRUN_TRY(read_figures(finished->out, backend, figures));
        continue;
      }
      if (finished && finished->signal == SIGINT) return fail(Errc::kInterrupted, "interrupted");
      const std::string reason = finished ? reason_of(*finished) : finished.error().message;
      if (finished && finished->exit_code == 64) return fail(Errc::kUsage, "{}", reason);
      left_out.push_back({backend, count, reason});
      print_warning(cli, fmt::format("{} with {} workers is left out: {}", printable(backend),
                                     count, reason));
    }
  }
  if (options.json) {
    print_json(json_of(options, figures, left_out));
  } else if (!figures.empty()) {
    print(cli, "{}\n{}", collectives_table(figures), collectives_bars(figures));
    print_note(cli, fmt::format("{} of float32 on {}, {} processors; algbw and busbw in GB/s as "
                                "nccl-tests defines them; "
                                "mpi is the MPI library's own algorithm",
                                options.operation, host_name(), ::sysconf(_SC_NPROCESSORS_ONLN)));
  }
  if (options.svg) {
    const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
    const auto title = fmt::format("{}, float32, on {} with {} processors", options.operation,
                                   host_name(), processors);
    DLRUN_TRY(write_file_atomic(cli.current_dir / *options.svg, collectives_svg(figures, title)));
  }
  return figures.empty() ? kExitRunFailed : kExitOk;
}

}  // namespace

void add_bench(CLI::App& root, Action& action) {
  auto options = std::make_shared<Options>();
  Subcommand command(
      root, "bench",
      "Measure the speed of collectives on this machine, or how an experiment scales");
  command.option("VERB", options->what, "collectives or scaling").required();
  command.option("SPEC", options->scaling.spec.file, "scaling: the spec of the experiment");
  command
      .option("--nodes", options->scaling.nodes,
              "scaling: numbers of nodes, such as 1,2,4; dlrun submits one job for each")
      .type_name("LIST");
  command
      .option("--local", options->scaling.local,
              "scaling: numbers of ranks on this machine, such as 1,2,4; dlrun does not use Slurm")
      .type_name("LIST");
  add_set_option(command, options->scaling.spec);
  command.option("--runs", options->scaling.spec.runs, "scaling: folder for run directories")
      .type_name("DIR");
  command
      .option("--backends", options->backends,
              "collectives: backends to measure (mpi,gloo,shm,nccl); dlrun leaves out a backend "
              "that does not work here")
      .type_name("LIST");
  command.option("--workers", options->workers, "collectives: numbers of ranks (2,4,8)")
      .type_name("LIST");
  command
      .option("--sizes", options->sizes,
              "collectives: sizes in bytes, such as 8,64K,16M; in a range such as 8..16M each size "
              "is four times the one before (8..16M)")
      .type_name("LIST");
  command
      .option("--operation", options->operation,
              "collectives: all_reduce, broadcast, all_gather or reduce_scatter (all_reduce)")
      .type_name("WORD");
  command.option("--svg", options->svg, "SVG file for a chart of the results").type_name("FILE");
  command.flag("--json", options->json, "Print JSON");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return bench(cli, *options); }; });
}

}  // namespace dlrun
