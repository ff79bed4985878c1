#include "cli/script_file.h"

#include <algorithm>
#include <vector>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestName = 64;

std::string slug(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, kLongestName)) {
    const bool fits =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    name += fits ? c : '-';
  }
  while (name.starts_with('.') || name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? "job" : name;
}

/// The word behind --runs in the line that starts the leader; only a bare word, as render writes all but odd paths.
std::string runs_of(std::string_view text) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with("exec \"$dlrun_agent\" lead ")) continue;
    const auto words = sbatch_words_of(line);
    const auto at = std::find(words.begin(), words.end(), "--runs");
    if (at != words.end() && at + 1 != words.end() && (at + 1)->starts_with('/')) return *(at + 1);
  }
  return {};
}

}  // namespace

bool is_script(std::string_view text) {
  return text.starts_with("#!");
}

std::filesystem::path starts_in(std::string_view text, const std::filesystem::path& folder) {
  const auto chdir = sbatch_value(text, "--chdir", "-D");
  return chdir ? (folder / *chdir).lexically_normal() : folder;
}

ScriptFile read_script(std::string_view text, std::string_view file_name) {
  ScriptFile script;
  const auto stem = file_name.substr(0, file_name.rfind('.'));
  const auto given = sbatch_value(text, "--job-name", "-J");
  script.name = slug(given.value_or(std::string(stem)));
  script.job_name = given.value_or("job.sh");
  script.runs_dir = runs_of(text);
  script.output = sbatch_value(text, "--output", "-o");
  if (script.output && !script.runs_dir.empty() &&
      *script.output == fmt::format("{}/{}-%j.out", script.runs_dir, script.name)) {
    script.output.reset();
  }
  return script;
}

}  // namespace dlrun
