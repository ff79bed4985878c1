#include "common/run_events.h"

#include <array>
#include <chrono>
#include <string>

#include "common/text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kResultFields = 64;
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestText = 256;

constexpr std::array<std::string_view, 4> kCounts{"step", "steps", "epoch", "epochs"};
constexpr std::array<std::string_view, 4> kNumbers{"loss", "accuracy", "samples_per_s", "work_ms"};

constexpr std::string_view kBeforeTime = R"({"t":")";
constexpr std::string_view kBeforeKind = R"(","event":")";
constexpr std::size_t kTimeLength = std::string_view("2026-11-21T12:00:00.000Z").size();

bool is_kept_in_result(std::string_view name, const Json& value) {
  if (name == "t" || name == "event" || name == "attempt" || name == "final" || name == "op" ||
      name == "crc")
    return false;
  if (name.size() > kLongestName) return false;
  if (value.is_string()) return value.get_ref<const std::string&>().size() <= kLongestText;
  return value.is_number() || value.is_boolean();
}

}  // namespace

RecordParts parts_to_read(off_t size) {
  constexpr off_t kEnd = 16 << 20;
  if (size <= static_cast<off_t>(kLargestRecordBytes)) return {size, size};
  return {kEnd, size - kEnd};
}

EventClass class_of(std::string_view kind) {
  if (kind == "progress" || kind == "samples") return EventClass::kPasses;
  if (kind == "warning" || kind == "signal") return EventClass::kRemark;
  return EventClass::kDecides;
}

std::string_view kind_of_line(std::string_view line) {
  if (!line.starts_with(kBeforeTime)) return {};
  line.remove_prefix(kBeforeTime.size());
  if (line.size() < kTimeLength || !line.substr(kTimeLength).starts_with(kBeforeKind)) return {};
  line.remove_prefix(kTimeLength + kBeforeKind.size());
  const auto end = line.substr(0, kLongestName).find_first_of("\"\\");
  if (end == std::string_view::npos || line[end] != '"') return {};
  return line.substr(0, end);
}

std::optional<std::int64_t> time_of_line(std::string_view line) {
  if (!line.starts_with(kBeforeTime) || line.size() < kBeforeTime.size() + kTimeLength)
    return std::nullopt;
  const auto text = line.substr(kBeforeTime.size(), kTimeLength);
  const auto number = [&](std::size_t at, std::size_t digits) -> std::int64_t {
    std::int64_t value = 0;
    for (const char c : text.substr(at, digits)) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  const auto year = number(0, 4), month = number(5, 2), day = number(8, 2);
  const auto hour = number(11, 2), minute = number(14, 2), second = number(17, 2),
             milli = number(20, 3);
  if (year < 0 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || minute < 0 ||
      second < 0 || milli < 0)
    return std::nullopt;
  const std::chrono::sys_days date{std::chrono::year(static_cast<int>(year)) /
                                   std::chrono::month(static_cast<unsigned>(month)) /
                                   std::chrono::day(static_cast<unsigned>(day))};
  return (((date.time_since_epoch().count() * 24 + hour) * 60 + minute) * 60 + second) * 1000 +
         milli;
}

Json kept_progress(const Json& body) {
  Json kept = Json::object();
  if (!body.is_object()) return kept;
  for (const auto name : kCounts) {
    if (const auto found = body.find(name); found != body.end() && found->is_number_integer())
      kept[name] = *found;
  }
  for (const auto name : kNumbers) {
    if (const auto found = body.find(name); found != body.end() && found->is_number())
      kept[name] = *found;
  }
  return kept;
}

Json kept_result(const Json& body) {
  Json kept = Json::object();
  if (!body.is_object()) return kept;
  for (const auto& [name, value] : body.items()) {
    if (kept.size() < kResultFields && is_kept_in_result(name, value)) kept[name] = value;
  }
  return kept;
}

}  // namespace dlrun
