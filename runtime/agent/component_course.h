#pragma once
// The course of the components of one attempt: which component starts when, which one is stopped,
// which one starts again, and how the attempt ends. A state machine without I/O and without a
// clock; components_runner.h connects it with the components' own attempts.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/record_words.h"
#include "runtime/agent/attempt_judge.h"
#include "runtime/agent/component_options.h"

namespace dlrun::agent {

class ComponentCourse {
 public:
  /// components must outlive the course. check_components() must have succeeded.
  explicit ComponentCourse(const std::vector<ComponentOptions>& components);

  // Facts. `at` is the index of the component.
  void on_joined(std::size_t at);
  void on_ready(std::size_t at);
  /// Notes that the component has begun to end with a failure. The attempt ends now unless the
  /// component may start again.
  void on_failing(std::size_t at, const AttemptEnd& end);
  /// Notes that the component has ended, with all its processes.
  void on_over(std::size_t at, const AttemptEnd& end);
  /// Notes that a signal asks for the end of the job. A component that is about to start again does
  /// not start: the signal counts as its end. The caller passes the signal on to the components
  /// that run.
  void on_signal(int signal);

  struct Order {
    enum class Kind { kStart, kStop };
    Kind kind = Kind::kStart;
    std::size_t at = 0;  ///< index of the component
    std::string why{};   ///< the reason for a stop, for the user
  };
  /// Returns the orders that are due now, each order once.
  [[nodiscard]] std::vector<Order> take_orders();

  [[nodiscard]] ComponentState state(std::size_t at) const { return components_[at].state; }
  /// Returns how often the component has started again.
  [[nodiscard]] int restarts(std::size_t at) const { return components_[at].restarts; }
  /// Returns the latest end of the component; nullopt if it has not ended yet.
  [[nodiscard]] const std::optional<AttemptEnd>& end(std::size_t at) const {
    return components_[at].end;
  }
  /// Returns true if the component starts again after this end.
  [[nodiscard]] bool starts_again_after(std::size_t at, const AttemptEnd& end) const {
    return !decider_ && !signal_ && may_restart(components_[at], end);
  }
  /// Returns true once no component runs and none will start.
  [[nodiscard]] bool is_over() const;
  /// Returns the component whose end decided the end of the attempt; nullopt if the end is not
  /// decided yet, or if all main components ended with 0.
  [[nodiscard]] std::optional<std::size_t> decider() const { return decider_; }
  /// Returns the end of the whole attempt. Call it once is_over() returns true.
  [[nodiscard]] AttemptEnd attempt_end() const;

 private:
  struct Component {
    const ComponentOptions& options;
    ComponentState state = ComponentState::kWaiting;
    int restarts = 0;
    bool is_stop_ordered = false;
    std::optional<AttemptEnd> end{};
  };

  [[nodiscard]] bool is_running(const Component& one) const {
    return one.state == ComponentState::kStarting || one.state == ComponentState::kJoined ||
           one.state == ComponentState::kReady;
  }
  /// Returns true if the component is about to start again. Also returns true if the component
  /// waits for its first start, and each component of its `after` is ready or has ended with 0.
  [[nodiscard]] bool may_start(const Component& one) const;
  /// Returns true if the component has a restart left and another start could help after this end.
  [[nodiscard]] bool may_restart(const Component& one, const AttemptEnd& end) const;
  [[nodiscard]] bool mains_are_done() const;
  /// Returns true if the decider is a main component that ended after a warning of the time limit
  /// or a preemption, and another main component still runs. The other one may still be saving its
  /// checkpoint, so no component is stopped. Returns false if a signal or Slurm has ended the job.
  [[nodiscard]] bool mains_still_save() const;
  /// Returns why the components that still run must end; nullopt if the attempt goes on.
  [[nodiscard]] std::optional<std::string> reason_to_stop() const;
  /// Returns the first main component, whose progress is the progress of the run.
  [[nodiscard]] const Component& first_main() const;
  /// Records the signal as the end of a component that was about to start again.
  void count_signal_as_end(std::size_t at);

  std::vector<Component> components_;
  std::optional<std::size_t> decider_;
  std::optional<int> signal_;  ///< the first signal that asked for the end of the job
};

}  // namespace dlrun::agent
