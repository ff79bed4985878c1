#pragma once
// The record .dlrun-downloads (see downloader.h): the files of a folder whose SHA-256 was verified.
// The reader ignores damaged lines, and the lines of files that have changed since; these files are
// read again.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// The name of the record in the folder.
inline constexpr const char* kVerifiedRecordName = ".dlrun-downloads";

/// The record of one folder, in memory. Not thread-safe; the folder's lock excludes other writers.
class VerifiedFiles {
 public:
  /// Reads the record of the folder. The folder need not exist. Ignores a record that another user
  /// owns or can write.
  explicit VerifiedFiles(std::filesystem::path folder);

  /// Returns true if the record says that the file has the checksum, and the file has not changed
  /// since. Does not read the file.
  [[nodiscard]] bool knows(const Download& download) const;

  /// Receives the number of bytes that were read, and the file's size. Returns false to stop.
  using OnProgress = std::function<bool(std::int64_t, std::int64_t)>;

  /// Does the same as is_downloaded(), and records a file that has the checksum. Fails with
  /// kInterrupted if on_progress returns false.
  [[nodiscard]] Result<bool> verify(const Download& download, const OnProgress& on_progress);

  /// Records that the file in its present state has the checksum. Does not read the file.
  void record(const Download& download);

  /// Writes the record in place. fd: the record's file, whose lock is the folder's lock. Ignores
  /// errors, also if fd is open for reading only: a file that is missing in the record is only read
  /// once more.
  void write(int fd) const;

 private:
  /// A file's state from stat. Uses ctime because programs can set back mtime, but not ctime.
  struct Stamp {
    std::int64_t size = 0, ctime_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Known {
    std::string sha256;
    Stamp stamp;
  };
  /// Returns the file's state; nullopt if the file does not exist. Fails with kInvalid if the name
  /// is a folder or a link that leads nowhere, and with kIo if stat fails.
  [[nodiscard]] Result<std::optional<Stamp>> stamp_of(const std::string& name) const;

  std::filesystem::path folder_;
  std::map<std::string, Known> known_;
};

}  // namespace dlrun
