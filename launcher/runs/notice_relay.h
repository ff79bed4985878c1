#pragma once
// Sends notices of runs (`notify`) from a login node if the compute nodes could not send them. Only
// notices of this user's own runs are read and sent.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/notice_queue.h"
#include "common/result.h"
#include "launcher/runs/index.h"

namespace dlrun {

/// A notice in the queue of a run.
struct NoticeOfRun {
  std::string run{};  ///< the run's id
  QueuedNotice queued{};
};

/// Reads the notices in the queues of these runs. A sweep's queues are those of its points.
[[nodiscard]] std::vector<NoticeOfRun> read_notices(const std::vector<IndexEntry>& runs);
/// Returns the JSON of `dlrun notify --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json notices_json(const std::vector<NoticeOfRun>& notices);

/// Sends the notices that wait in these runs, each at most once, even if other processes send them
/// at the same time. The report counts the notices of all runs together. Its `problem` is that of
/// the last run that had a problem.
[[nodiscard]] SendReport relay_notices(const Env& env, const std::vector<IndexEntry>& runs,
                                       SendBy by);

/// Starts `dlrun notify --relay --webhooks` for the runs with notices that are to be sent to
/// webhooks, and does not wait for the end of the started process. Looks at the first 100 runs
/// only, so the newest must come first. If no notice waits, does nothing except a few system calls
/// for each run.
void relay_notices_in_background(const Env& env, const std::vector<IndexEntry>& runs);

}  // namespace dlrun
