#pragma once
// The lock of a mirror (the copy of a user's code on a host): it keeps the code unchanged until
// Slurm has the job. This file also has the host's answer about its mirror.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Holds a mirror's lock. Programs that this process starts, such as sbatch, inherit the lock. So
/// the mirror stays locked while sbatch runs, even if this process is killed.
class MirrorLock {
 public:
  /// Creates the folder `root` and the mirror's folder in it, and takes the lock. Waits for the
  /// lock up to `patience`. On a file system without locks the lock has no effect. Fails with
  /// kUnavailable if another process still holds the lock after `patience`, with kIo if the
  /// folder or the lock's file cannot be made, and with kInvalid if another user owns or can write
  /// one of the two, or if `mirror` is no plain name.
  [[nodiscard]] static Result<MirrorLock> take(
      const std::filesystem::path& root, const std::string& mirror,
      std::chrono::seconds patience = std::chrono::seconds(10));
  /// Keeps the lock until this process and those that it starts have ended.
  void keep_until_exit() { static_cast<void>(fd_.release()); }
  /// Releases the lock. After a fork this has no effect while the child lives, because the child
  /// shares the lock.
  void release() { fd_.reset(); }

 private:
  explicit MirrorLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Returns the host's answer, one line of JSON: the mirror's path, those of `paths` that do not
/// exist on the host, and whether the mirror has the caller's files already.
[[nodiscard]] std::string mirror_answer(const std::filesystem::path& mirror,
                                        const std::vector<std::string>& paths, bool is_current);

/// The contents of mirror_answer().
struct MirrorAnswer {
  std::string path;
  std::vector<std::string> missing;
  bool is_current = false;
};
/// Parses the line of mirror_answer(). Fails with kInvalid for any other line.
[[nodiscard]] Result<MirrorAnswer> parse_mirror_answer(const std::string& line);

}  // namespace dlrun
