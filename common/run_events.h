#pragma once
// The events of events.jsonl (runtime/ENVIRONMENT.md, "events.jsonl"): one struct per event, which
// converts itself to JSON and back. Lead writes the events; readers dispatch on the type with
// std::visit, never on the event's name. The header also has the importance of each event and the
// limits of the file's size, which lead and the readers share.
//
// To add an event, add its struct here and in RunEvent, the code of lead that records it, and an
// overload of event_text() in launcher/runs/history.cc. Without the overload the code does not
// compile.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/record_words.h"

namespace dlrun {

/// Size in bytes above which lead rewrites events.jsonl with fewer events (EventImportance).
inline constexpr std::size_t kCompactAtBytes = 32U << 20U;
/// Size in bytes that events.jsonl never exceeds, unless the disk has no room to rewrite the file
/// (BackgroundFile::renew_beyond()). Readers read only the first and the last 16 MiB of a larger
/// file.
inline constexpr std::size_t kLargestRecordBytes = 64U << 20U;

/// The parts of events.jsonl that readers read, as offsets in bytes: [0, head_end) and, if the file
/// is too large, [tail_begin, size). The tail may begin inside a line. tail_begin equals the size
/// if there is no tail.
struct RecordParts {
  off_t head_end = 0, tail_begin = 0;
};
[[nodiscard]] RecordParts parts_to_read(off_t size_bytes);

/// The importance of an event: decides which events remain when lead rewrites events.jsonl with
/// fewer events. The comment on EventLog::record() says which events are dropped while the disk is
/// slow.
enum class EventImportance {
  kEssential,  ///< attempts, restarts, ends, failures, the last result: all remain
  kRemark,     ///< warnings and signals: the latest ones remain
  kDroppable,  ///< progress and samples: some of them remain
};

namespace events {

using Json = nlohmann::ordered_json;

// Each struct has:
//   kKind        the event's kind: its name in the record
//   kImportance  the event's importance; kEssential if the struct has none
//   fields()     the event's own fields, in the order of the record
//   of()         reads the fields of a record. A field that is missing or has the wrong type keeps
//                its default, because anybody may have written the record.
// A field `seconds` is the time since the start of the attempt, unless its comment says otherwise.
// An integer field such as `ranks` or `nodes` is a number of ranks or nodes. A field `code` is an
// exit code.

/// Returns the name of a component in the field `key`. Returns "" for a text that is too long for a
/// name or has characters that no name has, because the name becomes part of paths.
[[nodiscard]] std::string component_name_in(const Json& object, const char* key);

/// Lead has claimed the run for its job.
struct Claimed {
  static constexpr std::string_view kKind = "claimed";
  std::string job{}, cluster{}, host{};
  std::int64_t pid = 0;
  /// Slurm has requeued the job, or this is a later job of a chain. Recorded as `again`.
  bool was_claimed_before = false;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Claimed of(const Json& fields);
};

/// The components of the job, in the order of the spec. Recorded at the start of each attempt, and
/// only if the spec has `components`.
struct Components {
  static constexpr std::string_view kKind = "components";
  struct Component {
    std::string name{};
    Word<ComponentRole> role{};
    std::int64_t nodes = 0, ranks = 0;
    std::vector<std::string> after{};  ///< components that must be ready before this one

    [[nodiscard]] Json fields() const;
    [[nodiscard]] static Component of(const Json& fields);
  };
  std::vector<Component> components{};

  /// Returns the name of the first main component; empty if there is none. The progress of this
  /// component is the progress of the run.
  [[nodiscard]] std::string first_main_name() const;
  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Components of(const Json& fields);
};

/// Lead starts the Slurm step of an attempt or of a component.
struct Started {
  static constexpr std::string_view kKind = "started";
  std::int64_t ranks = 0;           ///< 0: the number is unknown
  std::string lead{};               ///< lead's addresses, as in DLRUN_LEAD
  std::vector<std::string> argv{};  ///< the command that starts the step
  std::string checks{};             ///< checks of the nodes before ranks join; empty: none

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Started of(const Json& fields);
};

/// All ranks have joined.
struct Joined {
  static constexpr std::string_view kKind = "joined";
  std::int64_t ranks = 0;
  std::string hosts{};  ///< compressed node list
  double seconds = 0;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Joined of(const Json& fields);
};

/// The ranks' check of collectives is done, and the programs start.
struct CollectivesChecked {
  static constexpr std::string_view kKind = "checked";
  std::int64_t ranks = 0;
  double seconds = 0;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static CollectivesChecked of(const Json& fields);
};

/// All ranks have connected, and some nodes still copy their data (stage). `Joined` follows.
struct Staging {
  static constexpr std::string_view kKind = "staging";
  std::int64_t nodes = 0;  ///< nodes that copy data

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Staging of(const Json& fields);
};

/// All nodes have their data.
struct Staged {
  static constexpr std::string_view kKind = "staged";
  std::int64_t nodes = 0;
  std::int64_t files = 0, bytes = 0;  ///< copied by all nodes together
  double seconds = 0;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Staged of(const Json& fields);
};

/// The agents have copied the attempt's outputs from the nodes (outputs).
struct OutputsCopied {
  static constexpr std::string_view kKind = "outputs";
  std::int64_t nodes = 0;
  std::int64_t files = 0, bytes = 0;  ///< copied at the end of the attempt
  double seconds = 0;                 ///< the time that this copying took

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static OutputsCopied of(const Json& fields);
};

/// Some ranks did not join in time.
struct RanksMissing {
  static constexpr std::string_view kKind = "missing";
  std::vector<std::int64_t> ranks{};
  double seconds = 0;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static RanksMissing of(const Json& fields);
};

/// A number that a program reported. Whole numbers stay whole: 2 is not recorded as 2.0.
using Number = std::variant<std::int64_t, double>;
[[nodiscard]] double value_of(const Number& number);
[[nodiscard]] inline std::optional<double> value_of(const std::optional<Number>& number) {
  return number ? std::optional(value_of(*number)) : std::nullopt;
}

/// A progress report of rank 0. of() reads only these fields, and only with the right type, so that
/// a program cannot make the record large.
struct Progress {
  static constexpr std::string_view kKind = "progress";
  static constexpr EventImportance kImportance = EventImportance::kDroppable;
  std::optional<std::int64_t> step{}, steps{}, epoch{}, epochs{};
  std::optional<Number> loss{}, accuracy{}, samples_per_s{}, work_ms{};

  /// Returns the program's step, or its epoch if it reports no step.
  [[nodiscard]] std::optional<std::int64_t> reached() const { return step ? step : epoch; }
  /// Returns true if no field is set.
  [[nodiscard]] bool empty() const;
  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Progress of(const Json& fields);
};

/// The values of all reports of an attempt that the program marked as final: at most 64 numbers,
/// booleans and texts, each text of at most 256 bytes. Recorded as `result`.
struct FinalReports {
  static constexpr std::string_view kKind = "result";
  Json values = Json::object();

  /// Adds the values of a later report, which replace values of the same name.
  void add(const FinalReports& later);
  [[nodiscard]] Json fields() const { return values; }
  [[nodiscard]] static FinalReports of(const Json& fields);
};

/// The spread of a value over the ranks.
template <typename Value>
struct Spread {
  Value least = 0, mean = 0, most = 0;
};

/// A rank that works slower than the others, or is behind them.
struct SlowRank {
  std::int64_t rank = 0;
  std::string host{};
  std::int64_t lag = 0;             ///< steps behind
  std::optional<double> work_ms{};  ///< the rank's own work on a step, in milliseconds
};

/// Statistics of the running ranks. Recorded as `samples`.
struct RankStatistics {
  static constexpr std::string_view kKind = "samples";
  static constexpr EventImportance kImportance = EventImportance::kDroppable;
  std::int64_t ranks = 0;               ///< ranks that have reported something
  std::optional<Spread<double>> cpu{};  ///< busy cores of each rank's processes
  std::optional<Spread<std::int64_t>> rss_bytes{};
  std::optional<Spread<double>> gpu{};  ///< utilisation of each rank's GPUs in percent
  std::optional<Spread<std::int64_t>> gpu_used_bytes{}, step{};
  std::optional<Spread<double>> work_ms{};  ///< a rank's own work on a step
  std::optional<double> gpu_watts{};        ///< power of all GPUs of the ranks together
  std::int64_t slow_rank_count = 0;         ///< recorded as `slow_ranks`
  std::vector<SlowRank> slowest_ranks{};    ///< the slowest of the slow ranks; recorded as `slow`

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static RankStatistics of(const Json& fields);
};

/// A signal that reached lead or a rank.
struct Signal {
  static constexpr std::string_view kKind = "signal";
  static constexpr EventImportance kImportance = EventImportance::kRemark;
  std::string signal{};             ///< "SIGTERM"
  std::string where{};              ///< "lead", or rank and host
  Word<SignalDecision> decision{};  ///< lead's decision; recorded as `word`

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Signal of(const Json& fields);
};

/// A rank that failed on its own: the first one of the attempt, or a later one. There is no event
/// for the ranks that lead ends after the first failure.
struct RankFailed {
  static constexpr std::string_view kKind = "rank_failed";
  std::int64_t rank = -1;  ///< -1: unknown
  std::string host{};
  std::int64_t pid = 0;  ///< process id of the rank's agent; 0: the rank never joined
  std::int64_t code = 0;
  std::string signal{};  ///< "SIGKILL"; empty: the rank exited
  std::string error{};

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static RankFailed of(const Json& fields);
};

/// A problem that did not stop the job, such as a log that could not be written.
struct Warning {
  static constexpr std::string_view kKind = "warning";
  static constexpr EventImportance kImportance = EventImportance::kRemark;
  std::string message{};
  std::optional<std::int64_t> rank{};  ///< the rank that warns; nullopt: lead
  std::string host{};

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Warning of(const Json& fields);
};

/// The stacks of a hung attempt. Ranks with the same stack are a group; the smallest group is
/// first.
struct Autopsy {
  static constexpr std::string_view kKind = "autopsy";
  struct Group {
    std::string ranks{};  ///< "0-2, 4-7"
    std::int64_t count = 0;
    std::string hosts{};
    std::vector<std::string> frames{};  ///< innermost first

    [[nodiscard]] Json fields() const;
    [[nodiscard]] static Group of(const Json& fields);
  };
  std::int64_t ranks = 0;
  std::vector<Group> groups{};
  /// The number of ranks in the first group if that group stands out, else 0. Recorded as `odd`.
  std::int64_t outliers = 0;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Autopsy of(const Json& fields);
};

/// The end of an attempt.
struct AttemptEnd {
  static constexpr std::string_view kKind = "attempt_end";
  std::int64_t code = 0;
  Word<EndReason> reason{};
  Word<Cause> cause{};                       ///< empty: there is no cause
  std::optional<RankFailed> first_failed{};  ///< fields() leaves out its process id and its error
  /// Nodes on which at least one agent disappeared without an exit record, and the node of a
  /// process that hangs. nullopt unless at least one of these nodes has lost all its agents.
  /// Recorded as `silent`.
  std::optional<std::vector<std::string>> suspect_nodes{};
  /// The nodes that are the reason for the end: Slurm has lost them or could not launch on them,
  /// they failed a preflight check, or they fell silent in a hang. Recorded as `lost_nodes`.
  std::vector<std::string> bad_nodes{};
  std::optional<double> seconds{};  ///< nullopt: the ranks were never started

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static AttemptEnd of(const Json& fields);
};

/// A component is ready: the components that wait for it may start.
struct ComponentReady {
  static constexpr std::string_view kKind = "component_ready";
  std::string addr{};  ///< IP address and port of the component's rank 0
  double seconds = 0;  ///< the time since the component's start

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static ComponentReady of(const Json& fields);
};

/// The end of a component, with the fields of `attempt_end`. The reason is `stopped` if lead ended
/// the component because it was no longer needed.
struct ComponentEnd {
  static constexpr std::string_view kKind = "component_end";
  AttemptEnd end{};

  [[nodiscard]] Json fields() const { return end.fields(); }
  [[nodiscard]] static ComponentEnd of(const Json& fields) { return {AttemptEnd::of(fields)}; }
};

/// A component starts again while the other components continue.
struct ComponentRestart {
  static constexpr std::string_view kKind = "component_restart";
  std::int64_t code = 0;  ///< of the component that has ended
  std::int64_t left = 0;  ///< restarts that are left afterwards

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static ComponentRestart of(const Json& fields);
};

/// Another attempt follows.
struct Restarting {
  static constexpr std::string_view kKind = "restarting";
  Word<Cause> cause{};
  std::int64_t left = 0;  ///< restarts that are left afterwards
  Word<RestartedBy> by{};
  std::vector<std::string> exclude{};  ///< nodes that the next attempt does not use
  std::int64_t memory_mib = 0;         ///< new memory, per node or CPU; 0: it stays the same

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Restarting of(const Json& fields);
};

/// The end of the run.
struct Ended {
  static constexpr std::string_view kKind = "ended";
  Word<EndState> state{};
  std::int64_t code = 0;
  std::string message{};  ///< a sentence for people
  /// Slurm queues the job again although the run is over. Recorded as `requeued`.
  bool is_requeued_after_end = false;

  [[nodiscard]] Json fields() const;
  [[nodiscard]] static Ended of(const Json& fields);
};

/// An event that this version does not know.
struct Unknown {
  std::string kind{};
  Json values = Json::object();

  [[nodiscard]] Json fields() const { return values; }
};

}  // namespace events

using RunEvent =
    std::variant<events::Claimed, events::Components, events::Started, events::Joined,
                 events::CollectivesChecked, events::Staging, events::Staged, events::OutputsCopied,
                 events::RanksMissing, events::Progress, events::FinalReports,
                 events::RankStatistics, events::Signal, events::RankFailed, events::Warning,
                 events::Autopsy, events::AttemptEnd, events::ComponentReady, events::ComponentEnd,
                 events::ComponentRestart, events::Restarting, events::Ended, events::Unknown>;

[[nodiscard]] std::string_view kind_of(const RunEvent& event);
[[nodiscard]] EventImportance importance_of(const RunEvent& event);
[[nodiscard]] nlohmann::ordered_json fields_of(const RunEvent& event);

/// An event with the time, the attempt and the component that the record has for it.
struct RecordedEvent {
  std::string time{};                     ///< UTC; empty: missing
  std::optional<std::int64_t> attempt{};  ///< nullopt: missing
  RunEvent event;
  std::string component{};  ///< the component that the event is about; empty: the whole run
};

/// Returns the event of a line's object. Never fails: an event of an unknown kind is Unknown.
[[nodiscard]] RecordedEvent event_of(const nlohmann::ordered_json& object);
/// Returns the object of a line: `t`, `event` and `attempt` in this order, `component` if it is not
/// empty, then the event's fields.
[[nodiscard]] nlohmann::ordered_json object_of(const RecordedEvent& recorded);
/// Returns the event of a line of the record (without its newline). Returns nullopt if the line's
/// checksum is wrong or the line is not an object (parse_checked_line()).
[[nodiscard]] std::optional<RecordedEvent> event_of_line(std::string_view line);

/// Returns the importance of the events of this kind; kEssential for an unknown kind.
[[nodiscard]] EventImportance importance_of(std::string_view kind);

/// Returns the event's kind without parsing the line; empty if the line does not begin like lead's
/// lines.
[[nodiscard]] std::string_view kind_of_line(std::string_view line);
/// Returns the event's time in milliseconds since 1970 without parsing the line; nullopt if the
/// line does not begin like lead's lines.
[[nodiscard]] std::optional<std::int64_t> time_ms_of_line(std::string_view line);

/// Makes one function object of several, for std::visit.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace dlrun
