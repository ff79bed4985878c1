#pragma once
// Runs a blocking call on another thread, beside the event loop. Lead uses it to ask Slurm's
// controller, which may not answer for minutes.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace dlrun::agent {

/// Runs functions, called questions here, one at a time, each on a new thread. Must be used by one
/// thread only. A question may outlive this object; its answer is then dropped. Therefore a
/// question must own everything that it uses.
template <typename Answer>
class BackgroundCall {
 public:
  /// Starts the question. Call it only if !is_pending().
  void ask(std::function<Answer()> question) {
    box_ = std::make_shared<Box>();
    std::thread([box = box_, question = std::move(question)] {
      auto answer = question();
      const std::lock_guard lock(box->mutex);
      box->answer = std::move(answer);
    }).detach();
  }
  /// Returns true from ask() until take() has returned the answer.
  [[nodiscard]] bool is_pending() const { return box_ != nullptr; }
  /// Returns the answer once, after the question has ended. Returns nullopt while the question
  /// runs, and if there is no question.
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
