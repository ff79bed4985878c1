#include "launcher/executors/rest_reply.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <nlohmann/json.hpp>
#include <sodium.h>

#include "common/bounded_json.h"
#include "common/text.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {
namespace {

using Json = nlohmann::json;

/// Sized for a cluster with 50,000 jobs of about 400 values each. http_client.cc limits the bytes.
constexpr JsonLimits kReplyLimits{.depth = 64, .values = 40'000'000, .members = 1'000'000};

constexpr std::array<const char*, 12> kFields = {
    "job_id", "array_job_id", "array_task_id", "array_task_string", "job_state", "state_reason",
    "nodes",  "start_time",   "dependency",    "comment",           "exit_code", "user_id"};
constexpr std::int64_t kInvalidJobId = 2017;  // ESLURM_INVALID_JOB_ID

[[nodiscard]] Json object_of(std::string_view text) {
  Json parsed = parse_json<Json>(text, kReplyLimits);
  return parsed.is_object() ? parsed : Json::object();
}

[[nodiscard]] std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] std::optional<std::int64_t> number_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_integer()
             ? std::optional(found->get<std::int64_t>())
             : std::nullopt;
}

[[nodiscard]] const Json& list_at(const Json& object, const char* key) {
  static const Json nothing = Json::array();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_array() ? *found : nothing;
}

constexpr std::int64_t kMostTasks = 100'000;
constexpr std::int64_t kLastTask = 1U << 31U;

/// Returns the tasks in a list such as "0-3,7,9-15:2%4". If Slurm has cut off the list
/// with "...", returns the tasks before it.
[[nodiscard]] std::vector<std::int64_t> tasks_of(std::string_view list) {
  std::vector<std::int64_t> tasks;
  for (const auto part : split(list.substr(0, list.find('%')), ',')) {
    const auto colon = part.find(':');
    const auto range = part.substr(0, colon);
    const auto dash = range.find('-');
    const auto first = parse_int(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
    const auto step =
        colon == std::string_view::npos ? 1 : parse_int(part.substr(colon + 1)).value_or(0);
    if (!first || !last || *first < 0 || *last > kLastTask || step < 1 || step > kLastTask)
      continue;
    for (std::int64_t task = *first; task <= *last && std::ssize(tasks) < kMostTasks; task += step)
      tasks.push_back(task);
  }
  return tasks;
}

/// Returns the ids of a record: 42, or a task's 42_7. One record represents all tasks of an array
/// that are pending, or that ended before they started.
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

[[nodiscard]] JobReport report_of(const Json& job) {
  JobReport report;
  report.state = state_word(text_at(job, "job_state"));
  report.phase = phase_of(report.state);
  report.reason = text_at(job, "state_reason");
  if (report.reason == "None") report.reason.clear();
  if (report.reason == kNeverSatisfied)
    report.failed_dependencies = failed_dependencies(text_at(job, "dependency"));
  report.nodes = text_at(job, "nodes");
  report.start = local_time(number_at(job, "start_time").value_or(0));
  report.comment = text_at(job, "comment");
  const auto status = number_at(job, "exit_code");  // in waitpid()'s form
  if (report.phase == JobPhase::kEnded && status && *status >= 0 && *status <= 0xffff) {
    report.exit_code = static_cast<int>(*status >> 8);
    report.signal = static_cast<int>(*status & 0x7f);
  }
  return report;
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
    std::string message = printable(text_at(one, "error"));
    if (const auto more = text_at(one, "description"); !more.empty())
      message += fmt::format("{}{}", message.empty() ? "" : ": ", printable(more));
    auto number = number_at(one, "error_code");
    if (!number) number = number_at(one, "error_number");
    if (number && *number > 0) message += fmt::format(" ({})", *number);
    if (!message.empty() && std::find(lines.begin(), lines.end(), message) == lines.end())
      lines.push_back(std::move(message));
  }
  return join(lines, "; ");
}

bool rest_says_unknown_job(std::string_view body) {
  const Json answer = object_of(body);
  const Json& errors = list_at(answer, "errors");
  return std::any_of(errors.begin(), errors.end(), [](const Json& one) {
    return number_at(one, "error_number") == kInvalidJobId ||
           number_at(one, "error_code") == kInvalidJobId;
  });
}

std::vector<std::string> rest_versions(std::string_view openapi) {
  std::vector<std::string> versions;
  const Json answer = object_of(openapi);
  const auto paths = answer.find("paths");
  if (paths == answer.end() || !paths->is_object()) return versions;
  for (const auto& [path, methods] : paths->items()) {
    const auto parts = split(path, '/');  // "", "slurm", VERSION, "job", "submit"
    if (parts.size() >= 5 && parts[1] == "slurm" && parts[3] == "job" && parts[4] == "submit" &&
        parts[2].starts_with('v'))
      versions.push_back(printable(parts[2]));
  }
  return versions;
}

std::string rest_release(std::string_view body) {
  const Json answer = object_of(body);
  const auto meta = answer.find("meta");
  if (meta == answer.end() || !meta->is_object()) return {};
  const auto slurm = meta->find("Slurm");
  return slurm == meta->end() ? std::string() : printable(text_at(*slurm, "release"));
}

bool rest_has_controller(std::string_view body) {
  const Json answer = object_of(body);
  const Json& pings = list_at(answer, "pings");
  return std::any_of(pings.begin(), pings.end(),
                     [](const Json& one) { return text_at(one, "ping") == "UP"; });
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
    for (const char* field : kFields) {
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
