#pragma once
// Measures the processor, memory and GPU use of a rank's program, and adds these values and the
// program's latest progress report to the rank's heartbeats.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/env.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/gpu_probe.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/process_usage.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class ProgramMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins to measure. Call it when the program has started and lead is connected. The loop must
  /// outlive this object.
  void begin(EventLoop& loop, const Env& env, const World& world);
  /// Keeps the fields of a `progress` message's body that heartbeats carry: step and work_ms.
  void on_progress(const Json& body);
  /// Adds the values that are new since the last heartbeat.
  void add_news(to_lead::Beat& beat, Clock::time_point now);

  /// See GpuProbe::tick().
  void tick(Clock::time_point now);
  void on_reaped(pid_t pid, int status);

 private:
  ProcessUsageMeter usage_meter_;
  GpuScope gpu_scope_ = GpuScope::kNone;
  std::unique_ptr<GpuProbe> gpu_probe_;  ///< nullptr if this rank reports no GPU
  std::optional<std::string> visible_devices_;
  std::optional<std::int64_t> step_{};       ///< not sent yet
  std::optional<events::Number> work_ms_{};  ///< not sent yet
};

}  // namespace dlrun::agent
