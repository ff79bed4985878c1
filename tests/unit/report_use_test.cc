#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "common/json_lines.h"
#include "common/units.h"
#include "launcher/drawing/chart.h"
#include "launcher/executors/job_energy.h"
#include "launcher/report/page_parts.h"
#include "launcher/report/reported_axis.h"
#include "launcher/report/run_pages.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/sweep_record.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kScript[] =
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --gpus-per-node=2\n"
    "#SBATCH --cpus-per-task=10\n#SBATCH --mem=32G\n#SBATCH --time=10:00:00\ntrue\n";

std::string event_at(int minute, const std::string& kind, Json fields, int attempt = 0) {
  Json event{{"t", fmt::format("2026-01-01T{:02}:{:02}:00.000Z", minute / 60, minute % 60)},
             {"event", kind},
             {"attempt", attempt}};
  event.update(fields);
  return to_checked_line(event);
}

RunReport report_in(const TemporaryDirectory& folder, const std::string& events,
                    const std::string& script) {
  std::ofstream(folder / "events.jsonl") << events;
  std::ofstream(folder / "job.sh") << script;
  IndexEntry entry{"mnist-1", "mnist", folder.path(), "2026-01-01T00:00:00.000Z"};
  RunStatus status = assess(RunInspector::read_facts(folder.path()).value());
  return read_report(entry, std::move(status));
}

/// Returns the events of a completed run of 4 ranks on 2 nodes with two attempts, of 30 minutes and
/// of one hour. Between them the job waited for 30 minutes.
std::string events_of_two_attempts() {
  const auto sample = [](int minute, double watts, int attempt) {
    return event_at(minute, "samples",
                    {{"ranks", 4},
                     {"cpu", {1.0, 2.0, 3.0}},
                     {"rss_bytes", {1LL << 30U, 2LL << 30U, 4LL << 30U}},
                     {"gpu", {10.0, 20.0, 30.0}},
                     {"gpu_used_bytes", {1LL << 30U, 2LL << 30U, 3LL << 30U}},
                     {"gpu_watts", watts}},
                    attempt);
  };
  return event_at(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
         event_at(0, "joined", {{"ranks", 4}, {"hosts", "n[1-2]"}}) + sample(10, 1000, 0) +
         sample(20, 1000, 0) +
         event_at(30, "attempt_end",
                  {{"code", 0}, {"reason", "signalled"}, {"cause", "preemption"}}) +
         event_at(60, "claimed", {{"job", "42"}, {"host", "n1"}}, 1) +
         event_at(60, "joined", {{"ranks", 4}, {"hosts", "n[1-2]"}}, 1) + sample(70, 1000, 1) +
         sample(80, 2000, 1) + event_at(120, "attempt_end", {{"code", 0}, {"reason", "ok"}}, 1) +
         event_at(120, "ended", {{"state", "completed"}, {"code", 0}, {"message", "done"}}, 1);
}

const ResourceRow* row_of(const RunReport& report, std::string_view resource) {
  for (const ResourceRow& row : report.use.rows) {
    if (row.resource == resource) return &row;
  }
  return nullptr;
}

/// Returns the report of a program that has reported these totals.
RunReport report_with_totals(std::int64_t total_steps, std::int64_t total_epochs) {
  RunReport report;
  report.status.facts.record.progress = Progress{};
  report.status.facts.record.progress->steps = total_steps;
  report.status.facts.record.progress->epochs = total_epochs;
  MetricsPoint point;
  point.step = 1;
  report.metrics = {point};
  return report;
}

}  // namespace

TEST_CASE("the hours of all attempts count, and the time between them does not") {
  const TemporaryDirectory folder;
  const RunReport report = report_in(folder, events_of_two_attempts(), kScript);
  CHECK(report.use.seconds == 90 * 60);
  CHECK(report.use.longest_job_seconds == 60 * 60);
  CHECK(report.use.gpu_hours == 6);
  CHECK(report.use.core_hours == 60);
  // 10 minutes at 1 kW, 10 minutes at a mean of 1.5 kW, and nothing between the attempts.
  CHECK(report.use.gpu_joules == 600 * 1000 + 600 * 1500);
  const std::string page = report_page(report, "now");
  CHECK(page.find("<b>6.00</b><span>GPU-hours, all attempts</span>") != std::string::npos);
  CHECK(page.find("<b>417 Wh</b><span>energy of the GPUs</span>") != std::string::npos);
  CHECK(page.find("<figcaption><b>GPU power</b>") != std::string::npos);
}

TEST_CASE("requested and used resources are shown side by side, with a suggestion for a spec") {
  const TemporaryDirectory folder;
  const RunReport report = report_in(folder, events_of_two_attempts(), kScript);
  const ResourceRow* memory = row_of(report, "memory of a node");
  REQUIRE(memory != nullptr);
  CHECK(memory->requested == "32 GiB");
  // A node has two ranks of up to 4 GiB; all four ranks together have no more than 8 GiB.
  CHECK(memory->used == "8 GiB");
  CHECK(memory->advice == "mem: 11G");
  const ResourceRow* cores = row_of(report, "cores of a rank");
  REQUIRE(cores != nullptr);
  CHECK(cores->requested == "10");
  CHECK(cores->used == "2.00 on average, 3.00 at most");
  CHECK(cores->advice == "cpus_per_task: 4");
  const ResourceRow* time = row_of(report, "time");
  REQUIRE(time != nullptr);
  CHECK(time->requested == "10:00:00");
  CHECK(time->advice.starts_with("time: 01:30:00"));
  CHECK(time->used == "1 h 0 min in the longest of 2 allocations");
  const ResourceRow* gpus = row_of(report, "GPUs");
  REQUIRE(gpus != nullptr);
  CHECK(gpus->used == "busy for 20 % of the time");
  CHECK(gpus->advice.find("wait often") != std::string::npos);
  CHECK(report_page(report, "now").find("Requested and used") != std::string::npos);
}

TEST_CASE("an average weights each sample by the time that it stands for") {
  const TemporaryDirectory folder;
  const auto sample = [](int minute, double percent) {
    return event_at(minute, "samples", {{"ranks", 1}, {"gpu", {percent, percent, percent}}});
  };
  // The GPUs are idle in the first three minutes, and busy in the 100 minutes after them.
  const RunReport report = report_in(
      folder,
      event_at(0, "claimed", {{"job", "42"}}) + sample(0, 0) + sample(1, 0) + sample(2, 0) +
          sample(3, 100) + sample(103, 100) +
          event_at(103, "attempt_end", {{"code", 0}, {"reason", "ok"}}) +
          event_at(103, "ended", {{"state", "completed"}, {"code", 0}, {"message", "done"}}),
      kScript);
  const ResourceRow* gpus = row_of(report, "GPUs");
  REQUIRE(gpus != nullptr);
  CHECK(gpus->used == "busy for 98 % of the time");
}

TEST_CASE(
    "the energy of a job with components is unknown, because the samples are only of one "
    "component") {
  const TemporaryDirectory folder;
  std::string events = events_of_two_attempts();
  REQUIRE(report_in(folder, events, kScript).use.gpu_joules);
  events.insert(
      0, event_at(
             0, "components",
             {{"components", Json::array({{{"name", "learner"}, {"role", "main"}, {"ranks", 4}},
                                          {{"name", "actor"}, {"role", "main"}, {"ranks", 1}}})}}));
  const RunReport report = report_in(folder, events, kScript);
  REQUIRE_FALSE(report.status.facts.record.components.empty());
  CHECK_FALSE(report.use.gpu_joules);
}

TEST_CASE("the suggested time has room for all attempts in one allocation") {
  const TemporaryDirectory folder;
  const RunReport report = report_in(
      folder,
      event_at(0, "claimed", {{"job", "42"}, {"host", "n1"}}) +
          event_at(120, "attempt_end", {{"code", 1}, {"reason", "rank_failed"}}) +
          event_at(120, "restarting", {{"cause", "failure"}, {"left", 2}, {"by", "lead"}}) +
          event_at(120, "started", {{"ranks", 4}}, 1) +
          event_at(240, "attempt_end", {{"code", 0}, {"reason", "ok"}}, 1) +
          event_at(240, "ended", {{"state", "completed"}, {"code", 0}, {"message", "done"}}, 1),
      kScript);
  CHECK(report.use.longest_job_seconds == 4 * 3600);
  const ResourceRow* time = row_of(report, "time");
  REQUIRE(time != nullptr);
  CHECK(time->used == "4 h 0 min");
  CHECK(time->advice.starts_with("time: 05:00:00"));
}

TEST_CASE(
    "a run that did not complete, or whose script requests no resources, gets no suggestion") {
  const TemporaryDirectory folder;
  RunReport report =
      report_in(folder,
                event_at(0, "claimed", {{"job", "42"}}) +
                    event_at(9, "samples", {{"ranks", 1}, {"cpu", {1.0, 1.0, 1.0}}}) +
                    event_at(10, "ended", {{"state", "failed"}, {"code", 1}, {"message", "no"}}),
                kScript);
  for (const ResourceRow& row : report.use.rows) CHECK(row.advice.empty());
  CHECK_FALSE(report.use.rows.empty());
  report = report_in(folder, events_of_two_attempts(), "#!/bin/bash\ntrue\n");
  CHECK_FALSE(report.requested);
  CHECK_FALSE(report.use.gpu_hours);
  CHECK(report_page(report, "now").find("Requested and used") == std::string::npos);
}

TEST_CASE(
    "a node's memory is computed from --mem-per-cpu, and is unknown for --mem=0 and heterogeneous "
    "jobs") {
  const auto requested = requested_resources(
      "#SBATCH --nodes=2\n#SBATCH --ntasks=4\n#SBATCH --cpus-per-task=5\n#SBATCH "
      "--mem-per-cpu=2G\n");
  REQUIRE(requested);
  CHECK(requested->mem_mib == 20 * 1024);
  CHECK(requested->mem_key == "mem_per_cpu");
  CHECK(requested->units_per_node == 10);
  CHECK_FALSE(requested_resources("echo no directives\n"));
  CHECK_FALSE(requested_resources("#SBATCH --mem=0\n#SBATCH -N 1\n")->mem_mib);
  CHECK_FALSE(requested_resources("#SBATCH --mem=1G\n#SBATCH hetjob\n#SBATCH --mem=2G\n")->mem_mib);
}

TEST_CASE("runs with different steps per epoch are compared over epochs") {
  RunReport small_batch = report_with_totals(1000, 10), large_batch = report_with_totals(500, 10);
  const ReportedAxis axis({&small_batch, &large_batch});
  CHECK(axis.unit() == "epochs");
  CHECK(axis.x_of(0, 0, 100, {}) == 1);
  CHECK(axis.x_of(1, 0, 100, {}) == 2);
  CHECK(ReportedAxis({&small_batch, &small_batch}).unit() == "steps");
  CHECK(ReportedAxis({&large_batch}).unit() == "steps");
}

TEST_CASE("the steps per epoch are measured if the program reports no totals") {
  RunReport report;
  for (std::int64_t step = 10; step <= 400; step += 10) {
    MetricsPoint point;
    point.step = step;
    point.epoch = 1 + (step - 1) / 100;
    report.metrics.push_back(point);
  }
  CHECK(steps_per_epoch(report) == 100);
  report.metrics.resize(5);
  CHECK_FALSE(steps_per_epoch(report));
}

TEST_CASE("trainer runs without epochs but with different batches are compared over samples") {
  RunReport one, other;
  for (RunReport* report : {&one, &other}) {
    report->keys = {{"train.batch", report == &one ? "32" : "64"}};
    report->status.facts.record.ranks = 2;
    MetricsPoint point;
    point.step = 1;
    report->metrics = {point};
  }
  const ReportedAxis axis({&one, &other});
  CHECK(axis.unit() == "samples");
  CHECK(axis.x_of(1, 0, 10, {}) == 1280);
  other.status.facts.record.ranks = 0;
  CHECK(ReportedAxis({&one, &other}).unit() == "steps");
}

TEST_CASE("programs that report no steps are drawn over their epochs, or over time") {
  RunReport epochs, times;
  epochs.metrics.resize(2);
  epochs.metrics[0].epoch = 1;
  times.metrics.resize(2);
  CHECK(ReportedAxis({&epochs}).unit() == "epochs");
  CHECK(ReportedAxis({&epochs}).x_of(0, 7, {}, 3) == 3);
  CHECK_FALSE(ReportedAxis({&epochs}).x_of(0, 7, {}, {}));
  CHECK(ReportedAxis({&epochs, &times}).is_time());
  CHECK(ReportedAxis({&epochs, &times}).x_of(0, 7, {}, 3) == 7);
}

TEST_CASE("legends show the values in which the runs differ") {
  std::vector<RunReport> reports(3);
  for (std::size_t at = 0; at < reports.size(); ++at) {
    RunReport& report = reports[at];
    report.label = fmt::format("run-{}", at);
    report.keys = {{"train.lr", at == 0 ? "0.1" : "0.2"},
                   {"optimizer.lr", std::string(40, 'x') + std::to_string(at == 0 ? 1 : 2)},
                   {"epochs", "3"}};
    for (int step = 1; step < 9; ++step) {
      MetricsPoint point;
      point.step = step;
      point.loss = 1.0 / step;
      report.metrics.push_back(point);
    }
  }
  std::string page = comparison_page(reports, "three", "now");
  const std::string cut = std::string(24, 'x') + "...";
  CHECK(page.find(fmt::format("</i>train.lr 0.1, optimizer.lr {}</span>", cut)) !=
        std::string::npos);
  // The second and the third run have the same values, so their labels tell them apart.
  CHECK(page.find("</i>run-1: train.lr 0.2") != std::string::npos);
  CHECK(page.find("</i>run-2: train.lr 0.2") != std::string::npos);
  for (RunReport& report : reports) report.keys.clear();
  page = comparison_page(reports, "three", "now");
  CHECK(page.find("</i>run-2</span>") != std::string::npos);
}

TEST_CASE("a legend compares only the runs that are drawn") {
  std::vector<RunReport> reports(kChartColourCount + 1);
  for (std::size_t at = 0; at < reports.size(); ++at) {
    // The last run is not drawn. It has the value of the first run.
    reports[at].label = fmt::format("run-{}", at);
    reports[at].keys = {{"train.lr", std::to_string(at % kChartColourCount)}};
    for (int step = 1; step < 9; ++step) {
      MetricsPoint point;
      point.step = step;
      point.loss = 1.0 / step;
      reports[at].metrics.push_back(point);
    }
  }
  const std::string page = comparison_page(reports, "many", "now");
  CHECK(page.find("</i>lr 0</span>") != std::string::npos);
  CHECK(page.find(": lr 0</span>") == std::string::npos);
}

TEST_CASE("a comparison has the hours and the energy of each run, and of all runs together") {
  std::vector<RunReport> reports(2);
  reports[0].label = "one";
  reports[1].label = "two";
  CHECK(comparison_page(reports, "two", "now").find("2 runs compared</p>") != std::string::npos);
  reports[0].use.gpu_hours = 1.5;
  reports[0].use.gpu_joules = 3.6e6;
  reports[0].slurm_joules = 9e9;  // the energy of whole nodes is not mixed with that of the GPUs
  reports[1].use.gpu_hours = 2;
  reports[1].use.gpu_joules = 7.2e6;
  const std::string page = comparison_page(reports, "two", "now");
  CHECK(page.find("2 runs compared, which took 3.50 GPU-hours and 3 kWh</p>") != std::string::npos);
  CHECK(page.find("<td class=\"n\">1.50</td><td class=\"n\">1 kWh</td>") != std::string::npos);
  CHECK(page.find("<td class=\"n\">2.00</td><td class=\"n\">2 kWh</td>") != std::string::npos);
  reports[1].use.gpu_joules.reset();
  CHECK(comparison_page(reports, "two", "now")
            .find("which took 3.50 GPU-hours and 1 kWh (known for 1 of 2 runs)</p>") !=
        std::string::npos);
}

TEST_CASE("results have few digits, and the unit that their names state") {
  using page::readable_name;
  using page::readable_value;
  CHECK(readable_value("test_accuracy", "0.978125") == "0.9781");
  CHECK(readable_value("samples_per_s", "84321.5") == "84.3k");
  CHECK(readable_name("samples_per_s") == "samples per second");
  CHECK(readable_value("step_ms", "12.345678") == "12.35 ms");
  CHECK(readable_name("step_ms") == "step");
  CHECK(readable_value("seconds", "12") == "12 s");
  CHECK(readable_name("seconds") == "seconds");
  CHECK(readable_value("peak_bytes", "3221225472") == "3 GiB");
  CHECK(readable_value("precision", "bf16") == "bf16");
  CHECK(readable_name("_s") == " s");
}

TEST_CASE(
    "the energy of a job is the sum over its attempts, and a job without a valid value is left "
    "out") {
  const auto joules = parse_energy(
      "42|1000\n42|500\n43_7|2000\n44|0\n45|\n46|18446744073709551614\nx|5\n47|nan\n48\n");
  CHECK(joules == std::map<std::string, double>{{"42", 1500}, {"43_7", 2000}});
}

TEST_CASE("the energy of a run with a chain is that of all its jobs") {
  const TemporaryDirectory folder;
  const auto run = folder / "long-1";
  std::filesystem::create_directories(run / "chain-1");
  std::ofstream(run / "events.jsonl") << events_of_two_attempts();
  Submission submission;
  submission.token = std::string(32, 'a');
  submission.job.id = "42";
  submission.state = Submission::State::kSubmitted;
  submission.chain_job_count = 2;
  REQUIRE(write_submission(run, submission));
  submission.job.id = "43";
  submission.chain_job_count = 0;
  REQUIRE(write_submission(run / "chain-1", submission));
  const auto sacct = folder / "sacct";
  // A cluster with another name has a job of the same id.
  std::ofstream(sacct) << "#!/bin/sh\ncase \"$*\" in *'-M other'*) echo '42|9000000';; "
                          "*) echo '42|3600000'; echo '43|1800000';; esac\n";
  std::filesystem::permissions(sacct, std::filesystem::perms::owner_all);
  Env env;
  env.set("HOME", folder.path().string());
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  const auto page = make_run_page(env, {}, folder.path(), {run.string()}, [](const auto&) {});
  REQUIRE_MESSAGE(page.has_value(), (page ? std::string() : page.error().message));
  CHECK(page->html.find(energy_text(5.4e6)) != std::string::npos);
  const std::vector<JobId> jobs{{"", "42"}, {"other", "42"}};
  CHECK(energy_of_jobs(env, jobs, std::chrono::seconds(10)) ==
        JobEnergies{{{"", "42"}, 3.6e6}, {{"", "43"}, 1.8e6}, {{"other", "42"}, 9e6}});
}

TEST_CASE("a job that several points of a sweep share adds its energy to none of them") {
  const TemporaryDirectory folder;
  const auto run = folder / "lr-1";
  SweepRecord sweep;
  sweep.array_count = 1;
  sweep.keys = {"train.lr"};
  sweep.points = {{0, 0, {"0.1"}}, {0, 1, {"0.2"}}};
  for (const auto& point : sweep.points) {
    const auto path = point_path(run, point);
    std::filesystem::create_directories(path);
    std::ofstream(path / "claim") << R"({"cluster":"c","job":"42_0","token":"t"})";
    std::ofstream(path / "events.jsonl")
        << event_at(0, "claimed", {{"job", "42_0"}, {"host", "n1"}}) +
               event_at(9, "ended", {{"state", "completed"}, {"code", 0}, {"message", "done"}});
  }
  std::ofstream(folder / "sacct") << "#!/bin/sh\necho '42_0|3600000'\n";
  std::filesystem::permissions(folder / "sacct", std::filesystem::perms::owner_all);
  Env env;
  env.set("HOME", folder.path().string());
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  for (const std::size_t pack : {1, 2}) {
    CAPTURE(pack);
    sweep.pack = pack;
    std::ofstream(run / "sweep.json") << sweep_json(sweep);
    const auto page = make_run_page(env, {}, folder.path(), {run.string()}, [](const auto&) {});
    REQUIRE_MESSAGE(page.has_value(), (page ? std::string() : page.error().message));
    CHECK((page->html.find("energy, according to Slurm") != std::string::npos) == (pack == 1));
  }
}

}  // namespace dlrun
