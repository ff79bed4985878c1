// RunRecordBuilder reads the lines one by one and applies the valid events to a RunRecord. A valid
// event can undo an earlier one, for example when a later attempt claims an ended run.
#include "launcher/runs/run_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/json_lines.h"
#include "common/json_read.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

// Any user may have written the record, so these limits bound the memory for it.
constexpr std::size_t kMostWarnings = 200;
constexpr std::size_t kMostFailures = 256;
constexpr std::size_t kMostRestarts = 10'000;
constexpr std::size_t kMostMissing = 100'000;
constexpr std::size_t kMostResults = 256;
constexpr std::size_t kLongestText = 4096;
/// The number of progress lines that are parsed at the beginning, and at the end, of an unbroken
/// sequence of them.
constexpr std::size_t kProgressParsedAtEachEnd = 64;

std::string shortened(std::string text) {
  if (text.size() > kLongestText) text = text.substr(0, kLongestText) + "...";
  return text;
}

RankFailure failure_of(const events::RankFailed& event, const std::string& component) {
  return {.rank = event.rank,
          .host = shortened(event.host),
          .code = event.code,
          .signal = shortened(event.signal),
          .error = shortened(event.error),
          .component = component};
}

Progress progress_of(const events::Progress& event, const std::string& time) {
  return {.time = time,
          .epoch = event.epoch,
          .epochs = event.epochs,
          .step = event.step,
          .steps = event.steps,
          .loss = events::value_of(event.loss),
          .accuracy = events::value_of(event.accuracy),
          .samples_per_s = events::value_of(event.samples_per_s)};
}

/// Updates `into` with the values in `news`; values that `news` lacks stay.
void merge(Progress& into, const Progress& news) {
  const auto take = [](auto& old_value, const auto& new_value) {
    if (new_value) old_value = new_value;
  };
  into.time = news.time;
  take(into.epoch, news.epoch);
  take(into.epochs, news.epochs);
  take(into.step, news.step);
  take(into.steps, news.steps);
  take(into.loss, news.loss);
  take(into.accuracy, news.accuracy);
  take(into.samples_per_s, news.samples_per_s);
}

/// Returns a compressed node list of the components whose ranks have joined.
std::string hosts_of_components(const RunRecord& record) {
  constexpr std::size_t kMostHosts = 20'000;
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const auto& one : record.components) {
    const auto expanded = expand_hostlist(one.hosts, kMostHosts);
    if (!expanded) continue;
    for (const auto& host : *expanded) {
      if (seen.size() < kMostHosts && seen.insert(host).second) hosts.push_back(host);
    }
  }
  return compress_hostlist(hosts);
}

void begin_attempt(RunRecord& record, std::int64_t attempt) {
  record.attempt = attempt;
  record.have_ranks_joined = false;
  record.has_checked_collectives = false;
  record.staging_node_count = 0;
  record.missing_ranks.clear();
  record.first_failed.reset();
  record.failures.clear();
  record.was_warned = false;
  record.attempt_end_reason = {};
  record.was_signalled_without_cause = false;
  record.end_message_shows_failed_rank = false;
  record.container_failed = false;
  record.ended = false;
}

/// Applies one event of the record's latest attempt to the record.
class EventApplier {
 public:
  EventApplier(RunRecord& record, const RecordedEvent& recorded, std::int64_t attempt)
      : record_(record), time_(recorded.time), component_(recorded.component), attempt_(attempt) {}

  void operator()(const events::Claimed& claimed) const {
    record_.claimed_by = claimed.job;
    record_.lead_host = claimed.host;
  }
  void operator()(const events::Components& components) const {
    record_.components.clear();
    record_.leading_component = components.first_main_name();
    record_.ranks = 0;
    for (const auto& one : components.components) {
      record_.components.push_back({.name = one.name, .role = one.role, .ranks = one.ranks});
      record_.ranks += std::max<std::int64_t>(one.ranks, 0);
    }
  }
  void operator()(const events::Started& started) const {
    if (auto* const found = component()) found->state = ComponentState::kStarting;
    if (component_.empty() && started.ranks > 0) record_.ranks = started.ranks;
    if (describes_run()) record_.checks = started.checks;
  }
  void operator()(const events::Joined& joined) const {
    if (describes_run()) record_.have_ranks_joined = true;
    if (component_.empty()) {
      if (joined.ranks > 0) record_.ranks = joined.ranks;
      record_.hosts = joined.hosts;
    } else if (auto* const found = component()) {
      found->state = ComponentState::kJoined;
      found->hosts = shortened(joined.hosts);
      record_.hosts = hosts_of_components(record_);
    }
  }
  void operator()(const events::CollectivesChecked&) const {
    if (describes_run()) record_.has_checked_collectives = true;
  }
  void operator()(const events::ComponentReady& ready) const {
    if (auto* const found = component()) {
      found->state = ComponentState::kReady;
      found->addr = shortened(ready.addr);
    }
  }
  void operator()(const events::ComponentEnd& event) const {
    auto* const found = component();
    if (found == nullptr) return;
    found->code = event.end.code;
    const bool is_service = found->role == ComponentRole::kService;
    found->state = event.end.reason == EndReason::kStopped ? ComponentState::kStopped
                   : event.end.code == 0 && !is_service    ? ComponentState::kEnded
                                                           : ComponentState::kFailed;
  }
  void operator()(const events::ComponentRestart&) const {
    // The failure of a component that starts again is not the end of the run.
    if (record_.first_failed && record_.first_failed->component == component_)
      record_.first_failed.reset();
    if (auto* const found = component()) {
      found->state = ComponentState::kRestarting;
      ++found->restarts;
    }
  }
  void operator()(const events::Staging& staging) const {
    if (describes_run()) record_.staging_node_count = staging.nodes > 0 ? staging.nodes : 1;
  }
  void operator()(const events::Staged&) const {
    if (describes_run()) record_.staging_node_count = 0;
  }
  void operator()(const events::OutputsCopied&) const {}
  void operator()(const events::RanksMissing& missing) const {
    for (const auto rank : missing.ranks) {
      if (record_.missing_ranks.size() < kMostMissing) record_.missing_ranks.push_back(rank);
    }
  }
  void operator()(const events::Progress& progress) const {
    if (!describes_run()) return;
    const Progress news = progress_of(progress, time_);
    if (record_.progress) {
      merge(*record_.progress, news);
    } else {
      record_.progress = news;
    }
  }
  /// Merges the first kMostResults results: later values replace earlier ones. Each further result
  /// replaces the whole result, because merging takes time.
  void operator()(const events::FinalReports& news) const {
    if (!describes_run()) return;
    events::FinalReports result;
    if (!record_.result.empty() && ++record_.later_result_count < kMostResults)
      result =
          events::FinalReports::of(json_read::object_of(record_.result).value_or(result.values));
    result.add(news);
    record_.result = json_read::dump(result.values);
  }
  void operator()(const events::RankStatistics&) const {}
  void operator()(const events::Signal& signal) const {
    if (signal.decision == SignalDecision::kCheckpoint) record_.was_warned = true;
  }
  void operator()(const events::RankFailed& failed) const {
    if (!record_.first_failed) record_.first_failed = failure_of(failed, component_);
    if (record_.failures.size() < kMostFailures)
      record_.failures.push_back(failure_of(failed, component_));
  }
  void operator()(const events::Warning& warning) const {
    const auto source = component_.empty() ? "" : fmt::format("component {}: ", component_);
    record_.warnings.push_back({.message = source + shortened(warning.message),
                                .host = shortened(warning.host),
                                .rank = warning.rank});
    if (record_.warnings.size() > kMostWarnings)  // keeps the first half and the newest
      record_.warnings.erase(record_.warnings.begin() + kMostWarnings / 2);
  }
  void operator()(const events::Autopsy& autopsy) const {
    record_.autopsy = bounded_autopsy(autopsy, attempt_);
  }
  void operator()(const events::AttemptEnd& end) const {
    record_.attempt_end_reason = end.reason;
    record_.was_signalled_without_cause = end.reason == EndReason::kSignalled && end.cause.empty();
    record_.container_failed = end.cause == Cause::kImage || end.cause == Cause::kContainer;
    record_.end_message_shows_failed_rank =
        end.first_failed && !record_.container_failed &&
        (end.reason == EndReason::kRankFailed || end.reason == EndReason::kHang);
    if (!end.first_failed) return;
    RankFailure failure = failure_of(*end.first_failed, component_);
    // The event rank_failed of this rank may have the error text, which this event lacks.
    if (record_.first_failed && record_.first_failed->rank == failure.rank &&
        record_.first_failed->component == component_ && failure.error.empty())
      failure.error = record_.first_failed->error;
    if (failure.rank >= 0) record_.first_failed = std::move(failure);
  }
  void operator()(const events::Restarting& restarting) const {
    if (record_.restarts.size() == kMostRestarts) record_.restarts.pop_back();
    record_.restarts.push_back(
        {attempt_, restarting.cause.text(), restarting.left, restarting.by == RestartedBy::kChain});
  }
  void operator()(const events::Ended& ended) const {
    record_.ended = true;
    record_.end_state = ended.state;
    record_.end_message = ended.message;
    record_.end_code = ended.code;
    record_.end_time = time_;
  }
  void operator()(const events::Unknown&) const {}

 private:
  /// Returns true for an event of the whole run or of the first main component.
  [[nodiscard]] bool describes_run() const {
    return component_.empty() || component_ == record_.leading_component;
  }
  /// Returns the component that the event is about; nullptr if there is none.
  [[nodiscard]] RecordedComponent* component() const {
    for (auto& one : record_.components) {
      if (one.name == component_) return &one;
    }
    return nullptr;
  }

  RunRecord& record_;
  const std::string& time_;
  const std::string& component_;
  std::int64_t attempt_;
};

void apply(RunRecord& record, const RecordedEvent& recorded) {
  if (!recorded.time.empty()) record.last_time = recorded.time;
  const std::int64_t attempt = recorded.attempt.value_or(record.attempt);
  const bool is_claim = std::holds_alternative<events::Claimed>(recorded.event);
  if (attempt < record.attempt && !is_claim) return;
  if (attempt > record.attempt || is_claim) begin_attempt(record, attempt);
  std::visit(EventApplier(record, recorded, attempt), recorded.event);
}

}  // namespace

namespace {

/// Summarises a record line by line. Parses only the beginning and the end of a long sequence of
/// progress lines, so that the progress of a month takes little more time than reading the file.
class RunRecordBuilder {
 public:
  void add(std::string_view line) {
    const auto kind = kind_of_line(line);
    if (kind == events::RankStatistics::kKind) return;
    const bool is_progress = kind == events::Progress::kKind;
    if (is_progress && ++progress_line_count_ > kProgressParsedAtEachEnd) {
      ring_[ring_line_count_++ % kProgressParsedAtEachEnd] = line;
      return;
    }
    if (!is_progress) end_progress();
    apply_line(line);
  }

  [[nodiscard]] RunRecord finish(bool has_unfinished_line) {
    end_progress();
    record_.has_incomplete_end = has_unfinished_line || damaged_since_valid_ > 0;
    return std::move(record_);
  }
  [[nodiscard]] RunRecord& record() { return record_; }

 private:
  void apply_line(std::string_view line) {
    const auto event = event_of_line(line);
    if (!event) {
      ++damaged_since_valid_;
      return;
    }
    record_.damaged_lines += std::exchange(damaged_since_valid_, 0);
    record_.has_events = true;
    apply(record_, *event);
  }

  /// Applies the last lines of a sequence of progress lines that has ended.
  void end_progress() {
    const auto first = ring_line_count_ > kProgressParsedAtEachEnd
                           ? ring_line_count_ - kProgressParsedAtEachEnd
                           : 0;
    for (auto at = first; at < ring_line_count_; ++at)
      apply_line(ring_[at % kProgressParsedAtEachEnd]);
    ring_line_count_ = 0;
    progress_line_count_ = 0;
  }

  RunRecord record_;
  std::size_t damaged_since_valid_ = 0, progress_line_count_ = 0, ring_line_count_ = 0;
  /// A ring of the latest lines of a sequence of progress lines. They are not applied yet.
  std::array<std::string, kProgressParsedAtEachEnd> ring_;
};

}  // namespace

RunRecord sum_up_events(std::string_view text) {
  RunRecordBuilder builder;
  std::size_t offset = 0;
  for (std::size_t end = 0; (end = text.find('\n', offset)) != std::string_view::npos;
       offset = end + 1)
    builder.add(text.substr(offset, end - offset));
  return builder.finish(offset < text.size());
}

void add_event(RunRecord& record, const RecordedEvent& event) {
  record.has_events = true;
  apply(record, event);
}

bool has_end(const std::filesystem::path& run) {
  constexpr off_t kTailBytes = 64 << 10;
  const auto file = open_untrusted(run / "events.jsonl", Links::kRefuse);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return false;
  RunRecordBuilder builder;
  const off_t begin = info.st_size > kTailBytes ? info.st_size - kTailBytes : 0;
  LineReader lines(file->get(), begin, info.st_size);
  if (begin > 0) std::ignore = lines.next();  // skips the rest of a line
  while (const auto line = lines.next()) builder.add(*line);
  return builder.finish(lines.has_unfinished_line()).ended;
}

Result<RunRecord> read_events(const std::filesystem::path& run) {
  const auto path = run / "events.jsonl";
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return RunRecord{};
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  RunRecordBuilder builder;
  const auto parts = parts_to_read(info.st_size);
  LineReader head(file->get(), 0, parts.head_end);
  while (const auto line = head.next()) builder.add(*line);
  builder.record().damaged_lines += head.long_line_count();
  if (parts.tail_begin >= info.st_size) return builder.finish(head.has_unfinished_line());
  LineReader tail(file->get(), parts.tail_begin, info.st_size);
  std::ignore = tail.next();  // skips the rest of a line
  while (const auto line = tail.next()) builder.add(*line);
  builder.record().damaged_lines += tail.long_line_count();
  builder.record().left_out_bytes = parts.tail_begin - parts.head_end;
  return builder.finish(tail.has_unfinished_line());
}

}  // namespace dlrun
