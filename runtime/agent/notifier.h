#pragma once
// Lead's side of notify and of track.mlflow: decides which events of the run give a notice, and
// passes notices and reports to a helper process (send_helper.h), which sends them. Lead waits
// for the helper only at the end of the run.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/notice.h"
#include "common/result.h"
#include "common/run_events.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/report_pace.h"
#include "runtime/agent/run_claim.h"

namespace dlrun::agent {

/// Turns events into notices. No I/O, no clock.
class NoticeMaker {
 public:
  /// run: the text that `dlrun status` accepts as RUN for this run (an id, SWEEP/POINT or a path).
  /// first_main: name of the component whose start and progress are those of the run; empty if the
  /// job has one program.
  NoticeMaker(std::vector<std::string> occasions, const JobIdentity& identity, std::string run,
              std::string first_main = {});

  /// Handles an event. Returns its notice, with no time set; nullopt if the event gives none. A
  /// hang, and the restart or failure after it, give one notice together. component: the component
  /// that the event is about; empty: the run.
  [[nodiscard]] std::optional<Notice> on_event(const RunEvent& event, int attempt,
                                               const std::string& component = {});

 private:
  [[nodiscard]] bool wants(std::string_view occasion) const;
  [[nodiscard]] std::optional<Notice> make(std::string_view occasion, std::string message,
                                           int attempt) const;
  [[nodiscard]] std::optional<Notice> of(const events::Restarting& restarting, int attempt) const;
  [[nodiscard]] std::optional<Notice> of(const events::Ended& ended, int attempt) const;

  std::vector<std::string> occasions_;
  std::string run_, job_, cluster_, first_main_;
  std::string progress_;  ///< the latest progress of the run, for people
  // Facts about the present attempt.
  std::optional<events::RankFailed> first_failure_;
  /// The component of first_failure_; empty: the job has one program.
  std::string first_failure_component_;
  bool has_hung_ = false;
};

class Notifier {
 public:
  /// has_mlflow: an MLflow server gets the reports.
  Notifier(NoticeMaker maker, bool has_mlflow, UniqueFd pipe, pid_t helper)
      : maker_(std::move(maker)),
        has_mlflow_(has_mlflow),
        pipe_(std::move(pipe)),
        helper_(helper) {}

  /// Returns the process id of the helper. The helper does not belong to the step, and the end of a
  /// step must not kill it.
  [[nodiscard]] pid_t helper() const { return helper_; }
  /// Passes the event's notice to the helper, if the event gives one. Never blocks.
  void on_event(const RunEvent& event, int attempt, const std::string& component);
  /// Passes the numbers of a report of rank 0 to the helper, if an MLflow server gets them. Leaves
  /// out reports that come too fast (ReportPace). Never blocks.
  void on_report(const Json& report, std::chrono::system_clock::time_point wall,
                 std::chrono::steady_clock::time_point now);
  /// Tells the helper that there are no more messages, and waits for it, at most kFinishLimit.
  /// Returns a sentence for the user if messages were lost or are still being sent. Later calls do
  /// nothing.
  [[nodiscard]] std::optional<std::string> finish();

  static constexpr std::chrono::milliseconds kFinishLimit{6000};

 private:
  /// Writes a line to the pipe, or counts it as lost.
  void pass_line(const std::string& line);

  NoticeMaker maker_;
  bool has_mlflow_;
  ReportPace pace_{std::chrono::steady_clock::now()};
  std::int64_t step_ = 0;  ///< step of the latest report, even if pace_ left the report out
  UniqueFd pipe_;
  pid_t helper_;
  int lost_count_ = 0;  ///< number of lines that the helper did not take
};

/// Starts the helper if the options ask for notices or for a record on an MLflow server; returns
/// nullptr otherwise. The end of a step spares only one process and its descendants
/// (StepContext::child_not_to_kill). Therefore the helper, and not lead, starts the process that
/// writes surroundings.json. If the job script ended before its step, no such process is started.
/// Must be called before there is a second thread. Fails as add_secrets() does, with kInvalid if
/// the webhook's secret is not a valid address, and with kIo if a system call fails.
[[nodiscard]] Result<std::unique_ptr<Notifier>> start_notifier(const LeadOptions& options,
                                                               const Env& env,
                                                               const JobIdentity& identity,
                                                               const ClaimedRun& run);

}  // namespace dlrun::agent
