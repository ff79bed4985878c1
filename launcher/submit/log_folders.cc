#include "launcher/submit/log_folders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "common/files.h"
#include "common/quoting.h"
#include "common/text.h"
#include "common/unix_accounts.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/runs/log_file.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// The source of a path: the spec's key, or a line of the script.
struct PathSource {
  std::string name;  ///< the key, or sbatch's option
  Origin where;
  SourceLine line;
};

std::string line_at(std::string_view text, std::size_t line) {
  const auto lines = split(text, '\n');
  return line >= 1 && line <= lines.size() ? std::string(lines[line - 1]) : std::string();
}

PathSource source_of_path(const ScriptForLogCheck& script, const std::string& key,
                          std::string_view option, std::size_t line) {
  if (script.spec != nullptr) {
    const auto origin = script.spec->spec.origins.find(key);
    const Origin where = origin != script.spec->spec.origins.end() ? origin->second : Origin{};
    return {key, where, source_line_of(*script.spec, where)};
  }
  const int number = static_cast<int>(line);
  return {std::string(option),
          {Origin::Kind::kFile, script.file, number, 1},
          line_at(script.text, line)};
}

/// Replaces %u by the user's name.
std::string with_user_name(std::string_view pattern) {
  const auto user = unix_account_of(::getuid());
  std::string filled;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    filled += pattern[i];
    if (pattern[i] != '%' || i + 1 == pattern.size()) continue;
    filled += pattern[++i];
    if (pattern[i] != 'u' || !user) continue;
    filled.resize(filled.size() - 2);
    filled += escaped_for_sbatch_pattern(user->name);
  }
  return filled;
}

/// Returns the letter of the first pattern that only Slurm can replace, without the pattern's
/// width: 'j' for "/x/%4j"; '%' if the folder ends within a pattern; 0 if there is none.
char unfilled_letter(std::string_view folder) {
  for (std::size_t i = 0; i < folder.size(); ++i) {
    if (folder[i] != '%') continue;
    if (++i < folder.size() && folder[i] == '%') continue;
    while (i < folder.size() && folder[i] >= '0' && folder[i] <= '9') ++i;
    return i < folder.size() ? folder[i] : '%';
  }
  return 0;
}

struct Obstacle {
  std::filesystem::path at;
  int error = 0;
};

/// Returns the obstacle that keeps a missing folder from being created; nullopt if the folder
/// exists or can be created.
std::optional<Obstacle> find_obstacle(const std::filesystem::path& folder) {
  auto above = folder;
  struct stat info {};
  while (::stat(above.c_str(), &info) != 0) {
    if (errno != ENOENT || above == above.parent_path()) return Obstacle{above, errno};
    above = above.parent_path();
  }
  if (!S_ISDIR(info.st_mode)) return Obstacle{above, ENOTDIR};
  if (above == folder || ::access(above.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return Obstacle{above, errno};
}

/// Checks one folder and appends the findings to `result`. pattern: the folder as sbatch reads it.
void check_folder(const PathSource& source, const std::string& pattern, LogFolderFindings& result) {
  const auto add = [&](Diagnostic::Severity severity, const std::string& message) {
    result.problems.push_back({severity, source.where, source.name + ": " + message, source.line});
  };
  constexpr std::string_view kConsequence =
      "Slurm does not create it, and the job would end before its script begins";
  if (const char letter = unfilled_letter(pattern); letter != 0) {
    constexpr std::string_view kJobIdLetters = "jJA";
    const bool may_exist_before_job = kJobIdLetters.find(letter) == std::string_view::npos;
    add(may_exist_before_job ? Diagnostic::Severity::kWarning : Diagnostic::Severity::kError,
        fmt::format("only Slurm can fill in the %{} of the folder '{}'; {}. {}", letter,
                    printable(pattern), kConsequence,
                    may_exist_before_job
                        ? "Create the folders before the job starts, or put the pattern "
                          "into the file's name"
                        : "Put the pattern into the file's name"));
    return;
  }
  const std::filesystem::path folder =
      expand_output_pattern(pattern, "", "").value_or(pattern);  // only %% is left to replace
  const std::string shown = printable(folder.string());
  const auto obstacle = find_obstacle(folder);
  std::error_code error;
  if (!obstacle) {
    const bool is_there = std::filesystem::exists(folder, error);
    const bool is_listed =
        std::find(result.missing.begin(), result.missing.end(), folder) != result.missing.end();
    if (!is_there && !is_listed) result.missing.push_back(folder);
    return;
  }
  // An obstacle at the root means that this machine lacks the whole file system.
  if (obstacle->at == obstacle->at.root_path()) {
    add(Diagnostic::Severity::kWarning,
        fmt::format("the folder '{}' does not exist here; unless the nodes have it, the job ends "
                    "before its script begins",
                    shown));
    return;
  }
  add(Diagnostic::Severity::kError,
      fmt::format("the folder '{}' cannot be made: {}: {}; {}", shown,
                  printable(obstacle->at.string()), errno_text(obstacle->error), kConsequence));
}

}  // namespace

LogFolderFindings check_log_folders(const ScriptForLogCheck& script) {
  struct Row {
    const char *key, *long_name, *short_name;
  };
  constexpr std::array<Row, 2> kRows{
      {{"resources.output"_key, "--output", "-o"}, {"resources.error"_key, "--error", "-e"}}};
  LogFolderFindings result;
  const std::string name = sbatch_value(script.text, "--job-name", "-J").value_or(script.job_name);
  for (const Row& row : kRows) {
    const auto given = sbatch_option(script.text, row.long_name, row.short_name);
    if (!given || (row.key == kRows[0].key && !script.keeps_user_output)) continue;
    const std::filesystem::path pattern = absolute_pattern(script.start_folder, given->value, name);
    const std::string folder = with_user_name(pattern.parent_path().string());
    check_folder(source_of_path(script, row.key, row.long_name, given->line), folder, result);
  }
  return result;
}

Result<> report_log_folder_findings(Reporter& reporter, const LogFolderFindings& findings) {
  const bool is_refused = std::any_of(
      findings.problems.begin(), findings.problems.end(),
      [](const Diagnostic& one) { return one.severity == Diagnostic::Severity::kError; });
  if (is_refused) return fail(Errc::kInvalid, findings.problems);
  reporter.diagnostics(findings.problems);
  return {};
}

Result<> make_missing_log_folders(const LogFolderFindings& findings) {
  for (const auto& folder : findings.missing) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
      return fail(Errc::kIo, "cannot make the folder of the job's log, {}: {}",
                  printable(folder.string()), error.message());
  }
  return {};
}

}  // namespace dlrun
