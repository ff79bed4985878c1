#pragma once
// The intervals on which lead and the rank agents must agree.

#include <chrono>

namespace dlrun::agent {

/// Interval of the heartbeats in both directions.
inline constexpr std::chrono::milliseconds kBeatEvery{3000};
/// Silence after which lead calls a rank's heartbeat late.
inline constexpr std::chrono::milliseconds kBeatLateAfter{4500};
/// Silence after which a rank counts as silent for lead: two heartbeats are missing.
inline constexpr std::chrono::milliseconds kSilentAfter{7500};
/// Silence of lead after which the agent ends the program.
inline constexpr std::chrono::milliseconds kLease{10'000};
/// Time for lead to confirm the exit record of a rank.
inline constexpr std::chrono::milliseconds kExitConfirmedWithin{12'000};

/// Time that lead and the agents wait for the copy of an output beyond the time limit of that copy.
inline constexpr std::chrono::milliseconds kOutputsMargin{15'000};

/// Time from SIGTERM to SIGKILL for a program that is told to end.
inline constexpr std::chrono::milliseconds kKilledAfterTerm{1000};
/// Time that lead waits after it has told the ranks to end, before it asks the step to stop.
inline constexpr std::chrono::milliseconds kStepStoppedAfter{1500};
/// Time that lead waits after it has told the ranks to end, before it kills the step.
inline constexpr std::chrono::milliseconds kStepKilledAfter{3000};

static_assert(kBeatEvery < kBeatLateAfter && kBeatEvery * 2 < kSilentAfter);
static_assert(kBeatEvery * 3 < kLease, "two lost heartbeats must not end a program");
static_assert(kLease < kExitConfirmedWithin,
              "a lead that comes back must still get the exit record");
static_assert(kKilledAfterTerm < kStepStoppedAfter,
              "the agents end their programs before the step is stopped");
static_assert(kStepStoppedAfter < kStepKilledAfter);

}  // namespace dlrun::agent
