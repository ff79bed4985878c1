#pragma once
// Appends to a file on a file system that may hang, fill up, or recover. A separate thread writes,
// so that a stalled network file system blocks neither heartbeats nor the forwarding of output.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

/// Must be used by one thread only.
class BackgroundFile {
 public:
  /// Time for which the write of a durable record is retried after an error, such as a full disk.
  static constexpr std::chrono::seconds kRetryDurableFor{60};

  /// The kind of content decides what happens after a partial write.
  enum class Content {
    kRecords,     ///< a partly written record is cut off; the file must have no other writer
    kText,        ///< like kRecords, and a line in the file reports the number of missing bytes
    kSharedText,  ///< like kText, but the file has other writers, so it is never truncated
  };

  /// Queues at most queue_limit_bytes that are not written yet. An empty queue accepts a record of
  /// any size. name: the file's name for messages.
  BackgroundFile(UniqueFd file, std::string name, std::size_t queue_limit_bytes,
                 Content content = Content::kRecords);
  /// Does not wait. The writer thread writes the rest of the queue, and may hang in the kernel.
  ~BackgroundFile();
  BackgroundFile(const BackgroundFile&) = delete;
  BackgroundFile& operator=(const BackgroundFile&) = delete;

  /// The file that replaces the current one, open for appending.
  struct Renewed {
    UniqueFd file;
    std::optional<Error> sync_error;  ///< if set, a power loss may bring the old file back
  };
  using Renew = std::function<Result<Renewed>()>;
  /// Makes the writer thread call renew() when the file has grown beyond limit_bytes. renew()
  /// replaces the file by a smaller one. The next call comes when the new file has grown by half of
  /// limit_bytes, but not before it exceeds limit_bytes. After a failure of renew() the next call
  /// comes when the old file has grown by an eighth of limit_bytes, so several calls come before
  /// the file reaches twice limit_bytes. If all of them fail, for example because the disk has no
  /// room for a second file, the file grows further.
  void renew_beyond(std::size_t limit_bytes, Renew renew);

  /// Opens path for appending, or creates it with mode 0600. Fails with kIo, also if path is a
  /// symbolic link. The file's name for messages is path.
  [[nodiscard]] static Result<std::unique_ptr<BackgroundFile>> open(
      const std::string& path, std::size_t queue_limit_bytes, Content content = Content::kRecords);

  /// Queues a record. The record is written whole, or lost after a failure (with kSharedText a part
  /// of it may stay). is_durable: fdatasync() follows the write. Returns false, and queues nothing,
  /// if the queue is full.
  [[nodiscard]] bool push(std::string record, bool is_durable = false);
  /// Returns true while the queue is less than half full. Callers drop unimportant records while
  /// this is false. Half of the queue thus stays free for important records while the disk hangs.
  [[nodiscard]] bool is_less_than_half_full() const;

  /// Queues text. If the queue is full, drops the text and counts its bytes. A file of kText or
  /// kSharedText then gets a line about the loss in its place.
  void push_or_drop(std::string bytes);
  /// Returns the number of bytes that push_or_drop() dropped.
  [[nodiscard]] std::size_t dropped_bytes() const;
  /// Returns the number of bytes that are not written yet.
  [[nodiscard]] std::size_t queued_bytes() const;

  /// Returns the first failure since the file was opened; nullopt if there is none, or if an
  /// earlier call has returned it. Writing continues after a failure, because space on the disk may
  /// become free again.
  [[nodiscard]] std::optional<Error> take_failure();

  /// Returns an eventfd that is readable after a write or a failure, until acknowledge().
  [[nodiscard]] int event_fd() const;
  /// Makes event_fd() unreadable until the next write or failure.
  void acknowledge();

  /// Returns true if the whole queue is written or lost.
  [[nodiscard]] bool is_drained() const;
  /// Waits until the whole queue is written or lost. Returns false after limit.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
