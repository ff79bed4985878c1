#pragma once
// What a rank's heartbeats say of its program: what it uses, and the last that it said of its own
// progress.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/gpu_probe.h"
#include "runtime/agent/usage.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class ProgramReport {
 public:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::ordered_json;

  /// The program has started, and somebody is there to be told. The loop outlives the report.
  void begin(EventLoop& loop, const Env& env, const World& world);
  /// Keeps of a `progress` message's body what heartbeats carry: step and work_ms.
  void note(const Json& body);
  /// Of protocol.h's beat what is new of cpu, rss, step, work_ms, and gpus or node_gpus.
  [[nodiscard]] Json take_news(Clock::time_point now);

  /// See GpuProbe.
  void tick(Clock::time_point now);
  void on_reaped(pid_t pid, int status);

 private:
  UsageMeter usage_;
  GpuScope gpu_scope_ = GpuScope::kNone;
  std::unique_ptr<GpuProbe> gpus_;  ///< nothing where no GPU is to be asked for
  std::optional<std::string> visible_gpus_;
  Json progress_ = Json::object();  ///< not told yet
};

}  // namespace dlrun::agent
