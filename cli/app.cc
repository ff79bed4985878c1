// Runs one command line: finds the command, parses its options, calls its action and turns the
// result into an exit code. Only the called command's options are added to the parser, because
// building all of them takes most of the time of a short command.

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "cli/terminal/print.h"
#include "common/text.h"

namespace dlrun {
namespace {

struct Command {
  std::string_view name;
  AddCommand add;
  bool tells_of_all = false;  ///< the command reads the whole tree of commands
};

constexpr Command kCommands[] = {
    {"submit", add_submit},     {"render", add_render},
    {"check", add_check},       {"interactive", add_interactive},
    {"run", add_run},           {"ls", add_ls},
    {"status", add_status},     {"top", add_top},
    {"report", add_report},     {"logs", add_logs},
    {"wait", add_wait},         {"cancel", add_cancel},
    {"attach", add_attach},     {"sweep", add_sweep},
    {"nodes", add_nodes},       {"diff", add_diff},
    {"resubmit", add_resubmit}, {"schema", add_schema},
    {"explain", add_explain},   {"man", add_man, true},
    {"site", add_site},         {"init", add_init},
    {"doctor", add_doctor},     {"container", add_container},
    {"bench", add_bench},       {"completion", add_completion, true},
};

constexpr const char* kFooter =
    "\nRUN is a run's name (then the newest run of that name), its id or the unique start of its "
    "id,\n"
    "a Slurm job id, a path, or `last`.\n"
    "Exit codes: 0 ok, 1 dlrun itself failed (for example, a full disk), 2 wrong usage or invalid "
    "spec,\n"
    "3 Slurm refused, 4 the Slurm controller does not answer, 5 the run failed, 6 not found,\n"
    "130 interrupted, 141 the reader of the output is gone.";

/// Returns a message about the first unknown option before `--`. CLI11 names any word that is left
/// over, which may be the program after `--`.
std::optional<std::string> about_option(const CLI::App& app,
                                        const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = "dlrun";
  for (std::size_t at = 1; at < words.size() && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    if (word.size() < 2 || word[0] != '-') {
      for (const CLI::App* below : command->get_subcommands(nullptr)) {
        if (below->get_name() != word) continue;
        command = below;
        path += " " + word;
        break;
      }
      continue;
    }
    const std::string name =
        word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option != nullptr) {
      if (option->get_items_expected_max() > 0 && name == word)
        ++at;  // skips the option's value, whatever it looks like
      continue;
    }
    std::vector<std::string> names;
    for (const CLI::Option* known : command->get_options()) {
      for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
    }
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    const auto meant = nearest(name, candidates);
    return fmt::format("`{}` has no option '{}'{}", path, printable(name),
                       meant ? fmt::format("; did you mean '{}'?", *meant) : "");
  }
  return std::nullopt;
}

/// Returns the message for a parse error. Replaces CLI11's message where it names the wrong word or
/// only says that a command is missing.
std::string told(const CLI::App& app, const CLI::ParseError& error,
                 const std::vector<std::string>& words) {
  if (!app.get_subcommands().empty()) return about_option(app, words).value_or(error.what());
  if (words.size() < 2 || words[1].empty()) return error.what();
  if (words[1].starts_with('-')) return about_option(app, words).value_or(error.what());
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto meant = nearest(words[1], candidates);
  return fmt::format("'{}' is no command of dlrun{}", printable(words[1]),
                     meant ? fmt::format("; did you mean '{}'?", *meant) : "");
}

/// Returns the exit code of `code`, or a failure if standard output did not accept everything and
/// no message has said so.
int exit_code_of_output(const Cli& cli, const Result<int>& code) {
  const bool is_told = !code && !code.error().message.empty();
  if (is_all_printed() || is_told) return code ? *code : exit_code_of(code.error().code);
  if (has_reader_left()) return kExitReaderLeft;
  print_error(cli, "standard output could not be written whole");
  return kExitFault;
}

}  // namespace

int exit_code_of(Errc code) {
  switch (code) {
    case Errc::kInvalid:
    case Errc::kUsage:
      return kExitUsage;
    case Errc::kNotFound:
      return kExitNotFound;
    case Errc::kRefused:
      return kExitRefused;
    case Errc::kUnavailable:
    case Errc::kTimeout:
      return kExitUnavailable;
    case Errc::kPeer:
      return kExitRunFailed;
    case Errc::kInterrupted:
      return kExitInterrupted;
    case Errc::kIo:
    case Errc::kShape:
    case Errc::kInternal:
      return kExitFault;
  }
  return kExitFault;
}

std::unique_ptr<CLI::App> make_app(Action& action, std::string_view only) {
  auto app = std::make_unique<CLI::App>(
      "Runs deep-learning jobs on Slurm clusters, each from one YAML file.", "dlrun");
  app->set_version_flag("--version", "dlrun " DLRUN_VERSION);
  app->require_subcommand(1);
  app->footer(kFooter);
  app->get_formatter()->column_width(34);
  const auto called = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [only](const Command& command) { return command.name == only; });
  const bool is_whole = called == std::end(kCommands) || called->tells_of_all;
  for (const Command& command : kCommands) {
    if (is_whole || command.name == only) command.add(*app, action);
  }
  return app;
}

int run_cli(Cli& cli, int argc, const char* const* argv) {
  Action action;
  // Building the parsers of all commands takes a millisecond, most of the time of a short command.
  const auto app = make_app(action, argc > 1 ? argv[1] : "");
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream out, unused;
    app->exit(success, out, unused);
    print_document(out.str());
    return exit_code_of_output(cli, kExitOk);
  } catch (const CLI::ParseError& error) {
    const auto called = app->get_subcommands();
    print_error(cli, told(*app, error, {argv, argv + argc}));
    print_aside(cli,
                text("See `dlrun {}{}--help`.\n", called.empty() ? "" : called.front()->get_name(),
                     called.empty() ? "" : " "));
    return kExitUsage;
  }
  Result<int> code = kExitOk;
  try {
    code = action(cli);
    // Out of memory, or a bug: no code here throws on purpose.
  } catch (const std::exception& error) {
    code = fail(Errc::kInternal, "a fault of dlrun's own: {}", error.what());
  }
  if (!code && !code.error().message.empty()) print_error(cli, code.error().message);
  return exit_code_of_output(cli, code);
}

}  // namespace dlrun
