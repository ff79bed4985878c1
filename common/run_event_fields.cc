// Implements fields() and of() of each event in run_events.h.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/json_read.h"
#include "common/run_events.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

// Limits, because anybody may have written a record. Lengths are in bytes.
constexpr std::size_t kMostResultFields = 64;
constexpr std::size_t kLongestNameInEvent = 64;
constexpr std::size_t kLongestResultText = 256;
constexpr std::size_t kMostRecordedComponents = 64;

bool is_kept_in_result(std::string_view name, const Json& value) {
  if (name == "t" || name == "event" || name == "attempt" || name == "final" || name == "op" ||
      name == "crc" || name == "component")
    return false;
  if (name.size() > kLongestNameInEvent) return false;
  if (value.is_string()) return value.get_ref<const std::string&>().size() <= kLongestResultText;
  return value.is_number() || value.is_boolean();
}

/// Sets object[key] if there is a value.
template <typename Value>
void put(Json& object, const char* key, const std::optional<Value>& value) {
  if (value) object[key] = *value;
}
void put(Json& object, const char* key, const std::optional<events::Number>& number) {
  if (number) std::visit([&](const auto value) { object[key] = value; }, *number);
}
template <typename Value>
void put(Json& object, const char* key, const std::optional<events::Spread<Value>>& spread) {
  if (spread) object[key] = {spread->least, spread->mean, spread->most};
}

const Json* list_in(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

std::vector<std::string> texts_in(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const Json* list = list_in(object, key);
  if (list == nullptr) return texts;
  for (const Json& text : *list) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::optional<events::Number> number_in(const Json& object, const char* key) {
  if (const auto whole = json_read::integer(object, key)) return *whole;
  if (const auto number = json_read::number(object, key)) return *number;
  return std::nullopt;
}

/// Returns the number as a Value. The second argument only selects the type.
double to_value(const Json& number, double) {
  return number.get<double>();
}
std::int64_t to_value(const Json& number, std::int64_t) {
  if (number.is_number_integer()) return number.get<std::int64_t>();
  constexpr double kLimit = 9e18;  // a larger number does not fit
  return std::llround(std::clamp(number.get<double>(), -kLimit, kLimit));
}

template <typename Value>
void take_spread(std::optional<events::Spread<Value>>& into, const Json& object, const char* key) {
  const Json* list = list_in(object, key);
  if (list == nullptr || list->size() != 3) return;
  for (const Json& value : *list) {
    if (!value.is_number()) return;
  }
  into = events::Spread<Value>{to_value((*list)[0], Value()), to_value((*list)[1], Value()),
                               to_value((*list)[2], Value())};
}

std::int64_t integer_in(const Json& object, const char* key) {
  return json_read::integer(object, key).value_or(0);
}

double seconds_in(const Json& object) {
  return json_read::number(object, "seconds").value_or(0);
}

template <typename Enum>
Word<Enum> word_in(const Json& object, const char* key) {
  return Word<Enum>::of_text(json_read::text(object, key));
}

}  // namespace

namespace events {

std::string component_name_in(const Json& object, const char* key) {
  auto name = json_read::text(object, key);
  const bool is_name =
      name.size() <= kLongestNameInEvent && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_';
      });
  return is_name ? name : std::string();
}

Json Claimed::fields() const {
  return {{"job", job},
          {"cluster", cluster},
          {"host", host},
          {"pid", pid},
          {"again", was_claimed_before}};
}
Claimed Claimed::of(const Json& fields) {
  return {.job = json_read::text(fields, "job"),
          .cluster = json_read::text(fields, "cluster"),
          .host = json_read::text(fields, "host"),
          .pid = integer_in(fields, "pid"),
          .was_claimed_before = json_read::boolean(fields, "again")};
}

Json Components::Component::fields() const {
  return {
      {"name", name}, {"role", role.text()}, {"nodes", nodes}, {"ranks", ranks}, {"after", after}};
}
Components::Component Components::Component::of(const Json& fields) {
  return {.name = component_name_in(fields, "name"),
          .role = Word<ComponentRole>::of_text(json_read::text(fields, "role")),
          .nodes = integer_in(fields, "nodes"),
          .ranks = integer_in(fields, "ranks"),
          .after = texts_in(fields, "after")};
}

std::string Components::first_main_name() const {
  const auto found = std::find_if(components.begin(), components.end(), [](const Component& one) {
    return one.role == ComponentRole::kMain;
  });
  return found == components.end() ? std::string() : found->name;
}
Json Components::fields() const {
  Json list = Json::array();
  for (const Component& one : components) list.push_back(one.fields());
  return {{"components", std::move(list)}};
}
Components Components::of(const Json& fields) {
  Components read;
  const Json* list = list_in(fields, "components");
  if (list == nullptr) return read;
  for (const Json& one : *list) {
    auto component = Component::of(one);
    if (!component.name.empty() && read.components.size() < kMostRecordedComponents)
      read.components.push_back(std::move(component));
  }
  return read;
}

Json Started::fields() const {
  Json json{{"ranks", ranks}, {"lead", lead}, {"argv", argv}};
  if (!checks.empty()) json["checks"] = checks;
  return json;
}
Started Started::of(const Json& fields) {
  return {.ranks = integer_in(fields, "ranks"),
          .lead = json_read::text(fields, "lead"),
          .argv = texts_in(fields, "argv"),
          .checks = json_read::text(fields, "checks")};
}

Json Joined::fields() const {
  return {{"ranks", ranks}, {"hosts", hosts}, {"seconds", seconds}};
}
Joined Joined::of(const Json& fields) {
  return {.ranks = integer_in(fields, "ranks"),
          .hosts = json_read::text(fields, "hosts"),
          .seconds = seconds_in(fields)};
}

Json CollectivesChecked::fields() const {
  return {{"ranks", ranks}, {"seconds", seconds}};
}
CollectivesChecked CollectivesChecked::of(const Json& fields) {
  return {.ranks = integer_in(fields, "ranks"), .seconds = seconds_in(fields)};
}

Json Staging::fields() const {
  return {{"nodes", nodes}};
}
Staging Staging::of(const Json& fields) {
  return {.nodes = integer_in(fields, "nodes")};
}

Json Staged::fields() const {
  return {{"nodes", nodes}, {"files", files}, {"bytes", bytes}, {"seconds", seconds}};
}
Staged Staged::of(const Json& fields) {
  return {.nodes = integer_in(fields, "nodes"),
          .files = integer_in(fields, "files"),
          .bytes = integer_in(fields, "bytes"),
          .seconds = seconds_in(fields)};
}

Json OutputsCopied::fields() const {
  return {{"nodes", nodes}, {"files", files}, {"bytes", bytes}, {"seconds", seconds}};
}
OutputsCopied OutputsCopied::of(const Json& fields) {
  return {.nodes = integer_in(fields, "nodes"),
          .files = integer_in(fields, "files"),
          .bytes = integer_in(fields, "bytes"),
          .seconds = seconds_in(fields)};
}

Json RanksMissing::fields() const {
  return {{"ranks", ranks}, {"seconds", seconds}};
}
RanksMissing RanksMissing::of(const Json& fields) {
  RanksMissing missing{.seconds = seconds_in(fields)};
  const Json* list = list_in(fields, "ranks");
  if (list == nullptr) return missing;
  for (const Json& rank : *list) {
    if (rank.is_number_integer()) missing.ranks.push_back(rank.get<std::int64_t>());
  }
  return missing;
}

double value_of(const Number& number) {
  return std::visit([](const auto value) { return static_cast<double>(value); }, number);
}

bool Progress::empty() const {
  return !step && !steps && !epoch && !epochs && !loss && !accuracy && !samples_per_s && !work_ms;
}
Json Progress::fields() const {
  Json json = Json::object();
  put(json, "step", step);
  put(json, "steps", steps);
  put(json, "epoch", epoch);
  put(json, "epochs", epochs);
  put(json, "loss", loss);
  put(json, "accuracy", accuracy);
  put(json, "samples_per_s", samples_per_s);
  put(json, "work_ms", work_ms);
  return json;
}
Progress Progress::of(const Json& fields) {
  return {.step = json_read::integer(fields, "step"),
          .steps = json_read::integer(fields, "steps"),
          .epoch = json_read::integer(fields, "epoch"),
          .epochs = json_read::integer(fields, "epochs"),
          .loss = number_in(fields, "loss"),
          .accuracy = number_in(fields, "accuracy"),
          .samples_per_s = number_in(fields, "samples_per_s"),
          .work_ms = number_in(fields, "work_ms")};
}

void FinalReports::add(const FinalReports& later) {
  Json all = values;
  for (const auto& [name, value] : later.values.items()) all[name] = value;
  values = of(all).values;
}
FinalReports FinalReports::of(const Json& fields) {
  FinalReports result;
  if (!fields.is_object()) return result;
  for (const auto& [name, value] : fields.items()) {
    if (result.values.size() < kMostResultFields && is_kept_in_result(name, value))
      result.values[name] = value;
  }
  return result;
}

Json RankStatistics::fields() const {
  Json json{{"ranks", ranks}};
  put(json, "cpu", cpu);
  put(json, "rss_bytes", rss_bytes);
  put(json, "gpu", gpu);
  put(json, "gpu_used_bytes", gpu_used_bytes);
  put(json, "step", step);
  put(json, "work_ms", work_ms);
  put(json, "gpu_watts", gpu_watts);
  json["slow_ranks"] = slow_rank_count;
  Json slow_list = Json::array();
  for (const SlowRank& one : slowest_ranks) {
    Json entry{{"rank", one.rank}, {"host", one.host}, {"lag", one.lag}};
    put(entry, "work_ms", one.work_ms);
    slow_list.push_back(std::move(entry));
  }
  json["slow"] = std::move(slow_list);
  return json;
}
RankStatistics RankStatistics::of(const Json& fields) {
  RankStatistics statistics{.ranks = integer_in(fields, "ranks"),
                            .slow_rank_count = integer_in(fields, "slow_ranks")};
  take_spread(statistics.cpu, fields, "cpu");
  take_spread(statistics.rss_bytes, fields, "rss_bytes");
  take_spread(statistics.gpu, fields, "gpu");
  take_spread(statistics.gpu_used_bytes, fields, "gpu_used_bytes");
  take_spread(statistics.step, fields, "step");
  take_spread(statistics.work_ms, fields, "work_ms");
  statistics.gpu_watts = json_read::number(fields, "gpu_watts");
  const Json* slow = list_in(fields, "slow");
  if (slow == nullptr) return statistics;
  for (const Json& one : *slow) {
    const auto rank = json_read::integer(one, "rank");
    if (!rank) continue;
    statistics.slowest_ranks.push_back({.rank = *rank,
                                        .host = json_read::text(one, "host"),
                                        .lag = integer_in(one, "lag"),
                                        .work_ms = json_read::number(one, "work_ms")});
  }
  return statistics;
}

Json Signal::fields() const {
  return {{"signal", signal}, {"where", where}, {"word", decision.text()}};
}
Signal Signal::of(const Json& fields) {
  return {.signal = json_read::text(fields, "signal"),
          .where = json_read::text(fields, "where"),
          .decision = word_in<SignalDecision>(fields, "word")};
}

Json RankFailed::fields() const {
  return {{"rank", rank}, {"host", host},     {"pid", pid},
          {"code", code}, {"signal", signal}, {"error", error}};
}
RankFailed RankFailed::of(const Json& fields) {
  return {.rank = json_read::integer(fields, "rank").value_or(-1),
          .host = json_read::text(fields, "host"),
          .pid = integer_in(fields, "pid"),
          .code = integer_in(fields, "code"),
          .signal = json_read::text(fields, "signal"),
          .error = json_read::text(fields, "error")};
}

Json Warning::fields() const {
  Json json{{"message", message}};
  if (!rank) return json;
  json["rank"] = *rank;
  json["host"] = host;
  return json;
}
Warning Warning::of(const Json& fields) {
  return {.message = json_read::text(fields, "message"),
          .rank = json_read::integer(fields, "rank"),
          .host = json_read::text(fields, "host")};
}

Json Autopsy::Group::fields() const {
  return {{"ranks", ranks}, {"count", count}, {"hosts", hosts}, {"frames", frames}};
}
Autopsy::Group Autopsy::Group::of(const Json& fields) {
  return {.ranks = json_read::text(fields, "ranks"),
          .count = integer_in(fields, "count"),
          .hosts = json_read::text(fields, "hosts"),
          .frames = texts_in(fields, "frames")};
}

Json Autopsy::fields() const {
  Json list = Json::array();
  for (const Group& group : groups) list.push_back(group.fields());
  return {{"ranks", ranks}, {"groups", std::move(list)}, {"odd", outliers}};
}
Autopsy Autopsy::of(const Json& fields) {
  Autopsy autopsy{.ranks = integer_in(fields, "ranks"), .outliers = integer_in(fields, "odd")};
  const Json* list = list_in(fields, "groups");
  if (list == nullptr) return autopsy;
  for (const Json& group : *list) {
    if (group.is_object()) autopsy.groups.push_back(Group::of(group));
  }
  return autopsy;
}

Json AttemptEnd::fields() const {
  Json json{{"code", code}, {"reason", reason.text()}};
  if (!cause.empty()) json["cause"] = cause.text();
  if (first_failed) {
    json["first_failed"] = {{"rank", first_failed->rank},
                            {"host", first_failed->host},
                            {"code", first_failed->code},
                            {"signal", first_failed->signal}};
  }
  put(json, "silent", suspect_nodes);
  if (!bad_nodes.empty()) json["lost_nodes"] = bad_nodes;
  put(json, "seconds", seconds);
  return json;
}
AttemptEnd AttemptEnd::of(const Json& fields) {
  AttemptEnd end{.code = integer_in(fields, "code"),
                 .reason = word_in<EndReason>(fields, "reason"),
                 .cause = word_in<Cause>(fields, "cause"),
                 .bad_nodes = texts_in(fields, "lost_nodes"),
                 .seconds = json_read::number(fields, "seconds")};
  if (!fields.is_object()) return end;
  if (const auto first = fields.find("first_failed"); first != fields.end() && first->is_object())
    end.first_failed = RankFailed::of(*first);
  if (fields.contains("silent")) end.suspect_nodes = texts_in(fields, "silent");
  return end;
}

Json ComponentReady::fields() const {
  return {{"addr", addr}, {"seconds", seconds}};
}
ComponentReady ComponentReady::of(const Json& fields) {
  return {.addr = json_read::text(fields, "addr"), .seconds = seconds_in(fields)};
}

Json ComponentRestart::fields() const {
  return {{"code", code}, {"left", left}};
}
ComponentRestart ComponentRestart::of(const Json& fields) {
  return {.code = integer_in(fields, "code"), .left = integer_in(fields, "left")};
}

Json Restarting::fields() const {
  Json json{{"cause", cause.text()}, {"left", left}, {"by", by.text()}};
  if (!exclude.empty()) json["exclude"] = exclude;
  if (memory_mib > 0) json["memory_mib"] = memory_mib;
  return json;
}
Restarting Restarting::of(const Json& fields) {
  return {.cause = word_in<Cause>(fields, "cause"),
          .left = integer_in(fields, "left"),
          .by = word_in<RestartedBy>(fields, "by"),
          .exclude = texts_in(fields, "exclude"),
          .memory_mib = integer_in(fields, "memory_mib")};
}

Json Ended::fields() const {
  Json json{{"state", state.text()}, {"code", code}, {"message", message}};
  if (is_requeued_after_end) json["requeued"] = true;
  return json;
}
Ended Ended::of(const Json& fields) {
  return {.state = word_in<EndState>(fields, "state"),
          .code = integer_in(fields, "code"),
          .message = json_read::text(fields, "message"),
          .is_requeued_after_end = json_read::boolean(fields, "requeued")};
}

}  // namespace events

}  // namespace dlrun
