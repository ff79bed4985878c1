#include "launcher/submit/search.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/interrupt.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/search_program.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{500};
/// The interval at which Slurm is asked about points whose records have no end.
constexpr std::chrono::seconds kAskSlurmEvery{10};
constexpr std::int64_t kAnswerSeconds = 60;  ///< the default of sweep.ask_timeout

/// A point that has not ended.
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
            {"stopped_early", record.attempt_reason == EndReason::kStoppedEarly},
            {"result", std::move(result)}}}};
}

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

  Result<Searched> run() {
    const auto seconds = parse_int(sweep_.ask_timeout.value_or("")).value_or(kAnswerSeconds);
    DLRUN_TRY_ASSIGN(program_,
                     SearchProgram::start(sweep_.ask, context_.env, job_.experiment->loaded.folder,
                                          std::chrono::seconds(seconds)));
    DLRUN_TRY(program_->tell(start_message(sweep_)));
    if (auto done = ask_and_submit(); !done)
      return tl::unexpected(with_points(std::move(done.error())));
    return Searched{*run_, next_};
  }

 private:
  /// Asks for points and submits them until the search is over and all points have ended.
  Result<> ask_and_submit() {
    for (;;) {
      DLRUN_TRY_ASSIGN(auto batch, next_batch());
      if (!batch.empty()) DLRUN_TRY(submit(std::move(batch)));
      if (open_.empty() && is_over_) {
        if (run_) return {};
        return fail(Errc::kInvalid, "sweep.ask: {} proposed no point", printable(sweep_.ask[0]));
      }
      if (open_.empty() && is_waiting_)
        return fail(Errc::kInvalid,
                    "sweep.ask: {} waits for another result, but has all results of its points",
                    printable(sweep_.ask[0]));
      DLRUN_TRY(wait_for_end());
    }
  }

  /// Asks the program for as many points as may run now: with sweep.pack, for the points of whole
  /// jobs. Returns fewer points if the program waits or ends the search.
  Result<std::vector<SweepPoint>> next_batch() {
    std::vector<SweepPoint> batch;
    const auto at_once =
        static_cast<std::size_t>(sweep_.max_parallel.value_or(static_cast<std::int64_t>(pack_)));
    std::size_t wanted = (at_once - std::min(at_once, open_.size())) / pack_ * pack_;
    const auto most = static_cast<std::size_t>(
        sweep_.max_points.value_or(static_cast<std::int64_t>(kMostSweepPoints)));
    wanted = std::min(wanted, most - next_);
    is_over_ = is_over_ || next_ == most;
    is_waiting_ = false;
    while (!is_over_ && batch.size() < wanted) {
      DLRUN_TRY_ASSIGN(const auto line, program_->ask({{"ask", next_ + batch.size()}}));
      auto answer = read_proposal(line, sweep_);
      if (!answer)
        return fail(Errc::kInvalid, "sweep.ask: {} answered '{}': {}", printable(sweep_.ask[0]),
                    printable(line.substr(0, 200)), answer.error().message);
      if (answer->kind == Proposal::Kind::kDone) is_over_ = true;
      if (answer->kind == Proposal::Kind::kWait) {
        is_waiting_ = true;
        break;
      }
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
    sweep.max_parallel.reset();  // next_batch() keeps the limit
    return prepare_sweep(experiment,
                         max_array_size(context_.env, job_.settings.clusters.value_or("")));
  }

  /// Submits the points. The first points make the sweep's run directory, later ones are added.
  Result<> submit(std::vector<SweepPoint> batch) {
    DLRUN_TRY_ASSIGN(auto planned, plan(batch));
    const std::size_t before = arrays_;
    arrays_ += planned.arrays.size();
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (const PlannedPoint& point : planned.points)
      places.emplace_back(before + point.array, point.place);
    if (run_) {
      DLRUN_TRY(submit_more(context_, inspector_, *run_, job_.settings, planned));
    } else {
      DLRUN_TRY(submit_first(std::move(planned)));
    }
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const SweepRecord::Point recorded{places[i].first, places[i].second, {}};
      reporter_.note(fmt::format("{}/{}: {}", run_->id, next_, describe(batch[i])));
      open_.push_back({next_++, std::move(batch[i]), point_path(run_->path, recorded)});
    }
    return {};
  }

  Result<> submit_first(SweepPlan planned) {
    job_.script = planned.arrays.front().script;
    job_.settings.is_array = true;
    DLRUN_TRY_ASSIGN(const auto checked, check_job(context_, reporter_, inspector_, job_, &planned,
                                                   CheckStage::kSubmission));
    DLRUN_TRY_ASSIGN(auto submitted, submit_sweep(context_, reporter_, inspector_, std::move(job_),
                                                  std::move(planned), checked, provenance_));
    job_ = std::move(submitted.job);
    run_ = std::move(submitted.run);
    if (submitted.failure) return tl::unexpected(std::move(*submitted.failure));
    if (submitted.is_interrupted) return fail(Errc::kInterrupted, "interrupted");
    return {};
  }

  /// Waits until at least one point has ended. Sends the program the results of all points that
  /// have ended.
  Result<> wait_for_end() {
    const Interrupt interrupt;
    for (auto asked = Clock::now();;) {
      interrupt.sleep(kLookEvery);
      if (interrupt.requested()) return fail(Errc::kInterrupted, "interrupted");
      const bool has_record = std::any_of(
          open_.begin(), open_.end(), [](const OpenPoint& point) { return has_end(point.path); });
      if (!has_record && Clock::now() < asked + kAskSlurmEvery) continue;
      asked = Clock::now();
      const std::size_t before = open_.size();
      DLRUN_TRY(tell_ends());
      if (open_.size() < before) return {};
    }
  }

  /// Sends the program the results of the points that have ended, and removes them from open_.
  Result<> tell_ends() {
    std::vector<std::filesystem::path> paths;
    for (const OpenPoint& point : open_) paths.push_back(current_run_of(point.path));
    const auto states = inspector_.inspect_all(paths);
    std::vector<OpenPoint> still_open;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!states[i]) return tl::unexpected(states[i].error());
      if (!is_over(*states[i])) {
        still_open.push_back(std::move(open_[i]));
        continue;
      }
      const Json message = result_message(open_[i], *states[i]);
      DLRUN_TRY(program_->tell(message));
      reporter_.note(fmt::format("{}/{}: {} {}", run_->id, open_[i].number, word(states[i]->state),
                                 json_read::dump(message["tell"]["result"])));
    }
    open_ = std::move(still_open);
    return {};
  }

  /// Adds to the message of an error how to list and how to cancel the points of the search.
  [[nodiscard]] Error with_points(Error error) const {
    if (!run_ || error.message.empty()) return error;
    error.message += open_.empty()
                         ? fmt::format("; `dlrun sweep {}` lists its points", run_->handle())
                         : fmt::format(
                               "; {} point{} of {} {} queued or running: `dlrun sweep {}` "
                               "lists them, `dlrun cancel {}` ends them",
                               open_.size(), open_.size() == 1 ? "" : "s", run_->id,
                               open_.size() == 1 ? "is" : "are", run_->handle(), run_->handle());
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
  std::vector<OpenPoint> open_;
  std::size_t next_ = 0;  ///< the number of the next point
  std::size_t arrays_ = 0;
  bool is_over_ = false;     ///< the program is not asked for further points
  bool is_waiting_ = false;  ///< the program waits for another result before the next point
};

}  // namespace

Result<Searched> run_search(const Context& context, Reporter& reporter, RunInspector& inspector,
                            Job job, Provenance& provenance) {
  return Search(context, reporter, inspector, std::move(job), provenance).run();
}

}  // namespace dlrun
