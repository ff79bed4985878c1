#include "launcher/plan/rest_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;
/// The form that a wrong value should have, for the message; nullopt if the value is right.
using ExpectedForm = std::optional<std::string>;

/// sbatch's default for the seconds between the signal and the time limit.
constexpr std::int64_t kSignalSeconds = 60;

[[nodiscard]] std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

/// Appends an item to a field whose text is a list separated by commas.
void append(Json& job, std::string_view field, std::string_view item) {
  Json& value = job[std::string(field)];
  value =
      value.is_string() ? fmt::format("{},{}", value.get<std::string>(), item) : std::string(item);
}

/// Returns the API's form of a number that can be infinite; nullopt is infinite.
[[nodiscard]] Json number_or_infinite(std::optional<std::int64_t> number) {
  return {{"set", true}, {"infinite", !number}, {"number", number.value_or(0)}};
}

ExpectedForm set_integer(Json& job, const RestField& field, std::string_view text) {
  const auto number = parse_int(text);
  if (!number) return "a number";
  job[std::string(field.name)] = *number;
  return std::nullopt;
}

ExpectedForm set_memory(Json& job, const RestField& field, const std::string& text) {
  if (!check_memory(text)) return "a memory size, such as 4G";
  // memory_mib() has no value for 0, which is all memory.
  const std::int64_t mib = memory_mib(text).value_or(0);
  if (field.kind == RestKind::kGpuMib) {
    append(job, field.name, fmt::format("gres/gpu:{}", mib));
  } else if (field.kind == RestKind::kMibOfDisk) {
    job[std::string(field.name)] = mib;
  } else {
    job[std::string(field.name)] = number_or_infinite(mib);
  }
  return std::nullopt;
}

ExpectedForm set_time(Json& job, const RestField& field, const std::string& text) {
  constexpr std::int64_t kSecondsOfMinute = 60;
  const auto seconds = parse_time_limit(text);
  if (!seconds) return "a time limit, such as 90 (minutes) or 1:30:00";
  if (field.kind == RestKind::kSeconds) {
    if (!*seconds) return "a finite time";
    job[std::string(field.name)] = **seconds;
    return std::nullopt;
  }
  std::optional<std::int64_t> minutes;  // rounded up, as sbatch does
  if (*seconds) minutes = (**seconds + kSecondsOfMinute - 1) / kSecondsOfMinute;
  job[std::string(field.name)] = number_or_infinite(minutes);
  return std::nullopt;
}

/// Sets the signal before the time limit: "[B][R][:]SIGNAL[@SECONDS]".
ExpectedForm set_signal(Json& job, const RestField& field, std::string_view text) {
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    Json flags = Json::array();
    for (const char letter : text.substr(0, colon)) {
      if (letter == 'B' || letter == 'b') {
        flags.push_back("BATCH_JOB");
      } else if (letter == 'R' || letter == 'r') {
        flags.push_back("RESERVATION_JOB");
      } else {
        return "[B|R:]SIGNAL[@SECONDS]";
      }
    }
    job["kill_warning_flags"] = std::move(flags);
    text.remove_prefix(colon + 1);
  }
  const auto at = text.find('@');
  const auto seconds =
      at == std::string_view::npos ? std::optional(kSignalSeconds) : parse_int(text.substr(at + 1));
  if (!seconds || at == 0 || text.empty()) return "[B|R:]SIGNAL[@SECONDS]";
  job[std::string(field.name)] = std::string(text.substr(0, at));
  job["kill_warning_delay"] = number_or_infinite(*seconds);
  return std::nullopt;
}

/// Sets the mail types by the API's names, which differ from sbatch's.
ExpectedForm set_mail_types(Json& job, const RestField& field, std::string_view text) {
  struct Type {
    std::string_view sbatch;
    std::vector<std::string> api;
  };
  const std::vector<Type> types{
      {"NONE", {}},
      {"ALL", {"BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY"}},
      {"INVALID_DEPEND", {"INVALID_DEPENDENCY"}},
      {"TIME_LIMIT", {"TIME=100%"}},
      {"TIME_LIMIT_90", {"TIME=90%"}},
      {"TIME_LIMIT_80", {"TIME=80%"}},
      {"TIME_LIMIT_50", {"TIME=50%"}}};
  Json list = Json::array();
  for (const auto item : split(text, ',')) {
    const std::string word = upper(item);
    const auto type = std::find_if(types.begin(), types.end(),
                                   [&](const Type& one) { return one.sbatch == word; });
    if (type == types.end()) {
      list.push_back(word);
    } else {
      for (const std::string& name : type->api) list.push_back(name);
    }
  }
  if (!list.empty()) job[std::string(field.name)] = std::move(list);
  return std::nullopt;
}

ExpectedForm add_gres_flag(Json& job, std::string_view text) {
  const std::string word = upper(text);
  if (word != "ENFORCE-BINDING" && word != "DISABLE-BINDING")
    return "enforce-binding or disable-binding";
  job["flags"].push_back(word == "ENFORCE-BINDING" ? "GRES_BINDING_ENFORCED"
                                                   : "GRES_BINDING_DISABLED");
  return std::nullopt;
}

/// Appends resources, as sbatch does: "gpu:a100:2" becomes "gres/gpu:a100:2".
void append_gres(Json& job, std::string_view field, std::string_view text) {
  if (upper(text) == "NONE") return;
  for (const auto item : split(text, ','))
    append(job, field,
           item.starts_with("gres/") ? std::string(item) : fmt::format("gres/{}", item));
}

ExpectedForm set_cpus_per_task(Json& job, const RestField& field, std::string_view text) {
  if (auto wrong = set_integer(job, field, text)) return wrong;
  const char equals = field.kind == RestKind::kCpusPerTask ? '=' : ':';
  Json& per_task = job["tres_per_task"];  // sbatch writes the processors first
  const std::string others = per_task.is_string() ? "," + per_task.get<std::string>() : "";
  per_task = fmt::format("cpu{}{}{}", equals, text, others);
  return std::nullopt;
}

/// Appends "gres/gpu:a100=2", and binds each task to its GPUs unless --gpu-bind has bound them.
ExpectedForm set_gpus_per_task(Json& job, const RestField& field, std::string_view text) {
  const char equals = field.kind == RestKind::kGpusPerTask ? '=' : ':';
  std::int64_t gpus = 0;
  for (const auto item : split(text, ',')) {
    const auto colon = item.find_first_of(":=");
    const auto count = parse_int(colon == std::string_view::npos ? item : item.substr(colon + 1));
    if (!count) return "a number of GPUs, such as 1 or a100:1";
    gpus += *count;
    append(job, field.name,
           colon == std::string_view::npos
               ? fmt::format("gres/gpu{}{}", equals, *count)
               : fmt::format("gres/gpu:{}{}{}", item.substr(0, colon), equals, *count));
  }
  if (!job.contains("tres_bind")) job["tres_bind"] = fmt::format("gres/gpu:per_task:{}", gpus);
  return std::nullopt;
}

ExpectedForm add_flag_word(Json& job, const RestField& field, std::string_view text) {
  if (field.kind == RestKind::kJobFlag) {
    job["flags"].push_back(field.name);
    return std::nullopt;
  }
  if (text != "yes" && text != "no") return "yes or no";
  job["flags"].push_back(text == "yes" ? "KILL_INVALID_DEPENDENCY" : "NO_KILL_INVALID_DEPENDENCY");
  return std::nullopt;
}

ExpectedForm set_upper_list(Json& job, const RestField& field, std::string_view text) {
  Json list = Json::array();
  for (const auto item : split(text, ',')) list.push_back(upper(item));
  job[std::string(field.name)] = std::move(list);
  return std::nullopt;
}

/// Sets a field that holds one boolean.
ExpectedForm set_boolean(Json& job, const RestField& field, std::string_view text) {
  bool value = field.kind == RestKind::kTrue;
  if (field.kind == RestKind::kYesNo) {
    if (text != "yes" && text != "no") return "yes or no";
    value = text == "yes";
  } else if (field.kind == RestKind::kIsNot0) {
    const auto number = parse_int(text);
    if (!number) return "0 or 1";
    value = *number != 0;
  }
  job[std::string(field.name)] = value;
  return std::nullopt;
}

/// Sets a field whose value is not parsed.
void set_unparsed(Json& job, const RestField& field, const std::optional<std::string>& value) {
  const std::string text = value.value_or("");
  Json& target = job[std::string(field.kind == RestKind::kShared ? "shared" : field.name)];
  switch (field.kind) {
    case RestKind::kText:
    case RestKind::kSignalText:
      target = text;
      break;
    case RestKind::kTextInList:
      target = Json::array({text});
      break;
    case RestKind::kExclusive:
      target = value.value_or("exclusive");
      break;
    case RestKind::kSetForTrue:
      target = "set";
      break;
    case RestKind::kNiceText:
      target = value.value_or("100");
      break;
    case RestKind::kShared:
      target = Json::array({value ? text : std::string(field.name)});
      break;
    case RestKind::kGpuBind:
      target = fmt::format("gres/gpu:{}", text);
      break;
    case RestKind::kGpuFrequency:
      target = fmt::format("gpu:{}", text);
      break;
    default:
      break;
  }
}

/// Appends GPUs: "a100:2" becomes "gres/gpu:a100:2".
ExpectedForm append_gpus(Json& job, const RestField& field, std::string_view text) {
  if (field.kind == RestKind::kGpuNumber && !parse_int(text)) return "a number";
  for (const auto item : split(text, ','))
    append(job, field.name, fmt::format("gres/gpu:{}", item));
  return std::nullopt;
}

}  // namespace

bool rest_kind_is_flag(RestKind kind) {
  return kind == RestKind::kTrue || kind == RestKind::kFalse || kind == RestKind::kSetForTrue ||
         kind == RestKind::kJobFlag;
}

std::optional<std::string> set_rest_field(nlohmann::ordered_json& job, const RestField& field,
                                          const std::optional<std::string>& value) {
  const std::string text = value.value_or("");
  switch (field.kind) {
    case RestKind::kNotSent:
    case RestKind::kRefused:
      return std::nullopt;
    case RestKind::kNice:
      return set_integer(job, field, value.value_or("100"));
    case RestKind::kNumber:
      return set_integer(job, field, text);
    case RestKind::kTrue:
    case RestKind::kFalse:
    case RestKind::kYesNo:
    case RestKind::kIsNot0:
      return set_boolean(job, field, text);
    case RestKind::kSignal:
      return set_signal(job, field, text);
    case RestKind::kMinutes:
    case RestKind::kSeconds:
      return set_time(job, field, text);
    case RestKind::kMib:
    case RestKind::kMibOfDisk:
    case RestKind::kGpuMib:
      return set_memory(job, field, text);
    case RestKind::kUpperList:
      return set_upper_list(job, field, text);
    case RestKind::kMailTypes:
      return set_mail_types(job, field, text);
    case RestKind::kJobFlag:
    case RestKind::kInvalidDep:
      return add_flag_word(job, field, text);
    case RestKind::kGresFlags:
      return add_gres_flag(job, text);
    case RestKind::kGpus:
    case RestKind::kGpuNumber:
      return append_gpus(job, field, text);
    case RestKind::kGres:
      append_gres(job, field.name, text);
      return std::nullopt;
    case RestKind::kCpusPerTask:
    case RestKind::kCpusPerTaskOf23:
      return set_cpus_per_task(job, field, text);
    case RestKind::kGpusPerTask:
    case RestKind::kGpusPerTaskOf23:
      return set_gpus_per_task(job, field, text);
    default:
      set_unparsed(job, field, value);
      return std::nullopt;
  }
}

}  // namespace dlrun
