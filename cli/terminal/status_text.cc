#include "cli/terminal/status_text.h"

#include <filesystem>
#include <vector>

#include "cli/terminal/autopsy_text.h"
#include "cli/terminal/print.h"
#include "cli/terminal/state_and_cost.h"
#include "common/number_ranges.h"
#include "common/text.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/rehearsal.h"

namespace dlrun {
namespace {

/// Builds the lines, each a label and a value.
class Lines {
 public:
  explicit Lines(Text title) : text_(std::move(title)) {}
  /// Adds a line. Does nothing if the value is empty.
  void add(std::string_view label, std::string_view value, Style style = Style::kNone) {
    if (!value.empty()) text_.add("  {:<10}{}\n", label, styled(style, value));
  }
  /// Adds several lines under one label.
  void add_all(std::string_view label, const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) add(i == 0 ? label : "", values[i]);
  }
  [[nodiscard]] Text& text() { return text_; }

 private:
  Text text_;
};

/// Returns the jobs of the run's chain (retry.chain): "job 2 of 3: 41, 42, 43"; empty: no chain.
std::string chain_text(const RunStatus& status) {
  const auto jobs = chain_jobs_of(status.facts);
  if (jobs.empty()) return {};
  std::vector<std::string> ids;
  std::size_t present = 0;
  for (const JobId& job : jobs) {
    ids.push_back(job.id);
    if (job.id == status.job.id) present = ids.size();
  }
  return fmt::format("job {} of {}: {}", present, jobs.size(), join(ids, ", "));
}

void add_state(Lines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunFacts& facts = status.facts;
  const char* const known = !status.is_last_known    ? ""
                            : is_unreachable(status) ? "controller unreachable; last known: "
                                                     : "last known: ";
  Text& text = lines.text();
  text.add("  {:<10}{}{}", "state", known, styled(style_of(status.state), word(status.state)));
  if (!status.job.id.empty())
    text.add("  ({} {})", status.job.cluster == kLocalCluster ? "this machine," : "job",
             status.job.id);
  text.add("\n");
  lines.add("chain", chain_text(status));
  if (facts.foreign && !status.is_last_known) lines.add("", describe(*facts.foreign));
  lines.add("", status.detail);
  if (status.sweep && status.sweep->not_submitted > 0 && !facts.foreign)
    lines.add(
        "", fmt::format("`dlrun resubmit {}` submits the points that were not submitted", run.id));
}

void add_progress(Lines& lines, const RunFacts& facts) {
  const RunRecord& record = facts.record;
  const std::string nodes = nodes_of(facts);
  if (record.has_events || !nodes.empty()) {
    std::string place = nodes;
    if (record.ranks > 0)
      place += fmt::format("{}{} rank{}", place.empty() ? "" : ", ", record.ranks,
                           record.ranks == 1 ? "" : "s");
    lines.add("nodes", place);
  }
  lines.add_all("component", component_states(record));
  lines.add("attempt", attempt_text(record));
  if (record.progress && record.result.empty()) {
    const std::string since = age(record.progress->time);
    lines.add("progress",
              progress_text(*record.progress) +
                  (record.ended || since.empty() ? "" : fmt::format("  ({} ago)", since)));
  }
  lines.add("result", result_text(record.result));
}

void add_failure(Lines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  if (record.first_failed) lines.add("failed", describe(*record.first_failed), Style::kRed);
  lines.add_all("output", last_words(run.path, status));
  if (record.autopsy) {
    lines.add_all("autopsy", autopsy_lines(*record.autopsy));
    lines.add("stacks",
              (run.path / "autopsy" / fmt::format("attempt-{}", record.autopsy->attempt)).string());
  }
  if (!record.missing.empty()) {
    lines.add("missing", fmt::format("{} {}", record.missing.size() == 1 ? "rank" : "ranks",
                                     number_ranges(record.missing)));
  }
}

void add_warnings(Lines& lines, const RunRecord& record) {
  for (const auto& warning : record.warnings) {
    lines.add("warning",
              warning.message + (warning.host.empty() ? "" : fmt::format(" ({})", warning.host)));
  }
  if (record.damaged_lines > 0)
    lines.add("warning",
              fmt::format("{} damaged lines in events.jsonl were skipped", record.damaged_lines));
  if (record.left_out_bytes > 0)
    lines.add(
        "warning",
        fmt::format("events.jsonl is too large to be read whole: {} MiB in its middle were skipped",
                    record.left_out_bytes >> 20U));
}

void add_places(Lines& lines, const IndexEntry& run, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  if (status.sweep) lines.add("points", fmt::format("dlrun sweep {}", run.id));
  // Lead creates the log of a local run. If the setup fails, lead does not start, and
  // there is no log.
  std::error_code none;
  if (const auto log = job_log(run.path, status.facts);
      log && (status.job.cluster != kLocalCluster || std::filesystem::exists(*log, none)))
    lines.add("log", log->string());
  if (record.has_events)
    lines.add("rank logs", rank_log(run.path, record.attempt, 0).parent_path().string());
  lines.add("directory", run.path.string());
}

}  // namespace

Text status_text(const IndexEntry& run, const RunStatus& status,
                 const std::vector<std::string>& waits) {
  Lines lines(text("{}\n", styled(Style::kBold, run.id)));
  add_state(lines, run, status);
  lines.add_all("waits", waits);
  add_progress(lines, status.facts);
  for (const auto& [label, sentence] : predictions_for(run.path)) lines.add(label, sentence);
  add_failure(lines, run, status);
  add_warnings(lines, status.facts.record);
  add_places(lines, run, status);
  return std::move(lines.text());
}

int print_end(const Cli& cli, const IndexEntry& run, const RunStatus& status) {
  const int code = exit_code_of_end(status);
  if (code == kExitOk) {
    print_note(cli, end_text(run, status));
  } else {
    print_error(cli, end_text(run, status));
  }
  return code;
}

}  // namespace dlrun
