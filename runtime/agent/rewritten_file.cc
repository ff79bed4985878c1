#include "runtime/agent/rewritten_file.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "common/files.h"

namespace dlrun::agent {

// The RewrittenFile and its writer thread both own this state: the thread may be stuck in a write
// that never returns, and then outlives the RewrittenFile.
struct RewrittenFile::Shared {
  std::filesystem::path path;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> next;  // guarded by mutex, like all members below
  std::optional<Error> failure;
  bool is_writing = false;
  bool has_failed = false;
  bool is_closing = false;

  void write_until_closed() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return is_closing || next.has_value(); });
      if (!next) return;
      const auto content = std::move(*next);
      next.reset();
      is_writing = true;
      lock.unlock();
      auto written = write_file_atomic(path, content);
      lock.lock();
      is_writing = false;
      if (!written && !std::exchange(has_failed, true)) failure = std::move(written.error());
      changed.notify_all();
    }
  }
};

RewrittenFile::RewrittenFile(std::filesystem::path path) : shared_(std::make_shared<Shared>()) {
  shared_->path = std::move(path);
  std::thread([shared = shared_] { shared->write_until_closed(); }).detach();
}

RewrittenFile::~RewrittenFile() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

void RewrittenFile::put(std::string content) {
  const std::lock_guard lock(shared_->mutex);
  shared_->next = std::move(content);
  shared_->changed.notify_all();
}

bool RewrittenFile::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit,
                                   [&] { return !shared_->next && !shared_->is_writing; });
}

std::optional<Error> RewrittenFile::take_failure() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->failure, std::nullopt);
}

}  // namespace dlrun::agent
