// `dlrun bench scaling`: checks the options, measures with launcher/bench/scaling.h, and prints the
// results.

#include "cli/commands/bench_scaling.h"

#include <nlohmann/json.hpp>

#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/files.h"
#include "common/text.h"
#include "launcher/bench/scaling.h"
#include "launcher/bench/scaling_chart.h"

namespace dlrun {
namespace {

/// Prints the measured rates and the rates that the model predicts for more ranks, and writes the
/// chart of --svg.
Result<> report_rates(const Cli& cli, const ScalingOptions& options, const ScalingRequest& request,
                      const MeasuredScaling& measured, const Experiment& prepared) {
  const auto& measurements = measured.measurements;
  const auto prediction = predict_for(prepared.loaded.spec, measurements);
  if (options.json) {
    print_json(scaling_json(request, measured, prediction));
  } else if (!measurements.empty()) {
    const auto tables = scaling_tables(measurements, prediction.models, prediction.modelled,
                                       prediction.modelled_work);
    print(cli, table(tables.measured));
    if (!tables.models_text.empty())
      print(cli, "\n{}\n{}", tables.models_text, table(tables.modelled));
    print(cli, "\n{}", bar_chart(scaling_bars(measurements, prediction.modelled)));
    print_note(
        cli,
        "one run of each size; the model is a ring all-reduce without overlap, fitted to these "
        "rates");
  }
  if (options.svg && !measurements.empty()) {
    const std::string title = fmt::format("{}: samples a second", prepared.plan.name);
    DLRUN_TRY(write_file_atomic(cli.current_dir / *options.svg,
                                scaling_svg(measurements, prediction.modelled, title)));
  }
  return {};
}

}  // namespace

Result<int> bench_scaling(Cli& cli, const ScalingOptions& options) {
  if (options.spec.file.empty() || options.spec.file == "-")
    return fail(Errc::kUsage,
                "expected `dlrun bench scaling SPEC --nodes 1,2,4`; SPEC must be a file, because "
                "dlrun reads it for each size");
  if (options.nodes.has_value() == options.local.has_value())
    return fail(
        Errc::kUsage,
        "give either --nodes 1,2,4 (numbers of nodes, through Slurm) or --local 1,2 (numbers of "
        "ranks on this machine), and not both");
  DLRUN_TRY_ASSIGN(auto sizes, options.nodes ? parse_sizes(*options.nodes, "--nodes")
                                             : parse_sizes(*options.local, "--local"));
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto prepared,
                   prepare_experiment(cli, reporter, options.spec,
                                      options.local ? Target::kLocal : Target::kSlurm));
  DLRUN_TRY(check_can_be_scaled(prepared.loaded.spec, options.spec.file));
  const ScalingRequest request{cli.bin_dir / "dlrun",      cli.env,
                               known_servers(cli),         options.spec.file,
                               options.spec.set_arguments, options.spec.runs_dir,
                               options.local.has_value(),  std::move(sizes)};
  const ScalingListener listener{[&cli](const std::string& text) { print_note(cli, text); },
                                 [&cli](const std::string& text) { print_warning(cli, text); },
                                 [&cli](const std::string& text) { print_error(cli, text); },
                                 [&cli](const std::string& run, const std::string& news) {
                                   print_note(
                                       cli, fmt::format("{}: {}", printable(run), printable(news)));
                                 }};
  const Interrupt interrupt;
  const auto result_of_failure = [&](const Error& error) -> Result<int> {
    if (error.code != Errc::kInterrupted || !interrupt.requested()) return tl::unexpected(error);
    print_note(cli, error.message);
    return kExitInterrupted;
  };
  if (!request.is_local) {
    const auto code = check_sizes_with_slurm(request, interrupt, listener);
    if (!code) return result_of_failure(code.error());
    if (*code != kExitOk) {
      print_note(cli, "nothing was submitted");
      return *code;
    }
  }
  const auto measured = measure_scaling(request, interrupt, listener);
  if (!measured) return result_of_failure(measured.error());
  DLRUN_TRY(report_rates(cli, options, request, *measured, prepared));
  return measured->measurements.empty() ? kExitRunFailed : kExitOk;
}

}  // namespace dlrun
