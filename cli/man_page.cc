#include "cli/man_page.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/key_help.h"

namespace dlrun {
namespace {

/// Escapes text for roff: backslashes, requests at a line's start, and '-', which is kept as typed.
[[nodiscard]] std::string roff(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else if (c == '`') {
      result += "\\(ga";
    } else if (c == '~') {
      result += "\\(ti";
    } else if (c == '^') {
      result += "\\(ha";
    } else {
      result += c;
    }
  }
  return result;
}

/// "-o, --output FILE"
[[nodiscard]] std::string option_words(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  std::string words = join(names, ", ");
  if (option.get_items_expected_max() > 0) words += " " + option.get_type_name();
  return words;
}

[[nodiscard]] std::string synopsis(const CLI::App& command) {
  std::string words = command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    words += option->get_required() ? " " + name : fmt::format(" [{}]", name);
    if (option->get_items_expected_max() > 1) words += "...";
  }
  return words;
}

constexpr std::string_view kHead =
    R"(.\" Made by `dlrun man` from the tree of commands and the key table; a test keeps it equal.
.TH DLRUN 1 "" "dlrun )" DLRUN_VERSION R"(" "User Commands"
.SH NAME
dlrun \- deep\-learning jobs on Slurm clusters, from one YAML file
.SH SYNOPSIS
.B dlrun
.I COMMAND
.RI [ ARGUMENTS ]...
.SH DESCRIPTION
dlrun turns one YAML file, the spec, into a deep\-learning job: )"
    R"(it checks the spec, renders a job script, )"
    R"(records and submits it once, follows it and says
how it ended. The same file runs on one machine without Slurm.
.PP
.I RUN
is a run's name (the newest of that name), its id or the unique start of one, )"
    R"(a Slurm job id, a path, or
.BR last .
.SH COMMANDS
)";

constexpr std::string_view kEnvironment[][2] = {
    {"DLRUN_SITE", "The site's name, where the spec gives none."},
    {"DLRUN_RUNS", "Where run directories are made, where --runs is not given."},
    {"DLRUN_CONFIG",
     "A folder with sites/ and presets/ of your own, before $XDG_CONFIG_HOME/dlrun."},
    {"XDG_STATE_HOME", "The index of your runs is dlrun/runs below it; else ~/.local/state."},
    {"SBATCH_ACCOUNT, SBATCH_PARTITION, SBATCH_QOS",
     "Defaults of resources.account, partition and qos, outside of a job."},
    {"SLURM_CONF",
     "Slurm's configuration; the other SLURM_* and SBATCH_* variables do not reach sbatch."},
    {"NO_COLOR", "No colour, also on a terminal."},
};

constexpr std::string_view kExitStatus[][2] = {
    {"0", "ok"},
    {"1", "dlrun itself could not go on (a full disk and the like)"},
    {"2", "wrong usage, or an invalid spec"},
    {"3", "Slurm refused"},
    {"4", "the controller does not answer"},
    {"5", "the run failed"},
    {"6", "not found"},
    {"130", "interrupted"},
    {"141", "the reader of the output is gone"},
};

[[nodiscard]] std::string item(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(text));
}

}  // namespace

std::string man_page(const CLI::App& root) {
  std::string text(kHead);
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    text +=
        fmt::format(".SS {}\n{}.\n", roff(synopsis(*command)), roff(command->get_description()));
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_positional() && option->get_name() != "--help")
        text += item(option_words(*option), option->get_description());
    }
  }
  text += ".SH KEYS\nThe keys of a spec; ";
  text += ".B dlrun explain\n.I KEY\ntells more of one.\n";
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) continue;
    const KeyHelp help = describe_key(row);
    std::string about(row.help);
    about += fmt::format(" Type: {}{}.", help.type, help.range.empty() ? "" : ", " + help.range);
    if (!row.fallback.empty()) about += fmt::format(" Default: {}.", row.fallback);
    text += item(row.path, about);
  }
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : kEnvironment) text += item(name, meaning);
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitStatus) text += item(code, meaning);
  text += ".SH SEE ALSO\n.BR sbatch (1),\n.BR srun (1),\n.BR squeue (1)\n";
  return text;
}

}  // namespace dlrun
