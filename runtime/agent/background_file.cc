#include "runtime/agent/background_file.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

namespace dlrun::agent {

namespace {

constexpr std::chrono::milliseconds kRetryPause{250};

}  // namespace

// The BackgroundFile and its writer thread both own this state: the thread may be stuck in a write
// that never returns, and then outlives the BackgroundFile.
struct BackgroundFile::Shared {
  struct Record {
    std::string bytes;
    bool is_durable = false;
    /// If not 0, the record stands for this number of dropped bytes, and `bytes` is empty.
    std::size_t gap_bytes = 0;
  };

  UniqueFd file;
  UniqueFd event;
  std::string name;
  std::size_t queue_limit_bytes = 0;
  Content content = Content::kRecords;

  // Used by the writer thread only.
  std::size_t failed_bytes = 0;  // bytes lost since the last successful write
  std::string why_failed;
  bool is_at_line_start = true;
  // When to stop retrying the write of a durable record; nullopt while writes succeed.
  std::optional<std::chrono::steady_clock::time_point> retry_until;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> queue;      // guarded by mutex, like all members below
  std::size_t queued_bytes = 0;  // bytes in the queue and in the record that is being written
  bool is_writing = false;
  std::optional<Error> failure;
  bool has_failed = false;
  bool is_closing = false;
  std::size_t dropped_bytes = 0;

  [[nodiscard]] bool is_drained() const { return queue.empty() && !is_writing; }
  Renew renew;
  off_t least_renew_beyond = 0;  // the limit of BackgroundFile::renew_beyond()
  off_t next_renew_beyond = 0;   // the size beyond which renew() is called next

  void notify() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = ::write(event.get(), &one, sizeof one);
  }

  [[nodiscard]] std::string gap_line(std::size_t bytes, std::string_view why) const {
    return fmt::format("{}dlrun: {} bytes of output are missing here: {}\n",
                       is_at_line_start ? "" : "\n", bytes, why);
  }

  /// Writes a record, after a line about the bytes that were lost before it.
  Result<> write(const Record& record) {
    if (content == Content::kRecords) return append(record);
    Record text{{}, record.is_durable};
    if (failed_bytes > 0) text.bytes = gap_line(failed_bytes, why_failed);
    if (record.gap_bytes > 0)
      text.bytes += gap_line(record.gap_bytes, "the file was not written fast enough");
    text.bytes += record.bytes;
    auto written = append(text);
    if (written) {
      failed_bytes = 0;
      is_at_line_start = text.bytes.empty() ? is_at_line_start : text.bytes.back() == '\n';
    } else {
      failed_bytes += record.bytes.size() + record.gap_bytes;
      why_failed = written.error().message;
    }
    return written;
  }

  /// Pauses before a retry. Returns false once kRetryDurableFor has passed, or if the file is
  /// closing.
  [[nodiscard]] bool wait_for_disk() {
    const auto now = std::chrono::steady_clock::now();
    if (!retry_until) retry_until = now + BackgroundFile::kRetryDurableFor;
    if (now >= *retry_until) return false;
    std::unique_lock lock(mutex);
    return !changed.wait_for(lock, kRetryPause, [&] { return is_closing; });
  }

  /// Appends one record. If only a part of it could be written, removes that part, and retries the
  /// write of a durable record until wait_for_disk() gives up. With kSharedText, neither removes
  /// nor retries.
  Result<> append(const Record& record) {
    struct stat before {};
    const bool may_truncate = content != Content::kSharedText &&
                              ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
    for (;;) {
      auto written = write_all(file.get(), record.bytes);
      if (written) break;
      if (may_truncate) [[maybe_unused]]
        const int ignored = ::ftruncate(file.get(), before.st_size);
      if (!may_truncate || !record.is_durable || !wait_for_disk())
        return within(name, written.error());
    }
    retry_until.reset();
    if (record.is_durable && ::fdatasync(file.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return fail(Errc::kIo, "{}: {}", name, errno_text(errno));
    }
    return {};
  }

  /// Calls renew() if the file is too large. Runs in the writer thread; does not hold the mutex
  /// during the call.
  Result<> renew_if_large() {
    const auto [call, limit, least] = [&] {
      const std::lock_guard lock(mutex);
      return std::tuple(renew, next_renew_beyond, least_renew_beyond);
    }();
    struct stat info {};
    if (!call || ::fstat(file.get(), &info) != 0 || info.st_size <= limit) return {};
    auto renewed = call();
    off_t next = info.st_size + least / 8;
    if (renewed) {
      file = std::move(renewed->file);
      if (::fstat(file.get(), &info) == 0) next = std::max(least, info.st_size + least / 2);
    }
    const std::lock_guard lock(mutex);
    next_renew_beyond = next;
    if (!renewed) return tl::unexpected(renewed.error());
    if (renewed->sync_error) return tl::unexpected(*renewed->sync_error);
    return {};
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return is_closing || !queue.empty(); });
      if (queue.empty()) return;
      const auto record = std::move(queue.front());
      queue.pop_front();
      is_writing = true;
      lock.unlock();
      auto written = write(record);
      if (written) written = renew_if_large();
      lock.lock();
      is_writing = false;
      queued_bytes -= record.bytes.size();
      if (!written && !has_failed) {
        has_failed = true;
        failure = std::move(written.error());
      }
      notify();
      changed.notify_all();
    }
  }
};

BackgroundFile::BackgroundFile(UniqueFd file, std::string name, std::size_t queue_limit_bytes,
                               Content content)
    : shared_(std::make_shared<Shared>()) {
  shared_->file = std::move(file);
  shared_->event = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  shared_->name = std::move(name);
  shared_->queue_limit_bytes = queue_limit_bytes;
  shared_->content = content;
  std::thread([shared = shared_] { shared->run(); }).detach();
}

void BackgroundFile::renew_beyond(std::size_t limit_bytes, Renew renew) {
  const std::lock_guard lock(shared_->mutex);
  shared_->least_renew_beyond = shared_->next_renew_beyond = static_cast<off_t>(limit_bytes);
  shared_->renew = std::move(renew);
}

BackgroundFile::~BackgroundFile() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

Result<std::unique_ptr<BackgroundFile>> BackgroundFile::open(const std::string& path,
                                                             std::size_t queue_limit_bytes,
                                                             Content content) {
  UniqueFd file(::open(path.c_str(),
                       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600));
  if (!file.is_open()) return fail(Errc::kIo, "{}: {}", path, errno_text(errno));
  return std::make_unique<BackgroundFile>(std::move(file), path, queue_limit_bytes, content);
}

bool BackgroundFile::push(std::string record, bool is_durable) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->queued_bytes != 0 &&
      shared_->queued_bytes + record.size() > shared_->queue_limit_bytes)
    return false;
  shared_->queued_bytes += record.size();
  shared_->queue.push_back({std::move(record), is_durable});
  shared_->changed.notify_all();
  return true;
}

bool BackgroundFile::is_less_than_half_full() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queued_bytes < shared_->queue_limit_bytes / 2;
}

void BackgroundFile::push_or_drop(std::string bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(shared_->mutex);
  auto& queue = shared_->queue;
  if (shared_->queued_bytes == 0 ||
      shared_->queued_bytes + bytes.size() <= shared_->queue_limit_bytes) {
    shared_->queued_bytes += bytes.size();
    queue.push_back({std::move(bytes)});
    shared_->changed.notify_all();
    return;
  }
  shared_->dropped_bytes += bytes.size();
  if (queue.empty() || queue.back().gap_bytes == 0) queue.push_back({});
  queue.back().gap_bytes += bytes.size();
}

std::size_t BackgroundFile::dropped_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->dropped_bytes;
}

std::size_t BackgroundFile::queued_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queued_bytes;
}

std::optional<Error> BackgroundFile::take_failure() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->failure, std::nullopt);
}

int BackgroundFile::event_fd() const {
  return shared_->event.get();
}

void BackgroundFile::acknowledge() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto ignored = ::read(shared_->event.get(), &count, sizeof count);
}

bool BackgroundFile::is_drained() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->is_drained();
}

bool BackgroundFile::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [&] { return shared_->is_drained(); });
}

}  // namespace dlrun::agent
