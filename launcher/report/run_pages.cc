#include "launcher/report/run_pages.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "common/text.h"
#include "launcher/executors/job_energy.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/program_parameters.h"

namespace dlrun {
namespace {

/// A run that the page shows.
struct ShownRun {
  IndexEntry run;
  std::string label, short_label;  ///< see RunReport
  /// For a point: the names and values of the program parameters.
  std::vector<std::pair<std::string, std::string>> parameters;
};

/// Returns the names and values of the point's program parameters.
std::vector<std::pair<std::string, std::string>> parameter_values(const SweepRecord& sweep,
                                                                  const SweepRecord::Point& point) {
  std::vector<std::pair<std::string, std::string>> values;
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (is_program_parameter(sweep.keys[i]))
      values.emplace_back(sweep.keys[i], point.values[i].value_or(""));
  }
  return values;
}

/// Returns the runs with these names. Returns the points of a sweep instead of the sweep. For a
/// point that was resubmitted, returns its latest run.
Result<std::vector<ShownRun>> shown_runs_of(const Env& env,
                                            const std::filesystem::path& current_dir,
                                            const std::vector<std::string>& names) {
  std::vector<ShownRun> shown_runs;
  for (const auto& name : names) {
    DLRUN_TRY_ASSIGN(const auto run, find_run(env, current_dir, name));
    if (!is_sweep(run.path)) {
      shown_runs.push_back({run, run.id, "", {}});
      continue;
    }
    DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
    for (std::size_t at = 0; at < sweep.points.size(); ++at) {
      IndexEntry point = run;
      point.id = fmt::format("{}/{}", run.id, at);
      point.path = current_run_of(point_path(run.path, sweep.points[at]));
      const std::string short_label = names.size() == 1 ? std::to_string(at) : point.id;
      shown_runs.push_back({std::move(point),
                            fmt::format("{}  {}", short_label, describe(sweep, sweep.points[at])),
                            short_label, parameter_values(sweep, sweep.points[at])});
    }
  }
  return shown_runs;
}

/// Returns the title of a comparison. is_sweep_alone: the user asked for one sweep.
std::string title_of(const std::vector<ShownRun>& shown_runs, bool is_sweep_alone) {
  const std::string& first = shown_runs.front().run.id;
  if (is_sweep_alone) return "Sweep " + first.substr(0, first.rfind('/'));
  return fmt::format("{} and {} more", first, shown_runs.size() - 1);
}

/// Reads the files of a run.
RunReport report_of(const ShownRun& shown, const RunStatus& status) {
  RunReport report = read_report(shown.run, status);
  report.label = shown.label;
  report.short_label = shown.short_label;
  insert_parameters(report, shown.parameters);
  if (!shown.short_label.empty()) set_result_from_progress(report);
  return report;
}

/// Tells which runs share their job with other points of a sweep (sweep.pack). Reads each sweep
/// once.
class SharedJobs {
 public:
  /// Returns true if the run shares its job.
  [[nodiscard]] bool shares_job(const std::filesystem::path& run) {
    const auto sweep = sweep_of_point(run);
    if (!sweep) return false;
    const auto [known, is_new] = is_packed_.try_emplace(*sweep, false);
    if (is_new) {
      const auto record = read_sweep(*sweep);
      known->second = record && record->pack > 1;
    }
    return known->second;
  }

 private:
  std::map<std::filesystem::path, bool> is_packed_;  ///< by the sweep's directory
};

/// Adds the energy that Slurm's accounting has for the user's own runs that have ended. Leaves out
/// - runs that slurmrestd submitted, because their Slurm may not be reachable from here;
/// - jobs that several points share, because their energy is not that of one point.
void add_energy(const Env& env, std::vector<RunReport>& reports) {
  constexpr std::chrono::seconds kLimit{5};
  SharedJobs shared_jobs;
  // Returns the jobs of a run: all jobs of its chain if it has one (retry.chain), else its one job.
  // Returns no jobs if Slurm must not be asked about this run.
  const auto jobs_to_ask_about = [&](const RunReport& report) {
    const RunFacts& facts = report.status.facts;
    if (facts.foreign || report.status.job.id.empty() || !is_inactive(report.status.state) ||
        (facts.submission && facts.submission->server) || shared_jobs.shares_job(report.run.path))
      return std::vector<JobId>();
    auto chain = chain_jobs_of(facts);
    return chain.empty() ? std::vector<JobId>{report.status.job} : chain;
  };
  std::vector<JobId> jobs;
  for (const RunReport& report : reports) {
    const auto more = jobs_to_ask_about(report);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  if (jobs.empty()) return;
  const auto joules = energy_of_jobs(env, jobs, kLimit);
  for (RunReport& report : reports) {
    for (const JobId& job : jobs_to_ask_about(report)) {
      if (const auto found = joules.find({job.cluster, job.id}); found != joules.end())
        report.slurm_joules = report.slurm_joules.value_or(0) + found->second;
    }
  }
}

/// Returns RunPage::default_file for these names.
std::filesystem::path default_file_for(const Env& env, const std::filesystem::path& current_dir,
                                       const std::vector<std::string>& names) {
  if (names.size() == 1) {
    const auto run = find_run(env, current_dir, names.front());
    if (run && !foreign_owner(run->path)) return run->path / "report.html";
  }
  return current_dir / "report.html";
}

}  // namespace

Result<RunPage> make_run_page(const Env& env, const KnownServers& servers,
                              const std::filesystem::path& current_dir,
                              const std::vector<std::string>& names,
                              const std::function<void(const std::string&)>& warn) {
  DLRUN_TRY_ASSIGN(const auto shown_runs, shown_runs_of(env, current_dir, names));
  std::vector<std::filesystem::path> paths;
  for (const ShownRun& shown : shown_runs) paths.push_back(shown.run.path);
  const auto statuses = RunInspector(env, servers).inspect_all(paths);
  RunPage page;
  std::vector<RunReport> reports;
  bool has_points = false;
  for (std::size_t at = 0; at < shown_runs.size(); ++at) {
    if (!statuses[at]) {
      if (shown_runs.size() == 1) return tl::unexpected(statuses[at].error());
      warn(fmt::format("{}: {}", shown_runs[at].run.id, statuses[at].error().message));
      continue;
    }
    page.has_last_known_states = page.has_last_known_states || is_unreachable(*statuses[at]);
    has_points = has_points || !shown_runs[at].short_label.empty();
    reports.push_back(report_of(shown_runs[at], *statuses[at]));
  }
  if (reports.empty()) return fail(Errc::kNotFound, "none of these runs can be read");

  if (!page.has_last_known_states) add_energy(env, reports);
  if (has_points) sort_best_first(reports);
  const std::string made_at = utc_timestamp(std::chrono::system_clock::now());
  page.html = shown_runs.size() == 1
                  ? report_page(reports.front(), made_at)
                  : comparison_page(reports, title_of(shown_runs, names.size() == 1), made_at);
  page.default_file = default_file_for(env, current_dir, names);
  return page;
}

}  // namespace dlrun
