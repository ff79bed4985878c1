#include "launcher/executors/rest_reply.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <nlohmann/json.hpp>
#include <sodium.h>

#include "common/bounded_json.h"
#include "common/text.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {
namespace {

using Json = nlohmann::json;

/// Sized for a cluster with 50,000 jobs of about 400 values each. rest_client.cc limits the bytes.
constexpr JsonLimits kReplyLimits{.depth = 64, .values = 40'000'000, .members = 1'000'000};

/// The fields of a job that rest_jobs() reads.
constexpr std::array<const char*, 12> kJobFields = {
    "job_id", "array_job_id", "array_task_id", "array_task_string", "job_state", "state_reason",
    "nodes",  "start_time",   "dependency",    "comment",           "exit_code", "user_id"};
constexpr std::int64_t kInvalidJobId = 2017;  // ESLURM_INVALID_JOB_ID
constexpr std::int64_t kAlreadyDone = 2021;   // ESLURM_ALREADY_DONE

/// Numbers in slurm_errno.h of failures to reach slurmctld or to get its answer.
constexpr std::array<std::int64_t, 16> kUnreachableNumbers = {
    1001,                    // SLURM_COMMUNICATIONS_CONNECTION_ERROR
    1008,                    // SLURM_PROTOCOL_INSANE_MSG_LENGTH
    1013,                    // SLURM_COMMUNICATIONS_MISSING_SOCKET_ERROR
    1021, 1022, 1023,        // SLURM_COMMUNICATIONS_CONNECT_, _WRITE_ and _READ_TIMEOUT
    1800, 1801, 1802, 1803,  // SLURMCTLD_COMMUNICATIONS_..._ERROR: connect, send, receive, shutdown
    1804, 1805,              // SLURMCTLD_COMMUNICATIONS_BACKOFF, _HARD_DROP: too many requests
    2027,                    // ESLURM_IN_STANDBY_MODE
    2131,                    // ESLURM_IN_STANDBY_USE_BACKUP
    5004,                    // SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
    5005,                    // SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT
};

struct RefusalNumber {
  std::int64_t number;
  SlurmRefusal refusal;
};
constexpr std::array<RefusalNumber, 7> kRefusalNumbers = {{
    {2000, SlurmRefusal::kPartition},         // ESLURM_INVALID_PARTITION_NAME
    {2014, SlurmRefusal::kNodesUnavailable},  // ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    {2015, SlurmRefusal::kNodesUnavailable},  // ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE
    {2016, SlurmRefusal::kNodesUnavailable},  // ESLURM_NODES_BUSY
    {2045, SlurmRefusal::kAccount},           // ESLURM_INVALID_ACCOUNT
    {2066, SlurmRefusal::kQos},               // ESLURM_INVALID_QOS
    {2068, SlurmRefusal::kNodesUnavailable},  // ESLURM_NODE_NOT_AVAIL
}};

[[nodiscard]] Json object_of(std::string_view text) {
  Json parsed = parse_json<Json>(text, kReplyLimits);
  return parsed.is_object() ? parsed : Json::object();
}

[[nodiscard]] std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Returns the number at the key, which is bare or {"set": true, "infinite": false, "number": 42}.
/// Returns nullopt if the number is unset or infinite.
[[nodiscard]] std::optional<std::int64_t> number_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) return std::nullopt;
  if (found->is_object()) {
    const auto is_true = [&](const char* name) {
      const auto flag = found->find(name);
      return flag != found->end() && flag->is_boolean() && flag->get<bool>();
    };
    const auto number = found->find("number");
    return is_true("set") && !is_true("infinite") && number != found->end() &&
                   number->is_number_integer()
               ? std::optional(number->get<std::int64_t>())
               : std::nullopt;
  }
  return found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

[[nodiscard]] const Json& list_at(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_array() ? *found : empty;
}

constexpr std::int64_t kMostTasks = 100'000;
constexpr std::int64_t kLargestTaskId = 1U << 31U;

/// Returns the task ids in a list such as "0-3,7,9-15:2%4". If the list ends with "...", because
/// Slurm has cut it off, returns the ids before the dots.
[[nodiscard]] std::vector<std::int64_t> tasks_of(std::string_view list) {
  std::vector<std::int64_t> tasks;
  for (const auto item : split(list.substr(0, list.find('%')), ',')) {
    const auto colon = item.find(':');
    const auto range = item.substr(0, colon);
    const auto dash = range.find('-');
    const auto first = parse_int(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
    const auto step =
        colon == std::string_view::npos ? 1 : parse_int(item.substr(colon + 1)).value_or(0);
    if (!first || !last || *first < 0 || *last > kLargestTaskId || step < 1 ||
        step > kLargestTaskId)
      continue;
    for (std::int64_t task = *first; task <= *last && std::ssize(tasks) < kMostTasks; task += step)
      tasks.push_back(task);
  }
  return tasks;
}

/// Returns the ids of an entry in the list of jobs: 42, or a task's 42_7. One entry represents all
/// tasks of an array that are pending, or that ended before they started.
[[nodiscard]] std::vector<std::string> ids_of(const Json& job) {
  const auto id = number_at(job, "job_id").value_or(0),
             array = number_at(job, "array_job_id").value_or(0);
  if (array == 0) return {fmt::format("{}", id)};
  if (const auto task = number_at(job, "array_task_id"))
    return {fmt::format("{}_{}", array, *task)};
  std::vector<std::string> ids;
  for (const auto task : tasks_of(text_at(job, "array_task_string")))
    ids.push_back(fmt::format("{}_{}", array, task));
  if (ids.empty()) ids.push_back(fmt::format("{}", id));
  return ids;
}

[[nodiscard]] std::string local_time(std::int64_t seconds) {
  const auto when = static_cast<std::time_t>(seconds);
  struct tm parts {};
  std::array<char, 32> text{};
  if (seconds <= 0 || ::localtime_r(&when, &parts) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts)};
}

/// Returns the job's state as squeue prints it. From v0.0.40 on the state is a list: the base
/// state, then its flags, such as "COMPLETING". squeue prints the flag that comes first in
/// kStateFlags, or else the base state.
[[nodiscard]] std::string state_of(const Json& job) {
  constexpr std::array<std::string_view, 13> kStateFlags = {
      "COMPLETING", "STAGE_OUT",     "CONFIGURING",  "EXPEDITING",   "RESIZING",
      "REQUEUED",   "REQUEUE_FED",   "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED",
      "REVOKED",    "RESV_DEL_HOLD", "SIGNALING"};
  const Json& states = list_at(job, "job_state");
  for (const auto flag : kStateFlags) {
    if (std::any_of(states.begin(), states.end(), [&](const Json& one) { return one == flag; }))
      return std::string(flag);
  }
  return state_word(!states.empty() && states.front().is_string()
                        ? states.front().get<std::string>()
                        : text_at(job, "job_state"));
}

/// Reads the exit code and the signal. Before v0.0.40, they are one number in waitpid()'s form; in
/// later versions, they are an object.
void read_exit_code(JobReport& report, const Json& job) {
  const auto found = job.find("exit_code");
  if (found == job.end()) return;
  const auto in_range = [](std::optional<std::int64_t> number) {
    return number && *number >= 0 && *number <= 0xff;
  };
  if (found->is_object() && found->contains("return_code")) {
    const auto code = number_at(*found, "return_code");
    if (in_range(code)) report.exit_code = static_cast<int>(*code);
    const auto signal = found->find("signal");
    const auto number = signal == found->end() ? std::nullopt : number_at(*signal, "id");
    if (in_range(number)) report.signal = static_cast<int>(*number);
    if (report.signal != 0 && !report.exit_code) report.exit_code = 0;
    return;
  }
  const auto status = number_at(job, "exit_code");
  if (!status || *status < 0 || *status > 0xffff) return;
  report.exit_code = static_cast<int>(*status >> 8);
  report.signal = static_cast<int>(*status & 0x7f);
}

[[nodiscard]] JobReport report_of(const Json& job) {
  JobReport report;
  report.state = state_of(job);
  report.phase = phase_of(report.state);
  report.reason = text_at(job, "state_reason");
  if (report.reason == "None") report.reason.clear();
  if (report.reason == kNeverSatisfied)
    report.failed_dependencies = failed_dependencies(text_at(job, "dependency"));
  report.nodes = text_at(job, "nodes");
  report.start = local_time(number_at(job, "start_time").value_or(0));
  report.comment = text_at(job, "comment");
  if (report.phase == JobPhase::kEnded) read_exit_code(report, job);
  return report;
}

/// Returns the number of one entry of `errors`; 0 if the entry has no number.
[[nodiscard]] std::int64_t number_of_error(const Json& error) {
  auto number = number_at(error, "error_code");
  if (!number) number = number_at(error, "error_number");
  return number.value_or(0);
}

/// Returns the words of one entry of `errors`, printable.
[[nodiscard]] std::string words_of_error(const Json& error) {
  std::string words = printable(text_at(error, "error"));
  if (const auto more = text_at(error, "description"); !more.empty())
    words += fmt::format("{}{}", words.empty() ? "" : ": ", printable(more));
  return words;
}

/// Returns true for the numbers of slurmctld's own errors in slurm_errno.h. slurmctld has then
/// answered.
[[nodiscard]] bool is_answer_of_controller(std::int64_t number) {
  return number >= 2000 && number < 3000;
}

[[nodiscard]] bool is_of_user(const Json& job, std::int64_t uid) {
  return number_at(job, "user_id") == uid;
}

}  // namespace

std::string rest_errors(std::string_view body) {
  const Json answer = parse_json<Json>(body, kReplyLimits);
  if (!answer.is_object()) return printable(trim(body.substr(0, 300)));
  std::vector<std::string> lines;
  for (const Json& one : list_at(answer, "errors")) {
    std::string message = words_of_error(one);
    if (const auto number = number_of_error(one); number > 0)
      message += fmt::format(" ({})", number);
    if (!message.empty() && std::find(lines.begin(), lines.end(), message) == lines.end())
      lines.push_back(std::move(message));
  }
  return join(lines, "; ");
}

bool rest_says_unreachable(std::string_view body) {
  const auto is_unreachable = [](const Json& one) {
    const auto number = number_of_error(one);
    if (std::find(kUnreachableNumbers.begin(), kUnreachableNumbers.end(), number) !=
        kUnreachableNumbers.end())
      return true;
    if (is_answer_of_controller(number)) return false;
    const std::string words = words_of_error(one);
    return says_unreachable(words) || words.find("config is unable to load") != std::string::npos;
  };
  const Json answer = object_of(body);
  const Json& errors = list_at(answer, "errors");
  return std::any_of(errors.begin(), errors.end(), is_unreachable);
}

bool rest_has_error_of_controller(std::string_view body) {
  const Json answer = object_of(body);
  const Json& errors = list_at(answer, "errors");
  return std::any_of(errors.begin(), errors.end(),
                     [](const Json& one) { return is_answer_of_controller(number_of_error(one)); });
}

SlurmRefusal rest_refusal_reason(std::string_view body) {
  const auto reason_of = [](const Json& one) {
    const auto number = number_of_error(one);
    for (const auto& row : kRefusalNumbers) {
      if (row.number == number) return row.refusal;
    }
    return is_answer_of_controller(number) ? SlurmRefusal::kOther : refusal_in(words_of_error(one));
  };
  const Json answer = object_of(body);
  for (const Json& one : list_at(answer, "errors")) {
    if (const auto reason = reason_of(one); reason != SlurmRefusal::kOther) return reason;
  }
  return SlurmRefusal::kOther;
}

std::string rest_field_warnings(std::string_view body) {
  // The source of a warning about a field is its path in the request, such as "#/job/nodes".
  std::vector<std::string> lines;
  const Json answer = object_of(body);
  for (const Json& one : list_at(answer, "warnings")) {
    const std::string source = text_at(one, "source");
    if (!source.starts_with('#')) continue;
    lines.push_back(
        fmt::format("{} ({})", printable(text_at(one, "description")), printable(source)));
  }
  return join(lines, "; ");
}

std::string rest_cancel_failure(std::string_view body) {
  std::vector<std::string> lines;
  const Json answer = object_of(body);
  for (const Json& one : list_at(answer, "status")) {
    const auto error = one.is_object() ? one.find("error") : one.end();
    if (error == one.end()) continue;
    const auto code = number_at(*error, "code").value_or(0);
    if (code != 0 && code != kAlreadyDone)
      lines.push_back(fmt::format("{} ({})", printable(text_at(*error, "string")), code));
  }
  return join(lines, "; ");
}

bool rest_is_complete(std::string_view body) {
  return parse_json<Json>(body, kReplyLimits).is_object();
}

bool rest_says_unknown_job(std::string_view body) {
  const Json answer = object_of(body);
  const auto is_unknown = [](const Json& one) {
    if (number_at(one, "error_number") == kInvalidJobId ||
        number_at(one, "error_code") == kInvalidJobId)
      return true;
    // The response to a cancellation has this form from v0.0.40 on.
    const auto error = one.is_object() ? one.find("error") : one.end();
    return one.is_object() && error != one.end() && number_at(*error, "code") == kInvalidJobId;
  };
  const Json &errors = list_at(answer, "errors"), &status = list_at(answer, "status");
  return std::any_of(errors.begin(), errors.end(), is_unknown) ||
         std::any_of(status.begin(), status.end(), is_unknown);
}

std::vector<std::string> rest_versions(std::string_view openapi) {
  constexpr std::size_t kMostVersions = 32, kLongestVersion = 16;
  std::vector<std::string> versions;
  const Json answer = object_of(openapi);
  const auto paths = answer.find("paths");
  if (paths == answer.end() || !paths->is_object()) return versions;
  for (const auto& [path, methods] : paths->items()) {
    if (versions.size() == kMostVersions) break;
    const auto parts = split(path, '/');  // "", "slurm", VERSION, "job", "submit"
    if (parts.size() == 5 && parts[1] == "slurm" && parts[3] == "job" && parts[4] == "submit" &&
        parts[2].starts_with('v') && parts[2].size() <= kLongestVersion)
      versions.push_back(printable(parts[2]));
  }
  return versions;
}

std::string rest_release(std::string_view body) {
  const Json answer = object_of(body);
  const auto meta = answer.find("meta");
  if (meta == answer.end() || !meta->is_object()) return {};
  for (const char* name : {"slurm", "Slurm"}) {  // v0.0.38 writes "Slurm"
    const auto slurm = meta->find(name);
    if (slurm != meta->end()) return printable(text_at(*slurm, "release"));
  }
  return {};
}

bool rest_has_controller(std::string_view body) {
  const Json answer = object_of(body);
  const Json& pings = list_at(answer, "pings");
  return std::any_of(pings.begin(), pings.end(), [](const Json& one) {
    if (!one.is_object()) return false;
    const auto responding = one.find("responding");  // from v0.0.45 on
    if (responding != one.end()) return *responding == true;
    return text_at(one, "pinged") == "UP" || text_at(one, "ping") == "UP";
  });
}

std::optional<std::string> rest_job_id(std::string_view body) {
  const auto id = number_at(object_of(body), "job_id");
  return id && *id > 0 ? std::optional(fmt::format("{}", *id)) : std::nullopt;
}

Result<std::vector<JobReport>> rest_jobs(std::string_view body, std::int64_t uid) {
  const Json answer = parse_json<Json>(body, kReplyLimits);
  if (!answer.is_object() || !answer.contains("jobs"))
    return fail(Errc::kInternal, "slurmrestd's answer holds no list of jobs: '{}'",
                printable(body.substr(0, 200)));
  std::vector<JobReport> reports;
  for (const Json& job : list_at(answer, "jobs")) {
    if (!is_of_user(job, uid)) continue;
    JobReport report = report_of(job);
    for (std::string& id : ids_of(job)) {
      report.job.id = std::move(id);
      reports.push_back(report);
    }
  }
  return reports;
}

std::string reduced_rest_jobs(std::string_view body, std::int64_t uid) {
  const Json answer = object_of(body);
  Json jobs = Json::array();
  for (const Json& job : list_at(answer, "jobs")) {
    if (!is_of_user(job, uid)) continue;
    Json one;
    for (const char* field : kJobFields) {
      if (const auto found = job.find(field); found != job.end()) one[field] = *found;
    }
    jobs.push_back(std::move(one));
  }
  return Json{{"jobs", std::move(jobs)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::int64_t> token_expiry(std::string_view token) {
  const auto parts = split(token, '.');
  if (parts.size() != 3) return std::nullopt;
  std::string claims(parts[1].size(), '\0');
  std::size_t size = 0;
  if (::sodium_base642bin(reinterpret_cast<unsigned char*>(claims.data()), claims.size(),
                          parts[1].data(), parts[1].size(), nullptr, &size, nullptr,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
    return std::nullopt;
  claims.resize(size);
  return number_at(object_of(claims), "exp");
}

}  // namespace dlrun
