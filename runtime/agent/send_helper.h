#pragma once
// `dlrun-agent notify`, a helper process of lead. The helper sends the notices of one run (key
// `notify`), and sends the run's values to an MLflow server (key `track.mlflow`). Before it sends
// notices and values, the helper writes them into the run's folder (common/notice_queue.h,
// common/mlflow.h). If the helper cannot send them, another process can do so later. The helper
// ends soon after lead.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

struct SendHelperOptions {
  std::filesystem::path run;  ///< absolute
};

/// Reads standard input to its end, one JSON object per line: first the targets (the webhook, the
/// command and the MLflow server), and then notices and values. Lead (notifier.h) writes these
/// lines. Sends the notices and values. say: prints a line for the user; must be thread-safe.
/// Returns the exit code, always 0.
[[nodiscard]] int run_send_helper(const SendHelperOptions& options, const Env& env,
                                  const std::function<void(std::string_view)>& say);

/// Returns the last lines that the rank's program printed in this attempt, at most three. Leaves
/// out blank lines and dlrun's own lines, and cuts long ones. Empty if the log cannot be read.
/// Reads the log RUN/logs/attempt-K/rank-NNNN.log, or RUN/logs/attempt-K/COMPONENT/rank-NNNN.log in
/// a job with components. component: empty if the job has one program.
[[nodiscard]] std::vector<std::string> last_lines_of_rank(const std::filesystem::path& run,
                                                          std::int64_t attempt,
                                                          std::string_view component,
                                                          std::int64_t rank);

}  // namespace dlrun::agent
