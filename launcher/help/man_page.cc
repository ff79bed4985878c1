#include "launcher/help/man_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/help/completion_parts.h"
#include "launcher/spec/key_help.h"

namespace dlrun {
namespace {

/// Escapes text for roff: a '.' or "'" at the start of a line, which roff would read as a request,
/// and the characters that roff would replace.
[[nodiscard]] std::string roff_escaped(std::string_view text) {
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

/// Returns "-o, --output FILE".
[[nodiscard]] std::string option_term(const OptionHelp& option) {
  return join(option.names, ", ") + (option.value_name.empty() ? "" : " " + option.value_name);
}

/// Returns the command with its positionals: "site list|show [SITE]".
[[nodiscard]] std::string synopsis(const CommandHelp& command) {
  std::string words = command.name;
  std::string name = join(completion::first_argument_choices(command), "|");
  for (const PositionalHelp& positional : command.positionals) {
    if (name.empty()) name = positional.name;
    words += positional.is_required ? " " + name : fmt::format(" [{}]", name);
    name.clear();
    if (positional.is_repeatable) words += "...";
  }
  return words;
}

constexpr std::string_view kHead =
    R"(.\" Made by `dlrun man` from the tree of commands and the key table; a test checks this.
.TH DLRUN 1 "" "dlrun )" DLRUN_VERSION R"(" "User Commands"
.SH NAME
dlrun \- deep\-learning jobs on Slurm clusters, from one YAML file
.SH SYNOPSIS
.B dlrun
.I COMMAND
.RI [ ARGUMENTS ]...
.SH DESCRIPTION
dlrun turns one YAML file, the spec, into a deep\-learning job. It checks the spec, renders a job
script, records the job, submits it once, follows it and reports how it ended. The same file also
runs on one machine without Slurm.
.PP
.I RUN
is a run's name (then the newest run of that name), its id or the unique start of its id, a Slurm
job id, a path, or
.BR last .
.SH OPTIONS OF EVERY COMMAND
)";

constexpr std::string_view kEnvironment[][2] = {
    {"DLRUN_HOST", "The host on which the commands run, over ssh, if -H is not given."},
    {"DLRUN_SITE", "The name of the site, if the spec does not set the key `site`."},
    {"DLRUN_RUNS",
     "The folder for run directories, if --runs is not given; the default is the folder of the "
     "site, else ./runs."},
    {"DLRUN_CONFIG",
     "A folder with your own sites/, presets/ and hosts/. dlrun prefers its files to files of the "
     "same names in $XDG_CONFIG_HOME/dlrun (by default ~/.config/dlrun)."},
    {"DLRUN_LOG",
     "The log of dlrun, and of its agent and trainer in a job: off, info (as -v), debug (as -vv), "
     "or a level and a file, as in debug:/tmp/dlrun.log. dlrun logs to this file, or to standard "
     "error if no file is given. Agent and trainer always log to the folder debug of the run."},
    {"DLRUN_IMAGES",
     "The folder of the images that `dlrun container import` makes; the default is "
     "$XDG_CACHE_HOME/dlrun/images, else ~/.cache/dlrun/images."},
    {"XDG_STATE_HOME",
     "The folder that contains dlrun/runs, the index of your runs; the default is ~/.local/state."},
    {"SBATCH_ACCOUNT, SBATCH_PARTITION, SBATCH_QOS",
     "Defaults of resources.account, resources.partition and resources.qos. Ignored if dlrun is "
     "called inside a Slurm job."},
    {"SLURM_CONF",
     "The configuration file of Slurm. dlrun also passes SLURM_CLUSTERS to sbatch, and on a "
     "machine without munge SLURM_JWT, but no other variable SLURM_* or SBATCH_*."},
    {"NO_COLOR", "dlrun prints no colour, not even on a terminal."},
};

constexpr std::string_view kExitStatus[][2] = {
    {"0", "ok"},
    {"1", "dlrun itself failed (for example, a full disk)"},
    {"2", "wrong usage, or an invalid spec"},
    {"3", "Slurm or dlrun refused"},
    {"4", "the Slurm controller, the host of -H, a registry or a search program did not answer"},
    {"5", "the run failed"},
    {"6", "not found"},
    {"130", "interrupted, or you answered no to a question"},
    {"141", "the reader of the output is gone"},
};

/// Returns true if the command has an option with the same names.
[[nodiscard]] bool has_option(const CommandHelp& command, const OptionHelp& option) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [&option](const OptionHelp& one) { return one.names == option.names; });
}

[[nodiscard]] bool every_command_has(const CommandTable& table, const OptionHelp& option) {
  return std::all_of(table.commands.begin(), table.commands.end(),
                     [&option](const CommandHelp& command) { return has_option(command, option); });
}

[[nodiscard]] std::string item(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff_escaped(term), roff_escaped(text));
}

}  // namespace

std::string man_page(const CommandTable& table) {
  std::string text(kHead);
  for (const OptionHelp& option : table.options) {
    if (every_command_has(table, option)) text += item(option_term(option), option.help);
  }
  text += ".SH OPTIONS BEFORE THE COMMAND\n";
  for (const OptionHelp& option : table.options) {
    if (!every_command_has(table, option)) text += item(option_term(option), option.help);
  }
  text += ".SH COMMANDS\n";
  for (const CommandHelp& command : table.commands) {
    text +=
        fmt::format(".SS {}\n{}.\n", roff_escaped(synopsis(command)), roff_escaped(command.help));
    for (const OptionHelp& option : command.options) {
      // The options that all commands share are described above.
      if (!every_command_has(table, option)) text += item(option_term(option), option.help);
    }
  }
  text += ".SH KEYS\nThese are the keys of a spec.\n";
  text += ".B dlrun explain\n.I KEY\nexplains one key.\n";
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) continue;
    const KeyDescription description = describe_key(row);
    std::string about(row.help);
    about += fmt::format(" Type: {}{}.", description.type,
                         description.range.empty() ? "" : ", " + description.range);
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
