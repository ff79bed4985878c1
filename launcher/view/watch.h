#pragma once
// Follows a run to its end with few requests: reads its files five times a second, and asks Slurm
// after 1 s, 2 s, 4 s ..., finally about every 40 s.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/interrupt.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Selects the data that watch_run() passes to its listener.
struct WatchOptions {
  bool passes_log = true;  ///< pass on the log as it grows
  /// Pass on the logs of these ranks instead of the job's log. The lines of several ranks are
  /// labelled.
  std::vector<std::int64_t> ranks{};
  /// The attempt whose log is passed on. nullopt: the current attempt, also after a restart.
  std::optional<std::int64_t> attempt;
  std::string component;            ///< the component of the ranks; empty: the job has one program
  std::optional<std::size_t> tail;  ///< pass on only this number of the existing log's last lines
  /// The interval at which unchanged news is repeated. nullopt: only a change is reported.
  std::optional<std::chrono::seconds> remind_every;
};

/// Receives the log of a run, and news about the run. The thread that called watch_run() calls the
/// functions.
class WatchListener {
 public:
  WatchListener() = default;
  WatchListener(const WatchListener&) = delete;
  WatchListener& operator=(const WatchListener&) = delete;
  virtual ~WatchListener() = default;

  /// Receives the next bytes of the log. Returns false if the listener accepts no more bytes;
  /// watch_run() then fails with kIo and no message.
  [[nodiscard]] virtual bool on_log(std::string_view bytes) = 0;
  /// Called after each batch of calls of on_log(). Returns false as on_log() does.
  [[nodiscard]] virtual bool on_log_batch_end() = 0;
  /// Called between two logs: the next bytes belong to another log.
  virtual void on_next_log() = 0;
  /// Receives one line of text: why the run waits, on which nodes it runs, how many points of a
  /// sweep have ended, or why the controller cannot be reached. Called when the text changes.
  /// Called again after WatchOptions::remind_every if the run waits or the controller cannot be
  /// reached.
  virtual void on_news(const IndexEntry& run, const std::string& news) = 0;
};

/// Waits until is_inactive() is true for the run's state, RunStatus::may_be_outdated is false, and
/// the whole log has been passed on. Returns the final status. Fails with kInterrupted when a
/// signal arrives, and with kIo if the listener accepts no more bytes.
[[nodiscard]] Result<RunStatus> watch_run(RunInspector& inspector, const IndexEntry& run,
                                          const WatchOptions& options, WatchListener& listener,
                                          const Interrupt& interrupt);

/// Fails with kUsage for another user's run or sweep that has not ended: dlrun sees only its files,
/// which may never record the end.
[[nodiscard]] Result<> check_can_wait_for(const IndexEntry& run);

}  // namespace dlrun
