#include "launcher/submit/script_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <strings.h>

#include "common/chain_limits.h"
#include "common/text.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_resources.h"
#include "launcher/runs/carried_spec.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestName = 64;  ///< characters

/// Makes a run's name from a text: replaces each character that a name cannot have by '-'.
std::string slug(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, kLongestName)) {
    const bool fits = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    name += fits ? c : '-';
  }
  while (name.starts_with('.') || name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? "job" : name;
}

/// Returns true for the line of a rendered script that starts lead.
bool starts_lead(std::string_view line) {
  return line.starts_with(fmt::format("exec {} ", kLeadCommand));
}

/// Returns true for a rendered script whose lead starts components. The parts of its heterogeneous
/// job are one run.
bool starts_components(std::string_view text) {
  const auto lines = split(text, '\n');
  return std::any_of(lines.begin(), lines.end(), starts_lead) &&
         text.find("\"${dlrun_component_") != std::string_view::npos;
}

/// Returns the value of --runs in the line that starts lead. Returns "" if there is none, or if the
/// path is quoted: dlrun quotes only unusual paths.
std::string runs_dir_in(std::string_view text) {
  for (const auto line : split(text, '\n')) {
    if (!starts_lead(line)) continue;
    const auto words = words_of_line(line);
    const auto at = std::find(words.begin(), words.end(), "--runs");
    if (at != words.end() && at + 1 != words.end() && (at + 1)->starts_with('/')) return *(at + 1);
  }
  return {};
}

/// Returns the names of the secrets, each once: the names in the lines `--secret NAME` (an option
/// of the rank agent), `--webhook NAME` and `--mlflow-secret NAME` (options of lead). Each
/// component has its own lines. Somebody who edited the script may have added or removed lines.
std::vector<std::string> secrets_in(std::string_view text) {
  std::vector<std::string> names;
  for (const auto line : split(text, '\n')) {
    const auto trimmed = trim(line);
    for (const std::string_view option : {"--secret ", "--webhook ", "--mlflow-secret "}) {
      if (!trimmed.starts_with(option)) continue;
      const auto rest = trim(trimmed.substr(option.size()));
      std::string name(rest.substr(0, rest.find_first_of(" \t#")));
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  }
  return names;
}

/// Returns the number in the line `--chain N` of the shell array `dlrun_lead`, which has lead's
/// options in a rendered script. Returns 0 if there is no such line, or if retry.chain does not
/// allow N. Other lines may belong to programs of the user, and must not queue more jobs.
std::int64_t chain_jobs_in(std::string_view text) {
  constexpr std::string_view kOption = "--chain ";
  bool is_lead_option = false;
  for (const auto line : split(text, '\n')) {
    if (line == "dlrun_lead=(" || line == ")") is_lead_option = line != ")";
    const auto trimmed = trim(line);
    if (!is_lead_option || !trimmed.starts_with(kOption)) continue;
    const auto rest = trim(trimmed.substr(kOption.size()));
    const auto jobs = parse_int(rest.substr(0, rest.find_first_of(" \t#"))).value_or(0);
    return jobs >= kFewestChainJobs && jobs <= kMostChainJobs ? jobs : 0;
  }
  return 0;
}

/// Returns the absolute paths of dlrun-trainer in a script. Ignores comment lines. A path ends at
/// its quote or, without quotes, at a space.
std::vector<std::string> trainers_in(std::string_view script) {
  constexpr std::string_view kName = "/dlrun-trainer", kEnds = " \t'\"";
  std::vector<std::string> paths;
  for (const std::string_view line : split(script, '\n')) {
    if (trim(line).starts_with('#')) continue;
    for (auto at = line.find(kName); at != line.npos; at = line.find(kName, at + 1)) {
      const auto end = at + kName.size();
      const char after = end < line.size() ? line[end] : ' ';
      if (kEnds.find(after) == kEnds.npos) continue;
      const bool is_quoted = after == '\'' || after == '"';
      const auto before = is_quoted ? line.rfind(after, at) : line.find_last_of(kEnds, at);
      const auto start = before == line.npos ? 0 : before + 1;
      if (line[start] == '/') paths.emplace_back(line.substr(start, end - start));
    }
  }
  return paths;
}

/// Returns true if the job needs the environment variables that dlrun sets: the run, the token, the
/// path of the secrets.
bool needs_run_variables(std::string_view text) {
  if (carried_spec(text)) return true;
  const auto lines = split(text, '\n');
  return std::any_of(lines.begin(), lines.end(), starts_lead);
}

/// Returns true if the value of --export contains ALL, alone or in a list, as sbatch reads it.
bool exports_all(std::string_view value) {
  const auto names = split(value, ',');
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return ::strcasecmp(std::string(name).c_str(), "ALL") == 0;
  });
}

}  // namespace

bool is_script(std::string_view text) {
  return text.starts_with("#!");
}

std::filesystem::path start_folder(const ScriptRequests& requests,
                                   const std::filesystem::path& folder) {
  return requests.chdir ? (folder / *requests.chdir).lexically_normal() : folder;
}

ScriptRequests requests_of_plan(const LaunchPlan& plan) {
  const auto value_of = [&](std::string_view option) -> std::optional<std::string> {
    for (const auto& directive : plan.directives) {
      if (directive.option == option) return directive.value;
    }
    return std::nullopt;
  };
  ScriptRequests requests;
  requests.name = plan.name;
  requests.job_name = value_of("--job-name").value_or(plan.name);
  requests.is_named = true;
  if (plan.is_output_given) requests.output = value_of("--output");
  requests.error = value_of("--error");
  requests.runs_dir = plan.runs_dir;
  requests.clusters = plan.clusters;
  requests.comment = value_of("--comment");
  for (const SecretSource& secret : plan.secrets) requests.secrets.push_back(secret.name);
  for (const std::string& name : plan.lead_secrets) {
    if (std::find(requests.secrets.begin(), requests.secrets.end(), name) == requests.secrets.end())
      requests.secrets.push_back(name);
  }
  for (const PlannedOption& option : plan.lead_options) {
    if (option.option == "--chain")
      requests.chain_job_count = parse_int(option.value.value_or("")).value_or(0);
  }
  requests.requested = plan.requested;
  return requests;
}

ScriptRequests parse_script_requests(std::string_view text, std::string_view file_name) {
  ScriptRequests requests;
  const auto stem = file_name.substr(0, file_name.rfind('.'));
  auto given = sbatch_value(text, "--job-name", "-J");
  if (const auto pbs_name = pbs_option(text, "-N"); pbs_name && !given) given = pbs_name->value;
  requests.is_named = given.has_value();
  requests.name = slug(given.value_or(std::string(stem)));
  requests.job_name = given.value_or(requests.name);
  requests.runs_dir = runs_dir_in(text);
  requests.output = sbatch_value(text, "--output", "-o");
  if (requests.output && !requests.runs_dir.empty() &&
      *requests.output == fmt::format("{}/{}-%j.out", requests.runs_dir, requests.name)) {
    requests.output.reset();
  }
  requests.error = sbatch_value(text, "--error", "-e");
  requests.chdir = sbatch_value(text, "--chdir", "-D");
  requests.clusters = sbatch_value(text, "--clusters", "-M");
  requests.comment = sbatch_value(text, "--comment", "--comment");
  requests.dependency = sbatch_value(text, "--dependency", "-d");
  requests.secrets = secrets_in(text);
  requests.chain_job_count = chain_jobs_in(text);
  requests.trainers = trainers_in(text);
  requests.requested = requested_of_script(text);
  return requests;
}

std::vector<std::string> refused_option_messages(std::string_view text) {
  std::vector<std::pair<std::size_t, std::string>> found;
  const auto refuse = [&](std::size_t line, std::string what) {
    found.emplace_back(line, fmt::format("{}: {}", line, what));
  };
  const auto refuse_array = [&](const ScriptOption& array, std::string_view given) {
    refuse(array.line,
           fmt::format(
               "{}{} makes several jobs, and a run is the record of one. Remove "
               "the option, and use a spec with `sweep`: each point of a sweep is a run. Plain "
               "`sbatch` accepts the script as it is",
               given, printable(array.value)));
  };
  if (const auto array = sbatch_option(text, "--array", "-a")) refuse_array(*array, "--array=");
  for (const char* flag : {"-t", "-J"}) {
    if (const auto array = pbs_option(text, flag))
      refuse_array(*array, fmt::format("#PBS {} ", flag));
  }
  if (const auto line = line_of_part_separator(text); line && !starts_components(text)) {
    refuse(*line,
           "a heterogeneous job is several jobs, and a run is the record of one. Use a spec "
           "with `components`, which dlrun starts as one run. Plain `sbatch` accepts the script as "
           "it is");
  }
  if (const auto line = line_of_flag(text, "--wait", "-W"))
    refuse(*line,
           "--wait cannot be given: use dlrun submit --watch, which shows the output meanwhile");
  if (const auto line = line_of_flag(text, "--test-only", ""))
    refuse(*line, "--test-only cannot be given: it submits nothing; use dlrun submit --test-only");
  if (needs_run_variables(text)) {
    if (const auto names = sbatch_option(text, "--export", "");
        names && !exports_all(names->value)) {
      refuse(names->line,
             fmt::format("--export={} cannot be given: it removes the variables that identify the "
                         "run, and the secrets, from the job's environment. Set variables with "
                         "environment.vars; remove the option, or let it begin with ALL",
                         printable(names->value)));
    }
    if (const auto file = sbatch_option(text, "--export-file", "")) {
      refuse(
          file->line,
          "--export-file cannot be given: it removes the variables that identify the run, and the "
          "secrets, from the job's environment. Set variables with environment.vars; remove the "
          "option");
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> lines;
  for (auto& [line, what] : found) lines.push_back(std::move(what));
  return lines;
}

}  // namespace dlrun
