#include "runtime/agent/hang_watch.h"

#include <utility>

#include <fmt/format.h>

namespace dlrun::agent {

void HangWatch::on_start(Clock::time_point now) {
  is_watching_ = true;
  heard_ = now;
}

void HangWatch::on_progress(Clock::time_point now, std::string where) {
  has_reported_ = true;
  heard_ = now;
  where_ = std::move(where);
}

std::optional<HangWatch::Clock::time_point> HangWatch::next_deadline() const {
  if (!is_watching_ || (!has_reported_ && !limit_)) return std::nullopt;
  return heard_ + limit_.value_or(kProgressLimit) +
         (has_reported_ ? std::chrono::seconds(0) : kOutputLag);
}

std::optional<std::string> HangWatch::hang_message(Clock::time_point now) const {
  const auto at = next_deadline();
  if (!at || now < *at) return std::nullopt;
  const auto silent = std::chrono::duration_cast<std::chrono::seconds>(now - heard_).count();
  const auto key = limit_ ? " (health.hang_after)" : "";
  if (!has_reported_)
    return fmt::format(
        "the run hangs: no rank has printed anything or reported progress for {} s{}", silent, key);
  return fmt::format("the run hangs: no progress was reported for {} s{}{}{}", silent, key,
                     where_.empty() ? "" : "; the latest report was ", where_);
}

}  // namespace dlrun::agent
