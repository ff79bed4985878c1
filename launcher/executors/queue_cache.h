#pragma once
// Shares the newest answer of squeue or slurmrestd about a user's jobs among the user's dlrun
// processes on this machine, so that a hundred watchers send one query instead of a hundred.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// A folder with one file for each question. The file has the newest answer to it. get()
/// holds a lock (flock) on the file while it reads the answer and, if needed, asks again.
class QueueCache {
 public:
  /// Returns the user's cache in $XDG_RUNTIME_DIR, else in a private folder under /tmp; neither is
  /// on a network file system. Returns nullopt if the folder cannot be created or is not private to
  /// the user; every process then queries by itself.
  [[nodiscard]] static std::optional<QueueCache> of_user(const Env& env);

  explicit QueueCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  using Suffices = std::function<bool(const std::string& text)>;
  using Ask = std::function<Result<std::string>()>;

  /// Returns a cached answer to `question` that is at most max_age old and that `suffices` accepts;
  /// otherwise calls ask() and stores its answer with the time of the call. While one process asks,
  /// others wait for its answer, at most 35 s; after that each of them calls ask() itself. Also
  /// stores the error kUnavailable, and fails with a stored error that is at most max_age old, so
  /// that not every process asks an unreachable controller. If the file cannot be opened or locked,
  /// calls ask().
  [[nodiscard]] Result<std::string> get(const std::string& question,
                                        std::chrono::milliseconds max_age, const Suffices& suffices,
                                        const Ask& ask);

 private:
  std::filesystem::path folder_;
};

}  // namespace dlrun
