#pragma once
// Follows metrics.jsonl of a run, to which dlrun's trainer appends a line after each epoch, and
// about once a second (runtime/ENVIRONMENT.md). The file has every epoch. The reports of progress
// that lead records leave out some epochs.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/tensorboard_event.h"

namespace dlrun::agent {

struct MetricsLine {
  double wall_s = 0;      ///< the line's own time, in seconds since 1970
  std::int64_t step = 0;  ///< the epoch if the line has no step
  std::vector<Scalar> scalars{};
};

/// Returns true if the program writes the file metrics.jsonl of the run's directory. dlrun's
/// trainer (`rank --bundled`) does, unless somebody has added `--metrics FILE` to its command line.
/// command: the command line of the step, which ends with that of the program.
[[nodiscard]] bool program_writes_metrics(bool program_is_bundled,
                                          const std::vector<std::string>& command);

/// Parses a line. text: the line without its newline. Returns nullopt if the line is no JSON
/// object, belongs to another attempt, has no values, or lacks its attempt, its time, or both step
/// and epoch. attempt: nullopt takes the lines of all attempts.
[[nodiscard]] std::optional<MetricsLine> metrics_line_of(std::string_view text,
                                                         std::optional<int> attempt);

/// A position in a file of metrics. It is the beginning of a line.
struct MetricsPosition {
  ino_t inode = 0;
  off_t offset = 0;
  bool operator==(const MetricsPosition&) const = default;
};

/// The lines of one part of the file.
struct MetricsPart {
  std::vector<MetricsLine> lines{};
  bool has_more = false;  ///< the file has more bytes after this part
};

/// Reads the lines that are appended to the file, in parts of bounded size. Returns each whole line
/// once. Blocks while the file system blocks.
class MetricsReader {
 public:
  /// Reads the lines of an attempt. The present content belongs to earlier attempts and is skipped:
  /// create the reader before the attempt's programs start.
  MetricsReader(std::filesystem::path file, int attempt);
  /// Reads the lines of all attempts. from: the position where an earlier reader has stopped. The
  /// reader starts at the beginning if `from` is nullopt, is a position in another file, or is
  /// beyond the end of the file.
  MetricsReader(std::filesystem::path file, const std::optional<MetricsPosition>& from);

  /// Reads the next part. A line without a newline waits until it is complete. A file that does not
  /// exist yet has no lines. Fails with kIo, with kNotFound if the file was removed, and with
  /// kInvalid if it is a link or no regular file, belongs to another user, or has been cut or
  /// replaced. The next call tries again.
  [[nodiscard]] Result<MetricsPart> read_part();
  /// Returns the end of the last whole line that was read; nullopt if the file does not exist yet.
  [[nodiscard]] std::optional<MetricsPosition> position() const;

 private:
  /// Parses the whole lines of rest_ into `lines` and removes them from rest_. The first `searched`
  /// bytes of rest_ have no newline.
  void take_lines(std::size_t searched, std::vector<MetricsLine>& lines);

  std::filesystem::path path_;
  std::optional<int> attempt_;    ///< nullopt: all attempts
  std::optional<ino_t> inode_;    ///< nullopt until the file exists
  off_t offset_ = 0;              ///< end of the bytes that have been read
  off_t lines_end_ = 0;           ///< end of the last whole line
  std::string rest_;              ///< the beginning of an incomplete line
  bool is_in_long_line_ = false;  ///< the next bytes end a line that is too long, and are skipped
};

/// Reads the file with a MetricsReader in a thread of its own, because a network file system may
/// hang. Only one other thread may call the functions of an object.
class MetricsFollower {
 public:
  using Clock = std::chrono::steady_clock;

  /// See MetricsReader.
  MetricsFollower(std::filesystem::path file, int attempt);
  /// Does not wait for the thread, which may hang in the kernel.
  ~MetricsFollower();
  MetricsFollower(const MetricsFollower&) = delete;
  MetricsFollower& operator=(const MetricsFollower&) = delete;

  /// Returns the next lines, at most `most`. The thread stops reading while about a thousand lines
  /// have not been taken, so that memory stays bounded.
  [[nodiscard]] std::vector<MetricsLine> take(std::size_t most);

  /// Makes the thread read the file to its present end. Call it once the programs have ended.
  void finish();
  /// Waits after finish() until lines can be taken. Returns false if no line will follow, or if
  /// the time `until` has come.
  [[nodiscard]] bool wait(Clock::time_point until);
  /// Returns true if the file has been read to its end after finish(), and all lines are taken.
  [[nodiscard]] bool is_complete() const;
  /// Returns the failure of the latest read, if it has failed.
  [[nodiscard]] std::optional<Error> failure() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
