#include "runtime/agent/progress_recorder.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace dlrun::agent {
namespace {

/// Returns the count that the program reported under `key`; -1 if there is none.
std::int64_t count_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer()
             ? std::max<std::int64_t>(found->get<std::int64_t>(), -1)
             : -1;
}

}  // namespace

bool ProgressRecorder::is_result(const Json& body) {
  const auto final = body.find("final");
  return final != body.end() && final->is_boolean() && final->get<bool>();
}

std::string ProgressRecorder::update_position(const Json& body) {
  const auto reported = count_of(body, "step");
  const auto step = reported >= 0 ? reported : count_of(body, "epoch");
  if (step >= 0) step_ = std::max(step_.value_or(step), step);
  if (const auto steps = count_of(body, "steps"); steps > 0 && reported >= steps)
    has_reported_done_ = true;
  return step < 0 ? std::string() : fmt::format("{} {}", reported >= 0 ? "step" : "epoch", step);
}

void ProgressRecorder::hold(const Json& body) {
  if (body.contains("checkpoint") && !body.contains("step")) return;
  if (auto kept = events::Progress::of(body); !kept.empty()) progress_.hold(std::move(kept));
}

void ProgressRecorder::add_result(const Json& body) {
  progress_.drop();
  auto result = whole_result_;
  result.add(events::FinalReports::of(body));
  if (std::exchange(has_reported_done_, true) && result.values == whole_result_.values) return;
  whole_result_ = std::move(result);
  result_.hold(whole_result_);
}

}  // namespace dlrun::agent
