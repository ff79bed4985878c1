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
#include "launcher/spec/key_name.h"
#include "launcher/spec/yaml_document.h"
#include "launcher/view/rehearsal_text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileLimitBytes = 16U << 20U;
constexpr std::size_t kTextShownBytes = 256U << 10U;
constexpr std::size_t kLongestFactBytes = 16U << 10U;
constexpr std::size_t kMostKeys = 4096;
constexpr std::size_t kMostKeyLevels = 16;

/// Returns the text of a file; empty if the file is missing. Adds a problem to the report, and
/// returns an empty text, if the file cannot be read.
std::string text_or_problem(const std::filesystem::path& path, RunReport& report) {
  auto text = read_untrusted(path, kFileLimitBytes, Links::kRefuse);
  if (text) return std::move(*text);
  if (text.error().code != Errc::kNotFound) report.problems.push_back(text.error().message);
  return {};
}

std::string joined(const Json& list, std::string_view separator) {
  std::vector<std::string> items;
  if (list.is_array()) {
    for (const Json& one : list)
      items.push_back(one.is_string() ? one.get<std::string>() : json_read::dump(one));
  }
  return join(items, separator);
}

void add_fact(RunReport& report, std::string_view name, std::string value) {
  if (value.size() > kLongestFactBytes) value = value.substr(0, kLongestFactBytes) + "... (cut)";
  if (!value.empty()) report.background.emplace_back(name, std::move(value));
}

void add_predictions(RunReport& report) {
  auto texts = predictions_for(report.run.path);
  if (!texts) return;
  add_fact(report, "rehearsal", std::move(texts->rehearsal));
  add_fact(report, "predicted memory", std::move(texts->memory));
  add_fact(report, "predicted GPU", std::move(texts->gpu));
  add_fact(report, "predicted time", std::move(texts->time));
}

void add_provenance(RunReport& report) {
  const auto json =
      json_read::object_of(text_or_problem(report.run.path / "provenance.json", report));
  if (!json) return;
  const auto argv = json->find("argv");
  if (argv != json->end()) add_fact(report, "command line", joined(*argv, " "));
  const std::string user = json_read::text(*json, "user"), host = json_read::text(*json, "host");
  add_fact(report, "submitted by",
           user.empty() || host.empty() ? user + host : user + " on " + host);
  add_fact(report, "directory", json_read::text(*json, "directory"));
  if (const auto git = json->find("git"); git != json->end() && git->is_object()) {
    const std::string commit = json_read::text(*git, "commit");
    const bool is_dirty = std::filesystem::exists(report.run.path / "tree.patch");
    const std::string note = json_read::text(*git, "note");
    const std::string changes = is_dirty       ? "with changes (tree.patch)"
                                : note.empty() ? "clean"
                                               : fmt::format("changes unknown ({})", note);
    if (!commit.empty()) add_fact(report, "git commit", fmt::format("{}, {}", commit, changes));
  }
  add_fact(report, "repeats", json_read::text(*json, "repeats"));
  add_fact(report, "dlrun", json_read::text(*json, "dlrun"));
}

void add_surroundings(RunReport& report) {
  const auto json =
      json_read::object_of(text_or_problem(report.run.path / "surroundings.json", report));
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

/// Returns the size of the memory of a rank's GPUs, whether it is used or not: the largest size
/// among the ranks. Returns nullopt if no rank has reported a size.
std::optional<double> largest_gpu_memory_bytes(const std::optional<RankSnapshot>& ranks) {
  std::optional<double> most;
  if (!ranks) return most;
  for (const RankSample& row : ranks->rows) {
    if (row.gpu_total_bytes) most = std::max(most.value_or(0), *row.gpu_total_bytes);
  }
  return most;
}

/// Compares the requested with the used resources. Call it after the script, the record and the
/// ranks were read.
void add_use(RunReport& report) {
  if (report.status.job.cluster != kLocalCluster)
    report.requested = requested_resources(report.script);
  report.use = use_of(
      {report.history, report.status, report.requested, largest_gpu_memory_bytes(report.ranks)});
}

/// Returns a value as one line: a map as "{name: value, ...}", a list as "a, b". is_inner: the
/// value is inside another one, and a list keeps its brackets.
std::string value_text(const YamlDocument& yaml, YamlId id, bool is_inner = false) {
  const YamlNode& node = yaml.at(id);
  if (node.kind == YamlNode::Kind::kNull) return node.text;
  if (node.kind == YamlNode::Kind::kScalar) return node.text.empty() ? "\"\"" : node.text;
  std::vector<std::string> items;
  const bool is_map = node.kind == YamlNode::Kind::kMap;
  for (std::size_t at = 0; at < node.items.size(); at += is_map ? 2 : 1) {
    items.push_back(is_map ? yaml.at(node.items[at]).text + ": " +
                                 value_text(yaml, node.items[at + 1], true)
                           : value_text(yaml, node.items[at], true));
  }
  const std::string text = join(items, ", ");
  if (is_map) return "{" + text + "}";
  return is_inner || items.empty() ? "[" + text + "]" : text;
}

/// Adds the key at `path`, or the keys below it if it is a section.
void add_keys(const YamlDocument& yaml, YamlId id, const std::string& path,
              std::vector<std::pair<std::string, std::string>>& keys) {
  const YamlNode& node = yaml.at(id);
  if (node.kind != YamlNode::Kind::kMap || node.items.empty()) {
    if (keys.size() < kMostKeys) keys.emplace_back(path, value_text(yaml, id));
    return;
  }
  for (std::size_t at = 0; at + 1 < node.items.size(); at += 2) {
    const std::string& name = yaml.at(node.items[at]).text;
    add_keys(yaml, node.items[at + 1], path.empty() ? name : path + "." + name, keys);
  }
}

}  // namespace

void set_result_from_progress(RunReport& report) {
  const auto& progress = report.status.facts.record.progress;
  if (!report.result.empty() || !progress) return;
  if (progress->loss) report.result.emplace_back("loss", fmt::format("{:.6g}", *progress->loss));
  if (progress->accuracy)
    report.result.emplace_back("accuracy", fmt::format("{:.6g}", *progress->accuracy));
}

void insert_parameters(RunReport& report,
                       const std::vector<std::pair<std::string, std::string>>& parameters) {
  if (parameters.empty()) return;
  std::erase_if(report.keys, [](const auto& key) { return key.first == "launch.command"_key; });
  report.keys.insert(report.keys.begin(), parameters.begin(), parameters.end());
}

Result<std::vector<std::pair<std::string, std::string>>> flat_keys(std::string_view resolved_yaml) {
  // dlrun writes no anchors. Without them, all values together are no longer than the text.
  const YamlLimits limits{.levels = kMostKeyLevels, .anchors = 0};
  const auto yaml = parse_yaml(resolved_yaml, limits);
  if (!yaml)
    return fail(Errc::kInvalid, "resolved.yaml:{}:{}: {}", yaml.error().line, yaml.error().column,
                printable(yaml.error().message));
  std::vector<std::pair<std::string, std::string>> keys;
  if (yaml->at(yaml->root).kind == YamlNode::Kind::kMap) add_keys(*yaml, yaml->root, "", keys);
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
  if (report.history.unfinished_bytes() > 0)
    report.problems.push_back(
        fmt::format("events.jsonl ends in {} bytes that are no whole event, because its writer was "
                    "killed or is "
                    "writing now; these bytes are left out",
                    report.history.unfinished_bytes()));
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
  add_predictions(report);
  report.spec = text_or_problem(report.run.path / "resolved.yaml", report);
  report.script = text_or_problem(report.run.path / "job.sh", report);
  if (auto keys = flat_keys(report.spec)) {
    report.keys = std::move(*keys);
  } else if (!report.spec.empty()) {
    report.problems.push_back(keys.error().message);
  }
  add_use(report);
  for (std::string* text : {&report.spec, &report.script}) {
    if (text->size() > kTextShownBytes) *text = text->substr(0, kTextShownBytes) + "\n... (cut)";
  }
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
