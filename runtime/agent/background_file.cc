#include "runtime/agent/background_file.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace dlrun::agent {

// Owned by both threads: the writer may outlive its owner inside a write that never returns.
struct BackgroundFile::Shared {
  struct Record {
    std::string bytes;
    bool durable = false;
  };

  UniqueFd file;
  UniqueFd event;
  std::string name;
  std::size_t limit_bytes = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> queue;      // guarded by mutex, like all below
  std::size_t queued_bytes = 0;  // of queue and of the record that is being written
  std::optional<Error> failure;
  bool has_failed = false;
  bool is_closing = false;

  void notify() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto ignored = ::write(event.get(), &one, sizeof one);
  }

  /// Writes one record at the file's end, whole or not at all.
  Result<> append(const Record& record) {
    struct stat before {};
    const bool is_regular = ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
    if (auto written = write_all(file.get(), record.bytes); !written) {
      if (is_regular) [[maybe_unused]]
        const int ignored = ::ftruncate(file.get(), before.st_size);
      return within(name, written.error());
    }
    if (record.durable && ::fdatasync(file.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return fail(Errc::kIo, "{}: {}", name, errno_text(errno));
    }
    return {};
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return is_closing || !queue.empty(); });
      if (queue.empty()) return;
      const auto record = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      auto written = append(record);
      lock.lock();
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

BackgroundFile::BackgroundFile(UniqueFd file, std::string name, std::size_t limit_bytes)
    : shared_(std::make_shared<Shared>()) {
  shared_->file = std::move(file);
  shared_->event = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  shared_->name = std::move(name);
  shared_->limit_bytes = limit_bytes;
  std::thread([shared = shared_] { shared->run(); }).detach();
}

BackgroundFile::~BackgroundFile() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

Result<std::unique_ptr<BackgroundFile>> BackgroundFile::open(const std::string& path, std::size_t limit_bytes) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600));
  if (!file.is_open()) return fail(Errc::kIo, "{}: {}", path, errno_text(errno));
  return std::make_unique<BackgroundFile>(std::move(file), path, limit_bytes);
}

bool BackgroundFile::push(std::string record, bool durable) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->queued_bytes != 0 && shared_->queued_bytes + record.size() > shared_->limit_bytes) return false;
  shared_->queued_bytes += record.size();
  shared_->queue.push_back({std::move(record), durable});
  shared_->changed.notify_all();
  return true;
}

bool BackgroundFile::has_room() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queued_bytes < shared_->limit_bytes;
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
  return shared_->queued_bytes == 0;
}

bool BackgroundFile::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [&] { return shared_->queued_bytes == 0; });
}

}  // namespace dlrun::agent
