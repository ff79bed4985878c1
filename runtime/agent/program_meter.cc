#include "runtime/agent/program_meter.h"

#include <cmath>
#include <utility>

namespace dlrun::agent {

void ProgramMeter::begin(EventLoop& loop, const Env& env, const World& world) {
  gpu_scope_ = gpu_scope(env, world);
  if (gpu_scope_ == GpuScope::kNone) return;
  if (const auto visible = visible_devices(env)) visible_devices_ = *visible;
  gpu_probe_ = GpuProbe::create(loop, env);
}

void ProgramMeter::on_progress(const Json& body) {
  const auto progress = events::Progress::of(body);
  if (progress.step) step_ = progress.step;
  if (progress.work_ms) work_ms_ = progress.work_ms;
}

void ProgramMeter::add_news(to_lead::Beat& beat, Clock::time_point now) {
  if (const auto usage = usage_meter_.sample(gpu_probe_ ? gpu_probe_->tool_pid() : -1, now)) {
    beat.cpu = std::round(usage->cores * 1000) / 1000;
    beat.rss_bytes = usage->resident_bytes;
  }
  beat.step = std::exchange(step_, std::nullopt);
  beat.work_ms = std::exchange(work_ms_, std::nullopt);
  auto readings = gpu_probe_ ? gpu_probe_->take() : std::nullopt;
  if (!readings) return;
  auto& list = (gpu_scope_ == GpuScope::kOwn ? beat.gpus : beat.node_gpus).emplace();
  for (const auto& gpu : visible_gpus(std::move(*readings), visible_devices_))
    list.push_back({gpu.utilization_percent, gpu.used_bytes, gpu.total_bytes, gpu.watts});
}

void ProgramMeter::tick(Clock::time_point now) {
  if (gpu_probe_) gpu_probe_->tick(now);
}

void ProgramMeter::on_reaped(pid_t pid, int status) {
  if (gpu_probe_) gpu_probe_->on_reaped(pid, status);
}

}  // namespace dlrun::agent
