#include "runtime/agent/program_report.h"

#include <cmath>
#include <utility>

namespace dlrun::agent {

void ProgramReport::begin(EventLoop& loop, const Env& env, const World& world) {
  gpu_scope_ = gpu_scope(env, world);
  if (gpu_scope_ == GpuScope::kNone) return;
  if (const auto visible = env.get("CUDA_VISIBLE_DEVICES")) visible_gpus_ = *visible;
  gpus_ = GpuProbe::create(loop, env);
}

void ProgramReport::note(const Json& body) {
  for (const char* key : {"step", "work_ms"}) {
    if (const auto found = body.find(key); found != body.end() && found->is_number())
      progress_[key] = *found;
  }
}

ProgramReport::Json ProgramReport::take_news(Clock::time_point now) {
  Json news = Json::object();
  if (const auto usage = usage_.sample(gpus_ ? gpus_->helper() : -1, now)) {
    news["cpu"] = std::round(usage->cores * 1000) / 1000;
    news["rss"] = usage->resident_bytes;
  }
  news.update(std::exchange(progress_, Json::object()));
  if (auto readings = gpus_ ? gpus_->take() : std::nullopt) {
    Json list = Json::array();
    for (const auto& gpu : visible_gpus(std::move(*readings), visible_gpus_)) {
      const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
      list.push_back(
          {or_null(gpu.utilization_percent), or_null(gpu.used_bytes), or_null(gpu.total_bytes)});
    }
    news[gpu_scope_ == GpuScope::kOwn ? "gpus" : "node_gpus"] = std::move(list);
  }
  return news;
}

void ProgramReport::tick(Clock::time_point now) {
  if (gpus_) gpus_->tick(now);
}

void ProgramReport::on_reaped(pid_t pid, int status) {
  if (gpus_) gpus_->on_reaped(pid, status);
}

}  // namespace dlrun::agent
