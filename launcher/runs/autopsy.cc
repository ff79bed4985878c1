#include "launcher/runs/autopsy.h"

#include "launcher/runs/json_read.h"

namespace dlrun {
namespace {

constexpr std::size_t kGroupsLimit = 6;
constexpr std::size_t kFramesLimit = 16;
constexpr std::size_t kTextLimitBytes = 256;

std::string text(const nlohmann::ordered_json& json, const char* key) {
  return json_read::text(json, key).substr(0, kTextLimitBytes);
}

AutopsyGroup read_group(const nlohmann::ordered_json& json) {
  AutopsyGroup group{
      text(json, "ranks"), text(json, "hosts"), json_read::integer(json, "count").value_or(0), {}};
  const auto frames = json.find("frames");
  if (frames == json.end() || !frames->is_array()) return group;
  for (const auto& frame : *frames) {
    if (group.frames.size() >= kFramesLimit) break;
    if (frame.is_string())
      group.frames.push_back(frame.get<std::string>().substr(0, kTextLimitBytes));
  }
  return group;
}

}  // namespace

std::optional<Autopsy> read_autopsy(const nlohmann::ordered_json& event) {
  Autopsy autopsy;
  autopsy.attempt = json_read::integer(event, "attempt").value_or(0);
  autopsy.ranks = json_read::integer(event, "ranks").value_or(0);
  autopsy.odd = json_read::integer(event, "odd").value_or(0);
  const auto groups = event.find("groups");
  if (groups == event.end() || !groups->is_array()) return std::nullopt;
  for (const auto& group : *groups) {
    if (autopsy.groups.size() >= kGroupsLimit) break;
    if (group.is_object()) autopsy.groups.push_back(read_group(group));
  }
  return autopsy.groups.empty() ? std::nullopt : std::optional(std::move(autopsy));
}

}  // namespace dlrun
