#include "launcher/runs/lost_end.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/log.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {

Result<RunRecord> write_lost_end(const std::filesystem::path& run, int code,
                                 std::string_view message) {
  const auto path = run / "events.jsonl";
  const auto failed = [&] {
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  };
  const UniqueFd file(::open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed();
  LockWaitLog wait(path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) wait.begin();
    if (::flock(file.get(), LOCK_EX) != 0) return failed();
  }
  auto record = read_events(run);
  if (!record || record->ended) return record;
  const auto readable = open_untrusted(path, Links::kRefuse);
  struct stat info {};
  if (!readable) return tl::unexpected(readable.error());
  if (::fstat(file.get(), &info) != 0) return failed();
  // Cuts off a line that lead was writing when it was killed.
  if (::ftruncate(file.get(), end_of_checked_lines(readable->get(), info.st_size)) != 0)
    return failed();
  const events::Ended end{
      .state = EndState::kFailed, .code = code, .message = std::string(message)};
  const std::string line = to_checked_line(
      object_of({utc_timestamp(std::chrono::system_clock::now()), record->attempt, end}));
  if (auto written = write_all(file.get(), line); !written)
    return within(printable(path.string()), written.error());
  if (::fsync(file.get()) != 0) return failed();
  DLRUN_TRY(sync_directory(run));  // open() may have created the file
  return read_events(run);
}

}  // namespace dlrun
