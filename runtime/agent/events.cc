#include "runtime/agent/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/text.h"
#include "runtime/agent/background_file.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kFileLimitBytes = 1U << 30U;
constexpr std::size_t kQueueLimitBytes = 16U << 20U;

}  // namespace

EventLog::EventLog(std::unique_ptr<BackgroundFile> file, std::size_t cut_bytes)
    : file_(std::move(file)), cut_bytes_(cut_bytes) {}
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;
EventLog::~EventLog() = default;

Result<EventLog> EventLog::open(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  const auto text = read_file(path, kFileLimitBytes);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto lines = parse_checked_lines(*text);
  const std::size_t cut_bytes = text->size() - lines.valid_bytes;
  if (cut_bytes != 0 && ::ftruncate(file.get(), static_cast<off_t>(lines.valid_bytes)) != 0) {
    return fail(Errc::kIo, "{}: {} torn bytes at its end cannot be cut off: {}", path.string(), cut_bytes,
                errno_text(errno));
  }
  return EventLog(std::make_unique<BackgroundFile>(std::move(file), path.string(), kQueueLimitBytes), cut_bytes);
}

void EventLog::record(std::string_view event, const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json object;
  object["t"] = utc_timestamp(std::chrono::system_clock::now());
  object["event"] = event;
  object["attempt"] = attempt_;
  for (const auto& [key, value] : fields.items()) {
    if (!object.contains(key) && key != "crc") object[key] = value;
  }
  const bool is_passing = event == "progress" || event == "samples";
  if (is_passing && !file_->has_room()) return;
  std::ignore = file_->push(to_checked_line(object), !is_passing);
}

std::optional<Error> EventLog::take_failure() {
  return file_->take_failure();
}
int EventLog::event_fd() const {
  return file_->event_fd();
}
void EventLog::acknowledge() {
  file_->acknowledge();
}
bool EventLog::drain(std::chrono::milliseconds limit) {
  return file_->drain(limit);
}

}  // namespace dlrun::agent
