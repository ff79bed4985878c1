#pragma once
// Detects that a later attempt of the run has begun on another node because Slurm considers this
// node dead. Two attempts must not write at the same time.

#include <filesystem>
#include <memory>

namespace dlrun::agent {

/// Reads the run's `attempt` file every 3 s. Uses its own thread, because a network file system
/// may hang.
class LaterAttemptWatch {
 public:
  LaterAttemptWatch(std::filesystem::path run, int attempt);
  ~LaterAttemptWatch();
  LaterAttemptWatch(const LaterAttemptWatch&) = delete;
  LaterAttemptWatch& operator=(const LaterAttemptWatch&) = delete;

  /// Returns true once the file has contained the number of another attempt. Ignores a file that
  /// cannot be read.
  [[nodiscard]] bool is_superseded() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
