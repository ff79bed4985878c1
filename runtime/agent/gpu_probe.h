#pragma once
// Measures GPU utilisation and memory by running nvidia-smi. The agent does not load NVML: a static
// program cannot, and the driver's library could hang the agent together with the driver. Never
// blocks the event loop.

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
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

struct GpuReading {
  std::int64_t index = -1;
  std::string uuid;
  std::optional<double> utilization_percent;  ///< nullopt if the device does not report it (MIG)
  std::optional<std::uint64_t> used_bytes, total_bytes;
};

/// Parses lines of `index, uuid, utilization.gpu, memory.used, memory.total` as nvidia-smi prints
/// them with csv,noheader,nounits. Skips other lines.
[[nodiscard]] std::vector<GpuReading> parse_gpu_csv(std::string_view text);

/// Returns the GPUs that `visible` names, in its order. visible: the value of CUDA_VISIBLE_DEVICES;
/// nullopt: all GPUs.
[[nodiscard]] std::vector<GpuReading> visible_gpus(std::vector<GpuReading> all,
                                                   std::optional<std::string_view> visible);

/// The GPUs that a rank reports. kOwn: its own, because Slurm bound GPUs to it or it is alone on
/// its node. kNode: all of its node, because it is the first of several ranks that see the same
/// GPUs. kNone: none, because it has no GPU or another rank reports them.
enum class GpuScope { kNone, kOwn, kNode };
[[nodiscard]] GpuScope gpu_scope(const Env& env, const World& world);

class GpuProbe {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns nullptr if nvidia-smi is not on env's PATH. The loop must outlive the probe.
  [[nodiscard]] static std::unique_ptr<GpuProbe> create(EventLoop& loop, const Env& env);
  ~GpuProbe();
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;

  /// Starts nvidia-smi when it is due and kills one that takes too long. Gives up after five
  /// failures in a row.
  void tick(Clock::time_point now);
  /// Handles the end of a child. Returns true if it was nvidia-smi.
  bool on_reaped(pid_t pid, int status);
  /// Returns the process id of the running nvidia-smi; -1: none.
  [[nodiscard]] pid_t helper() const { return pid_; }
  /// Returns the readings of the last successful call, once.
  [[nodiscard]] std::optional<std::vector<GpuReading>> take();

 private:
  GpuProbe(EventLoop& loop, Env env, std::string program);
  void start(Clock::time_point now);
  void read_some();
  void finish();

  EventLoop& loop_;
  Env env_;
  std::string program_;
  UniqueFd null_, out_;
  std::optional<EventLoop::Watch> watch_;
  std::string text_;
  pid_t pid_ = -1;
  Clock::time_point next_{}, kill_at_{};
  int failures_ = 0;
  std::optional<std::vector<GpuReading>> readings_;
};

}  // namespace dlrun::agent
