// `dlrun diff`: shows the changes to a script since dlrun rendered it.

#include <algorithm>
#include <memory>

#include "cli/command_line.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/submit/rendered_script.h"

namespace dlrun {
namespace {

struct DiffOptions {
  std::string run_or_script;
};

/// Colours the lines like `diff --color`. Keeps tabs.
Text coloured_diff(std::string_view difference) {
  Text all;
  for (std::size_t number = 0; !difference.empty(); ++number) {
    const std::size_t end = std::min(difference.find('\n'), difference.size());
    const std::string_view line = difference.substr(0, end);
    const Style style = number < 2               ? Style::kBold
                        : line.starts_with("@@") ? Style::kCyan
                        : line.starts_with('+')  ? Style::kGreen
                        : line.starts_with('-')  ? Style::kRed
                                                 : Style::kNone;
    all.add("{}\n", Text::of_lines(line, style));
    difference.remove_prefix(std::min(end + 1, difference.size()));
  }
  return all;
}

Result<int> diff(Cli& cli, const DiffOptions& options) {
  using Kind = ScriptChanges::Kind;
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto changes, changes_of_script(cli, reporter, options.run_or_script));
  if (changes.kind == Kind::kNone) print_note(cli, "nothing was edited");
  if (changes.kind == Kind::kWithoutSpec)
    print_note(
        cli,
        "nothing was compared: dlrun rendered this script when it submitted the spec. Such "
        "a script does not contain its spec, and dlrun compares a script only with the spec in it");
  if (changes.kind == Kind::kScriptsOfPoints) {
    print_note(
        cli,
        "nothing was compared: dlrun rendered the scripts from spec.yaml, one for each point. The "
        "scripts do not contain their spec, so dlrun cannot render them again and compare");
  }
  print(cli, coloured_diff(changes.difference));
  return kExitOk;
}

}  // namespace

void add_diff(CLI::App& root, Action& action) {
  auto options = std::make_shared<DiffOptions>();
  Subcommand command(root, "diff",
                     "Show what was edited in a rendered script, before or after its submission");
  command.option("RUN", options->run_or_script, "A run, or a script that `dlrun render` wrote")
      .required();
  command.calls(diff, options, action);
}

}  // namespace dlrun
