#pragma once
// Notices that a later attempt of the run has begun elsewhere, where Slurm believed this one dead:
// two attempts must not write at a time.

#include <filesystem>
#include <memory>

namespace dlrun::agent {

/// Reads the run's attempt file now and then, on a thread of its own: a network file system may
/// hang.
class AttemptWatch {
 public:
  AttemptWatch(std::filesystem::path run, int attempt);
  ~AttemptWatch();
  AttemptWatch(const AttemptWatch&) = delete;
  AttemptWatch& operator=(const AttemptWatch&) = delete;

  /// The file names another attempt. A file that cannot be read says nothing.
  [[nodiscard]] bool is_superseded() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
