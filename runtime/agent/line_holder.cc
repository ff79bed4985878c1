#include "runtime/agent/line_holder.h"

#include <utility>

namespace dlrun::agent {

std::string LineHolder::add(std::string_view bytes, Clock::time_point now) {
  const auto end = bytes.find_last_of("\r\n");
  if (end == std::string_view::npos) {
    if (open_.empty()) open_since_ = now;
    open_ += bytes;
    return open_.size() >= limit_bytes_ ? take_rest() : std::string();
  }
  open_ += bytes.substr(0, end + 1);
  auto out = take_rest();
  open_ = bytes.substr(end + 1);
  open_since_ = now;
  return out;
}

std::string LineHolder::take_late(Clock::time_point now) {
  return !open_.empty() && now >= open_since_ + kOpenLimit ? take_rest() : std::string();
}

std::string LineHolder::take_rest() {
  return std::exchange(open_, {});
}

}  // namespace dlrun::agent
