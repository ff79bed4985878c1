// run_event_fields.cc implements fields() and of() of each event.

#include "common/run_events.h"

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>

#include "common/json_lines.h"
#include "common/json_read.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestKind = 64;
constexpr std::string_view kBeforeTime = R"({"t":")";
constexpr std::string_view kBeforeKind = R"(","event":")";
constexpr std::size_t kTimeLength = std::string_view("2026-11-21T12:00:00.000Z").size();

/// Calls `use` with std::type_identity of each alternative of RunEvent except Unknown.
template <typename Use>
void for_each_known_event(const Use& use) {
  const auto all = [&]<typename... Events>(std::type_identity<std::variant<Events...>>) {
    const auto one = [&]<typename Event>(std::type_identity<Event>) {
      if constexpr (!std::is_same_v<Event, events::Unknown>) use(std::type_identity<Event>());
    };
    (one(std::type_identity<Events>()), ...);
  };
  all(std::type_identity<RunEvent>());
}

template <typename Event>
constexpr EventImportance importance_of_type() {
  if constexpr (requires { Event::kImportance; }) return Event::kImportance;
  return EventImportance::kEssential;
}

}  // namespace

std::string_view kind_of(const RunEvent& event) {
  return std::visit(
      [](const auto& one) -> std::string_view {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, events::Unknown>) {
          return one.kind;
        } else {
          return one.kKind;
        }
      },
      event);
}

EventImportance importance_of(const RunEvent& event) {
  return std::visit(
      [](const auto& one) { return importance_of_type<std::decay_t<decltype(one)>>(); }, event);
}

Json fields_of(const RunEvent& event) {
  return std::visit([](const auto& one) { return one.fields(); }, event);
}

RecordedEvent event_of(const Json& object) {
  RecordedEvent read{.time = json_read::text(object, "t"),
                     .attempt = json_read::integer(object, "attempt"),
                     .event = events::Unknown{.kind = json_read::text(object, "event")},
                     .component = events::component_name_in(object, "component")};
  const auto kind = std::get<events::Unknown>(read.event).kind;
  for_each_known_event([&]<typename Event>(std::type_identity<Event>) {
    if (kind == Event::kKind) read.event = Event::of(object);
  });
  if (auto* unknown = std::get_if<events::Unknown>(&read.event)) unknown->values = object;
  return read;
}

Json object_of(const RecordedEvent& recorded) {
  Json object{{"t", recorded.time},
              {"event", kind_of(recorded.event)},
              {"attempt", recorded.attempt.value_or(0)}};
  if (!recorded.component.empty()) object["component"] = recorded.component;
  const Json fields = fields_of(recorded.event);
  for (const auto& [key, value] : fields.items()) {
    if (!object.contains(key) && key != "crc") object[key] = value;
  }
  return object;
}

std::optional<RecordedEvent> event_of_line(std::string_view line) {
  const auto object = parse_checked_line(line);
  if (!object) return std::nullopt;
  return event_of(*object);
}

EventImportance importance_of(std::string_view kind) {
  auto found = EventImportance::kEssential;
  for_each_known_event([&]<typename Event>(std::type_identity<Event>) {
    if (kind == Event::kKind) found = importance_of_type<Event>();
  });
  return found;
}

RecordParts parts_to_read(off_t size_bytes) {
  constexpr off_t kPartBytes = 16 << 20;
  if (size_bytes <= static_cast<off_t>(kLargestRecordBytes)) return {size_bytes, size_bytes};
  return {kPartBytes, size_bytes - kPartBytes};
}

std::string_view kind_of_line(std::string_view line) {
  if (!line.starts_with(kBeforeTime)) return {};
  line.remove_prefix(kBeforeTime.size());
  if (line.size() < kTimeLength || !line.substr(kTimeLength).starts_with(kBeforeKind)) return {};
  line.remove_prefix(kTimeLength + kBeforeKind.size());
  const auto end = line.substr(0, kLongestKind).find_first_of("\"\\");
  if (end == std::string_view::npos || line[end] != '"') return {};
  return line.substr(0, end);
}

std::optional<std::int64_t> time_ms_of_line(std::string_view line) {
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

}  // namespace dlrun
