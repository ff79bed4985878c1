#pragma once
// Measures GPU utilisation, memory and power by running nvidia-smi, amd-smi or rocm-smi. The agent
// does not use NVML, the driver's library: a static program cannot load a library, and NVML could
// hang the agent if the driver hangs. Never blocks the event loop.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/gpu_tool.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// Returns the GPUs of the list `visible`, in the order of the list. visible: the value of
/// visible_devices(); nullopt: all GPUs. Skips indices and UUIDs in the list that no GPU has.
[[nodiscard]] std::vector<GpuReading> visible_gpus(std::vector<GpuReading> all,
                                                   std::optional<std::string_view> visible);

/// The GPUs that a rank reports.
enum class GpuScope {
  kNone,  ///< the rank has no GPU, or another rank reports them
  kOwn,   ///< the GPUs of this rank: Slurm bound GPUs to it, or it is alone on its node
  kNode,  ///< all GPUs of the node: the rank is the first of several that see the same GPUs
};
/// Returns which GPUs this rank reports.
[[nodiscard]] GpuScope gpu_scope(const Env& env, const World& world);

class GpuProbe {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns nullptr if none of the tools is on env's PATH, or if /dev/null cannot be opened. The
  /// loop must outlive the probe.
  [[nodiscard]] static std::unique_ptr<GpuProbe> create(EventLoop& loop, const Env& env);
  ~GpuProbe();
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;

  /// Starts the tool every 5 s, and kills the tool if it runs longer than 20 s. Gives up after five
  /// failures in a row.
  void tick(Clock::time_point now);
  /// Handles the end of a child. Returns true if it was the tool.
  bool on_reaped(pid_t pid, int status);
  /// Returns the process id of the running tool; -1: none.
  [[nodiscard]] pid_t tool_pid() const { return pid_; }
  /// Returns the readings of the tool's latest successful run; nullopt if there is none, or if an
  /// earlier call has returned them.
  [[nodiscard]] std::optional<std::vector<GpuReading>> take();

 private:
  GpuProbe(EventLoop& loop, Env env, GpuTool tool);
  void start(Clock::time_point now);
  void read_some();
  void stop_reading();

  EventLoop& loop_;
  Env env_;
  GpuTool tool_;
  UniqueFd null_, out_;
  std::optional<EventLoop::Watch> watch_;
  std::string text_;
  pid_t pid_ = -1;
  Clock::time_point next_{}, kill_at_{};
  int failure_count_ = 0;  ///< failures since the last success
  std::optional<std::vector<GpuReading>> readings_;
};

}  // namespace dlrun::agent
