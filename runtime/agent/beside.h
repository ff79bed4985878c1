#pragma once
// A question whose answer takes its time (Slurm's controller may be away for minutes), asked beside
// the event loop.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace dlrun::agent {

/// One question at a time, on a thread of its own. One owner, one thread calls. An answer that
/// comes after the owner has gone is dropped: the question must hold all that it needs.
template <typename Answer>
class Beside {
 public:
  /// Asks. Only while no question is open.
  void ask(std::function<Answer()> question) {
    box_ = std::make_shared<Box>();
    std::thread([box = box_, question = std::move(question)] {
      auto answer = question();
      const std::lock_guard lock(box->mutex);
      box->answer = std::move(answer);
    }).detach();
  }
  /// A question was asked, and its answer was not taken yet.
  [[nodiscard]] bool is_open() const { return box_ != nullptr; }
  /// The answer, once.
  [[nodiscard]] std::optional<Answer> take() {
    if (!box_) return std::nullopt;
    std::unique_lock lock(box_->mutex);
    if (!box_->answer) return std::nullopt;
    auto answer = std::move(box_->answer);
    lock.unlock();
    box_.reset();
    return answer;
  }

 private:
  struct Box {
    std::mutex mutex;
    std::optional<Answer> answer;  // guarded by mutex
  };
  std::shared_ptr<Box> box_;
};

}  // namespace dlrun::agent
