// `dlrun init`: writes a first spec from flags, from answers on the terminal or from a job script.

#include <array>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/questions.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "container/container.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/import/script_import.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/sites.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

struct InitOptions {
  InitAnswers answers;
  std::optional<std::string> gpus, nodes, tasks, cpus;
  std::string output, from;
  bool force = false, yes = false;
};

/// Returns the site that the spec will use on this machine. option: the value of --site.
[[nodiscard]] Result<Site> site_of(const Cli& cli, const std::optional<std::string>& option,
                                   const std::vector<std::filesystem::path>& dirs) {
  std::string name = option.value_or(cli.env.get_or("DLRUN_SITE", ""));
  if (name.empty()) {
    std::vector<Diagnostic> problems;
    name = match_site(slurm_cluster_name(cli.env), dirs, problems).value_or("generic");
    print_diagnostics(cli, problems);
  }
  auto site = find_site(name, dirs);
  if (site) return std::move(*site);
  const auto names = site_names(dirs);
  return fail(Errc::kNotFound, "there is no site '{}'; the known sites are {}", printable(name),
              join(names, " "));
}

/// Returns the flag that sets a key of the spec; "" if there is none.
[[nodiscard]] std::string flag_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kRows{{
      {"name", "--name"},
      {"resources.nodes"_key, "--nodes"},
      {"resources.gpus_per_node"_key, "--gpus"},
      {"resources.tasks_per_node"_key, "--tasks"},
      {"resources.cpus_per_task"_key, "--cpus"},
      {"resources.mem"_key, "--mem"},
      {"resources.time"_key, "--time"},
      {"resources.partition"_key, "--partition"},
      {"resources.account"_key, "--account"},
      {"container.image"_key, "--image"},
      {"container.runtime"_key, "--runtime"},
      {"environment.modules.load"_key, "--module"},
      {"environment.modules", "--module"},
      {"environment.conda.name"_key, "--conda"},
      {"environment.conda", "--conda"},
      {"environment.venv"_key, "--venv"},
      {"launch.preset"_key, "--preset"},
  }};
  for (const auto& [path, flag] : kRows) {
    if (path == key) return std::string(flag);
  }
  return {};
}

/// Replaces the place of each problem by the flag that sets the wrong value. The file is not
/// written yet, so its line numbers would mean nothing to the user.
void name_flags(std::vector<Diagnostic>& found) {
  for (Diagnostic& one : found) {
    const std::string flag = flag_of(one.key);
    if (flag.empty() || one.where.kind != Origin::Kind::kFile) continue;
    one.where = {Origin::Kind::kFile, flag, 0, 0};
    one.line_text.clear();
  }
}

/// Returns the request that reads a spec on this machine.
[[nodiscard]] LoadRequest request_to_load(const Cli& cli, const std::string& file) {
  LoadRequest request;
  request.file = file;
  request.env = cli.env;
  request.current_dir = cli.current_dir;
  request.config_dirs = config_folders(cli);
  request.cluster_name = slurm_cluster_name(cli.env);
  return request;
}

/// Loads the text as a spec. Prints all problems, and fails with kInvalid if one is an error, such
/// as an answer that exceeds the site's limits.
[[nodiscard]] Result<> check_text(const Cli& cli, const std::string& text,
                                  const std::string& file) {
  LoadRequest request = request_to_load(cli, file);
  request.text = text;
  const auto loaded = load_spec(request);
  if (loaded) {
    print_diagnostics(cli, loaded->warnings);
    return {};
  }
  auto wrong = loaded.error();
  name_flags(wrong);
  print_diagnostics(cli, wrong);
  return fail(Errc::kInvalid, "nothing is written: the answers do not form a valid spec");
}

/// Reads an optional number that is at least 1.
[[nodiscard]] Result<> read_count(const char* option, const std::optional<std::string>& text,
                                  std::optional<std::int64_t>& into) {
  if (!text) return {};
  into = parse_int(*text);
  if (into && *into >= 1) return {};
  return fail(Errc::kUsage, "{}: '{}' is not a number from 1 on", option, printable(*text));
}

/// Writes the spec to the file of -o, or to standard output.
[[nodiscard]] Result<int> write_spec(const Cli& cli, const InitOptions& options,
                                     const std::string& text) {
  if (options.output.empty() || options.output == "-") {
    print_document(text);
    return kExitOk;
  }
  const auto path = cli.current_dir / options.output;
  if (options.force) {
    DLRUN_TRY(write_file_atomic(path, text, 0644));
  } else if (auto made = create_file_exclusive(path, text, 0644); !made) {
    if (made.error().code != Errc::kRefused) return tl::unexpected(made.error());
    return fail(Errc::kUsage, "{}: exists; give another with -o, or --force to overwrite it",
                options.output);
  }
  print_note(cli, fmt::format("wrote {0}; `dlrun check {0}` reports whether Slurm would accept it",
                              options.output));
  return kExitOk;
}

/// Fails if the command line has an option whose value --from takes from the script.
[[nodiscard]] Result<> check_from_options(const InitOptions& options) {
  const InitAnswers& a = options.answers;
  const bool has_value = a.name || a.partition || a.account || a.time || a.mem || a.image ||
                         a.runtime || a.conda || a.venv || a.preset || !a.modules.empty() ||
                         options.gpus || options.nodes || options.tasks || options.cpus;
  if (!has_value) return {};
  return fail(Errc::kUsage,
              "--from reads the keys from the script: it can be combined with --site, -o, --force "
              "and a program after --; change the other keys in the spec");
}

/// Writes a spec from a job script.
[[nodiscard]] Result<int> init_from(const Cli& cli, const InitOptions& options) {
  constexpr std::size_t kLargestScript = 1U << 20U;
  DLRUN_TRY(check_from_options(options));
  ScriptImport import;
  import.name = options.from;
  DLRUN_TRY_ASSIGN(import.script,
                   read_untrusted(cli.current_dir / options.from, kLargestScript, Links::kFollow));
  if (options.answers.site) {
    DLRUN_TRY_ASSIGN(const auto site, site_of(cli, options.answers.site, config_folders(cli)));
    print_diagnostics(cli, site.problems);
    import.site = *options.answers.site;
  }
  import.command = options.answers.command;
  const bool to_stdout = options.output.empty() || options.output == "-";
  import.load = request_to_load(cli, to_stdout ? "exp.yaml" : options.output);
  DLRUN_TRY_ASSIGN(const auto imported, import_script(import));
  print_diagnostics(cli, imported.remarks);
  print_diagnostics(cli, imported.warnings);
  return write_spec(cli, options, imported.spec);
}

Result<int> init(Cli& cli, InitOptions options) {
  if (!options.from.empty()) return init_from(cli, options);
  InitAnswers& answers = options.answers;
  DLRUN_TRY(read_count("--nodes", options.nodes, answers.nodes));
  DLRUN_TRY(read_count("--tasks", options.tasks, answers.tasks_per_node));
  DLRUN_TRY(read_count("--cpus", options.cpus, answers.cpus_per_task));
  if (options.gpus) {
    auto gpus = parse_gpus(*options.gpus);
    if (!gpus) return fail(Errc::kUsage, "--gpus: {}", gpus.error().message);
    answers.gpus_per_node = std::move(*gpus);
  }
  DLRUN_TRY_ASSIGN(const auto site, site_of(cli, answers.site, config_folders(cli)));
  print_diagnostics(cli, site.problems);
  const bool asks = !options.yes && is_input_terminal() && is_error_terminal();
  if (asks) {
    DLRUN_TRY(ask_questions(answers, site.profile, std::cin,
                            [&](const Text& line) { print_aside(cli, line); }));
    if (options.output.empty() && is_output_terminal())
      options.output = answers.name.value_or("exp") + ".yaml";
  }
  if (answers.image && runtime_of(answers, site.profile) == "none") {
    return fail(Errc::kUsage,
                "--image: site '{}' names no container runtime; give --runtime {} (`dlrun doctor` "
                "lists those that are installed)",
                site.profile.name, container_tools());
  }
  const std::string text = init_spec(complete(std::move(answers), site.profile), site.profile);
  const bool to_stdout = options.output.empty() || options.output == "-";
  DLRUN_TRY(check_text(cli, text, to_stdout ? "exp.yaml" : options.output));
  return write_spec(cli, options, text);
}

}  // namespace

void add_init(CLI::App& root, Action& action) {
  auto options = std::make_shared<InitOptions>();
  InitAnswers& a = options->answers;
  Subcommand command(root, "init",
                     "Write a first spec from answers on a terminal, from options or from a job "
                     "script; PROGRAM follows --");
  command
      .option("--site", a.site,
              "Name of a site, from dlrun site list (default: the site of this cluster)")
      .type_name("SITE");
  command
      .option("--from", options->from,
              "Make the spec from this job script for sbatch; nothing of the script is run")
      .type_name("FILE");
  command.option("--name", a.name, "Name of the experiment (default: hello)").type_name("NAME");
  command.option("--nodes", options->nodes, "Number of nodes (default: 1)").type_name("N");
  command
      .option("--gpus", options->gpus,
              "GPUs of each node: 4 or a100:4 (default: all GPUs of a node of the partition)")
      .type_name("N");
  command
      .option("--tasks", options->tasks,
              "Ranks on each node (default: one per GPU, 1 without GPUs)")
      .type_name("N");
  command.option("--cpus", options->cpus, "CPUs of each rank").type_name("N");
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
      "Tool that runs the image: {} (default: the tool of the site)", container_tools());
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
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return init(cli, *options); }; });
}

}  // namespace dlrun
