#pragma once
// GPU utilisation and memory as nvidia-smi tells them: a static program cannot load NVML, and a
// library of the driver in every agent would be one more thing that hangs with it. Never blocks the
// event loop.

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
  std::optional<double> utilization_percent;  ///< nothing where the device does not tell (MIG)
  std::optional<std::uint64_t> used_bytes, total_bytes;
};

/// Lines of `index, uuid, utilization.gpu, memory.used, memory.total` in nvidia-smi's
/// csv,noheader,nounits. Lines that are none are passed over.
[[nodiscard]] std::vector<GpuReading> parse_gpu_csv(std::string_view text);

/// Those that CUDA_VISIBLE_DEVICES names, in its order; all of them where it is nothing.
[[nodiscard]] std::vector<GpuReading> visible_gpus(std::vector<GpuReading> all,
                                                   std::optional<std::string_view> visible);

/// Whose GPUs a rank asks for: its own where Slurm bound some to it, its node's where it is the
/// first of ranks that see the same, nobody's where it has none or another rank asks.
enum class GpuScope { kNone, kOwn, kNode };
[[nodiscard]] GpuScope gpu_scope(const Env& env, const World& world);

class GpuProbe {
 public:
  using Clock = std::chrono::steady_clock;

  /// Nothing where env's PATH has no nvidia-smi. The loop outlives the probe.
  [[nodiscard]] static std::unique_ptr<GpuProbe> create(EventLoop& loop, const Env& env);
  ~GpuProbe();
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;

  /// Starts a call when one is due, ends one that takes too long. A helper that fails a few times
  /// in a row is given up.
  void tick(Clock::time_point now);
  /// A child was reaped. True when it was the helper.
  bool on_reaped(pid_t pid, int status);
  /// The helper that runs now, -1 for none.
  [[nodiscard]] pid_t helper() const { return pid_; }
  /// What the last call said, once.
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
