#pragma once
// The record of a run: events.jsonl, a durable log of events (ENVIRONMENT.md, "events.jsonl"). Lead
// is its only writer while lead lives. If the lead of a run on this machine was killed, dlrun
// appends the event of the run's end (launcher/runs/lost_end.h).

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/result.h"
#include "common/run_events.h"

namespace dlrun::agent {

class BackgroundFile;

class EventLog {
 public:
  /// Opens or creates the file. Truncates an incomplete end, so that appended lines can be read,
  /// and compacts a file that is too large. If the compaction fails, the file stays large. Fails
  /// with kIo, and with kInvalid if path is not a regular file.
  [[nodiscard]] static Result<EventLog> open(const std::filesystem::path& path);
  EventLog(EventLog&&) noexcept;
  EventLog& operator=(EventLog&&) noexcept;
  ~EventLog();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns the number of bytes of the incomplete end that open() cut off.
  [[nodiscard]] std::size_t cut_bytes() const { return cut_bytes_; }

  /// Sets the attempt of the events that are recorded later.
  void set_attempt(int attempt) { attempt_ = attempt; }
  using Observer =
      std::function<void(const RunEvent& event, int attempt, const std::string& component)>;
  /// Calls `observer` with every event that is recorded later, its attempt, and the component that
  /// the event is about (see record()).
  void observe(Observer observer) { observer_ = std::move(observer); }
  /// Queues an event with its time and attempt. Never blocks. Events of importance kDroppable are
  /// not synced to the disk, and are dropped while at least half of the queue is full. All other
  /// events are synced, and are dropped only while the whole queue is full. component: the
  /// component that the event is about; empty: the whole run.
  void record(const RunEvent& event, const std::string& component = {});

  // BackgroundFile describes the next four functions.
  [[nodiscard]] std::optional<Error> take_failure();
  [[nodiscard]] int event_fd() const;
  void acknowledge();
  [[nodiscard]] bool drain(std::chrono::milliseconds limit);

 private:
  EventLog(std::string path, std::unique_ptr<BackgroundFile> file, std::size_t cut_bytes);

  std::string path_;
  std::unique_ptr<BackgroundFile> file_;
  std::size_t cut_bytes_ = 0;
  int attempt_ = 0;
  Observer observer_;
};

}  // namespace dlrun::agent
