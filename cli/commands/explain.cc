// `dlrun explain`: describes a key, or lists a spec's values and the origin of each.

#include "launcher/help/explain.h"

#include <filesystem>
#include <memory>

#include "cli/command_line.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "cli/terminal/terminal_reporter.h"
#include "launcher/spec/key_help.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/key_reference.h"

namespace dlrun {
namespace {

/// Maximum number of characters of a value in the table. A longer value is cut and gets dots;
/// --json prints the whole value.
constexpr std::size_t kValueLimit = 72;

struct ExplainOptions {
  SpecOptions spec;
  bool json = false, markdown = false;
};

int explain_keys(const Cli& cli, const std::vector<const KeyRow*>& rows, bool json) {
  if (json) {
    print_json(keys_json(rows));
  } else if (rows.size() == 1) {
    constexpr std::size_t kLabelWidth = 10;
    print(cli, "{}\n  {}\n\n", styled(Style::kBold, rows[0]->path), rows[0]->help);
    print(cli, labelled(key_lines(*rows[0]), kLabelWidth));
    if (rows[0]->path == "launch.preset"_key) {
      print(cli, "\n");
      print(cli, table(presets_table(config_folders(cli))));
    }
  } else {
    print(cli, table(keys_table(rows)));
  }
  return kExitOk;
}

Result<int> explain_spec(Cli& cli, const ExplainOptions& options) {
  TerminalReporter reporter(cli);
  DLRUN_TRY_ASSIGN(const auto prepared,
                   prepare_experiment(cli, reporter, options.spec, Target::kSlurm));
  const auto values = explain_values(prepared.loaded, prepared.plan);
  if (options.json) {
    print_json(values_json(values));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> lines{{"KEY", "VALUE", "ORIGIN"}};
  for (const ExplainedValue& one : values)
    lines.push_back({one.key, shortened(one.text, kValueLimit), one.origin_text});
  print(cli, table(lines));
  return kExitOk;
}

Result<int> explain(Cli& cli, const ExplainOptions& options) {
  const std::string& what = options.spec.file;
  if (options.markdown) {
    if (options.json || !what.empty())
      return fail(Errc::kUsage, "--markdown prints the reference of all keys; give it alone");
    print_document(key_reference_markdown());
    return kExitOk;
  }
  if (what.empty()) return explain_keys(cli, keys_at_or_below(""), options.json);
  if (const auto rows = keys_at_or_below(what); !rows.empty())
    return explain_keys(cli, rows, options.json);
  std::error_code error;
  const bool is_file = what.find('/') != std::string::npos || what.ends_with(".yaml") ||
                       what.ends_with(".yml") ||
                       std::filesystem::exists(cli.current_dir / what, error);
  if (!is_file) return fail(Errc::kUsage, "{}", no_such_key_message(what));
  return explain_spec(cli, options);
}

}  // namespace

void add_explain(CLI::App& root, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  Subcommand command(root, "explain",
                     "Describe a key, or list every value of a spec and its origin");
  command.option("KEY|SPEC", options->spec.file,
                 "A key such as resources.nodes, a section, or a spec file (default: all keys)");
  add_set_option(command, options->spec);
  command.flag("--json", options->json, "Print a JSON array");
  command.flag("--markdown", options->markdown, "Print the reference of all keys, docs/keys.md");
  command.calls(explain, options, action);
}

}  // namespace dlrun
