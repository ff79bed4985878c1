// Runs one command line: finds the command, parses its options, calls its action and turns the
// result into an exit code. Only the called command's options are added to the parser, because
// building all of them takes most of the time of a short command.

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/remote.h"
#include "cli/terminal/print.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/help/command_words.h"

namespace dlrun {
namespace {

struct CommandEntry {
  std::string_view name;
  AddCommand add;
  CommandPlace place = CommandPlace::kHost;
  bool needs_whole_tree = false;  ///< the command describes all commands
};

constexpr CommandEntry kCommands[] = {
    {"submit", add_submit, CommandPlace::kHostWithCode},
    {"render", add_render, CommandPlace::kHostWithCode},
    {"check", add_check, CommandPlace::kHostWithCode},
    {"interactive", add_interactive, CommandPlace::kHostWithCode},
    {"run", add_run, CommandPlace::kHostWithCode},
    {"ls", add_ls},
    {"status", add_status},
    {"top", add_top},
    {"report", add_report},
    {"logs", add_logs},
    {"wait", add_wait},
    {"cancel", add_cancel},
    {"rm", add_rm},
    {"prune", add_prune},
    {"du", add_du},
    {"attach", add_attach},
    {"forward", add_forward},
    {"ssh-config", add_ssh_config},
    {"sweep", add_sweep},
    {"nodes", add_nodes},
    {"notify", add_notify},
    {"track", add_track},
    {"diff", add_diff},
    {"resubmit", add_resubmit},
    {"schema", add_schema, CommandPlace::kHere},
    {"explain", add_explain, CommandPlace::kHostWithCode},
    {"man", add_man, CommandPlace::kHere, true},
    {"site", add_site},
    {"init", add_init, CommandPlace::kHere},
    {"doctor", add_doctor},
    {"container", add_container},
    {"bench", add_bench, CommandPlace::kHostWithCode},
    {"completion", add_completion, CommandPlace::kHere, true},
    {"host", add_host, CommandPlace::kHere},
    {"pull", add_pull, CommandPlace::kHere},
};

constexpr const char* kFooter =
    "\nRUN is a run's name (then the newest run of that name), its id or the unique start of its "
    "id,\n"
    "a Slurm job id, a path, or `last`.\n"
    "Exit codes: 0 ok, 1 dlrun itself failed (for example, a full disk), 2 wrong usage or invalid "
    "spec,\n"
    "3 Slurm or dlrun refused, 4 no answer (of Slurm's controller, a host, a registry or a search "
    "program),\n"
    "5 the run failed, 6 not found, 130 interrupted, 141 the reader of the output is gone.";

/// Returns the text of --version: "dlrun 1.0.0 (commit 2074bc41d3f0)".
std::string version_text(const Cli& cli) {
  return cli.commit.empty() ? "dlrun " DLRUN_VERSION
                            : fmt::format("dlrun " DLRUN_VERSION " (commit {})", cli.commit);
}

bool has_text(const Error& error) {
  return !error.message.empty() || !error.diagnostics.empty();
}

/// Flushes standard output, and returns the exit code for the result of a command. A command that
/// failed with a message keeps its exit code even if output was lost. If any other command lost
/// output, returns kExitReaderLeft if the reader is gone; otherwise prints an error and returns
/// kExitFault.
int finish_command(const Cli& cli, const Result<int>& code) {
  const bool has_message = !code && has_text(code.error());
  if (finish_output() || has_message) return code ? *code : exit_code_of(code.error().code);
  if (is_reader_gone()) return kExitReaderLeft;
  print_error(cli, "standard output could not be written whole");
  return kExitFault;
}

/// The options of the log, which every command has.
struct LogOptions {
  int verbosity = 0;  ///< the number of -v
  std::optional<std::string> file;
};

/// Adds the options of the log, which are allowed before and after the command's name. log: nullptr
/// if the caller only describes the tree.
void add_log_options(CLI::App& app, LogOptions* log) {
  app.add_flag_function(
      "-v,--verbose",
      [log](std::int64_t count) {
        if (log != nullptr) log->verbosity += static_cast<int>(count);
      },
      "Log commands, requests and decisions on stderr; -vv: also files and details");
  app.add_option_function<std::string>(
         "--log-file",
         [log](const std::string& file) {
           if (log != nullptr) log->file = file;
         },
         "Append the log to this file (0600) instead of stderr; implies -v")
      ->type_name("FILE");
}

/// Opens the log with the settings of DLRUN_LOG and of the options. An option overrides DLRUN_LOG.
Result<> open_log_of(const Cli& cli, const LogOptions& options) {
  auto setting = parse_log_setting(cli.env.get_or("DLRUN_LOG", ""));
  if (!setting) return within("DLRUN_LOG", setting.error());
  if (options.verbosity > 0)
    setting->level = options.verbosity == 1 ? LogLevel::kInfo : LogLevel::kDebug;
  if (options.file) {
    if (options.file->empty()) return fail(Errc::kUsage, "--log-file: expected a file's name");
    if (setting->level == LogLevel::kOff) setting->level = LogLevel::kInfo;
    setting->file = *options.file;
  }
  auto opened = open_log("dlrun", *setting, cli.env);
  if (!opened) return within("the log", opened.error());
  log_info("dlrun starts",
           {{"version", DLRUN_VERSION}, {"argv", cli.argv}, {"folder", cli.current_dir}});
  return {};
}

/// Adds -H, which chooses the host. This option stands before the command's name. host: nullptr if
/// the caller only describes the tree.
void add_host_option(CLI::App& app, std::optional<std::string>* host) {
  app.add_option_function<std::string>(
         "-H,--host",
         [host](const std::string& name) {
           if (host != nullptr) *host = name;
         },
         "Run the command on this host over ssh; an empty name means this machine")
      ->type_name("HOST");
}

/// The options that may stand before the name of the command, and the text of --version.
struct GlobalOptions {
  std::string version;  ///< the text of --version
  LogOptions log;
  std::optional<std::string> host;
};

/// Builds the tree of commands, as make_app() does. Parsing fills `global`, which must outlive the
/// tree. global is nullptr if the caller only describes the tree.
std::unique_ptr<CLI::App> make_tree(Action& action, std::string_view only, GlobalOptions* global,
                                    bool has_options) {
  LogOptions* log = global != nullptr ? &global->log : nullptr;
  auto app = std::make_unique<CLI::App>(
      "Runs deep-learning jobs on Slurm clusters, each from one YAML file.", "dlrun");
  app->require_subcommand(1);
  const auto called =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [only](const CommandEntry& command) { return command.name == only; });
  if (called != std::end(kCommands) && !called->needs_whole_tree && !has_options) {
    // This call removes --help. To a tree without --help, Subcommand adds only positionals and
    // required options.
    app->set_help_flag();
    called->add(*app, action);
    return app;
  }
  // Each subcommand inherits this flag.
  app->set_help_flag("-h,--help", "Print the help of the command and exit");
  app->set_version_flag("--version", global != nullptr ? global->version : std::string());
  app->footer(kFooter);
  app->get_formatter()->column_width(34);
  const bool is_whole = called == std::end(kCommands) || called->needs_whole_tree;
  for (const CommandEntry& command : kCommands) {
    if (is_whole || command.name == only) command.add(*app, action);
  }
  add_log_options(*app, log);
  add_host_option(*app, global != nullptr ? &global->host : nullptr);
  // A line without a known command, such as `dlrun --version` or `dlrun --help`, is parsed faster
  // without the log options of each command.
  if (log != nullptr && called == std::end(kCommands)) return app;
  for (CLI::App* command : app->get_subcommands(nullptr)) add_log_options(*command, log);
  return app;
}

/// Returns the first value of an option or a positional of the called command; empty if it is not
/// given.
std::string value_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr && option->count() > 0 ? option->results().front() : std::string();
}

/// Returns the call for the host in -H or DLRUN_HOST. Returns nullopt if neither gives a host, or
/// if this command always runs on this machine. cli.env must have the host of -H as DLRUN_HOST.
std::optional<HostCall> host_call(const Cli& cli, const CLI::App& app,
                                  const std::vector<std::string>& words) {
  const CLI::App& called = *app.get_subcommands().front();
  const auto entry =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [&](const CommandEntry& command) { return command.name == called.get_name(); });
  const auto is_given = [&](const char* flag) {
    const CLI::Option* option = called.get_option_no_throw(flag);
    return option != nullptr && option->count() > 0;
  };
  ParsedCall parsed;
  parsed.command = called.get_name();
  parsed.spec = value_of(called, parsed.command == "explain" ? "KEY|SPEC" : "SPEC");
  parsed.output_file = value_of(called, "--output");
  parsed.is_trial = is_given("--dry-run") || is_given("--test-only");
  parsed.watches = is_given("--watch");
  for (const CLI::Option* option : called.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    for (const auto& name : option->get_snames()) parsed.value_options.push_back("-" + name);
    for (const auto& name : option->get_lnames()) parsed.value_options.push_back("--" + name);
  }
  return call_for_host(cli.env.get_or("DLRUN_HOST", ""), entry->place, parsed, words,
                       cli.current_dir);
}

/// Prints the error about a command line that the parser refused. The called command is in `app`.
void print_refusal(const Cli& cli, const CLI::App& app, const std::vector<std::string>& words,
                   const CLI::ParseError& error) {
  const auto called = app.get_subcommands();
  const std::string command = called.empty() ? "" : called.front()->get_name();
  const CommandTable table = command_table(app);
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !called.empty()) {
    const auto unexpected = called.front()->remaining();
    if (!unexpected.empty())
      message = second_spec_text(table, command, unexpected.front()).value_or(message);
  }
  print_error(cli, refused_command_line_text(table, !called.empty(), words, message));
  print_aside(cli, text("See `dlrun {}{}--help`.\n", command, command.empty() ? "" : " "));
}

/// Runs the command on the call's host, or in this process if that host is this machine.
Result<int> run_there_or_here(Cli& cli, const HostCall& call, const Action& action) {
  DLRUN_TRY_ASSIGN(const auto code, run_host_call(cli, call));
  return code ? Result<int>(*code) : action(cli);
}

}  // namespace

std::unique_ptr<CLI::App> make_app(Action& action, std::string_view only, bool has_options) {
  return make_tree(action, only, nullptr, has_options);
}

int run_cli(Cli& cli, int argc, const char* const* argv) {
  Action action;
  GlobalOptions global;
  global.version = version_text(cli);
  const auto start = std::chrono::steady_clock::now();
  if (argc == 2 && std::string_view(argv[1]) == "--version") {  // needs no tree of all commands
    print_document(global.version + "\n");
    return finish_command(cli, kExitOk);
  }
  // A command line without options needs no parser for them. Building the parsers of all commands
  // takes a millisecond, most of the time of a short command.
  const bool has_options =
      std::any_of(argv, argv + argc, [](const char* word) { return word[0] == '-'; });
  const auto app = make_tree(action, command_word_in({argv, argv + argc}), &global, has_options);
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream out, unused;
    app->exit(success, out, unused);
    print_document(out.str());
    return finish_command(cli, kExitOk);
  } catch (const CLI::ParseError& error) {
    print_refusal(cli, *app, {argv, argv + argc}, error);
    return kExitUsage;
  }
  if (const auto opened = open_log_of(cli, global.log); !opened) {
    print_error(cli, opened.error().message);
    return exit_code_of(opened.error().code);
  }
  Result<int> code = kExitOk;
  try {
    if (global.host) cli.env.set("DLRUN_HOST", *global.host);  // -H overrides DLRUN_HOST
    const auto call = host_call(cli, *app, {argv, argv + argc});
    code = call ? run_there_or_here(cli, *call, action) : action(cli);
  } catch (const std::exception& error) {  // out of memory, or a bug: dlrun throws nothing itself
    code = fail(Errc::kInternal, "internal error: {}", error.what());
  }
  if (!code) print_failure(cli, code.error());
  const int exit_code = finish_command(cli, code);
  log_info("dlrun ends", {{"code", exit_code},
                          {"error", code ? "" : code.error().message},
                          {"seconds", std::chrono::steady_clock::now() - start}});
  close_log();
  return exit_code;
}

}  // namespace dlrun
