// Reads the files that the page shows.

#include "launcher/report/run_report.h"

#include <algorithm>
#include <filesystem>

#include "common/bounded_json.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/last_words.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileLimitBytes = 16U << 20U;
constexpr std::size_t kTextShownBytes = 256U << 10U;
constexpr std::size_t kLongestFact = 16U << 10U;
constexpr std::size_t kMostKeys = 4096;
constexpr std::size_t kDeepestKey = 16;

std::string optional_text(const std::filesystem::path& path, RunReport& report) {
  auto text = read_untrusted(path, kFileLimitBytes, Links::kRefuse);
  if (text) return std::move(*text);
  if (text.error().code != Errc::kNotFound) report.problems.push_back(text.error().message);
  return {};
}

std::string joined(const Json& list, std::string_view separator) {
  std::vector<std::string> words;
  if (list.is_array()) {
    for (const Json& one : list)
      words.push_back(one.is_string() ? one.get<std::string>() : json_read::dump(one));
  }
  return join(words, separator);
}

void add_fact(RunReport& report, std::string_view name, std::string value) {
  if (value.size() > kLongestFact) value = value.substr(0, kLongestFact) + "... (cut)";
  if (!value.empty()) report.facts.emplace_back(name, std::move(value));
}

void add_provenance(RunReport& report) {
  const auto json =
      json_read::object_of(optional_text(report.run.path / "provenance.json", report));
  if (!json) return;
  const auto argv = json->find("argv");
  if (argv != json->end()) add_fact(report, "command line", joined(*argv, " "));
  const std::string user = json_read::text(*json, "user"), host = json_read::text(*json, "host");
  add_fact(report, "submitted by",
           user.empty() || host.empty() ? user + host : user + " on " + host);
  add_fact(report, "directory", json_read::text(*json, "directory"));
  if (const auto git = json->find("git"); git != json->end() && git->is_object()) {
    std::string commit = json_read::text(*git, "commit");
    const bool is_dirty = std::filesystem::exists(report.run.path / "tree.patch");
    if (!commit.empty())
      add_fact(report, "git commit",
               commit + (is_dirty ? ", with changes (tree.patch)" : ", clean"));
  }
  add_fact(report, "repeats", json_read::text(*json, "repeats"));
  add_fact(report, "dlrun", json_read::text(*json, "dlrun"));
}

void add_surroundings(RunReport& report) {
  const auto json =
      json_read::object_of(optional_text(report.run.path / "surroundings.json", report));
  if (!json) return;
  add_fact(report, "Slurm", json_read::text(*json, "slurm"));
  add_fact(report, "cluster", json_read::text(*json, "cluster"));
  add_fact(report, "partition", json_read::text(*json, "partition"));
  if (const auto modules = json->find("modules"); modules != json->end())
    add_fact(report, "modules", joined(*modules, " "));
  for (const char* kind : {"conda", "venv"}) {
    const auto found = json->find(kind);
    if (found != json->end() && found->is_object())
      add_fact(report, kind, json_read::text(*found, "prefix"));
  }
}

/// Returns the value in a line of resolved.yaml without the comment after it. A '#' inside quotes
/// starts no comment.
std::string_view without_comment(std::string_view value) {
  char quote = 0;
  for (std::size_t at = 0; at < value.size(); ++at) {
    const char c = value[at];
    if (quote != 0) {
      if (c == '\\' && quote == '"') {
        ++at;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && (at == 0 || value[at - 1] == ' ')) {
      return trim(value.substr(0, at));
    }
  }
  return trim(value);
}

/// Returns a value of resolved.yaml without the quotes and brackets of YAML.
std::string unquoted(std::string_view value) {
  if (value.size() > 2 && value.front() == '\'' && value.back() == '\'') {
    std::string text;
    for (std::size_t at = 1; at + 1 < value.size(); ++at) {
      text += value[at];
      if (value[at] == '\'' && value[at + 1] == '\'') ++at;
    }
    return text;
  }
  if (!value.starts_with('"') && !value.starts_with('[')) return std::string(value);
  const Json json = parse_json<Json>(value);
  if (json.is_string() && !json.get_ref<const std::string&>().empty())
    return json.get<std::string>();
  return json.is_array() && !json.empty() ? joined(json, ", ") : std::string(value);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> flat_keys(const std::string& resolved_yaml) {
  std::vector<std::pair<std::string, std::string>> keys;
  std::vector<std::pair<std::size_t, std::string>> above;  // indentation and name
  for (const auto line : split(resolved_yaml, '\n')) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || line[indent] == '#') continue;
    if (keys.size() == kMostKeys) break;
    const auto text = line.substr(indent);
    if (text.starts_with("- ") && !keys.empty()) {
      std::string& value = keys.back().second;
      value += (value.empty() ? "" : ", ") + unquoted(without_comment(text.substr(2)));
      continue;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || (colon + 1 < text.size() && text[colon + 1] != ' '))
      continue;
    while (!above.empty() && above.back().first >= indent) above.pop_back();
    std::string path;
    for (const auto& [column, name] : above) path += name + ".";
    const std::string name(text.substr(0, colon));
    auto value = unquoted(without_comment(text.substr(colon + 1)));
    if (above.size() < kDeepestKey) above.emplace_back(indent, name);
    keys.emplace_back(path + name, std::move(value));
  }
  // A section has no value of its own.
  std::erase_if(keys, [&](const auto& key) {
    return key.second.empty() && std::any_of(keys.begin(), keys.end(), [&](const auto& other) {
             return other.first.starts_with(key.first + ".");
           });
  });
  return keys;
}

RunReport read_report(IndexEntry run, RunStatus status) {
  RunReport report;
  report.run = std::move(run);
  report.status = std::move(status);
  report.label = report.run.id;
  report.last_words = last_words(report.run.path, report.status);
  for (;;) {
    const auto more = report.history.read_more(report.run.path);
    if (!more) report.problems.push_back(more.error().message);
    if (!more || !*more) break;
  }
  if (report.history.damaged_lines() > 0)
    report.problems.push_back(fmt::format("{} damaged lines of events.jsonl are left out",
                                          report.history.damaged_lines()));
  if (const auto bytes = report.history.record().left_out_bytes; bytes > 0)
    report.problems.push_back(
        fmt::format("events.jsonl is too large to be read whole: {} MiB in its middle are left out",
                    bytes >> 20U));
  if (report.history.torn_bytes() > 0)
    report.problems.push_back(fmt::format(
        "events.jsonl ends in {} bytes that are no whole event: its writer was killed, or writes "
        "just now; they are left out",
        report.history.torn_bytes()));
  if (auto metrics = read_metrics(report.run.path)) {
    report.metrics = std::move(*metrics);
  } else {
    report.problems.push_back(metrics.error().message);
  }
  if (auto ranks = read_ranks(report.run.path)) {
    report.ranks = std::move(*ranks);
  } else {
    report.problems.push_back(ranks.error().message);
  }
  add_provenance(report);
  add_surroundings(report);
  report.spec = optional_text(report.run.path / "resolved.yaml", report);
  report.script = optional_text(report.run.path / "job.sh", report);
  for (std::string* text : {&report.spec, &report.script}) {
    if (text->size() > kTextShownBytes) *text = text->substr(0, kTextShownBytes) + "\n... (cut)";
  }
  report.keys = flat_keys(report.spec);
  if (const auto result = json_read::object_of(report.status.facts.record.result)) {
    for (const auto& [name, value] : result->items()) {
      report.result.emplace_back(name, value.is_string() ? value.get<std::string>()
                                       : value.is_number_float()
                                           ? fmt::format("{:.6g}", value.get<double>())
                                           : json_read::dump(value));
    }
  }
  return report;
}

}  // namespace dlrun
