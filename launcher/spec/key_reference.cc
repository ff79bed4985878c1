#include "launcher/spec/key_reference.h"

#include <fmt/format.h>

#include "launcher/spec/key_help.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

constexpr std::string_view kHead =
    R"(<!-- Made by `dlrun explain --markdown` from the key table; a test checks this. -->
# Keys of a spec

This page lists every key of a spec. `dlrun explain KEY` prints the same text in a terminal;
`dlrun schema` prints a JSON Schema of all keys for editors. dlrun refuses a key that it does not
support yet, and never ignores it.

- A relative path starts at the folder of the file that contains it, or with `--set` at the current
  folder, unless the key says otherwise. `~` is the home directory.
- At submission, dlrun replaces `${NAME}` in any value by the variable NAME of your environment. A
  variable that is not set is an error. `$${` is a literal `${`.
- `key: null` removes the value that a weaker source gives, such as the base or the site. An empty
  `key:` does the same, but dlrun warns about it. `section: null` removes the whole section. An
  empty `section:` changes nothing, and dlrun warns about it.
- A value can stand for a section: `environment: {modules: [CUDA]}` sets `environment.modules.load`,
  `environment: {conda: NAME}` sets `environment.conda.name`, `train: {optimizer: NAME}` sets
  `train.optimizer.name`, `train: {data: DIR}` sets `train.data.path`, and `health: {known_bad: 7d}`
  sets `health.known_bad.for`. The same holds for `environment.uv`, `environment.pixi`,
  `environment.uenv` and `profile`, as the keys below say.
- With `base: FILE` a spec inherits from FILE: maps merge, lists and values of the spec replace
  those of the base. The base may have a base of its own.
- `--set KEY=VALUE` overrides any key; `--set environment.vars.NAME=VALUE` overrides one entry of a
  map.
- The origins of a value, strongest first, are: the point of a sweep, `--set`, the spec, its base,
  your environment (`SBATCH_ACCOUNT`, `SBATCH_PARTITION`, `SBATCH_QOS`; not inside a Slurm job), the
  site's defaults for the partition, the site's other defaults, the preset (which may set
  `resources.tasks_per_node`). `dlrun explain exp.yaml` lists every effective value and its origin.
)";

/// Returns the heading above `row`, which is the first row of its section. section: the name of the
/// section; empty if the row is in none.
[[nodiscard]] std::string heading_of(const KeyRow& row, std::string_view section) {
  if (!section.empty()) return fmt::format("`{}`", section);
  if (row.path == "slurm"_key) return "Other options of sbatch";
  if (row.path == "components"_key) return "Several programs";
  if (row.path == "stage"_key) return "Data on the nodes";
  return "The run";
}

}  // namespace

std::string key_reference_markdown() {
  std::string text(kHead), unsupported;
  std::string_view section = "-";  // no section, so that the first row gets a heading
  for (const KeyRow& row : spec_keys()) {
    if (!row.is_supported()) {
      unsupported += fmt::format("{}`{}`", unsupported.empty() ? "" : ", ", row.path);
      continue;
    }
    const std::string_view top = row.path.substr(0, row.path.find('.'));
    const std::string_view row_section = top == row.path ? "" : top;
    if (row_section != section) {
      section = row_section;
      text += fmt::format("\n## {}\n", heading_of(row, section));
    }
    const KeyDescription description = describe_key(row);
    text += fmt::format("\n**`{}`** {}  \n{}", row.path, row.help, description.type);
    if (!description.range.empty()) text += fmt::format(" · {}", description.range);
    if (!row.fallback.empty()) text += fmt::format(" · default: {}", row.fallback);
    if (!description.makes.empty()) text += fmt::format(" · makes `{}`", description.makes);
    text += fmt::format(" · `{}`\n", description.example);
  }
  if (!unsupported.empty()) text += fmt::format("\n## Not supported yet\n\n{}.\n", unsupported);
  return text;
}

}  // namespace dlrun
