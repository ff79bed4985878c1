// Adds `dlrun bench`, and implements `dlrun bench collectives`, which measures a collective such as
// all-reduce on this machine with each backend. bench_scaling.cc has `dlrun bench scaling`.

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/commands/bench_scaling.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/text.h"
#include "launcher/bench/collectives_bench.h"
#include "launcher/bench/collectives_chart.h"

namespace dlrun {
namespace {

/// Fails with kIo if no file can be created in the folder of `file`, the file of --svg. Call before
/// a measurement, which may take minutes.
Result<> check_folder_is_writable(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return fail(Errc::kIo, "--svg: no file can be created in {}: {}", printable(folder.string()),
              errno_text(errno));
}

struct BenchOptions {
  std::string verb, operation = "all_reduce", sizes = "8..16M";
  std::string backends = "mpi,gloo,shm,nccl", ranks = "2,4,8";
  std::optional<std::string> svg;
  bool json = false;
  ScalingOptions scaling;
};

Result<int> bench_collectives(const Cli& cli, const BenchOptions& options) {
  DLRUN_TRY_ASSIGN(auto ranks, parse_rank_counts(options.ranks));
  if (options.svg) DLRUN_TRY(check_folder_is_writable(cli.current_dir / *options.svg));
  CollectivesRequest request{options.operation, options.sizes, {}, std::move(ranks)};
  for (const std::string_view word : split(options.backends, ','))
    request.backends.emplace_back(word);
  const auto trainer = cli.bin_dir / "dlrun-trainer";
  if (::access(trainer.c_str(), F_OK) != 0)
    return tl::unexpected(missing_trainer_error(trainer, "this command"));
  DLRUN_TRY_ASSIGN(
      const auto measured,
      measure_collectives(cli.env, trainer, request, [&cli](const LeftOutBackend& one) {
        print_warning(cli, fmt::format("{} with {} ranks is left out: {}", printable(one.backend),
                                       one.ranks, one.reason));
      }));
  const CollectiveMeasurements& measurements = measured.measurements;
  if (options.json) {
    print_json(collectives_json(options.operation, measured));
  } else if (!measurements.empty()) {
    print(cli, table(collectives_table(measurements)));
    for (const BarChart& chart : collectives_bars(measurements))
      print(cli, "\n{}", bar_chart(chart));
    print_note(
        cli, fmt::format("{} of float32 on {}, {} processors; algbw and busbw in GB/s as "
                         "nccl-tests defines them; with mpi the MPI library chooses the algorithm",
                         options.operation, host_name(), processors_online()));
  }
  if (options.svg) {
    const auto title = fmt::format("{}, float32, on {} with {} processors", options.operation,
                                   host_name(), processors_online());
    DLRUN_TRY(
        write_file_atomic(cli.current_dir / *options.svg, collectives_svg(measurements, title)));
  }
  return measurements.empty() ? kExitRunFailed : kExitOk;
}

Result<int> bench(Cli& cli, const BenchOptions& options) {
  if (options.verb == "scaling") {
    ScalingOptions scaling = options.scaling;
    scaling.svg = options.svg;
    scaling.json = options.json;
    if (scaling.svg) DLRUN_TRY(check_folder_is_writable(cli.current_dir / *scaling.svg));
    return bench_scaling(cli, scaling);
  }
  if (options.verb != "collectives" || !options.scaling.spec.file.empty())
    return fail(Errc::kUsage,
                "expected `dlrun bench collectives`, without a SPEC, or `dlrun bench scaling SPEC "
                "--nodes 1,2,4`");
  return bench_collectives(cli, options);
}

}  // namespace

void add_bench(CLI::App& root, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  Subcommand command(
      root, "bench",
      "Measure the speed of collectives on this machine, or how an experiment scales");
  command.option("VERB", options->verb, "collectives or scaling").required();
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
  command.option("--runs", options->scaling.spec.runs_dir, "scaling: folder for run directories")
      .type_name("DIR");
  command
      .option("--backends", options->backends,
              "collectives: backends to measure (default: mpi,gloo,shm,nccl); dlrun leaves out a "
              "backend that does not work here")
      .type_name("LIST");
  command.option("--ranks", options->ranks, "collectives: numbers of ranks (default: 2,4,8)")
      .type_name("LIST");
  command
      .option("--sizes", options->sizes,
              "collectives: sizes in bytes, such as 8,64K,16M; in a range such as 8..16M each size "
              "is four times the one before (default: 8..16M)")
      .type_name("LIST");
  command
      .option(
          "--operation", options->operation,
          "collectives: all_reduce, broadcast, all_gather or reduce_scatter (default: all_reduce)")
      .type_name("WORD");
  command.option("--svg", options->svg, "SVG file for a chart of the results").type_name("FILE");
  command.flag("--json", options->json, "Print JSON");
  command.calls(bench, options, action);
}

}  // namespace dlrun
