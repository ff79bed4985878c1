#pragma once
// Values of a run's record. Programs base decisions on these values. Each kind of value is an enum
// with one table of names (record_words.cc). The names occur only in the record, in command lines
// and in output; the code uses the enums.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dlrun {

/// The reason for the end of an attempt: `reason` of `attempt_end`.
enum class EndReason {
  kUndecided,  ///< the attempt has not ended; has no name
  kOk,
  kRankFailed,
  kLaunchFailed,  ///< the step could not be started
  kLauncherLost,  ///< srun was killed
  kJoinTimeout,   ///< some ranks did not join in time
  kSignalled,     ///< a signal to lead ended the attempt, as after scancel
  kHang,
  kTimeLimit,
  kNodeFailure,
  kPreflightFailed,  ///< "not_fit": a check of health.preflight failed, and no node is to blame
  kIdleGpus,         ///< the GPUs were idle for too long (health.idle_gpu)
  kLeadUnheard,      ///< an agent received nothing from lead and ended its rank
  kStoppedEarly,     ///< the results of this point of a sweep were worse than those of others
  kNotReady,         ///< a component was not ready in time
  kStopped,          ///< lead ended a component because it was no longer needed
  kRehearsed,        ///< the programs ran for the whole time of the rehearsal
};

/// The cause of an attempt's end. `retry.on` accepts the values that cause_words.h marks. kNone:
/// there is no cause; the record then has no `cause`, and no other attempt follows.
enum class Cause {
  kNone,
  kTimeout,
  kPreemption,
  kNodeFailure,
  kHang,
  kOom,
  kFailure,
  kRequeue,    ///< a user asked Slurm to requeue the job
  kImage,      ///< the container failed because of its image; never retried
  kContainer,  ///< the container failed for another reason; never retried
};

/// The final state of a run: `state` of `ended`.
enum class EndState { kCompleted, kFailed, kCancelled, kTimeout };

/// Lead's decision about a signal. The record has it as the field `word` of the event `signal`.
enum class SignalDecision {
  kCheckpoint,  ///< the program gets SIGUSR1, so that it saves a checkpoint
  kNone,        ///< the signal is ignored
  kAbort,       ///< the attempt ends
};

/// The program or job that starts the next attempt: `by` of `restarting`.
enum class RestartedBy {
  kLead,   ///< lead, in the allocation
  kSlurm,  ///< Slurm, from the queue
  kChain,  ///< the next job of the run's chain (retry.chain)
};

/// The role of a component: `role` in the event `components`, and in the option --role of lead.
enum class ComponentRole {
  kMain,     ///< the job ends when all main components have ended
  kService,  ///< lead ends it when all main components have ended
};

/// The state of one component of a job with several programs. components.json has the state's
/// name. Events do not have it, because launcher/runs derives the state from the events.
enum class ComponentState {
  kWaiting,     ///< it waits until the components of `after` are ready
  kStarting,    ///< its step is started; not all ranks have joined
  kJoined,      ///< all ranks have joined; it is not ready
  kReady,       ///< the components that wait for it may start
  kRestarting,  ///< it has ended and is about to start again
  kStopped,     ///< ended on purpose, or never started because it was not needed any more
  kEnded,       ///< a main component that ended with exit code 0
  kFailed,      ///< ended in any other way
};

/// Returns the name of a value; empty for EndReason::kUndecided.
[[nodiscard]] std::string_view word(EndReason reason);
[[nodiscard]] std::string_view word(Cause cause);
[[nodiscard]] std::string_view word(EndState state);
[[nodiscard]] std::string_view word(SignalDecision decision);
[[nodiscard]] std::string_view word(RestartedBy by);
[[nodiscard]] std::string_view word(ComponentState state);
[[nodiscard]] std::string_view word(ComponentRole role);

/// Returns the value with this name; nullopt if there is none. Defined for the enums of this
/// header.
template <typename Enum>
[[nodiscard]] std::optional<Enum> of_word(std::string_view name);

/// A value of the record: the enum value for decisions, and its name for output. A record from a
/// later version of dlrun may have a name that this version does not know. The Word then has no
/// enum value.
template <typename Enum>
class Word {
 public:
  /// Makes the empty value of an event that lacks the field.
  Word() = default;
  Word(Enum value) : value_(value), text_(word(value)) {}  // NOLINT: implicit on purpose
  /// Returns the value with this name in a record. Cuts a text that is too long to be a name.
  [[nodiscard]] static Word of_text(std::string text) {
    constexpr std::size_t kLongest = 4096;
    Word result;
    result.value_ = of_word<Enum>(text);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    result.text_ = std::move(text);
    return result;
  }

  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Returns nullopt if the name is empty or unknown to this version.
  [[nodiscard]] std::optional<Enum> value() const { return value_; }
  friend bool operator==(const Word& word, Enum value) { return word.value_ == value; }

 private:
  std::optional<Enum> value_;
  std::string text_;
};

}  // namespace dlrun
