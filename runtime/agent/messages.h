#pragma once
// The messages between lead and a rank: one struct per message type, which writes and reads itself.
// A message is a JSON object with a member `type`; protocol.h puts it into a frame with a MAC.
// Receivers dispatch on the type of the struct with std::visit.
//
// Each struct has:
//   kType   the value of `type`
//   json()  the message
//   of()    reads a message. A field that is missing or has the wrong type gets a default. Most
//           numbers are clamped to their range, and the texts of failures are cut.
//
// To add a message, write its struct here, add the struct to MessageToLead or MessageToRank, write
// a handle() for the receiver (messages_to_lead.cc or rank.cc), and send it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/record_words.h"
#include "common/result.h"
#include "common/run_events.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

using Json = nlohmann::ordered_json;

/// The end of a rank's program, or of its agent.
struct RankEnd {
  int code = 0;  ///< exit code; 128 + signal if a signal ended it
  int signal = 0;
  std::string error;  ///< explanation, if code and signal are not enough
  /// True if the program ended before lead or the agent ordered it to end. nullopt: unknown.
  std::optional<bool> ended_by_itself = {};
  /// The rank that the program reports as the cause. -1: another rank, but the program does not
  /// know which.
  std::optional<int> blamed_rank = {};
  /// The agent ended the program because it no longer heard lead.
  bool lead_was_unheard = false;
};

/// Utilisation, memory and power of one GPU. nullopt: unknown.
struct GpuUse {
  std::optional<double> percent{};
  std::optional<std::uint64_t> used_bytes{}, total_bytes{};
  std::optional<double> watts{};
};

/// The address under which programs reach a component of the job, and the component's nodes.
struct ComponentAddress {
  std::string name{};
  std::string addr{};                ///< rank 0's IP
  int port = 0;                      ///< the port that rank 0's agent holds for its program
  std::vector<std::string> hosts{};  ///< its nodes, in the order of ranks

  friend bool operator==(const ComponentAddress&, const ComponentAddress&) = default;
};

namespace to_lead {

/// The first message of a rank: its numbers in the world, its host and its address.
struct Hello {
  static constexpr std::string_view kType = "hello";
  World world{};
  std::string host{};
  std::string addr{};
  int pid = 0;   ///< process id of the rank's agent
  int port = 0;  ///< port that the agent holds for the rank's program; 0: none
  /// Unix time on the rank's node. Set if the clocks are to be compared.
  std::optional<std::chrono::milliseconds> time{};
  std::string complaint{};  ///< why the rank's node failed its checks; empty: it passed
  bool stages = false;      ///< the rank copies data to its node, and sends Staged when it is done
  /// The longest time that the rank may need to copy its node's outputs; 0: it copies none.
  std::chrono::seconds collect_limit{};

  [[nodiscard]] Json json() const;
  /// Fails with kInvalid if the world is missing, incomplete or contradicts itself, or if the port
  /// is missing or out of range.
  [[nodiscard]] static Result<Hello> of(const Json& message);
};

/// A heartbeat, with the values that are new since the previous heartbeat.
struct Beat {
  static constexpr std::string_view kType = "beat";
  bool has_printed = false;     ///< the program has printed since the previous heartbeat
  std::optional<double> cpu{};  ///< busy cores
  std::optional<std::uint64_t> rss_bytes{};
  std::optional<std::int64_t> step{};         ///< the training step that the program has reached
  std::optional<events::Number> work_ms{};    ///< the rank's own work on a step, in milliseconds
  std::optional<std::vector<GpuUse>> gpus{};  ///< GPUs of this rank
  std::optional<std::vector<GpuUse>> node_gpus{};  ///< GPUs of its whole node
  bool is_bare = true;                             ///< of() found no field except `type`

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Beat of(const Json& message);
};

/// The program is suspended (SIGSTOP). Sent every second, from the third second of the suspension
/// until the program continues.
struct Suspended {
  static constexpr std::string_view kType = "stopped";
  std::chrono::seconds time{};  ///< how long the program has been suspended

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Suspended of(const Json& message);
};

/// The reply to to_rank::Autopsy. The agent has saved all stacks in the run directory.
struct Autopsy {
  static constexpr std::string_view kType = "autopsy";
  std::vector<std::string> frames{};  ///< the main thread's stack, innermost frame first

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Autopsy of(const Json& message);
};

/// The agent received `signal` and waits for to_rank::SignalAnswer. A missing number counts as
/// SIGHUP (1), which ends the attempt.
struct Signal {
  static constexpr std::string_view kType = "signal";
  int signal = 1;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Signal of(const Json& message);
};

/// A message for the user and the record.
struct Warning {
  static constexpr std::string_view kType = "warning";
  std::string message{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Warning of(const Json& message);
};

/// The rank's check of collectives (health.preflight) has opened its device.
struct DeviceOpenedByCheck {
  static constexpr std::string_view kType = "checking";

  [[nodiscard]] Json json() const;
  [[nodiscard]] static DeviceOpenedByCheck of(const Json&) { return {}; }
};

/// The rank's check of collectives has passed, and the program starts.
struct Checked {
  static constexpr std::string_view kType = "checked";

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Checked of(const Json&) { return {}; }
};

/// The rank's check of collectives has failed. The rank then waits for to_rank::End.
struct CheckFailed {
  static constexpr std::string_view kType = "check_failed";
  std::string words{};
  /// The rank itself is at fault. false: the communication between ranks failed.
  bool is_own = false;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static CheckFailed of(const Json& message);
};

/// The rank has copied the data to its node.
struct Staged {
  static constexpr std::string_view kType = "staged";
  std::int64_t file_count = 0, bytes = 0;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Staged of(const Json& message);
};

/// The reply to to_rank::Collect: the rank has copied the outputs of its node, or has given up.
struct Collected {
  static constexpr std::string_view kType = "collected";
  std::int64_t file_count = 0, bytes = 0;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Collected of(const Json& message);
};

/// A request to the store. The reply is to_rank::Reply.
struct Put {
  static constexpr std::string_view kType = "put";
  std::uint64_t id = 0;
  std::string key{}, value{};  ///< the value in hex

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Put of(const Json& message);
};

/// A request to the store. The reply is to_rank::Reply.
struct Get {
  static constexpr std::string_view kType = "get";
  std::uint64_t id = 0;
  std::string key{};
  std::optional<std::int64_t> wait_ms{};  ///< nullopt: lead's default

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Get of(const Json& message);
};

/// A progress report of the program (ENVIRONMENT.md, "progress").
struct Progress {
  static constexpr std::string_view kType = "progress";
  Json body{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Progress of(const Json& message);
};

/// Asks for the page of the address table that begins with rank `from`.
struct TableRequest {
  static constexpr std::string_view kType = "table";
  std::int64_t from = -1;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static TableRequest of(const Json& message);
};

/// The program has ended. The agent waits for to_rank::ExitConfirmed before it exits.
struct Exit {
  static constexpr std::string_view kType = "exit";
  RankEnd end{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Exit of(const Json& message);
};

}  // namespace to_lead

namespace to_rank {

/// All ranks have said hello, and all nodes have their data. The agent starts the check of
/// collectives or the program.
struct Start {
  static constexpr std::string_view kType = "start";
  std::string addr{};         ///< this rank's IP
  std::string master_addr{};  ///< rank 0's IP
  int master_port = 0;
  bool marks_stderr = false;  ///< the agent must mark the program's standard error (text_marks.h)
  /// The components of the job that have joined; empty if the job has no components.
  std::vector<ComponentAddress> components{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Start of(const Json& message);
};

/// A heartbeat.
struct Beat {
  static constexpr std::string_view kType = "beat";

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Beat of(const Json&) { return {}; }
};

/// The reply to to_lead::Signal; with kCheckpoint also an order of lead to all ranks. If the signal
/// ends the attempt, lead sends End instead.
struct SignalAnswer {
  static constexpr std::string_view kType = "word";
  int signal = 0;
  Word<SignalDecision> decision{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static SignalAnswer of(const Json& message);
};

/// The attempt hangs. The agent saves all stacks and replies with to_lead::Autopsy. End follows.
struct Autopsy {
  static constexpr std::string_view kType = "autopsy";

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Autopsy of(const Json&) { return {}; }
};

/// The attempt ends. The agent sends SIGTERM to all processes of the program, and SIGKILL one
/// second later to those that are left.
struct End {
  static constexpr std::string_view kType = "end";
  /// The signal that was sent to the whole step and may still reach this rank; 0: none.
  int signal = 0;

  [[nodiscard]] Json json() const;
  [[nodiscard]] static End of(const Json& message);
};

/// An order to the first rank of each node: copy the data of the node now.
struct Stage {
  static constexpr std::string_view kType = "stage";
  /// For each item of `stage`, the path of the copy that lead has sent to the nodes. A missing or
  /// empty path means that lead has not sent the item.
  std::vector<std::string> broadcast_copies{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Stage of(const Json& message);
};

/// All programs of the node have ended, or have had their time to end. The agent copies their
/// outputs and replies with to_lead::Collected.
struct Collect {
  static constexpr std::string_view kType = "collect";
  /// Time since the order to end the programs; nullopt: all have ended by themselves.
  std::optional<std::chrono::milliseconds> since_end{};

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Collect of(const Json& message);
};

/// The reply to to_lead::Put and Get.
struct Reply {
  static constexpr std::string_view kType = "reply";
  std::uint64_t id = 0;
  bool ok = false;
  std::optional<std::string> error{};  ///< if not ok
  /// If not ok: "timeout" (no rank has put the key in time), "invalid" or "refused".
  std::optional<std::string> code{};
  std::optional<std::string> value{};  ///< the value in hex; absent if it is empty

  [[nodiscard]] Json json() const;
  [[nodiscard]] static Reply of(const Json& message);
};

/// A page of the address table: from, size, ips, ranks. TableReader (rank_table.h) checks it. Lead
/// makes the text of a page once for all ranks (table_pages()).
struct TablePage {
  static constexpr std::string_view kType = "table";
  Json page{};

  [[nodiscard]] Json json() const { return page; }
  [[nodiscard]] static TablePage of(const Json& message) { return {message}; }
};

/// Lead has received the exit record, and the agent may exit. If the job has outputs, lead sends
/// this message only after all nodes have copied their outputs.
struct ExitConfirmed {
  static constexpr std::string_view kType = "noted";

  [[nodiscard]] Json json() const;
  [[nodiscard]] static ExitConfirmed of(const Json&) { return {}; }
};

}  // namespace to_rank

using MessageToLead =
    std::variant<to_lead::Hello, to_lead::Beat, to_lead::Suspended, to_lead::Autopsy,
                 to_lead::Signal, to_lead::Warning, to_lead::DeviceOpenedByCheck, to_lead::Checked,
                 to_lead::CheckFailed, to_lead::Staged, to_lead::Collected, to_lead::Put,
                 to_lead::Get, to_lead::Progress, to_lead::TableRequest, to_lead::Exit>;
using MessageToRank = std::variant<to_rank::Start, to_rank::Beat, to_rank::SignalAnswer,
                                   to_rank::Autopsy, to_rank::End, to_rank::Stage, to_rank::Collect,
                                   to_rank::Reply, to_rank::TablePage, to_rank::ExitConfirmed>;

[[nodiscard]] Json json_of(const MessageToLead& message);
[[nodiscard]] Json json_of(const MessageToRank& message);

/// Returns the payload of a message. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string text_of(const Json& message);

/// Reads a payload. Returns nullopt if the payload is no JSON object, or if this version does not
/// know the message. parse_to_lead() fails with kInvalid as Hello::of() does.
[[nodiscard]] Result<std::optional<MessageToLead>> parse_to_lead(std::string_view payload);
[[nodiscard]] std::optional<MessageToRank> parse_to_rank(std::string_view payload);

}  // namespace dlrun::agent
