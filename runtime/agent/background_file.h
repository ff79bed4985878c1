#pragma once
// Appending to a file on a file system that may hang, fill up or come back: a thread of its own writes, so that a
// stalled network file system stops neither heartbeats nor the forwarding of output.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

/// One owner, one thread calls. The file has no other writer.
class BackgroundFile {
 public:
  /// What is not written yet is held up to limit_bytes. name is the file's, for messages.
  BackgroundFile(UniqueFd file, std::string name, std::size_t limit_bytes);
  /// Waits for nothing: a writer that hangs in the kernel is left behind.
  ~BackgroundFile();
  BackgroundFile(const BackgroundFile&) = delete;
  BackgroundFile& operator=(const BackgroundFile&) = delete;

  /// Opens path for appending, private, following no link; creates it. The file is then path itself.
  [[nodiscard]] static Result<std::unique_ptr<BackgroundFile>> open(const std::string& path, std::size_t limit_bytes);

  /// Queues a record: it is written whole, or (after a failure) cut off again and lost. durable: followed by fdatasync.
  /// False when the queue is full; nothing was taken then.
  [[nodiscard]] bool push(std::string record, bool durable = false);
  [[nodiscard]] bool has_room() const;

  /// The first failure since the file was opened, told once. Writing goes on: the space may come back.
  [[nodiscard]] std::optional<Error> take_failure();

  /// Readable when something was written or failed since acknowledge().
  [[nodiscard]] int event_fd() const;
  void acknowledge();

  [[nodiscard]] bool is_drained() const;
  /// Waits until all is written or lost; false when limit passes first.
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun::agent
