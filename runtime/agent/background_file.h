#pragma once
// Appending to a file on a file system that may hang, fill up or come back: a thread of its own
// writes, so that a stalled network file system stops neither heartbeats nor the forwarding of
// output.

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

/// One owner, one thread calls.
class BackgroundFile {
 public:
  /// A durable record that a full disk refuses is tried again for so long: what a run's end is told
  /// by may wait.
  static constexpr std::chrono::seconds kDiskPatience{60};

  enum class Content {
    kRecords,     ///< a record that cannot be written whole is cut off again; the file has no other
                  ///< writer
    kText,        ///< the same, and where bytes are lost a line of the file says how many
    kSharedText,  ///< the same, in a file that others write too: it is never cut
  };

  /// What is not written yet is held up to limit_bytes. name is the file's, for messages.
  BackgroundFile(UniqueFd file, std::string name, std::size_t limit_bytes,
                 Content content = Content::kRecords);
  /// Waits for nothing: a writer that hangs in the kernel is left behind.
  ~BackgroundFile();
  BackgroundFile(const BackgroundFile&) = delete;
  BackgroundFile& operator=(const BackgroundFile&) = delete;

  /// Makes the writer's thread call renew() when the file has grown beyond limit_bytes: renew()
  /// puts a smaller file in its place and returns that, open for appending. After a failure, and
  /// where it has become hardly smaller, the next call comes at twice the size.
  using Renew = std::function<Result<UniqueFd>()>;
  void renew_beyond(std::size_t limit_bytes, Renew renew);

  /// Opens path for appending, private, following no link; creates it. The file is then path
  /// itself.
  [[nodiscard]] static Result<std::unique_ptr<BackgroundFile>> open(
      const std::string& path, std::size_t limit_bytes, Content content = Content::kRecords);

  /// Queues a record: it is written whole, or (after a failure) cut off again and lost. durable:
  /// followed by fdatasync. False when the queue is full; nothing was taken then.
  [[nodiscard]] bool push(std::string record, bool durable = false);
  [[nodiscard]] bool has_room() const;

  /// Queues bytes of a text, or drops them when the queue is full: then they are counted, and a
  /// line in their place says so.
  void push_or_drop(std::string bytes);
  /// Bytes that push_or_drop() dropped.
  [[nodiscard]] std::size_t dropped_bytes() const;
  /// Bytes that are not written yet.
  [[nodiscard]] std::size_t queued_bytes() const;

  /// The first failure since the file was opened, told once. Writing goes on: the space may come
  /// back.
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
