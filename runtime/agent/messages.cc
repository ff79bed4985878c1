#include "runtime/agent/messages.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "common/json_read.h"
#include "runtime/agent/autopsy.h"
#include "runtime/agent/exit_codes.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kMostTextBytes = 4096;
constexpr std::size_t kGpusLimit = 64;
constexpr std::int64_t kLongestCollectLimitSeconds = 30 * 24 * 3600;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

std::int64_t clamped(const Json& message, const char* key, std::int64_t fallback,
                     std::int64_t least, std::int64_t most) {
  return std::clamp(json_read::integer(message, key).value_or(fallback), least, most);
}

/// Returns a rank, a count, a process id or a port; -1 if the field is missing or out of range.
int number_in(const Json& message, const char* key) {
  const auto value = json_read::integer(message, key).value_or(-1);
  return value < 0 || value > (1 << 24) ? -1 : static_cast<int>(value);
}

std::uint64_t id_of(const Json& message) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(json_read::integer(message, "id").value_or(0), 0));
}

std::optional<std::string> text_in(const Json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? std::optional(found->get<std::string>())
                                                      : std::nullopt;
}

/// Returns a number that is finite and not negative.
std::optional<double> amount(const Json& message, const char* key) {
  const auto value = json_read::number(message, key);
  return value && std::isfinite(*value) && *value >= 0 ? value : std::nullopt;
}

std::optional<std::uint64_t> bytes(const Json& value) {
  return value.is_number_integer() && value.get<std::int64_t>() >= 0
             ? std::optional(value.get<std::uint64_t>())
             : std::nullopt;
}

/// Returns the power of a GPU in watts; nullopt if the value is negative, or more than any GPU
/// draws. Messages are not trusted.
std::optional<double> plausible_watts(const Json& value) {
  constexpr double kMostWatts = 1e4;
  const auto watts = value.get<double>();
  return watts >= 0 && watts <= kMostWatts ? std::optional(watts) : std::nullopt;
}

Json json_of_gpus(const std::vector<GpuUse>& gpus) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json list = Json::array();
  for (const auto& gpu : gpus) {
    Json entry{or_null(gpu.percent), or_null(gpu.used_bytes), or_null(gpu.total_bytes)};
    if (gpu.watts) entry.push_back(*gpu.watts);
    list.push_back(std::move(entry));
  }
  return list;
}

std::optional<std::vector<GpuUse>> gpus_in(const Json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_array() || found->size() > kGpusLimit)
    return std::nullopt;
  std::vector<GpuUse> gpus;
  for (const auto& entry : *found) {
    // Also adds an element for an invalid entry, so that each GPU keeps its position in the list.
    auto& gpu = gpus.emplace_back();
    if (!entry.is_array() || entry.size() < 3 || entry.size() > 4) continue;
    if (entry[0].is_number()) gpu.percent = entry[0].get<double>();
    gpu.used_bytes = bytes(entry[1]);
    gpu.total_bytes = bytes(entry[2]);
    if (entry.size() == 4 && entry[3].is_number()) gpu.watts = plausible_watts(entry[3]);
  }
  return gpus;
}

Json json_of(const ComponentAddress& address) {
  return {{"name", address.name},
          {"addr", address.addr},
          {"port", address.port},
          {"hosts", address.hosts}};
}

ComponentAddress component_address_of(const Json& json) {
  ComponentAddress address{.name = json_read::text(json, "name"),
                           .addr = json_read::text(json, "addr"),
                           .port = static_cast<int>(clamped(json, "port", 0, 0, 65535))};
  const auto hosts = json.find("hosts");
  if (hosts == json.end() || !hosts->is_array()) return address;
  for (const auto& host : *hosts) {
    if (host.is_string()) address.hosts.push_back(host.get<std::string>());
  }
  return address;
}

template <typename Message>
Json json_of_type() {
  return {{"type", Message::kType}};
}

/// Parses message as the struct of the variant whose kType equals `type`. Skips Hello, whose of()
/// can fail.
template <typename... Messages>
std::optional<std::variant<Messages...>> parse_among(
    const Json& message, std::type_identity<std::variant<Messages...>>) {
  std::optional<std::variant<Messages...>> parsed;
  const auto type = json_read::text(message, "type");
  const auto take = [&]<typename Message>(std::type_identity<Message>) {
    if constexpr (!std::is_same_v<Message, to_lead::Hello>) {
      if (type == Message::kType) parsed = Message::of(message);
    }
  };
  (take(std::type_identity<Messages>()), ...);
  return parsed;
}

}  // namespace

namespace to_lead {

Json Hello::json() const {
  Json message{{"type", kType},
               {"host", host},
               {"pid", pid},
               {"addr", addr},
               {"port", port},
               {"world",
                {{"rank", world.rank},
                 {"size", world.size},
                 {"local_rank", world.local_rank},
                 {"local_size", world.local_size},
                 {"node_rank", world.node_rank},
                 {"nnodes", world.nnodes}}}};
  if (!complaint.empty()) message["unfit"] = complaint;
  if (time) message["time"] = time->count();
  if (stages) message["stages"] = true;
  if (collect_limit.count() > 0) message["collects"] = collect_limit.count();
  return message;
}
Result<Hello> Hello::of(const Json& message) {
  const auto world = message.find("world");
  if (world == message.end() || !world->is_object())
    return fail(Errc::kInvalid, "a hello whose 'world' is missing or is not an object");
  Hello hello{.world = {number_in(*world, "rank"), number_in(*world, "size"),
                        number_in(*world, "local_rank"), number_in(*world, "local_size"),
                        number_in(*world, "node_rank"), number_in(*world, "nnodes")},
              .host = json_read::text(message, "host"),
              .addr = json_read::text(message, "addr"),
              .pid = number_in(message, "pid"),
              .port = number_in(message, "port"),
              .complaint = json_read::text(message, "unfit")};
  if (const auto time = json_read::integer(message, "time"))
    hello.time = std::chrono::milliseconds(*time);
  hello.stages = json_read::boolean(message, "stages");
  hello.collect_limit =
      std::chrono::seconds(clamped(message, "collects", 0, 0, kLongestCollectLimitSeconds));
  const auto& w = hello.world;
  const bool is_consistent = w.rank >= 0 && w.rank < w.size && w.local_rank >= 0 &&
                             w.local_rank < w.local_size && w.node_rank >= 0 &&
                             w.node_rank < w.nnodes;
  if (hello.port < 0 || hello.port > 65535)
    return fail(Errc::kInvalid, "a hello whose port is missing or is not from 0 to 65535");
  if (!is_consistent)
    return fail(Errc::kInvalid, "a hello whose world is incomplete or contradicts itself: {}",
                world->dump());
  return hello;
}

Json Beat::json() const {
  auto message = json_of_type<Beat>();
  if (has_printed) message["printed"] = true;
  if (cpu) message["cpu"] = *cpu;
  if (rss_bytes) message["rss"] = *rss_bytes;
  if (step) message["step"] = *step;
  if (work_ms) std::visit([&](const auto value) { message["work_ms"] = value; }, *work_ms);
  if (gpus) message["gpus"] = json_of_gpus(*gpus);
  if (node_gpus) message["node_gpus"] = json_of_gpus(*node_gpus);
  return message;
}
Beat Beat::of(const Json& message) {
  Beat beat{.has_printed = json_read::boolean(message, "printed"),
            .cpu = amount(message, "cpu"),
            .step = json_read::integer(message, "step"),
            .gpus = gpus_in(message, "gpus"),
            .node_gpus = gpus_in(message, "node_gpus"),
            .is_bare = message.size() == 1};
  if (const auto found = message.find("rss"); found != message.end())
    beat.rss_bytes = bytes(*found);
  if (const auto work = amount(message, "work_ms")) beat.work_ms = *work;
  return beat;
}

Json Suspended::json() const {
  return {{"type", kType}, {"seconds", time.count()}};
}
Suspended Suspended::of(const Json& message) {
  return {std::chrono::seconds(clamped(message, "seconds", 0, 0, 1 << 30))};
}

Json Autopsy::json() const {
  return {{"type", kType}, {"frames", frames}};
}
Autopsy Autopsy::of(const Json& message) {
  return {frames_of(message)};
}

Json Signal::json() const {
  return {{"type", kType}, {"signal", signal}};
}
Signal Signal::of(const Json& message) {
  return {static_cast<int>(clamped(message, "signal", 0, 1, 64))};
}

Json Warning::json() const {
  return {{"type", kType}, {"message", message}};
}
Warning Warning::of(const Json& message) {
  return {json_read::text(message, "message")};
}

Json DeviceOpenedByCheck::json() const {
  return json_of_type<DeviceOpenedByCheck>();
}

Json Checked::json() const {
  return json_of_type<Checked>();
}

Json CheckFailed::json() const {
  return {{"type", kType}, {"words", words}, {"is_own", is_own}};
}
CheckFailed CheckFailed::of(const Json& message) {
  return {json_read::text(message, "words").substr(0, kMostTextBytes),
          json_read::boolean(message, "is_own")};
}

Json Staged::json() const {
  return {{"type", kType}, {"files", file_count}, {"bytes", bytes}};
}
Staged Staged::of(const Json& message) {
  return {clamped(message, "files", 0, 0, kMostBytes), clamped(message, "bytes", 0, 0, kMostBytes)};
}

Json Collected::json() const {
  return {{"type", kType}, {"files", file_count}, {"bytes", bytes}};
}
Collected Collected::of(const Json& message) {
  return {clamped(message, "files", 0, 0, kMostBytes), clamped(message, "bytes", 0, 0, kMostBytes)};
}

Json Put::json() const {
  return {{"type", kType}, {"id", id}, {"key", key}, {"value", value}};
}
Put Put::of(const Json& message) {
  return {id_of(message), json_read::text(message, "key"), json_read::text(message, "value")};
}

Json Get::json() const {
  Json message{{"type", kType}, {"id", id}, {"key", key}};
  if (wait_ms) message["wait_ms"] = *wait_ms;
  return message;
}
Get Get::of(const Json& message) {
  return {id_of(message), json_read::text(message, "key"), json_read::integer(message, "wait_ms")};
}

Json Progress::json() const {
  return {{"type", kType}, {"body", body}};
}
Progress Progress::of(const Json& message) {
  const auto body = message.find("body");
  return {body == message.end() ? Json() : *body};
}

Json TableRequest::json() const {
  return {{"type", kType}, {"from", from}};
}
TableRequest TableRequest::of(const Json& message) {
  return {json_read::integer(message, "from").value_or(-1)};
}

Json Exit::json() const {
  Json message{{"type", kType}, {"code", end.code}, {"signal", end.signal}, {"error", end.error}};
  if (end.ended_by_itself) message["own"] = *end.ended_by_itself;
  if (end.lead_was_unheard) message["unheard"] = true;
  if (end.blamed_rank) message["of"] = *end.blamed_rank;
  return message;
}
Exit Exit::of(const Json& message) {
  RankEnd end{.code = static_cast<int>(clamped(message, "code", kExitInternal, 0, 255)),
              .signal = static_cast<int>(clamped(message, "signal", 0, 0, 64)),
              .error = json_read::text(message, "error").substr(0, kMostTextBytes),
              .lead_was_unheard = json_read::boolean(message, "unheard")};
  if (const auto own = message.find("own"); own != message.end() && own->is_boolean())
    end.ended_by_itself = own->get<bool>();
  if (message.contains("of"))
    end.blamed_rank = static_cast<int>(clamped(message, "of", -1, -1, 1 << 24));
  return {end};
}

}  // namespace to_lead

namespace to_rank {

Json Start::json() const {
  Json message{{"type", kType},
               {"addr", addr},
               {"master_addr", master_addr},
               {"master_port", master_port},
               {"marked", marks_stderr}};
  if (components.empty()) return message;
  auto& list = message["components"] = Json::array();
  for (const auto& address : components) list.push_back(json_of(address));
  return message;
}
Start Start::of(const Json& message) {
  Start start{.addr = json_read::text(message, "addr"),
              .master_addr = json_read::text(message, "master_addr"),
              .master_port = static_cast<int>(clamped(message, "master_port", 0, 0, 65535)),
              .marks_stderr = json_read::boolean(message, "marked")};
  const auto list = message.find("components");
  if (list == message.end() || !list->is_array()) return start;
  for (const auto& address : *list) {
    if (address.is_object()) start.components.push_back(component_address_of(address));
  }
  return start;
}

Json Beat::json() const {
  return json_of_type<Beat>();
}

Json SignalAnswer::json() const {
  return {{"type", kType}, {"signal", signal}, {"word", decision.text()}};
}
SignalAnswer SignalAnswer::of(const Json& message) {
  return {static_cast<int>(clamped(message, "signal", 0, 0, 64)),
          Word<SignalDecision>::of_text(json_read::text(message, "word"))};
}

Json Autopsy::json() const {
  return json_of_type<Autopsy>();
}

Json End::json() const {
  return {{"type", kType}, {"signal", signal}};
}
End End::of(const Json& message) {
  return {static_cast<int>(clamped(message, "signal", 0, 0, 64))};
}

Json Stage::json() const {
  return {{"type", kType}, {"broadcast", broadcast_copies}};
}
Stage Stage::of(const Json& message) {
  Stage stage;
  const auto found = message.find("broadcast");
  if (found == message.end() || !found->is_array()) return stage;
  for (const auto& path : *found)
    stage.broadcast_copies.push_back(path.is_string() ? path.get<std::string>() : std::string());
  return stage;
}

Json Collect::json() const {
  Json message{{"type", kType}};
  if (since_end) message["since_end"] = since_end->count();
  return message;
}
Collect Collect::of(const Json& message) {
  Collect collect;
  if (const auto time = json_read::integer(message, "since_end"))
    collect.since_end = std::chrono::milliseconds(std::max<std::int64_t>(*time, 0));
  return collect;
}

Json Reply::json() const {
  Json message{{"type", kType}, {"id", id}, {"ok", ok}};
  if (error) message["error"] = *error;
  if (code) message["code"] = *code;
  if (value) message["value"] = *value;
  return message;
}
Reply Reply::of(const Json& message) {
  return {.id = id_of(message),
          .ok = json_read::boolean(message, "ok"),
          .error = text_in(message, "error"),
          .code = text_in(message, "code"),
          .value = text_in(message, "value")};
}

Json ExitConfirmed::json() const {
  return json_of_type<ExitConfirmed>();
}

}  // namespace to_rank

Json json_of(const MessageToLead& message) {
  return std::visit([](const auto& one) { return one.json(); }, message);
}
Json json_of(const MessageToRank& message) {
  return std::visit([](const auto& one) { return one.json(); }, message);
}

std::string text_of(const Json& message) {
  return json_read::dump(message);
}

Result<std::optional<MessageToLead>> parse_to_lead(std::string_view payload) {
  const auto message = parse_json<Json>(payload);
  if (!message.is_object()) return std::nullopt;
  if (json_read::text(message, "type") == to_lead::Hello::kType) {
    auto hello = to_lead::Hello::of(message);
    if (!hello) return tl::unexpected<Error>(std::move(hello.error()));
    return MessageToLead(std::move(*hello));
  }
  return parse_among(message, std::type_identity<MessageToLead>());
}

std::optional<MessageToRank> parse_to_rank(std::string_view payload) {
  const auto message = parse_json<Json>(payload);
  if (!message.is_object()) return std::nullopt;
  return parse_among(message, std::type_identity<MessageToRank>());
}

}  // namespace dlrun::agent
