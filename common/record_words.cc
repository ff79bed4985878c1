#include "common/record_words.h"

#include <array>

#include "common/cause_words.h"

namespace dlrun {
namespace {

template <typename Enum>
struct Row {
  Enum value;
  std::string_view name;
};

constexpr auto table_of(EndReason) {
  return std::to_array<Row<EndReason>>({{EndReason::kOk, "ok"},
                                        {EndReason::kRankFailed, "rank_failed"},
                                        {EndReason::kLaunchFailed, "launch_failed"},
                                        {EndReason::kLauncherLost, "launcher_lost"},
                                        {EndReason::kJoinTimeout, "join_timeout"},
                                        {EndReason::kSignalled, "signalled"},
                                        {EndReason::kHang, "hang"},
                                        {EndReason::kTimeLimit, "time_limit"},
                                        {EndReason::kNodeFailure, "node_failure"},
                                        {EndReason::kPreflightFailed, "not_fit"},
                                        {EndReason::kIdleGpus, "idle_gpus"},
                                        {EndReason::kLeadUnheard, "lead_unheard"},
                                        {EndReason::kStoppedEarly, "stopped_early"},
                                        {EndReason::kNotReady, "not_ready"},
                                        {EndReason::kStopped, "stopped"},
                                        {EndReason::kRehearsed, "rehearsed"}});
}

constexpr auto table_of(Cause) {
  return kCauses;
}

constexpr auto table_of(EndState) {
  return std::to_array<Row<EndState>>({{EndState::kCompleted, "completed"},
                                       {EndState::kFailed, "failed"},
                                       {EndState::kCancelled, "cancelled"},
                                       {EndState::kTimeout, "timeout"}});
}

constexpr auto table_of(SignalDecision) {
  return std::to_array<Row<SignalDecision>>({{SignalDecision::kCheckpoint, "checkpoint"},
                                             {SignalDecision::kNone, "none"},
                                             {SignalDecision::kAbort, "abort"}});
}

constexpr auto table_of(RestartedBy) {
  return std::to_array<Row<RestartedBy>>({{RestartedBy::kLead, "lead"},
                                          {RestartedBy::kSlurm, "slurm"},
                                          {RestartedBy::kChain, "chain"}});
}

constexpr auto table_of(ComponentState) {
  return std::to_array<Row<ComponentState>>({{ComponentState::kWaiting, "waiting"},
                                             {ComponentState::kStarting, "starting"},
                                             {ComponentState::kJoined, "joined"},
                                             {ComponentState::kReady, "ready"},
                                             {ComponentState::kRestarting, "restarting"},
                                             {ComponentState::kStopped, "stopped"},
                                             {ComponentState::kEnded, "ended"},
                                             {ComponentState::kFailed, "failed"}});
}

constexpr auto table_of(ComponentRole) {
  return std::to_array<Row<ComponentRole>>(
      {{ComponentRole::kMain, "main"}, {ComponentRole::kService, "service"}});
}

template <typename Enum>
std::string_view name_of(Enum value) {
  for (const auto& row : table_of(value)) {
    if (row.value == value) return row.name;
  }
  return {};
}

}  // namespace

std::string_view word(EndReason reason) {
  return name_of(reason);
}
std::string_view word(Cause cause) {
  return name_of(cause);
}
std::string_view word(EndState state) {
  return name_of(state);
}
std::string_view word(SignalDecision decision) {
  return name_of(decision);
}
std::string_view word(RestartedBy by) {
  return name_of(by);
}
std::string_view word(ComponentState state) {
  return name_of(state);
}
std::string_view word(ComponentRole role) {
  return name_of(role);
}

template <typename Enum>
std::optional<Enum> of_word(std::string_view name) {
  for (const auto& row : table_of(Enum{})) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

template std::optional<EndReason> of_word(std::string_view);
template std::optional<Cause> of_word(std::string_view);
template std::optional<EndState> of_word(std::string_view);
template std::optional<SignalDecision> of_word(std::string_view);
template std::optional<RestartedBy> of_word(std::string_view);
template std::optional<ComponentState> of_word(std::string_view);
template std::optional<ComponentRole> of_word(std::string_view);

}  // namespace dlrun
