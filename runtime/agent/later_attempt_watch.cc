#include "runtime/agent/later_attempt_watch.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/agent/run_claim.h"

namespace dlrun::agent {
namespace {

constexpr std::chrono::seconds kLookAtAttemptEvery{3};

}  // namespace

// The LaterAttemptWatch and its reader thread both own this state: the thread may be stuck in a
// read that never returns, and then outlives the LaterAttemptWatch.
struct LaterAttemptWatch::Shared {
  std::filesystem::path run;
  int attempt = 0;
  std::atomic<bool> is_superseded{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_closing = false;  // guarded by mutex

  void look_until_closed() {
    std::unique_lock lock(mutex);
    while (!is_closing) {
      lock.unlock();
      if (const auto newest = read_attempt(run); newest && *newest != attempt) is_superseded = true;
      lock.lock();
      changed.wait_for(lock, kLookAtAttemptEvery, [&] { return is_closing; });
    }
  }
};

LaterAttemptWatch::LaterAttemptWatch(std::filesystem::path run, int attempt)
    : shared_(std::make_shared<Shared>()) {
  shared_->run = std::move(run);
  shared_->attempt = attempt;
  std::thread([shared = shared_] { shared->look_until_closed(); }).detach();
}

LaterAttemptWatch::~LaterAttemptWatch() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

bool LaterAttemptWatch::is_superseded() const {
  return shared_->is_superseded;
}

}  // namespace dlrun::agent
