#include "launcher/submit/held_token.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "common/log.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/index.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kLongestLockWait{120};
constexpr std::size_t kTokenDigits = 32;
constexpr std::size_t kFileLimitBytes = 8192;

/// The first word in the file of a token; the path of the run follows. See store_run().
constexpr std::string_view kCreated = "created ", kExisted = "existed ";

/// Waits for the lock. Returns false if another process still holds it after kLongestLockWait. On a
/// file system without locks, returns true without waiting.
bool wait_for_lock(int fd, const std::filesystem::path& file) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestLockWait;
  LockWaitLog log(file);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    log.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

Result<HeldToken> HeldToken::take(const Env& env, const std::string& token) {
  if (token.size() != kTokenDigits || !from_hex(token))
    return fail(Errc::kInvalid, "the token of a submission has 32 hexadecimal digits");
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  const auto folder = index.directory().parent_path() / "tokens";
  DLRUN_TRY(make_private_directories(folder));
  const auto lock_file = folder / (token + ".lock");
  // Without O_CLOEXEC, programs that this process starts inherit the lock.
  UniqueFd lock(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (!lock.is_open())
    return fail(Errc::kIo, "cannot open {}: {}", printable(lock_file.string()), errno_text(errno));
  if (!wait_for_lock(lock.get(), lock_file)) {
    return fail(
        Errc::kUnavailable,
        "an earlier call of this submission still runs on the host; repeat the same command "
        "later");
  }
  HeldToken held(token, folder / token, std::move(lock));
  const auto text = read_untrusted(held.file_, kFileLimitBytes, Links::kRefuse);
  if (!text && text.error().code != Errc::kNotFound) return tl::unexpected(text.error());
  if (text) {
    const std::string_view line = *text;
    held.has_created_run_ = line.starts_with(kCreated);
    if (held.has_created_run_ || line.starts_with(kExisted))
      held.run_ = line.substr(kCreated.size());
  }
  return held;
}

Result<std::optional<HeldToken>> take_submission_token(Env& env) {
  const std::string token = env.get_or(kTokenVariable, "");
  env.unset(kTokenVariable);
  if (token.empty()) return std::optional<HeldToken>();
  DLRUN_TRY_ASSIGN(auto held, HeldToken::take(env, token));
  return std::optional(std::move(held));
}

Result<> HeldToken::store_run(const std::filesystem::path& run, bool has_created) {
  static_assert(kCreated.size() == kExisted.size());
  DLRUN_TRY(
      write_file_atomic(file_, std::string(has_created ? kCreated : kExisted) + run.string()));
  run_ = run;
  has_created_run_ = has_created;
  return {};
}

}  // namespace dlrun
