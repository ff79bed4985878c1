#include "launcher/executors/queue_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/log.h"
#include "common/text.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The longest wait for the lock. It is longer than squeue's timeout, so a process that holds the
/// lock for longer is assumed to be suspended.
constexpr milliseconds kLockPatience{35'000};
constexpr milliseconds kCacheLockPause{20};
constexpr std::size_t kLargestCacheBytes = 16U << 20U;

/// Returns true for a folder of this user that nobody else can enter.
[[nodiscard]] bool is_private(const std::filesystem::path& folder) {
  struct stat info {};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::getuid() && (info.st_mode & 077U) == 0;
}

/// Waits until this process has the lock on the file. Returns false if the file system refuses the
/// lock, or if the wait takes longer than kLockPatience.
[[nodiscard]] bool lock(int fd, const std::filesystem::path& file) {
  LockWaitLog wait(file);
  const auto until = Clock::now() + kLockPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() >= until) return false;
    wait.begin();
    std::this_thread::sleep_for(kCacheLockPause);
  }
  return true;
}

[[nodiscard]] std::int64_t now_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The answer to a question, or the error of the query.
struct StoredResult {
  /// Since 1970: the start of the query for an answer, the end of the query for an error.
  std::int64_t time_ms = 0;
  bool is_answer = false;  ///< false: `text` is the message of an error
  std::string text;
};

/// Reads a stored result. The file's first line holds the time, "answer" or "error", the text's
/// size and the question. Returns nullopt if the file is incomplete, cannot be read, or belongs to
/// another question whose hash is the same.
[[nodiscard]] std::optional<StoredResult> read_stored(const std::filesystem::path& path,
                                                      const std::string& question) {
  const auto content = read_file(path, kLargestCacheBytes);
  if (!content) return std::nullopt;
  const auto end = content->find('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto fields = split(std::string_view(*content).substr(0, end), '\t');
  if (fields.size() != 4 || fields[3] != question) return std::nullopt;
  const auto time = parse_int(fields[0]);
  const auto size = parse_int(fields[2]);
  StoredResult stored{time.value_or(0), fields[1] == "answer", content->substr(end + 1)};
  if (!time || !size || static_cast<std::size_t>(*size) != stored.text.size()) return std::nullopt;
  return stored;
}

void store(int fd, const StoredResult& result, const std::string& question) {
  const std::string content =
      fmt::format("{}\t{}\t{}\t{}\n{}", result.time_ms, result.is_answer ? "answer" : "error",
                  result.text.size(), question, result.text);
  // Ignores write errors: if the disk is full, the other processes query by themselves.
  if (content.size() <= kLargestCacheBytes && ::ftruncate(fd, 0) == 0 &&
      ::lseek(fd, 0, SEEK_SET) == 0)
    static_cast<void>(write_all(fd, content));
}

}  // namespace

std::optional<QueueCache> QueueCache::of_user(const Env& env) {
  const auto runtime = env.get("XDG_RUNTIME_DIR");
  std::filesystem::path folder =
      runtime && runtime->starts_with('/')
          ? std::filesystem::path(*runtime) / "dlrun"
          : std::filesystem::path(fmt::format("/tmp/dlrun-{}", ::getuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::nullopt;
  if (!is_private(folder)) return std::nullopt;
  return QueueCache(std::move(folder));
}

Result<std::string> QueueCache::get(const std::string& question, milliseconds max_age,
                                    const Suffices& suffices, const Ask& ask) {
  const auto path = folder_ / fmt::format("queue-{:016x}", std::hash<std::string>{}(question));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.is_open() || question.find_first_of("\t\n") != std::string::npos || !lock(fd.get(), path))
    return ask();
  if (const auto stored = read_stored(path, question)) {
    const auto age = milliseconds(now_ms() - stored->time_ms);
    if (age.count() >= 0 && age <= max_age) {
      if (!stored->is_answer) return fail(Errc::kUnavailable, "{}", stored->text);
      if (suffices(stored->text)) return stored->text;
    }
  }
  const std::int64_t asked_ms = now_ms();
  auto answer = ask();
  if (answer) {
    store(fd.get(), {asked_ms, true, *answer}, question);
  } else if (answer.error().code == Errc::kUnavailable) {
    store(fd.get(), {now_ms(), false, answer.error().message}, question);
  }
  return answer;
}

}  // namespace dlrun
