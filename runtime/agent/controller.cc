#include "runtime/agent/controller.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

/// "n[1-2]" of "... NodeList=n[1-2] ..."; empty where the key is missing or "(null)".
std::string value_of(std::string_view text, std::string_view key) {
  for (const auto part : split(text, ' ')) {
    if (part.size() <= key.size() || !part.starts_with(key) || part[key.size()] != '=') continue;
    const auto value = trim(part.substr(key.size() + 1));
    return value == "(null)" ? std::string() : std::string(value);
  }
  return {};
}

/// "2026-11-21T16:15:12", local time, in seconds since the epoch.
std::optional<std::int64_t> time_of(const std::string& text) {
  std::tm time{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  time.tm_isdst = -1;
  const auto seconds = std::mktime(&time);
  return seconds < 0 ? std::nullopt : std::optional<std::int64_t>(seconds);
}

}  // namespace

JobFacts parse_job(std::string_view text, std::int64_t now) {
  JobFacts facts;
  facts.state = value_of(text, "JobState");
  facts.reason = value_of(text, "Reason");
  facts.nodes = value_of(text, "NodeList");
  facts.excluded = value_of(text, "ExcNodeList");
  const auto restarts = parse_int(value_of(text, "Restarts")).value_or(0);
  facts.restarts = static_cast<int>(std::clamp<std::int64_t>(restarts, 0, 1 << 30));
  const auto preempted = value_of(text, "PreemptTime");
  facts.is_preempted = !preempted.empty() && preempted != "None";
  if (const auto end = time_of(value_of(text, "EndTime"))) facts.seconds_to_limit = *end - now;
  return facts;
}

std::vector<std::string> parse_bad_nodes(std::string_view text) {
  constexpr std::array<std::string_view, 5> kBad{"down", "fail", "error", "unknown", "future"};
  std::vector<std::string> bad;
  for (const auto line : split(text, '\n')) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto node = line.substr(0, space);
    const auto state = trim(line.substr(space + 1));
    bool is_bad = state.find('*') != std::string_view::npos;
    for (const auto word : kBad) is_bad = is_bad || state.starts_with(word);
    // A node stands once for each of its partitions.
    if (is_bad && (bad.empty() || bad.back() != node)) bad.emplace_back(node);
  }
  return bad;
}

Controller::Controller(Env env, std::string job) : env_(std::move(env)), job_(std::move(job)) {
  env_.set("SLURM_TIME_FORMAT", "standard");
  env_.remove_matching({"SINFO_*", "SQUEUE_*"}, {});
}

Result<std::string> Controller::ask(std::vector<std::string> argv) const {
  const auto name = argv.front();
  Command command;
  command.argv = std::move(argv);
  command.env = env_;
  command.timeout = kLimit;
  auto finished = run_command(command);
  if (!finished) return tl::unexpected<Error>(std::move(finished.error()));
  if (finished->exit_code != 0) {
    return fail(Errc::kUnavailable, "{} ended with code {}: {}", name, finished->exit_code,
                printable(trim(finished->err)));
  }
  return std::move(finished->out);
}

Result<JobFacts> Controller::job() const {
  const auto text = ask({"scontrol", "show", "job", "--oneliner", job_});
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_job(*text, std::time(nullptr));
}

Result<std::vector<std::string>> Controller::bad_nodes(const std::string& nodes) const {
  const auto text = ask({"sinfo", "--noheader", "--Node", "--format=%N %T", "--nodes=" + nodes});
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_bad_nodes(*text);
}

Result<> Controller::requeue(const std::vector<std::string>& excluded) const {
  std::vector<std::string> all = excluded;
  if (!excluded.empty()) {
    const auto facts = job();
    const auto before = expand_hostlist(facts ? facts->excluded : std::string());
    if (before) all.insert(all.end(), before->begin(), before->end());
  }
  if (const auto done = ask({"scontrol", "requeue", job_}); !done) return tl::unexpected<Error>(done.error());
  if (excluded.empty()) return {};
  // Only a job that waits can be told so; Slurm has just made it one, and ends us in a moment.
  const auto done = ask({"scontrol", "update", "JobId=" + job_, "ExcNodeList=" + compress_hostlist(all)});
  if (!done) return tl::unexpected<Error>(done.error());
  return {};
}

}  // namespace dlrun::agent
