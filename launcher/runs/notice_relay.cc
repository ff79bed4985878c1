#include "launcher/runs/notice_relay.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include <spawn.h>

#include "common/json_or_null.h"
#include "common/log.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

/// relay_notices_in_background() looks at this many of the newest runs at most, with all points of
/// a sweep, so that `ls` of ten thousand runs stays fast. It passes at most this many runs and
/// points to the sender.
constexpr std::size_t kMostInBackground = 100;

/// Returns those runs, and those points of sweeps, that have a folder of notices and belong to this
/// user.
std::vector<IndexEntry> runs_with_notices(const std::vector<IndexEntry>& runs) {
  std::vector<IndexEntry> found;
  const auto add = [&](const IndexEntry& run) {
    std::error_code error;
    if (std::filesystem::is_directory(run.path / "notify", error) && !foreign_owner(run.path))
      found.push_back(run);
  };
  for (const IndexEntry& run : runs) {
    if (!is_sweep(run.path)) {
      add(run);
      continue;
    }
    if (const auto points = single_runs_of(run)) {
      for (const IndexEntry& point : *points) add(point);
    }
  }
  return found;
}

/// Starts this program with other arguments in a session of its own, without input and output.
void start_detached(const std::vector<std::string>& arguments, Env env) {
  env.unset("DLRUN_HOST");  // the runs are on this machine
  std::vector<std::string> words{"dlrun"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> entries = env.entries();
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : entries) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&files) != 0) return;
  if (::posix_spawnattr_init(&attributes) == 0) {
    for (const int fd : {0, 1, 2})
      ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    const int error =
        ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), envp.data());
    log_info("notices are sent in the background", {{"argv", words}, {"error", error}});
    ::posix_spawnattr_destroy(&attributes);
  }
  ::posix_spawn_file_actions_destroy(&files);
}

}  // namespace

std::vector<NoticeOfRun> read_notices(const std::vector<IndexEntry>& runs) {
  std::vector<NoticeOfRun> notices;
  for (const IndexEntry& run : runs_with_notices(runs)) {
    for (QueuedNotice& queued : NoticeQueue(run.path).list())
      notices.push_back({run.id, std::move(queued)});
  }
  return notices;
}

nlohmann::ordered_json notices_json(const std::vector<NoticeOfRun>& notices) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NoticeOfRun& one : notices) {
    list.push_back({{"run", one.run},
                    {"way", one.queued.way},
                    {"state", one.queued.state},
                    {"event", text_or_null(one.queued.notice.occasion)},
                    {"time", text_or_null(one.queued.notice.time)},
                    {"message", one.queued.notice.message}});
  }
  return list;
}

SendReport relay_notices(const Env& env, const std::vector<IndexEntry>& runs, SendBy by) {
  SendReport total;
  for (const IndexEntry& run : runs_with_notices(runs)) {
    const auto report = NoticeQueue(run.path).send(env, by, [] { return true; });
    total.sent += report.sent;
    total.waiting += report.waiting;
    total.unconfirmed += report.unconfirmed;
    total.refused += report.refused;
    if (!report.problem.empty()) total.problem = run.id + ": " + report.problem;
  }
  return total;
}

void relay_notices_in_background(const Env& env, const std::vector<IndexEntry>& runs) {
  std::vector<std::string> arguments{"notify", "--relay", "--webhooks", "--"};
  const std::size_t words_before_runs = arguments.size();
  const std::vector<IndexEntry> newest(
      runs.begin(),
      runs.begin() + static_cast<std::ptrdiff_t>(std::min(runs.size(), kMostInBackground)));
  for (const IndexEntry& run : runs_with_notices(newest)) {
    if (arguments.size() - words_before_runs < kMostInBackground &&
        NoticeQueue(run.path).has_waiting(SendBy::kWebhooks))
      arguments.push_back(run.path.string());
  }
  if (arguments.size() > words_before_runs) start_detached(arguments, env);
}

}  // namespace dlrun
