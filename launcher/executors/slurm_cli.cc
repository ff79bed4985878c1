// Submits, queries and cancels jobs with Slurm's commands. Each call is one short process with a
// timeout. Nothing in this file retries a call.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/queue_cache.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"

namespace dlrun {
namespace {

using std::chrono::seconds;

/// sbatch itself retries while a controller restarts. After this time, sbatch's answer counts as
/// lost.
constexpr seconds kSubmitTimeout{120};
constexpr seconds kQueryTimeout{30};
/// The most ids in one argument: the kernel limits the length of an argument to 128 KiB.
constexpr std::size_t kMostListedJobs = 5000;

class SlurmCli final : public Executor {
 public:
  explicit SlurmCli(const Env& env) : env_(scrubbed_for_slurm(env, munge_is_available())) {}

  /// Fails with kNotFound if there is no sbatch. sbatch itself checks everything else.
  Result<> check(const SubmitRequest& request) override {
    return find_program("sbatch", request.env) ? Result<>() : no_program_of_slurm("sbatch");
  }

  Result<JobId> submit(const SubmitRequest& request) override {
    std::vector<std::string> argv = {"sbatch", "--parsable"};
    argv.insert(argv.end(), request.options.begin(), request.options.end());
    argv.push_back(request.script.string());
    DLRUN_TRY_ASSIGN(
        auto done, call(std::move(argv), kSubmitTimeout, request.env, request.directory.string()));
    if (done.signal != 0) {
      return fail(Errc::kInterrupted, "sbatch was ended by {} before it answered",
                  signal_name(done.signal));
    }
    if (done.exit_code != 0) return tl::unexpected(slurm_error("sbatch", done.err, done.exit_code));
    return parse_sbatch(done.out);
  }

  Result<std::string> test(const SubmitRequest& request) override {
    std::vector<std::string> argv = {"sbatch", "--test-only"};
    argv.insert(argv.end(), request.options.begin(), request.options.end());
    DLRUN_TRY_ASSIGN(auto done, call(std::move(argv), kSubmitTimeout, request.env,
                                     request.directory.string(), request.script_text));
    if (done.exit_code != 0)
      return tl::unexpected(slurm_error("sbatch --test-only", done.err, done.exit_code));
    return slurm_message(done.err + done.out);
  }

  Result<std::optional<JobId>> do_find(std::string_view comment,
                                       const std::string& cluster) override {
    std::vector<std::string> argv = {"squeue", "-h",
                                     "-t",     "all",
                                     "-u",     std::to_string(::getuid()),
                                     "-o",     std::string(kSqueueFormat)};
    add_cluster(argv, cluster);
    DLRUN_TRY_ASSIGN(auto queue, call(std::move(argv), kQueryTimeout, env_));
    if (queue.exit_code != 0)
      return tl::unexpected(slurm_error("squeue", queue.err, queue.exit_code));
    for (const auto& report : parse_squeue(queue.out, cluster)) {
      if (starts_with_dlrun_comment(report.comment, comment)) return whole_job(report.job);
    }
    // If the job has ended and was purged, only accounting knows it. Many clusters have no
    // accounting or keep no comments.
    std::vector<std::string> sacct_argv = {"sacct", "-P",
                                           "-n",    "-X",
                                           "-u",    std::to_string(::getuid()),
                                           "-S",    "now-7days",
                                           "-o",    std::string(kSacctFormat)};
    add_cluster(sacct_argv, cluster);
    auto accounting = call(std::move(sacct_argv), kQueryTimeout, env_);
    if (accounting && accounting->exit_code == 0) {
      for (const auto& report : parse_sacct(accounting->out, cluster)) {
        if (starts_with_dlrun_comment(report.comment, comment)) return whole_job(report.job);
      }
    }
    return std::nullopt;
  }

  Result<QueryAnswer> do_query(std::span<const JobId> jobs,
                               std::chrono::milliseconds max_age) override {
    std::map<std::string, std::vector<std::string>> ids_by_cluster;
    for (const auto& job : jobs) ids_by_cluster[job.cluster].push_back(job.id);
    QueryAnswer answer;
    for (const auto& [cluster, ids] : ids_by_cluster)
      DLRUN_TRY(query_cluster(cluster, ids, max_age, answer));
    return answer;
  }

  Result<> do_cancel(const JobId& job, std::string_view) override {
    std::vector<std::string> argv = {"scancel"};
    add_cluster(argv, job.cluster);
    argv.push_back(job.id);
    DLRUN_TRY_ASSIGN(auto done, call(std::move(argv), kQueryTimeout, env_));
    if (done.exit_code != 0 && says_unknown_job(done.err)) {
      return fail(Errc::kNotFound, "Slurm knows no job {} (any more)", job.id);
    }
    if (done.exit_code != 0)
      return tl::unexpected(slurm_error("scancel", done.err, done.exit_code));
    return {};
  }

 private:
  /// Converts the id of an array's task, or of a part of a heterogeneous job, to the id that sbatch
  /// reported.
  static JobId whole_job(JobId job) {
    job.id = whole_id(job.id);
    return job;
  }

  /// Returns "42" for an array's task "42_7", for a heterogeneous job's part "42+1", and for "42"
  /// itself.
  static std::string whole_id(const std::string& id) {
    return id.substr(0, id.find_first_of("_+"));
  }

  /// Returns the ids to query, each once: the array's id in place of the ids of its tasks.
  static std::vector<std::string> ids_to_query(const std::vector<std::string>& ids) {
    std::vector<std::string> whole;
    for (const std::string& id : ids) whole.push_back(id.substr(0, id.find('_')));
    std::sort(whole.begin(), whole.end());
    whole.erase(std::unique(whole.begin(), whole.end()), whole.end());
    return whole;
  }

  static void add_cluster(std::vector<std::string>& argv, const std::string& cluster) {
    if (!cluster.empty()) argv.insert(argv.begin() + 1, {"-M", cluster});
  }

  static tl::unexpected<Error> no_program_of_slurm(std::string_view program) {
    return fail(
        Errc::kNotFound,
        "{}: no such program in PATH. On a cluster, load the module that brings Slurm, or use a "
        "login node; without Slurm, `dlrun run` starts a job on this machine",
        program);
  }

  static Result<FinishedCommand> call(std::vector<std::string> argv,
                                      std::chrono::milliseconds timeout, const Env& env,
                                      std::optional<std::string> directory = std::nullopt,
                                      std::string stdin_text = {}) {
    const std::string program = argv[0];
    if (!find_program(program, env)) return no_program_of_slurm(program);
    Command command;
    command.argv = std::move(argv);
    command.env = env;
    command.directory = std::move(directory);
    command.timeout = timeout;
    command.stdin_text = std::move(stdin_text);
    auto done = run_command(command);
    if (!done && done.error().code == Errc::kTimeout) {
      return fail(Errc::kUnavailable, "{} did not answer within {} s", program,
                  std::chrono::duration_cast<seconds>(timeout).count());
    }
    return done;
  }

  /// Returns squeue's lines for a selection of jobs: {"-j", "1,2"} or {"-u", "1000"}. Jobs that
  /// squeue no longer knows are not an error.
  Result<std::string> squeue_lines(const std::string& cluster, std::vector<std::string> selection) {
    std::vector<std::string> argv = {
        "squeue", "-h", "-r", "-t", "all", "-o", std::string(kSqueueFormat)};
    argv.insert(argv.end(), selection.begin(), selection.end());
    add_cluster(argv, cluster);
    DLRUN_TRY_ASSIGN(auto done, call(std::move(argv), kQueryTimeout, env_));
    if (done.exit_code == 0) return std::move(done.out);
    if (says_unknown_job(done.err)) return std::string();
    return tl::unexpected(slurm_error("squeue", done.err, done.exit_code));
  }

  /// Returns the lines of all jobs of the user. One query then serves all processes that watch a
  /// job of this user.
  Result<std::string> shared_squeue_lines(const std::string& cluster,
                                          const std::vector<std::string>& ids,
                                          std::chrono::milliseconds max_age) {
    const auto has_all = [&](const std::string& text) {
      std::set<std::string> known;
      for (auto& report : parse_squeue(text, cluster)) {
        if (report.job.id.find('+') != std::string::npos) known.insert(whole_id(report.job.id));
        known.insert(std::move(report.job.id));
      }
      return std::all_of(ids.begin(), ids.end(),
                         [&](const std::string& id) { return known.contains(id); });
    };
    const auto ask = [&] { return squeue_lines(cluster, {"-u", std::to_string(::getuid())}); };
    auto cache = QueueCache::of_user(env_);
    if (!cache) return ask();
    return cache->get(fmt::format("{} {}", env_.get("SLURM_CONF").value_or(""), cluster), max_age,
                      has_all, ask);
  }

  /// Returns the number of a part of a heterogeneous job: 1 for "42+1"; nullopt for other jobs.
  static std::optional<std::int64_t> part_of(const std::string& id) {
    const auto plus = id.find('+');
    return plus == std::string::npos ? std::nullopt
                                     : parse_int(std::string_view(id).substr(plus + 1));
  }

  /// If `part` is the report on a part of a heterogeneous job, and `answer` has a report on this
  /// job already, adds the part's nodes to that report and returns true. Otherwise returns false.
  static bool add_part(QueryAnswer& answer, const std::string& cluster, const JobReport& part) {
    const auto number = part_of(part.job.id);
    if (!number) return false;
    const JobId whole{cluster, whole_id(part.job.id)};
    for (JobReport& report : answer.reports) {
      if (report.job != whole) continue;
      if (!part.nodes.empty()) report.nodes += (report.nodes.empty() ? "" : ",") + part.nodes;
      report.nodes_of_parts[*number] = part.nodes;
      return true;
    }
    return false;
  }

  Result<> query_cluster(const std::string& cluster, const std::vector<std::string>& ids,
                         std::chrono::milliseconds max_age, QueryAnswer& answer) {
    const auto selection = [&]() -> std::vector<std::string> {
      const auto jobs = ids_to_query(ids);
      if (jobs.size() > kMostListedJobs) return {"-u", std::to_string(::getuid())};
      // If several jobs are listed, squeue leaves out those that it does not know. If one job is
      // listed, squeue fails if it does not know the job.
      return {"-j", join(jobs, ",")};
    };
    DLRUN_TRY_ASSIGN(const auto text, max_age.count() > 0
                                          ? shared_squeue_lines(cluster, ids, max_age)
                                          : squeue_lines(cluster, selection()));
    std::set<std::string> unanswered(ids.begin(), ids.end());
    std::vector<JobReport> other_ended;  // ended jobs whose ids were not asked for
    for (auto& report : parse_squeue(text, cluster)) {
      if (add_part(answer, cluster, report)) continue;
      // If the caller asked about the whole job, and the job has several lines (an array's tasks,
      // or the parts of a heterogeneous job), the state in the first line counts.
      if (unanswered.erase(whole_id(report.job.id)) != 0) {
        if (const auto part = part_of(report.job.id)) report.nodes_of_parts[*part] = report.nodes;
        report.job = {cluster, whole_id(report.job.id)};
        answer.reports.push_back(std::move(report));
        continue;
      }
      if (unanswered.erase(report.job.id) == 0) {
        if (report.phase == JobPhase::kEnded) other_ended.push_back(std::move(report));
        continue;
      }
      // An ended job stays in the queue for some minutes, without its exit code. The report then
      // lacks the code, although accounting may have it.
      report.job.cluster = cluster;
      answer.reports.push_back(std::move(report));
    }
    for (const JobReport& report : other_ended) {
      // Tasks that were cancelled before they started share one line, with the array's id. The
      // caller asked for the ids of the tasks.
      for (auto task = unanswered.lower_bound(report.job.id + "_");
           task != unanswered.end() && task->starts_with(report.job.id + "_");
           task = unanswered.erase(task)) {
        answer.reports.push_back(report);
        answer.reports.back().job = {cluster, *task};
      }
    }
    add_accounting_reports(cluster, std::move(unanswered), answer);
    return {};
  }

  /// Adds accounting's reports on the jobs that squeue did not report. Sets
  /// answer.why_no_accounting if accounting does not answer.
  void add_accounting_reports(const std::string& cluster, std::set<std::string> unanswered,
                              QueryAnswer& answer) {
    const std::vector<std::string> missing = ids_to_query({unanswered.begin(), unanswered.end()});
    const std::span<const std::string> all(missing);
    for (std::size_t first = 0; first < all.size(); first += kMostListedJobs) {
      const auto listed = all.subspan(first, std::min(kMostListedJobs, all.size() - first));
      std::vector<std::string> sacct_argv = {
          "sacct", "-P", "-n", "-X", "-o", std::string(kSacctFormat), "-j", join(listed, ",")};
      add_cluster(sacct_argv, cluster);
      const auto accounting = call(std::move(sacct_argv), kQueryTimeout, env_);
      if (!accounting || accounting->exit_code != 0) {
        answer.why_no_accounting =
            accounting ? slurm_message(accounting->err) : accounting.error().message;
        return;  // another call could take as long to fail
      }
      for (auto& report : parse_sacct(accounting->out, cluster)) {
        if (unanswered.erase(whole_id(report.job.id)) != 0) {
          report.job.id = whole_id(report.job.id);
          answer.reports.push_back(std::move(report));
          continue;
        }
        if (unanswered.contains(report.job.id)) answer.reports.push_back(std::move(report));
      }
    }
  }

  Env env_;
};

}  // namespace

std::unique_ptr<Executor> make_slurm_cli(const Env& env) {
  return std::make_unique<SlurmCli>(env);
}

}  // namespace dlrun
