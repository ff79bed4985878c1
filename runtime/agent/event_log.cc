#include "runtime/agent/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/log.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/event_compaction.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kEventTextLimitBytes = 4096;
constexpr std::size_t kEventListLimitBytes = 64U << 10U;
/// The size of the queue. While it is full, all events are dropped.
constexpr std::size_t kEventQueueLimitBytes = 16U << 20U;

/// Returns the value with long texts and lists cut; a cut value ends in "...".
nlohmann::ordered_json shortened(const nlohmann::ordered_json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().size() > kEventTextLimitBytes)
    return value.get_ref<const std::string&>().substr(0, kEventTextLimitBytes) + "...";
  if (!value.is_array()) return value;
  auto list = nlohmann::ordered_json::array();
  std::size_t bytes = 0;
  for (const auto& one : value) {
    auto item = shortened(one);
    bytes += item.is_string() ? item.get_ref<const std::string&>().size() : sizeof(std::int64_t);
    if (bytes > kEventListLimitBytes) {
      list.push_back("...");
      break;
    }
    list.push_back(std::move(item));
  }
  return list;
}

/// Logs an event with its fields, which show what lead decided and why.
void log_event(const nlohmann::ordered_json& event) {
  if (!is_logged(LogLevel::kInfo)) return;
  std::vector<LogField> fields;
  std::deque<std::string> texts;  // the fields refer to them
  std::vector<std::string> argv;
  for (auto at = event.begin(); at != event.end(); ++at) {
    if (at.key() == "t") continue;
    if (at.key() == "argv" && at->is_array()) {
      for (const auto& word : *at) argv.push_back(word.is_string() ? word : "...");
      fields.emplace_back(at.key(), argv);
    } else if (at->is_string()) {
      fields.emplace_back(at.key(), at->get_ref<const std::string&>());
    } else {
      texts.push_back(at->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      fields.emplace_back(at.key(), texts.back());
    }
  }
  log_fields(LogLevel::kInfo, "recorded", fields);
}

}  // namespace

EventLog::EventLog(std::string path, std::unique_ptr<BackgroundFile> file, std::size_t cut_bytes)
    : path_(std::move(path)), file_(std::move(file)), cut_bytes_(cut_bytes) {}
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;
EventLog::~EventLog() = default;

Result<EventLog> EventLog::open(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(),
                       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  // Makes the name of a new file durable.
  DLRUN_TRY(sync_directory(path.parent_path()));
  DLRUN_TRY_ASSIGN(const auto readable, open_untrusted(path, Links::kRefuse));
  struct stat info {};
  if (::fstat(readable.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  const off_t valid_bytes = end_of_checked_lines(readable.get(), info.st_size);
  const auto cut_bytes = static_cast<std::size_t>(info.st_size - valid_bytes);
  if (cut_bytes != 0 && ::ftruncate(file.get(), valid_bytes) != 0) {
    return fail(Errc::kIo, "{}: {} bytes of incomplete lines at its end cannot be cut off: {}",
                path.string(), cut_bytes, errno_text(errno));
  }
  if (valid_bytes > static_cast<off_t>(kCompactAtBytes)) {
    // The file may exceed the limit, for example after a compaction that failed. If the disk still
    // has no room for a compacted copy, the run continues with the large file.
    if (auto renewed = compact_events(path)) {
      file = std::move(renewed->file);
      if (renewed->sync_error) return tl::unexpected(*renewed->sync_error);
    }
  }
  auto background =
      std::make_unique<BackgroundFile>(std::move(file), path.string(), kEventQueueLimitBytes);
  background->renew_beyond(kCompactAtBytes, [path] { return compact_events(path); });
  return EventLog(path.string(), std::move(background), cut_bytes);
}

void EventLog::record(const RunEvent& event, const std::string& component) {
  if (observer_) observer_(event, attempt_, component);
  auto object =
      object_of({utc_timestamp(std::chrono::system_clock::now()), attempt_, event, component});
  for (auto& value : object) value = shortened(value);
  const bool is_droppable = importance_of(event) == EventImportance::kDroppable;
  if (!is_droppable) log_event(object);
  if (is_droppable && !file_->is_less_than_half_full()) return;
  std::ignore = file_->push(to_checked_line(object), !is_droppable);
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
