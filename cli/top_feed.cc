#include "cli/top_feed.h"

#include <sys/stat.h>

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/backoff.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kLookEvery{1};

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The run's own record is newer than what the status was made of.
RunStatus with_record(RunStatus status, const RunRecord& record) {
  if (status.sweep) return status;
  RunFacts facts = std::move(status.facts);
  facts.record = record;
  return assess(std::move(facts));
}

}  // namespace

Result<TopPicture> take_picture(const Cli& cli, const IndexEntry& run) {
  TopPicture picture;
  picture.run = run;
  auto status = RunInspector(cli.env).inspect(run.path);
  if (!status) return tl::unexpected(status.error());
  picture.status = std::move(*status);
  for (;;) {
    const auto more = picture.history.read_more(run.path);
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
  }
  auto ranks = read_ranks(run.path);
  if (ranks) picture.ranks = std::move(*ranks);
  picture.now = now_s();
  return picture;
}

// Owned by all threads: one may outlive the others inside a call that never returns.
struct TopFeed::Shared {
  Env env;
  IndexEntry run;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const TopPicture> picture;  // guarded by mutex, like all below
  RunStatus asked;                            // as the executor's last answer made it
  bool is_asking_due = false;
  bool is_closing = false;

  /// False when it is time to end.
  bool pause(std::chrono::milliseconds limit, const bool& wakes) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, limit, [&] { return is_closing || wakes; });
    return !is_closing;
  }

  void ask_until_closed() {
    RunInspector inspector(env);
    Backoff backoff;
    backoff.asked();  // for the first picture
    while (pause(kLookEvery, is_asking_due)) {
      {
        const std::lock_guard lock(mutex);
        if (!std::exchange(is_asking_due, false) && !backoff.is_due()) continue;
        if (is_final(asked.state) && !asked.is_last_known) continue;
      }
      auto status = inspector.inspect(run.path, backoff.max_age());
      backoff.asked();
      const std::lock_guard lock(mutex);
      if (status) asked = std::move(*status);
    }
  }

  void look_until_closed(TopPicture now) {
    const bool never = false;
    timespec ranks_written{};
    while (pause(kLookEvery, never)) {
      const RunRecord before = now.history.record();
      while (now.history.read_more(run.path).value_or(false)) {
      }
      struct stat info {};
      const bool has_ranks = ::stat((run.path / "ranks.json").c_str(), &info) == 0;
      if (has_ranks && (info.st_mtim.tv_sec != ranks_written.tv_sec || info.st_mtim.tv_nsec != ranks_written.tv_nsec)) {
        ranks_written = info.st_mtim;
        if (auto ranks = read_ranks(run.path)) now.ranks = std::move(*ranks);
      }
      const RunRecord& record = now.history.record();
      const std::lock_guard lock(mutex);
      if (record.has_events != before.has_events || record.ended != before.ended || record.attempt != before.attempt) {
        is_asking_due = true;
        changed.notify_all();
      }
      now.status = with_record(asked, record);
      now.now = now_s();
      picture = std::make_shared<const TopPicture>(now);
    }
  }
};

TopFeed::TopFeed(const Cli& cli, TopPicture first) : shared_(std::make_shared<Shared>()) {
  shared_->env = cli.env;
  shared_->run = first.run;
  shared_->asked = first.status;
  shared_->picture = std::make_shared<const TopPicture>(first);
  std::thread([shared = shared_] { shared->ask_until_closed(); }).detach();
  std::thread([shared = shared_, first = std::move(first)]() mutable {
    shared->look_until_closed(std::move(first));
  }).detach();
}

TopFeed::~TopFeed() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

std::shared_ptr<const TopPicture> TopFeed::picture() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->picture;
}

}  // namespace dlrun
