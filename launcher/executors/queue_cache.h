#pragma once
// What squeue last said about a user's jobs, shared by all of the user's dlrun processes on this
// machine: a hundred watchers put one question to the controller, not a hundred.

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

class QueueCache {
 public:
  /// In $XDG_RUNTIME_DIR, else in a private folder under /tmp: this machine's, never a network file
  /// system. Nothing where such a folder cannot be had or is somebody else's; then every process
  /// asks for itself.
  [[nodiscard]] static std::optional<QueueCache> of_user(const Env& env);

  explicit QueueCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  using Suffices = std::function<bool(const std::string& text)>;
  using Ask = std::function<Result<std::string>()>;

  /// The answer to question that somebody got at most max_age ago, if it suffices; else ask()'s,
  /// which is kept for others together with the moment it was asked. While one process asks, others
  /// wait for its answer, for a bounded time. kUnavailable is kept, too: a controller that does not
  /// answer one need not be asked by all.
  [[nodiscard]] Result<std::string> get(const std::string& question,
                                        std::chrono::milliseconds max_age, const Suffices& suffices,
                                        const Ask& ask);

 private:
  std::filesystem::path folder_;
};

}  // namespace dlrun
