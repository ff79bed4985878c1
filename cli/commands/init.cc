// `dlrun init`: writes a first spec from options, from answers on the terminal or from a job
// script.

#include <iostream>
#include <memory>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/questions.h"
#include "cli/terminal/terminal_reporter.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/sites.h"
#include "launcher/submit/first_spec.h"

namespace dlrun {
namespace {

struct InitOptions {
  FirstSpecOptions spec;
  std::string output;
  bool force = false, yes = false;
};

/// Returns the name of the spec in messages: the file of -o, or exp.yaml if the spec goes to
/// standard output (output is empty or "-").
[[nodiscard]] std::string name_of_output(const std::string& output) {
  return output.empty() || output == "-" ? "exp.yaml" : output;
}

/// Writes the spec to the file of -o, or to standard output.
[[nodiscard]] Result<int> write_spec(const Cli& cli, const std::string& output,
                                     const std::string& text, bool force) {
  if (output.empty() || output == "-") {
    print_document(text);
    return kExitOk;
  }
  DLRUN_TRY(write_first_spec(cli, output, text, force));
  print_note(cli, fmt::format("wrote {0}; `dlrun check {0}` reports whether Slurm would accept it",
                              printable(output)));
  return kExitOk;
}

Result<int> init(Cli& cli, const InitOptions& options) {
  TerminalReporter reporter(cli);
  if (!options.spec.from.empty()) {
    DLRUN_TRY_ASSIGN(const auto text, import_first_spec(cli, reporter, options.spec,
                                                        name_of_output(options.output)));
    return write_spec(cli, options.output, text, options.force);
  }
  std::string output = options.output;
  DLRUN_TRY_ASSIGN(InitAnswers answers, answers_of(options.spec));
  const std::string site_name = answers.site.value_or("");
  DLRUN_TRY_ASSIGN(
      const auto site,
      require_site(site_name.empty() ? site_here(cli, reporter) : site_name, config_folders(cli)));
  print_diagnostics(cli, site.problems);
  const bool asks = !options.yes && is_input_terminal() && is_error_terminal();
  if (asks) {
    DLRUN_TRY(ask_questions(answers, site.profile, std::cin,
                            [&](const Text& line) { print_aside(cli, line); }));
    if (output.empty() && is_output_terminal()) output = answers.name.value_or("exp") + ".yaml";
  }
  DLRUN_TRY_ASSIGN(const auto text, make_first_spec(cli, reporter, std::move(answers), site.profile,
                                                    name_of_output(output)));
  return write_spec(cli, output, text, options.force);
}

}  // namespace

void add_init(CLI::App& root, Action& action) {
  auto options = std::make_shared<InitOptions>();
  FirstSpecOptions& spec = options->spec;
  InitAnswers& a = spec.answers;
  Subcommand command(root, "init",
                     "Write a first spec from answers on a terminal, from options or from a job "
                     "script; PROGRAM follows --");
  command
      .option("--site", a.site,
              "Name of a site, from dlrun site list (default: the site of this cluster)")
      .type_name("SITE");
  command
      .option("--from", spec.from,
              "Make the spec from this job script for sbatch; nothing of the script is run")
      .type_name("FILE");
  command.option("--name", a.name, "Name of the experiment (default: hello)").type_name("NAME");
  command.option("--nodes", spec.nodes, "Number of nodes (default: 1)").type_name("N");
  command
      .option(
          "--gpus", spec.gpus,
          "GPUs of each node: 4 or a100:4 (default: all GPUs of a node of the partition, or one "
          "slice if they are sliced)")
      .type_name("N");
  command.option("--tasks", spec.tasks, "Ranks on each node (default: one per GPU, 1 without GPUs)")
      .type_name("N");
  command.option("--cpus", spec.cpus, "CPUs of each rank").type_name("N");
  command.option("--mem", a.mem, "Memory of each node, such as 64G").type_name("SIZE");
  command
      .option("--time", a.time,
              "Time limit, such as 1h30m (default: 1h, or the limit of the partition if that is "
              "shorter)")
      .type_name("TIME");
  command
      .option("--partition", a.partition,
              "Partition (default: the default partition of the cluster)")
      .type_name("NAME");
  command.option("--account", a.account, "Account to charge").type_name("NAME");
  command.option("--image", a.image, "Container image").type_name("IMAGE");
  const std::string runtime_help = fmt::format(
      "Tool that runs the image: {} (default: the tool of the site)", container_tools_text());
  command.option("--runtime", a.runtime, runtime_help.c_str()).type_name("NAME");
  command.option("--module", a.modules, "Module to load; repeatable")
      .type_name("NAME")
      .repeatable();
  command.option("--conda", a.conda, "Conda environment").type_name("NAME");
  command.option("--venv", a.venv, "Python virtual environment").type_name("DIR");
  command.option("--preset", a.preset, "Preset that starts the program (default: plain)")
      .type_name("NAME");
  command
      .option("-o,--output", options->output,
              "File to write (default: standard output; NAME.yaml after questions on a terminal)")
      .type_name("FILE");
  command.flag("--force", options->force, "Overwrite the file if it exists");
  command.flag("-y,--yes", options->yes, "Ask no questions");
  command.option("PROGRAM", a.command, "After --: the program and its arguments");
  command.calls(init, options, action);
}

}  // namespace dlrun
