#pragma once
// Leads one attempt of a job with components: one listening socket and one event loop, and an
// AttemptRunner with its own step, secret and store for each start of a component. ComponentCourse
// makes the decisions. Only run_attempt.cc uses this header.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/agent/attempt_runner.h"
#include "runtime/agent/component_course.h"
#include "runtime/agent/later_attempt_watch.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/rank_connections.h"
#include "runtime/agent/ready_probe.h"
#include "runtime/agent/rewritten_file.h"
#include "runtime/agent/run_attempt.h"

namespace dlrun::agent {

/// Does the same as run_attempt(), for a job with components.
[[nodiscard]] Result<AttemptEnd> run_components(const AttemptContext& context);

class ComponentsRunner final : public RankConnectionsHandler {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ComponentsRunner(const AttemptContext& context);

  Result<AttemptEnd> run();

  // RankConnectionsHandler. Each call goes to the component of the peer; on_too_few_descriptors()
  // goes to all.
  bool on_peer(PeerId peer, const RankIdentity& claimed) override;
  void on_message(PeerId peer, std::string_view payload) override;
  void on_lost(PeerId peer, std::string_view why) override;
  void on_too_few_descriptors(int error) override;

 private:
  /// One component: its settings, and its present start. A start is one execution of the
  /// component's ranks, from the start of srun until their end.
  struct Slot {
    const ComponentOptions& options;
    LeadOptions lead_options{};          ///< lead's options, as they apply to this component
    std::vector<std::string> command{};  ///< its srun command line
    std::optional<AttemptContext> context{};
    std::unique_ptr<AttemptRunner> runner{};  ///< nullptr before the first start
    std::unique_ptr<ReadyProbe> probe{};  ///< set while lead asks whether the component is ready
    std::optional<ComponentAddress> address{};  ///< where its ranks run, or ran in an earlier start
    Clock::time_point began{};                  ///< when its present start began
    Clock::time_point joined_at{};  ///< when all its ranks had joined and had their data
    bool has_joined = false;  ///< all ranks of its present start have joined and have their data
    bool is_over = false;     ///< its present start has ended: on_over() was called
    /// When the AttemptRunner of its present start reported its end. is_over may become true later:
    /// see follow_component().
    std::optional<Clock::time_point> ended_at{};
  };

  /// Opens the listening socket and makes the command lines of all components.
  Result<> prepare();
  [[nodiscard]] LeadOptions options_for(const ComponentOptions& component) const;
  [[nodiscard]] bool is_first_main(const Slot& slot) const;
  void record(const RunEvent& event, const std::string& component = {});
  void record_components();
  void take_signals();
  void carry_out(const std::vector<ComponentCourse::Order>& orders);
  /// Returns true during the first half second (kSignalSpread) after a signal has ended a
  /// component. A signal to the job reaches the other components a moment later. Lead waits for
  /// this time before it stops them itself: the signal, and not lead, then ends them. The half
  /// second begins at the first call after the end of that component.
  [[nodiscard]] bool awaits_signals(Clock::time_point now);
  void start(std::size_t index);
  void tick();
  /// Passes the changes of a running component on to course_.
  void follow_component(std::size_t index, Clock::time_point now);
  /// Tells course_, once per start, that all ranks of the component have joined and have their
  /// data.
  void follow_join(std::size_t index, Clock::time_point now);
  /// Asks whether the component is ready. If it is not ready within the time limit of `ready`, its
  /// present start fails.
  void follow_readiness(std::size_t index, Clock::time_point now);
  void announce_ready(std::size_t index, Clock::time_point now);
  void on_over(std::size_t index);
  /// After a success, waits for sruns that still run although their ranks have ended. See
  /// AttemptRunner::wait_for_step_end().
  void wait_for_steps(const AttemptEnd& end);
  /// Returns the slot of the peer's component; nullptr if the present start of the component is
  /// over.
  [[nodiscard]] Slot* slot_of(PeerId peer);
  /// Closes the connections of the component's agents.
  void drop_peers(std::size_t index);
  [[nodiscard]] std::vector<ComponentAddress> component_addresses() const;
  /// Writes components.json if something in it has changed.
  void write_components_file();
  [[nodiscard]] Json component_json(std::size_t index) const;
  [[nodiscard]] std::chrono::milliseconds next_wait() const;

  const AttemptContext& context_;
  ComponentCourse course_;
  Clock::time_point began_ = Clock::now();
  std::vector<std::string> addresses_;
  std::unique_ptr<RankConnections> connections_;
  std::vector<Slot> slots_;  ///< in the order of the options; never resized after prepare()
  std::unordered_map<PeerId, std::size_t> slot_of_peer_;
  LaterAttemptWatch later_attempt_watch_;
  RewrittenFile components_file_;
  bool is_file_outdated_ = true;  ///< components.json is out of date
  bool is_superseded_ = false;
  /// When lead first saw that a signal had ended a component.
  std::optional<Clock::time_point> signalled_at_;
  int end_signal_count_ = 0;  ///< number of signals that asked for the end
};

}  // namespace dlrun::agent
