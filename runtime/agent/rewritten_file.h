#pragma once
// Rewrites a small file repeatedly. A separate thread writes it, because the file system may hang.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/result.h"

namespace dlrun::agent {

/// Must be used by one thread only.
class RewrittenFile {
 public:
  explicit RewrittenFile(std::filesystem::path path);
  /// Does not wait for the writer thread.
  ~RewrittenFile();
  RewrittenFile(const RewrittenFile&) = delete;
  RewrittenFile& operator=(const RewrittenFile&) = delete;

  /// Sets the new content. Replaces earlier content that is not written yet.
  void put(std::string content);
  /// Waits until the latest content is written, or its write has failed. Returns false after limit.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);
  /// Returns the first failure to write, once.
  [[nodiscard]] std::optional<Error> take_failure();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
