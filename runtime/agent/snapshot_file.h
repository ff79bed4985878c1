#pragma once
// A small file that is written whole again and again, by a thread of its own: the file system may
// hang.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/result.h"

namespace dlrun::agent {

/// One owner, one thread calls.
class SnapshotFile {
 public:
  explicit SnapshotFile(std::filesystem::path path);
  /// Waits for nothing.
  ~SnapshotFile();
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  /// What the file is to hold. What was to be written before and is not yet will never be.
  void put(std::string content);
  /// Waits until the last content is written or lost; false when limit passes first.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);
  /// The first failure since the file was made, told once.
  [[nodiscard]] std::optional<Error> take_failure();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
