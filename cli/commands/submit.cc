// `dlrun submit`: checks, plans, renders, records and submits a job. With --watch, follows the run
// to its end.

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/run_in_allocation.h"
#include "cli/spec_options.h"
#include "cli/submission_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/quoting.h"
#include "common/text.h"
#include "launcher/submit/rehearsal_submission.h"
#include "launcher/submit/spec_chain.h"
#include "launcher/submit/submit_spec.h"
#include "launcher/view/cost_text.h"

namespace dlrun {
namespace {

struct SubmitOptions {
  SpecOptions spec;
  std::vector<std::string> specs;
  OutputOptions output;
  bool dry_run = false, test_only = false, is_chain = false;
  std::string search_to_continue;        ///< --continue: the search to continue; empty: none
  std::optional<std::string> in;         ///< --in: the job whose allocation the run uses
  std::optional<std::string> rehearsal;  ///< --rehearse: TIME[@PARTITION]
};

/// Prints the job that dlrun would submit without --dry-run; for a sweep, the first array.
void show(const Cli& cli, const DryRun& dry_run) {
  const Job& job = dry_run.job;
  print_document(job.script);
  const std::string how = job.settings.server
                              ? "submit through slurmrestd at " + job.settings.server->url +
                                    ", with the settings of sbatch"
                              : "call sbatch --parsable";
  print_note(cli, fmt::format("would make {} and {} {} {}", printable(dry_run.run.string()), how,
                              shell_quote_all(dry_run.sbatch_options),
                              printable((dry_run.run / "job.sh").string())));
  if (const auto& chain = job.settings.chain)
    print_note(cli, fmt::format("would submit {} follow-up job{} after this job (retry.chain)",
                                chain->job_count - 1, chain->job_count == 2 ? "" : "s"));
  if (dry_run.sweep) print_note(cli, points_and_cost_text(*dry_run.sweep));
  if (const auto hours = cost_text(job.requests.requested); !dry_run.sweep && !hours.empty())
    print_note(cli, hours);
  print_note(cli, "nothing was written or submitted (--dry-run)");
}

void show(const Cli& cli, const TestOnlyAnswer& result) {
  print(cli, "{}\n", result.answer);
}

void show(const Cli& cli, const Searched& searched) {
  print(cli, "{} {}: {} points; `dlrun sweep {}` lists them\n", styled(Style::kGreen, "searched"),
        styled(Style::kBold, searched.run.id), searched.point_count, searched.run.handle());
}

/// Prints each kind of result of submit_spec(), and returns the exit code.
struct ResultPrinter {
  Result<int> operator()(const Submitted& submitted) const {
    return print_and_watch(cli, inspector, submitted, output);
  }
  template <typename Other>
  Result<int> operator()(const Other& result) const {
    if (output.json) {
      print_json(submission_json(result));
    } else {
      show(cli, result);
    }
    return kExitOk;
  }

  const Cli& cli;
  RunInspector& inspector;
  OutputOptions output;
};

/// Starts a run of the spec in the allocation of a running job.
Result<int> submit_into(Cli& cli, const SubmitOptions& options) {
  if (options.test_only)
    return fail(Errc::kUsage, "--test-only: Slurm does not queue a run in an allocation (--in)");
  if (!options.search_to_continue.empty())
    return fail(Errc::kUsage, "--continue: a search cannot run in an allocation (--in)");
  return run_in_allocation(
      cli, {options.spec, {options.in, std::nullopt, options.dry_run}, options.output});
}

/// Prints the submissions of a sequence of runs (--chain, or --rehearse and its run). wanted_count:
/// the number of runs that were to be submitted. If all of them were submitted, --watch follows the
/// last run of the sequence. If a run could not be submitted, prints the advice of the sequence and
/// fails with the reason.
Result<int> print_sequence(Cli& cli, RunInspector& inspector, const SubmittedSequence& sequence,
                           std::size_t wanted_count, const OutputOptions& options) {
  int code = kExitOk;
  for (const Submitted& submitted : sequence.submitted) {
    OutputOptions output = options;
    const bool is_last =
        sequence.submitted.size() == wanted_count && &submitted == &sequence.submitted.back();
    output.watch = options.watch && is_last;
    DLRUN_TRY_ASSIGN(code, print_and_watch(cli, inspector, submitted, output));
    if (code != kExitOk) return code;
  }
  if (!sequence.failure) return code;
  print_error(cli, sequence.advice);
  return tl::unexpected(*sequence.failure);
}

/// Submits the rehearsal of the spec, and then the job of the spec, which starts only after the
/// rehearsal has succeeded.
Result<int> submit_with_rehearsal(Cli& cli, const SubmitOptions& options) {
  if (options.dry_run || options.test_only || options.in || !options.search_to_continue.empty())
    return fail(Errc::kUsage,
                "--rehearse submits two jobs; it cannot be combined with --dry-run, --test-only, "
                "--in or --continue");
  DLRUN_TRY_ASSIGN(const auto choices, parse_rehearsal(*options.rehearsal));
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto sequence,
                   submit_run_and_rehearsal(cli, reporter, inspector, options.spec, choices));
  return print_sequence(cli, inspector, sequence, 2, options.output);
}

/// Submits the specs of --chain and prints each submission. Each job starts only after the job
/// before it has succeeded. --watch follows the last run.
Result<int> submit_chain(Cli& cli, const SubmitOptions& options) {
  if (options.dry_run || options.test_only || options.in || !options.search_to_continue.empty())
    return fail(Errc::kUsage,
                "--chain submits several specs; it cannot be combined with --dry-run, --test-only, "
                "--in or --continue");
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(const auto chain,
                   submit_spec_chain(cli, reporter, inspector, options.specs, options.spec));
  return print_sequence(cli, inspector, chain, options.specs.size(), options.output);
}

Result<int> submit(Cli& cli, const SubmitOptions& given) {
  if (given.is_chain && given.rehearsal)
    return fail(Errc::kUsage, "--rehearse takes one spec; it cannot be combined with --chain");
  if (given.is_chain) return submit_chain(cli, given);
  if (given.specs.size() > 1)
    return fail(Errc::kUsage,
                "submit takes one spec; --chain submits several, each of which waits for the one "
                "before");
  SubmitOptions options = given;
  options.spec.file = options.specs.front();
  if (options.rehearsal) return submit_with_rehearsal(cli, options);
  if (options.dry_run && (options.test_only || options.output.watch)) {
    return fail(Errc::kUsage,
                "--dry-run submits nothing; it cannot be combined with --test-only or --watch");
  }
  if (options.in) return submit_into(cli, options);
  const SubmitMode mode = options.dry_run     ? SubmitMode::kDryRun
                          : options.test_only ? SubmitMode::kTestOnly
                                              : SubmitMode::kSubmit;
  // git inspects the code in the background while dlrun plans and calls sbatch.
  Provenance provenance = provenance_of(cli, options.spec.file);
  TerminalReporter reporter(cli);
  RunInspector inspector(cli.env, known_servers(cli));
  DLRUN_TRY_ASSIGN(
      const auto result,
      submit_spec(cli, reporter, inspector, options.spec,
                  {mode, options.output.watch, options.search_to_continue}, provenance));
  return std::visit(ResultPrinter{cli, inspector, options.output}, result);
}

}  // namespace

void add_submit(CLI::App& root, Action& action) {
  auto options = std::make_shared<SubmitOptions>();
  Subcommand command(root, "submit",
                     "Check, render, record and submit an experiment or a job script");
  command
      .option("SPEC", options->specs,
              "The spec of the experiment, a YAML file; - means standard input; several with "
              "--chain")
      .required();
  add_set_and_runs_options(command, options->spec);
  command.flag("--chain", options->is_chain,
               "Submit several specs; each job starts after the one before has succeeded (the key "
               "retry.chain is for several jobs of one run)");
  command
      .option("--rehearse", options->rehearsal,
              "First run the program this long on two ranks, in PARTITION (default: the suitable "
              "partition with the shortest time limit); the run itself starts only if the "
              "rehearsal succeeds")
      .type_name("TIME[@PARTITION]");
  command.flag("--watch", options->output.watch,
               "Follow the output until the job ends; exit with 0, or with 5 if the run failed");
  command
      .option("--in", options->in,
              "Start the run in the allocation of this running job of yours, without a queue")
      .type_name("JOBID");
  command.flag("--dry-run", options->dry_run,
               "Print what dlrun would do; write and submit nothing");
  command.flag("--test-only", options->test_only,
               "Ask Slurm whether and when the job would run; submit nothing");
  command
      .option("--continue", options->search_to_continue,
              "Continue the search RUN: its program first gets the results of the earlier points")
      .type_name("RUN");
  command.flag("--json", options->output.json, "Print a JSON object");
  command.calls(submit, options, action);
}

}  // namespace dlrun
