#include "launcher/runs/lost_end.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/text.h"

namespace dlrun {

Result<RunRecord> write_lost_end(const std::filesystem::path& run, int code, std::string_view message) {
  constexpr std::size_t kLimit = 1U << 30U;
  const auto path = run / "events.jsonl";
  const auto failed = [&] { return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno)); };
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX) != 0) return failed();
  auto text = read_file(path, kLimit);
  if (!text) return tl::unexpected(text.error());
  RunRecord record = sum_up_events(*text);
  if (record.ended) return record;
  text->resize(parse_checked_lines(*text).valid_bytes);  // a line that the leader was killed in
  if (::ftruncate(file.get(), static_cast<off_t>(text->size())) != 0) return failed();
  nlohmann::ordered_json event;
  event["t"] = utc_timestamp(std::chrono::system_clock::now());
  event["event"] = "ended";
  event["attempt"] = record.attempt;
  event["state"] = "failed";
  event["code"] = code;
  event["message"] = message;
  const std::string line = to_checked_line(event);
  if (auto written = write_all(file.get(), line); !written) return within(path.string(), written.error());
  if (::fsync(file.get()) != 0) return failed();
  return sum_up_events(*text + line);
}

}  // namespace dlrun
