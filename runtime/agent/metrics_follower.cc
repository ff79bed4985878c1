#include "runtime/agent/metrics_follower.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/progress_values.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kMetricsPartBytes = 256U << 10U;
constexpr std::size_t kMostWaitingLines = 1024;
constexpr std::chrono::milliseconds kLookAtMetricsEvery{1000};
/// Pause between two parts while programs run. It bounds the work on a file of garbage to about
/// 8 MiB a second.
constexpr std::chrono::milliseconds kPauseBetweenParts{30};

}  // namespace

bool program_writes_metrics(bool program_is_bundled, const std::vector<std::string>& command) {
  return program_is_bundled &&
         std::none_of(command.begin(), command.end(), [](std::string_view word) {
           return word == "--metrics" || word.starts_with("--metrics=");
         });
}

std::optional<MetricsLine> metrics_line_of(std::string_view text, std::optional<int> attempt) {
  auto json = text.empty() ? std::nullopt : json_read::object_of(text);
  const auto line_attempt = json ? json_read::integer(*json, "attempt") : std::nullopt;
  if (!line_attempt || (attempt && *line_attempt != *attempt)) return std::nullopt;
  const auto wall_s = seconds_of_utc(json_read::text(*json, "time"));
  const auto step = step_or_epoch_of(*json);
  json->erase("attempt");  // it is no value of training
  auto scalars = scalars_of(*json);
  if (!wall_s || !step || scalars.empty()) return std::nullopt;
  return MetricsLine{*wall_s, *step, std::move(scalars)};
}

MetricsReader::MetricsReader(std::filesystem::path file, int attempt)
    : path_(std::move(file)), attempt_(attempt) {
  struct stat info {};
  if (::lstat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  inode_ = info.st_ino;
  offset_ = lines_end_ = info.st_size;
}

MetricsReader::MetricsReader(std::filesystem::path file, const std::optional<MetricsPosition>& from)
    : path_(std::move(file)) {
  struct stat info {};
  if (!from || ::lstat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (info.st_ino != from->inode || from->offset < 0 || from->offset > info.st_size) return;
  inode_ = from->inode;
  offset_ = lines_end_ = from->offset;
}

std::optional<MetricsPosition> MetricsReader::position() const {
  if (!inode_) return std::nullopt;
  return MetricsPosition{*inode_, lines_end_};
}

Result<MetricsPart> MetricsReader::read_part() {
  // The file is opened anew for each part: a network file system then shows its present size.
  const auto file = open_untrusted(path_, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound && !inode_) return MetricsPart{};
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path_.string(), errno_text(errno));
  if (info.st_uid != ::geteuid())
    return fail(Errc::kInvalid, "{}: belongs to another user, so dlrun does not read it",
                path_.string());
  if ((inode_ && info.st_ino != *inode_) || info.st_size < offset_)
    return fail(Errc::kInvalid,
                "{}: another program has cut or replaced it while dlrun read it; only the trainer "
                "may write this file",
                path_.string());
  inode_ = info.st_ino;

  std::string bytes(std::min(static_cast<std::size_t>(info.st_size - offset_), kMetricsPartBytes),
                    '\0');
  ssize_t got = 0;
  while ((got = ::pread(file->get(), bytes.data(), bytes.size(), offset_)) < 0 && errno == EINTR) {
  }
  if (got < 0) return fail(Errc::kIo, "{}: {}", path_.string(), errno_text(errno));
  offset_ += got;
  MetricsPart part{.has_more = got > 0 && offset_ < info.st_size};
  const std::size_t searched = rest_.size();
  rest_.append(bytes, 0, static_cast<std::size_t>(got));
  take_lines(searched, part.lines);
  return part;
}

void MetricsReader::take_lines(std::size_t searched, std::vector<MetricsLine>& lines) {
  std::size_t begin = 0;
  for (auto end = rest_.find('\n', searched); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    const bool is_skipped = std::exchange(is_in_long_line_, false);
    auto line = is_skipped
                    ? std::nullopt
                    : metrics_line_of(std::string_view(rest_).substr(begin, end - begin), attempt_);
    if (line) lines.push_back(std::move(*line));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (begin > 0) lines_end_ = offset_ - static_cast<off_t>(rest_.size());
  if (rest_.size() <= kLongestLineBytes) return;
  rest_.clear();
  is_in_long_line_ = true;
}

// The follower and its thread share this state. A read that hangs may keep the thread alive longer
// than the follower.
struct MetricsFollower::Shared {
  explicit Shared(MetricsReader its_reader) : reader(std::move(its_reader)) {}

  MetricsReader reader;  // used by the thread only
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<MetricsLine> lines;  // guarded by mutex, like all members below
  std::optional<Error> failure;   ///< failure of the latest read
  bool is_finishing = false;
  bool is_over = false;  ///< true once a read after finish() has reached the end, or has failed
  bool is_closing = false;

  /// Reads one part. Returns true if the file has more. Releases the mutex while it reads.
  bool read_part(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    auto part = reader.read_part();
    lock.lock();
    failure.reset();
    if (!part) {
      failure = std::move(part.error());
      return false;
    }
    lines.insert(lines.end(), std::make_move_iterator(part->lines.begin()),
                 std::make_move_iterator(part->lines.end()));
    return part->has_more;
  }

  void follow_until_closed() {
    std::unique_lock lock(mutex);
    while (!is_closing) {
      if (lines.size() >= kMostWaitingLines) {
        changed.wait(lock, [&] { return is_closing || lines.size() < kMostWaitingLines; });
        continue;
      }
      const bool was_finishing = is_finishing;
      const bool has_more = read_part(lock);
      is_over = was_finishing && !has_more;
      changed.notify_all();
      if (is_over) return;
      if (was_finishing) continue;
      changed.wait_for(lock, has_more ? kPauseBetweenParts : kLookAtMetricsEvery,
                       [&] { return is_closing || is_finishing; });
    }
  }
};

MetricsFollower::MetricsFollower(std::filesystem::path file, int attempt)
    : shared_(std::make_shared<Shared>(MetricsReader(std::move(file), attempt))) {
  std::thread([shared = shared_] { shared->follow_until_closed(); }).detach();
}

MetricsFollower::~MetricsFollower() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
}

std::vector<MetricsLine> MetricsFollower::take(std::size_t most) {
  const std::lock_guard lock(shared_->mutex);
  auto& waiting = shared_->lines;
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiting.size()));
  std::vector<MetricsLine> taken(std::make_move_iterator(waiting.begin()),
                                 std::make_move_iterator(end));
  waiting.erase(waiting.begin(), end);
  shared_->changed.notify_all();
  return taken;
}

void MetricsFollower::finish() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_finishing = true;
  shared_->changed.notify_all();
}

bool MetricsFollower::wait(Clock::time_point until) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_until(lock, until,
                              [&] { return shared_->is_over || !shared_->lines.empty(); });
  return !shared_->lines.empty() && Clock::now() < until;
}

bool MetricsFollower::is_complete() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->is_over && !shared_->failure && shared_->lines.empty();
}

std::optional<Error> MetricsFollower::failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failure;
}

}  // namespace dlrun::agent
