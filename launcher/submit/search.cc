#include "launcher/submit/search.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/executors/backoff.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/experiment.h"
#include "launcher/submit/sbatch_settings.h"
#include "launcher/submit/search_program.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// The interval at which dlrun checks whether the record of a point has an end.
constexpr std::chrono::milliseconds kLookEvery{500};
/// The interval at which Slurm is asked about points whose records have no end.
constexpr std::chrono::seconds kAskSlurmEvery{10};
/// How long dlrun submits points again that Slurm refuses. Many refusals, such as those of a limit
/// on queued jobs, end by themselves.
constexpr std::chrono::minutes kRefusedLimit{10};
constexpr std::int64_t kDefaultAnswerSeconds = 60;  ///< the default of sweep.ask_timeout

/// A point whose result the search program does not have yet.
struct OpenPoint {
  std::size_t number = 0;
  SweepPoint values;
  std::filesystem::path path;
};

/// Returns the message to the search program about a point that has ended.
[[nodiscard]] Json result_message(const OpenPoint& point, const RunStatus& status) {
  const RunRecord& record = status.facts.record;
  Json result = Json::object();
  if (const auto& progress = record.progress) {
    if (progress->epoch) result["epoch"] = *progress->epoch;
    if (progress->step) result["step"] = *progress->step;
    if (progress->loss) result["loss"] = *progress->loss;
    if (progress->accuracy) result["accuracy"] = *progress->accuracy;
  }
  if (const auto reported = json_read::object_of(record.result)) result.update(*reported);
  return {{"tell",
           {{"point", point.number},
            {"values", values_json(point.values)},
            {"state", word(status.state)},
            {"stopped_early", record.attempt_end_reason == EndReason::kStoppedEarly},
            {"result", std::move(result)}}}};
}

/// The attempts to submit points that are in the sweep's record and that Slurm may lack.
struct UnsentRetries {
  Error error;  ///< the error of the last attempt
  Backoff backoff{};
  Clock::time_point since = Clock::now();
};

/// One search, from the first question to the last result.
class Search {
 public:
  Search(const Context& context, Reporter& reporter, RunInspector& inspector, Job job,
         Provenance& provenance)
      : context_(context),
        reporter_(reporter),
        inspector_(inspector),
        job_(std::move(job)),
        provenance_(provenance),
        sweep_(job_.experiment->loaded.spec.sweep),
        pack_(static_cast<std::size_t>(sweep_.pack.value_or(1))) {}

  Result<Searched> run(const IndexEntry* earlier) {
    if (earlier != nullptr) DLRUN_TRY(take_over(*earlier));
    // The reader of the spec has turned the duration into a number of seconds, as text.
    const auto seconds = parse_int(sweep_.ask_timeout.value_or("")).value_or(kDefaultAnswerSeconds);
    DLRUN_TRY_ASSIGN(program_,
                     SearchProgram::start(sweep_.ask, context_.env, job_.experiment->loaded.folder,
                                          std::chrono::seconds(seconds)));
    // Exists during the whole search, so that a signal between two questions is noticed.
    const Interrupt interrupt;
    auto outcome = program_->send(start_message(sweep_));
    if (outcome) outcome = tell_results();
    if (outcome) outcome = ask_and_submit(interrupt);
    if (!outcome && interrupt.requested())
      return tl::unexpected(with_advice({Errc::kInterrupted, "interrupted"}));
    if (!outcome) return tl::unexpected(with_advice(std::move(outcome.error())));
    return Searched{*run_, next_};
  }

 private:
  /// Takes the points of an earlier search as the first points of this search. Points that Slurm
  /// does not have are submitted again.
  Result<> take_over(const IndexEntry& earlier) {
    if (!is_sweep(earlier.path))
      return fail(Errc::kUsage, "--continue: {} is no search, but a single job", earlier.id);
    DLRUN_TRY_ASSIGN(const auto record, read_sweep(earlier.path));
    std::vector<std::string> keys = record.keys, wanted;
    for (const SweptKey& key : sweep_.parameters) wanted.push_back(key.key);
    std::sort(keys.begin(), keys.end());
    std::sort(wanted.begin(), wanted.end());
    if (keys != wanted || record.pack != pack_)
      return fail(Errc::kInvalid,
                  "--continue: the points of {} set {} with sweep.pack {}, and the points of this "
                  "spec set {} with sweep.pack {}; the keys and sweep.pack must be the same",
                  earlier.id, join(keys, ", "), record.pack, join(wanted, ", "), pack_);
    DLRUN_TRY_ASSIGN(auto settings, read_sbatch_settings(earlier.path));
    settings.secrets = std::move(job_.settings.secrets);
    settings.is_array = true;
    job_.settings = std::move(settings);
    run_ = RunDirectory{earlier.id, earlier.name, earlier.path, earlier.created};
    DLRUN_TRY(lock_run());
    array_count_ = record.array_count;
    for (const SweepRecord::Point& point : record.points) {
      SweepPoint values;
      for (std::size_t i = 0; i < record.keys.size(); ++i) {
        if (i < point.values.size() && point.values[i])
          values.push_back({record.keys[i], *point.values[i], {}});
      }
      open_.push_back({next_++, std::move(values), point_path(run_->path, point)});
    }
    // Slurm may lack some of these points. submit_unsent() finds out, and submits those.
    unsent_.emplace();
    return {};
  }

  /// Locks the run's directory. Fails with kRefused if another process has locked the directory,
  /// because two processes must not add points to the same sweep. Does nothing on a file system
  /// without locks.
  Result<> lock_run() {
    lock_.reset(::open(run_->path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_.is_open() && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return fail(Errc::kRefused, "{}: another dlrun runs this search; end it first", run_->id);
    return {};
  }

  /// Asks for points and submits them until the search is over and all points have ended.
  Result<> ask_and_submit(const Interrupt& interrupt) {
    for (;;) {
      DLRUN_TRY_ASSIGN(auto batch, next_batch());
      if (interrupt.requested()) return fail(Errc::kInterrupted, "interrupted");
      if (!batch.empty()) {
        DLRUN_TRY(submit(std::move(batch)));
        continue;
      }
      if (open_.empty() && has_all_points_) {
        if (run_) return {};
        return fail(Errc::kInvalid, "sweep.ask: {} proposed no point", printable(sweep_.ask[0]));
      }
      if (open_.empty() && is_waiting_)
        return fail(Errc::kInvalid,
                    "sweep.ask: {} waits for another result, but has all results of its points",
                    printable(sweep_.ask[0]));
      DLRUN_TRY(wait_for_ended_point(interrupt));
    }
  }

  /// Asks the program for the next point, or with sweep.pack for the points of the next job. The
  /// caller submits the returned points before its next call, so that a slow answer of the program
  /// delays no earlier point. Returns fewer points if the program waits or ends the search, or if
  /// sweep.max_points is reached. Returns none if no further point may run now, and while Slurm has
  /// not accepted earlier points.
  Result<std::vector<SweepPoint>> next_batch() {
    std::vector<SweepPoint> batch;
    const auto max_open_points =
        static_cast<std::size_t>(sweep_.max_parallel.value_or(static_cast<std::int64_t>(pack_)));
    if (unsent_) return batch;
    std::size_t wanted = std::min(pack_, max_open_points - std::min(max_open_points, open_.size()));
    if (wanted < pack_) wanted = 0;
    const auto max_points = static_cast<std::size_t>(
        sweep_.max_points.value_or(static_cast<std::int64_t>(kMostSweepPoints)));
    // A continued search may already have more points than sweep.max_points now allows.
    wanted = std::min(wanted, max_points - std::min(max_points, next_));
    has_all_points_ = has_all_points_ || next_ >= max_points;
    while (!has_all_points_ && !is_waiting_ && batch.size() < wanted) {
      DLRUN_TRY_ASSIGN(const auto line, program_->ask({{"ask", next_ + batch.size()}}));
      auto answer = parse_proposal(line, sweep_);
      if (!answer)
        return fail(Errc::kInvalid, "sweep.ask: {} answered '{}' (line {} of its output): {}",
                    printable(sweep_.ask[0]), printable(line.substr(0, 200)),
                    program_->line_count(), answer.error().message);
      if (answer->kind == Proposal::Kind::kDone) has_all_points_ = true;
      if (answer->kind == Proposal::Kind::kWait) is_waiting_ = true;
      if (answer->kind == Proposal::Kind::kPoint) batch.push_back(std::move(answer->point));
    }
    return batch;
  }

  /// Plans the points as a sweep.
  Result<SweepPlan> plan(const std::vector<SweepPoint>& batch) const {
    Experiment experiment = *job_.experiment;
    SweepSpec& sweep = experiment.loaded.spec.sweep;
    sweep.points = batch;
    sweep.parameters.clear();
    sweep.max_parallel.reset();  // next_batch() enforces the limit
    return prepare_sweep(experiment,
                         max_array_size(context_.env, job_.settings.clusters.value_or("")));
  }

  /// Submits the points. The first call makes the sweep's run directory; later calls add their
  /// points to the sweep. If Slurm does not accept points that the sweep has recorded,
  /// wait_for_ended_point() tries again.
  Result<> submit(std::vector<SweepPoint> batch) {
    DLRUN_TRY_ASSIGN(auto planned, plan(batch));
    // A later point may need the trainer even if the first one did not.
    if (run_ && planned.uses_trainer())
      DLRUN_TRY(prepare_runs_folder(context_, reporter_, job_.runs_dir, true));
    const std::size_t first_array = array_count_;
    array_count_ += planned.arrays.size();
    std::vector<SweepRecord::Point> recorded;
    for (const PlannedPoint& point : planned.points)
      recorded.push_back({first_array + point.array, point.point_in_array, {}});
    const auto sent = run_ ? submit_more_points(context_, inspector_, *run_, job_.settings, planned)
                           : submit_first(std::move(planned));
    if (!sent && !has_recorded(next_ + batch.size())) return sent;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      reporter_.note(fmt::format("{}/{}: {}", run_->id, next_, describe(batch[i])));
      open_.push_back({next_++, std::move(batch[i]), point_path(run_->path, recorded[i])});
    }
    if (sent || sent.error().code == Errc::kInterrupted) return sent;
    unsent_ = UnsentRetries{sent.error()};
    unsent_->backoff.record_attempt();
    reporter_.warning(fmt::format("{}; dlrun submits the point{} again soon", sent.error().message,
                                  batch.size() == 1 ? "" : "s"));
    return {};
  }

  /// Returns true if the sweep's record has at least this number of points.
  [[nodiscard]] bool has_recorded(std::size_t point_count) const {
    if (!run_) return false;
    const auto recorded = read_sweep(run_->path);
    return recorded && recorded->points.size() >= point_count;
  }

  /// Submits the unsent points again if the pause after the last attempt is over. Gives up if Slurm
  /// has refused them for kRefusedLimit: the program then gets the state of these points.
  Result<> submit_unsent() {
    if (!unsent_ || !unsent_->backoff.is_due()) return {};
    const auto sent = submit_missing_points(context_, reporter_, inspector_,
                                            {run_->id, run_->name, run_->path, run_->created});
    // kUsage means that Slurm has all points: it had them when this search continued the earlier
    // one, or an attempt succeeded and its answer was lost.
    if (sent || sent.error().code == Errc::kUsage) {
      reporter_.note(fmt::format("{}: Slurm has all points now", run_->id));
      unsent_.reset();
      if (sent && sent->is_interrupted) return fail(Errc::kInterrupted, "interrupted");
      return {};
    }
    const Errc code = sent.error().code;
    if (code == Errc::kInterrupted) return tl::unexpected(sent.error());
    unsent_->error = sent.error();
    unsent_->backoff.record_attempt();
    const bool may_recover = code == Errc::kUnavailable || code == Errc::kTimeout;
    if (may_recover || Clock::now() < unsent_->since + kRefusedLimit) return {};
    refusal_ = std::move(unsent_->error);
    unsent_.reset();
    reporter_.warning(
        fmt::format("{}; dlrun no longer submits the points that Slurm has not accepted, and sends "
                    "the state of these points to the search program",
                    refusal_->message));
    return {};
  }

  Result<> submit_first(SweepPlan planned) {
    job_.script = planned.arrays.front().script;
    job_.settings.is_array = true;
    DLRUN_TRY_ASSIGN(const auto checked, check_job(context_, reporter_, inspector_, job_, &planned,
                                                   NextStep::kSubmission));
    DLRUN_TRY_ASSIGN(auto submitted, submit_sweep(context_, reporter_, inspector_, std::move(job_),
                                                  std::move(planned), checked, provenance_));
    job_ = std::move(submitted.job);
    run_ = std::move(submitted.run);
    DLRUN_TRY(lock_run());
    if (submitted.failure) return tl::unexpected(std::move(*submitted.failure));
    if (submitted.is_interrupted) return fail(Errc::kInterrupted, "interrupted");
    return {};
  }

  /// Waits until at least one point has ended, or until Slurm has accepted the unsent points. Sends
  /// the program the results of all points that have ended. Fails if Slurm has refused points and
  /// no other point is left.
  Result<> wait_for_ended_point(const Interrupt& interrupt) {
    for (auto last_query = Clock::now();;) {
      interrupt.sleep(kLookEvery);
      if (interrupt.requested()) return fail(Errc::kInterrupted, "interrupted");
      const bool had_unsent = unsent_.has_value();
      DLRUN_TRY(submit_unsent());
      if (had_unsent && !unsent_ && !refusal_) return {};  // further points may run
      const bool has_recorded_end = std::any_of(
          open_.begin(), open_.end(), [](const OpenPoint& point) { return has_end(point.path); });
      if (!has_recorded_end && Clock::now() < last_query + kAskSlurmEvery) continue;
      last_query = Clock::now();
      const std::size_t before = open_.size();
      DLRUN_TRY(tell_results());
      if (refusal_ && open_.empty()) return tl::unexpected(std::move(*refusal_));
      if (open_.size() == before) continue;
      refusal_.reset();
      is_waiting_ = false;
      return {};
    }
  }

  /// Sends the program the results of the points that have ended, and removes them from open_.
  Result<> tell_results() {
    std::vector<std::filesystem::path> paths;
    for (const OpenPoint& point : open_) paths.push_back(current_run_of(point.path));
    const auto states = inspector_.inspect_all(paths);
    std::vector<OpenPoint> still_open;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!states[i]) {
        warn_of_unreadable(states[i].error());
        still_open.push_back(std::move(open_[i]));
        continue;
      }
      const bool is_unsent =
          states[i]->state == RunState::kRefused ||
          (states[i]->state == RunState::kNotSubmitted && !states[i]->may_be_outdated);
      // The point stays open while dlrun tries again to submit it, and until its job has ended.
      if (is_unsent ? unsent_.has_value() : !is_over(*states[i])) {
        still_open.push_back(std::move(open_[i]));
        continue;
      }
      const Json message = result_message(open_[i], *states[i]);
      DLRUN_TRY(program_->send(message));
      reporter_.note(fmt::format("{}/{}: {} {}", run_->id, open_[i].number, word(states[i]->state),
                                 json_read::dump(message["tell"]["result"])));
    }
    open_ = std::move(still_open);
    return {};
  }

  /// Warns once about a record that cannot be read. A file system that fails for a while does not
  /// end the search; dlrun reads the record again.
  void warn_of_unreadable(const Error& error) {
    if (has_warned_) return;
    has_warned_ = true;
    reporter_.warning(fmt::format("{}; dlrun reads it again until the search ends", error.message));
  }

  /// Adds to the message of an error how to list and how to cancel the points of the search, and
  /// how to continue the search. Returns the error unchanged if the search has no run yet.
  [[nodiscard]] Error with_advice(Error error) const {
    if (!run_ || error.message.empty()) return error;
    error.message += open_.empty()
                         ? fmt::format("; `dlrun sweep {}` lists the points", run_->handle())
                         : fmt::format(
                               "; the search program does not have the result of {} point{} of "
                               "{}: `dlrun sweep {}` lists the points, `dlrun cancel {}` ends "
                               "those that are queued or running",
                               open_.size(), open_.size() == 1 ? "" : "s", run_->id, run_->handle(),
                               run_->handle());
    error.message +=
        fmt::format("; `dlrun submit SPEC --continue {}` continues the search", run_->handle());
    return error;
  }

  const Context& context_;
  Reporter& reporter_;
  RunInspector& inspector_;
  Job job_;
  Provenance& provenance_;
  const SweepSpec sweep_;
  std::size_t pack_;
  std::unique_ptr<SearchProgram> program_;
  std::optional<RunDirectory> run_;
  UniqueFd lock_;  ///< the run's directory, which is locked while the search lasts
  std::vector<OpenPoint> open_;
  std::optional<UnsentRetries> unsent_;
  std::optional<Error> refusal_;  ///< why dlrun has given up points that Slurm has not accepted
  std::size_t next_ = 0;          ///< the number of the next point
  std::size_t array_count_ = 0;
  bool has_all_points_ = false;  ///< the program is not asked for further points
  bool has_warned_ = false;      ///< about a record that cannot be read
  bool is_waiting_ = false;      ///< the program waits for another result before the next point
};

}  // namespace

Result<Searched> run_search(const Context& context, Reporter& reporter, RunInspector& inspector,
                            Job job, Provenance& provenance, const IndexEntry* earlier) {
  return Search(context, reporter, inspector, std::move(job), provenance).run(earlier);
}

}  // namespace dlrun
