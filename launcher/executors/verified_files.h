#pragma once
// Which files of a folder have which SHA-256, remembered: .dlrun-downloads (see downloader.h). A
// line that is damaged, or whose file has changed since, counts for nothing, and the file is read
// again.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

inline constexpr const char* kVerifiedFiles = ".dlrun-downloads";

class VerifiedFiles {
 public:
  /// What is remembered of folder, which need not be there.
  explicit VerifiedFiles(std::filesystem::path folder);

  /// Whether the file has the checksum, without reading it.
  [[nodiscard]] bool knows(const Download& download) const;

  /// Called with the bytes of a file that were read, and its size; false: stop.
  using GoOn = std::function<bool(std::int64_t, std::int64_t)>;

  /// As is_downloaded; a file that has the checksum is noted. Fails with kInterrupted when go_on
  /// says so.
  [[nodiscard]] Result<bool> check(const Download& download, const GoOn& go_on);

  /// The file, as it is now, has the checksum.
  void note(const Download& download);

  /// Onto the file that fd is, in place, since fd is its lock, too. One that cannot be written
  /// costs time later.
  void write(int fd) const;

 private:
  /// A file as stat has it. ctime: no program can set it back, as it can mtime.
  struct Stamp {
    std::int64_t size = 0, ctime_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Known {
    std::string sha256;
    Stamp stamp;
  };
  /// Nothing where there is no such file.
  [[nodiscard]] Result<std::optional<Stamp>> stamp_of(const std::string& name) const;

  std::filesystem::path folder_;
  std::map<std::string, Known> known_;
};

}  // namespace dlrun
