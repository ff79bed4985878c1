#pragma once
// Building the environment of a project: a folder that only the user can enter, a lock, and the
// versions of the environment.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Holds the lock of one environment. The destructor releases it.
class BuildLock {
 public:
  /// Takes the lock of this file. Waits if another process holds it, and calls on_wait once if the
  /// wait lasts longer than half a second. Fails with kInterrupted if is_interrupted() returns true
  /// during the wait, and with kIo or kInvalid if the file cannot be used.
  [[nodiscard]] static Result<BuildLock> take(const std::filesystem::path& file,
                                              const std::function<void()>& on_wait,
                                              const std::function<bool()>& is_interrupted);
  /// Returns false on a file system without locks, where other processes may build at this moment.
  [[nodiscard]] bool is_exclusive() const { return is_exclusive_; }

 private:
  BuildLock(UniqueFd fd, bool is_exclusive) : fd_(std::move(fd)), is_exclusive_(is_exclusive) {}
  UniqueFd fd_;
  bool is_exclusive_;
};

/// Creates a folder that only the user can enter, with a .gitignore that hides it from git. Fails
/// with kInvalid if the folder belongs to another user, or if others can write to it. remedy: what
/// the message tells the user to do about a folder of another user.
[[nodiscard]] Result<> make_environments_folder(
    const std::filesystem::path& folder,
    std::string_view remedy = "give the job your own copy of the project");

/// The versions of one environment. Each is a folder HASH-RANDOM, built once and never changed. The
/// link `current` leads to the version of the most recent submission. Every job that starts uses
/// the version to which the link leads at that time; running jobs may use older versions. A
/// finished version contains a mark, the file .dlrun-finished.
class EnvironmentVersions {
 public:
  /// folder: holds the versions and the link. It need not exist.
  explicit EnvironmentVersions(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns true if `current` leads to a finished version of this hash. hash, here and below: at
  /// least 16 hexadecimal digits, of which the first 16 count.
  [[nodiscard]] bool is_current(const std::string& hash) const;
  /// Returns a finished version of this hash; nullopt if there is none.
  [[nodiscard]] std::optional<std::filesystem::path> find(const std::string& hash) const;
  /// Returns the path for a new version, which does not exist yet.
  [[nodiscard]] std::filesystem::path new_path(const std::string& hash) const;
  /// Marks a version as finished, and makes it the current one.
  [[nodiscard]] Result<> finish_and_make_current(const std::filesystem::path& version) const;
  /// Makes a finished version the current one.
  [[nodiscard]] Result<> make_current(const std::filesystem::path& version) const;
  /// Removes versions that a killed dlrun has left unfinished. The caller holds the lock.
  void remove_unfinished() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace dlrun
