#include "runtime/agent/progress_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace dlrun::agent {
namespace {

constexpr std::size_t kMostScalars = 64, kLongestTag = 64;

std::string tag_of(std::string_view name) {
  std::string tag(name.substr(0, kLongestTag));
  for (char& c : tag) {
    const bool fits = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == '/';
    if (!fits) c = '_';
  }
  return tag.empty() ? "_" : tag;
}

}  // namespace

std::optional<std::int64_t> step_or_epoch_of(const Json& report) {
  if (!report.is_object()) return std::nullopt;
  for (const char* name : {"step", "epoch"}) {
    const auto found = report.find(name);
    if (found != report.end() && found->is_number_integer() && found->get<std::int64_t>() >= 0)
      return found->get<std::int64_t>();
  }
  return std::nullopt;
}

std::vector<Scalar> scalars_of(const Json& report) {
  // None of these is a value of training: `checkpoint` is the step of a saved checkpoint, and the
  // others are positions and totals.
  constexpr std::array<std::string_view, 4> kSkippedNames{"step", "steps", "epochs", "checkpoint"};
  std::vector<Scalar> scalars;
  if (!report.is_object()) return scalars;
  for (auto at = report.begin(); at != report.end() && scalars.size() < kMostScalars; ++at) {
    if (!at->is_number() ||
        std::find(kSkippedNames.begin(), kSkippedNames.end(), at.key()) != kSkippedNames.end())
      continue;
    const double value = at->get<double>();
    if (std::isfinite(value)) scalars.push_back({tag_of(at.key()), value});
  }
  return scalars;
}

}  // namespace dlrun::agent
