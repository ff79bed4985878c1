// Tests what launcher/view reports about runs, without a command line.

#include <unistd.h>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/cost_text.h"
#include "launcher/view/exit_code.h"
#include "launcher/view/line_labels.h"
#include "launcher/view/overview_text.h"
#include "launcher/view/run_list.h"
#include "launcher/view/run_log.h"
#include "launcher/view/run_text.h"
#include "launcher/view/watch.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

/// A user whose runs are on this machine. Slurm's commands do not exist.
struct User {
  TemporaryDirectory home;
  Env env;
  User() {
    env.set("HOME", home.path().string());
    env.set("PATH", "/nowhere");
  }
  /// Adds a run that has ended. Its job has the log `log`, or no log if `log` is empty.
  IndexEntry add_ended_run(const std::string& id, const std::string& state,
                           const std::string& log) {
    const auto folder = home / id;
    std::filesystem::create_directory(folder);
    Json claimed{{"t", "2026-01-01T00:00:00.000Z"},
                 {"event", "claimed"},
                 {"attempt", 0},
                 {"job", "here:1:2"}};
    Json ended{
        {"t", "2026-01-01T00:00:09.000Z"},   {"event", "ended"}, {"attempt", 0}, {"state", state},
        {"code", state == "failed" ? 1 : 0}, {"message", "done"}};
    write(folder / "events.jsonl", to_checked_line(claimed) + to_checked_line(ended));
    write(folder / "claim", Json{{"job", "here:1:2"}, {"token", "t"}}.dump());
    if (!log.empty()) write(folder / "local.out", log);
    IndexEntry entry{id, "mnist", folder, "2026-01-01T00:00:00.000Z"};
    REQUIRE(RunIndex::of_user(env)->add(entry).has_value());
    return entry;
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    REQUIRE(write_file_atomic(path, text).has_value());
  }
};

/// Records the log and the number of its batches. If `accepts` is false, on_log() records the bytes
/// but answers that the listener accepts no more.
struct RecordingListener final : WatchListener {
  std::string log;
  int batch_count = 0;
  bool accepts = true;
  bool on_log(std::string_view bytes) override {
    log += bytes;
    return accepts;
  }
  bool on_log_batch_end() override {
    ++batch_count;
    return true;
  }
  void on_next_log() override {}
  void on_news(const IndexEntry&, const std::string&) override {}
};

}  // namespace

TEST_CASE("each line of a labelled log has the label, however the log is cut into pieces") {
  const std::string log = "first\nsecond\r\n\n10%\r20%\r\nlast";
  const std::string expected =
      "rank 3: first\nrank 3: second\nrank 3: \nrank 3: 10%\nrank 3: 20%\nrank 3: last\n";
  for (std::size_t size : {1U, 2U, 5U, 100U}) {
    CAPTURE(size);
    LineLabeler labeler(label_of_rank(3));
    std::string shown;
    for (std::size_t at = 0; at < log.size(); at += size)
      shown += labeler.label_lines(log.substr(at, size));
    CHECK(shown + labeler.finish() == expected);
    CHECK(labeler.finish().empty());
  }
  LineLabeler none("");
  CHECK(none.label_lines(log) == log);
  // A line that is longer than 64 KiB is divided into several, so that it does not fill the memory.
  LineLabeler endless("x ");
  CHECK(endless.label_lines(std::string(200'000, '.')).size() > 100'000);
}

TEST_CASE("a list of ranks is `all` or has numbers and ranges, and other text is refused") {
  using Ranks = std::vector<std::int64_t>;
  CHECK(parse_rank_list("2").value() == Ranks{2});
  CHECK(parse_rank_list("5,0-2,1").value() == Ranks{0, 1, 2, 5});
  CHECK_FALSE(parse_rank_list("all").value().has_value());
  for (const char* text :
       {"", "-1", "3-", "5-2", "a", "1,,2", "0-10000", "0-9223372036854775807"}) {
    CAPTURE(text);
    CHECK(parse_rank_list(text).error().code == Errc::kUsage);
  }
}

TEST_CASE_FIXTURE(User, "the logs of several ranks are followed with labels") {
  const auto run = add_ended_run("mnist-20260101-000000-00aa", "completed", "");
  std::filesystem::create_directories(run.path / "logs" / "attempt-0");
  write(run.path / "logs" / "attempt-0" / "rank-0000.log", "zero\n");
  write(run.path / "logs" / "attempt-0" / "rank-0001.log", "one");
  CHECK(ranks_with_log(run, std::nullopt, "").value() == std::vector<std::int64_t>{0, 1});
  CHECK(ranks_with_log(run, 7, "").error().code == Errc::kNotFound);
  RunInspector inspector(env);
  const Interrupt interrupt;
  RecordingListener listener;
  WatchOptions options;
  options.ranks = {0, 1};
  REQUIRE(watch_run(inspector, run, options, listener, interrupt).has_value());
  CHECK(listener.log == "rank 0: zero\nrank 1: one\n");
  listener.log.clear();
  options.ranks = {1};
  REQUIRE(watch_run(inspector, run, options, listener, interrupt).has_value());
  CHECK(listener.log == "one");
}

TEST_CASE_FIXTURE(User, "the ranks of a component have logs of their own") {
  const auto run = add_ended_run("mnist-20260101-000000-00aa", "completed", "");
  std::filesystem::create_directories(run.path / "logs" / "attempt-0" / "server");
  write(run.path / "logs" / "attempt-0" / "server" / "rank-0002.log", "two\n");
  write(run.path / "components.json", "{}");
  CHECK(ranks_with_log(run, std::nullopt, "server").value() == std::vector<std::int64_t>{2});
  const auto none = ranks_with_log(run, std::nullopt, "trainer");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == Errc::kNotFound);
  CHECK(none.error().message.find("no rank of component 'trainer' has a log in attempt 0") !=
        std::string::npos);
  CHECK(ranks_with_log(run, std::nullopt, "").error().code == Errc::kUsage);
}

TEST_CASE_FIXTURE(User, "a list of runs is filtered by name, state and time before it is limited") {
  add_ended_run("mnist-20260101-000000-00aa", "completed", "");
  add_ended_run("mnist-20260101-000000-00bb", "failed", "");
  add_ended_run("mnist-20260101-000000-00cc", "completed", "");
  const auto ids = [&](const ListRequest& request) {
    const auto list = list_runs(env, KnownServers(), request);
    REQUIRE(list.has_value());
    std::vector<std::string> found;
    for (const ListedRun& run : list->rows) found.push_back(run.id);
    for (const auto& run : list->json) found.push_back(run["run"].get<std::string>());
    return found;
  };
  const std::vector<std::string> failed{"mnist-20260101-000000-00bb"};
  for (const bool wants_json : {false, true}) {
    ListRequest request;
    request.wants_json = wants_json;
    request.states = "failed, timeout";
    request.limit = 1;
    // The newest run completed, so the limit must not be applied before the filter.
    CHECK(ids(request) == failed);
    request.states = "completed";
    CHECK(ids(request) == std::vector<std::string>{"mnist-20260101-000000-00cc"});
    CHECK(list_runs(env, KnownServers(), request)->hidden_count == 1);
    request.limit = 0;
    request.states.clear();
    request.name = "mn*t";
    CHECK(ids(request).size() == 3);
    request.name = "mnis";
    CHECK(ids(request).empty());
    request.name = "mnist";
    request.older_than = "1d";
    CHECK(ids(request).size() == 3);
    request.newer_than = "1d";
    CHECK(ids(request).empty());
  }
  ListRequest wrong;
  wrong.states = "dead";
  const auto refused = list_runs(env, KnownServers(), wrong);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kUsage);
  CHECK(refused.error().message.find("the states are not_submitted") != std::string::npos);
  wrong.states.clear();
  wrong.newer_than = "7";
  CHECK(list_runs(env, KnownServers(), wrong).error().message.starts_with("--newer-than: "));
}

TEST_CASE_FIXTURE(User,
                  "the list of runs has the newest ones up to its limit, and counts the others") {
  add_ended_run("a-1", "completed", "");
  add_ended_run("a-2", "failed", "");
  ListRequest request;
  const auto all = list_runs(env, {}, request);
  REQUIRE(all.has_value());
  REQUIRE(all->rows.size() == 2);
  CHECK(all->hidden_count == 0);
  CHECK(all->unreachable_reason.empty());
  for (const ListedRun& run : all->rows) {
    CHECK(run.state == (run.id == "a-1" ? "completed" : "failed"));
    CHECK(run.summary == (run.id == "a-1" ? "" : "done"));
  }
  request.limit = 1;
  const auto newest = list_runs(env, {}, request);
  REQUIRE(newest.has_value());
  CHECK(newest->rows.size() == 1);
  CHECK(newest->hidden_count == 1);
  const auto deleted = newest->rows[0].id == "a-1" ? "a-2" : "a-1";
  const auto third = add_ended_run("b-1", "completed", "");  // now the newest
  CHECK(list_runs(env, {}, request)->hidden_count == 2);
  std::filesystem::remove_all(third.path.parent_path() / deleted);
  CHECK(list_runs(env, {}, request)->hidden_count == 1);
  request.wants_json = true;
  const auto json = list_runs(env, {}, request);
  REQUIRE(json.has_value());
  CHECK(json->rows.empty());
  REQUIRE(json->json.size() == 1);
  CHECK(json->json[0]["state"].is_string());
}

TEST_CASE_FIXTURE(User, "the list of a folder has only the runs in that folder") {
  add_ended_run("a-1", "completed", "");
  ListRequest request;
  request.folder = home / "elsewhere";
  std::filesystem::create_directory(request.folder);
  const auto list = list_runs(env, {}, request);
  REQUIRE(list.has_value());
  CHECK(list->rows.empty());
  CHECK(list->hidden_count == 0);
}

TEST_CASE_FIXTURE(User,
                  "an ended run is followed until its whole log, or the requested tail, was passed "
                  "to the listener") {
  const auto run = add_ended_run("a-1", "completed", "one\ntwo\nthree\n");
  RunInspector inspector(env);
  RecordingListener listener;
  const Interrupt interrupt;
  const auto status = watch_run(inspector, run, {}, listener, interrupt);
  REQUIRE(status.has_value());
  CHECK(status->state == RunState::kCompleted);
  CHECK(listener.log == "one\ntwo\nthree\n");
  CHECK(listener.batch_count == 1);
  WatchOptions last_line;
  last_line.tail = 1;
  RecordingListener last;
  REQUIRE(watch_run(inspector, run, last_line, last, interrupt).has_value());
  CHECK(last.log == "three\n");
}

TEST_CASE_FIXTURE(
    User,
    "`dlrun wait` accepts another user's sweep only if the files show that all points have ended") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  constexpr uid_t kOtherUser = 65534;
  SweepRecord record;
  record.keys = {"train.lr"};
  record.array_count = 1;
  record.points = {{0, 0, {"0.1"}}, {0, 1, {"0.2"}}};
  const IndexEntry sweep{"lr-20261121-120000-00aa", "lr", home / "lr-20261121-120000-00aa", ""};
  const auto write_end = [&](std::size_t number) {
    const Json ended{{"t", "2026-11-21T12:00:09.000Z"},
                     {"event", "ended"},
                     {"attempt", 0},
                     {"state", "failed"},
                     {"code", 1},
                     {"message", "it failed"}};
    const auto file = point_path(sweep.path, record.points[number]) / "events.jsonl";
    write(file, to_checked_line(ended));
    REQUIRE(::chown(file.c_str(), kOtherUser, kOtherUser) == 0);
  };
  for (const auto& point : record.points) {
    std::filesystem::create_directories(point_path(sweep.path, point));
    write(point_path(sweep.path, point) / "submission.json", journal_of_task(point.point_in_array));
  }
  write(sweep.path / "sweep.json", sweep_json(record));
  write_end(0);
  REQUIRE(::chown(sweep.path.c_str(), kOtherUser, kOtherUser) == 0);
  const auto refused = check_can_wait_for(sweep);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kUsage);
  write_end(1);
  CHECK(check_can_wait_for(sweep).has_value());
  const auto status = RunInspector(env).inspect(sweep.path);
  REQUIRE(status.has_value());
  CHECK(exit_code_of_state(*status) == kExitRunFailed);
  CHECK_FALSE(status->may_be_outdated);
}

TEST_CASE_FIXTURE(User, "following a run stops when the listener accepts no more of its log") {
  const auto run = add_ended_run("a-1", "completed", "one\n");
  RunInspector inspector(env);
  RecordingListener listener;
  listener.accepts = false;
  const Interrupt interrupt;
  const auto status = watch_run(inspector, run, {}, listener, interrupt);
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().message.empty());
}

TEST_CASE_FIXTURE(User, "the error about the log of a run that never started says so") {
  for (const char* command : {"squeue", "sacct", "scontrol"}) {  // a Slurm that knows no job
    write(home / command, "#!/bin/sh\nexit 0\n");
    std::filesystem::permissions(home / command, std::filesystem::perms::owner_all);
  }
  env.set("PATH", home.path().string() + ":/usr/bin:/bin");
  const IndexEntry run{"a-1", "a", home / "a-1", ""};
  std::filesystem::create_directory(run.path);
  Submission submission;
  submission.token = std::string(32, 'a');
  submission.state = Submission::State::kSubmitted;
  submission.job.id = "42";
  REQUIRE(write_submission(run.path, submission).has_value());
  REQUIRE(mark_cancelled(run.path).has_value());
  RunInspector inspector(env);
  const auto log = open_run_log(inspector, run, LogChoice{});
  REQUIRE_FALSE(log.has_value());
  CHECK(log.error().code == Errc::kNotFound);
  CHECK(log.error().message == "a-1: there is no log: the run was cancelled before it started");
}

TEST_CASE_FIXTURE(
    User,
    "the error about a missing log shows the run's state, and mentions deletion only if ranks had "
    "started") {
  const auto run = add_ended_run("a-1", "failed", "");
  RunInspector inspector(env);
  const auto log = open_run_log(inspector, run, LogChoice{});
  REQUIRE_FALSE(log.has_value());
  CHECK(log.error().code == Errc::kNotFound);
  // The record shows no rank, so there may have been no log.
  CHECK(log.error().message.ends_with("there is no log; the state of the run is failed"));
  const auto rank = open_run_log(inspector, run, {3, std::nullopt, ""});
  REQUIRE_FALSE(rank.has_value());
  CHECK(rank.error().message.ends_with(
      "there is no log of this rank; the state of the run is failed"));
  const auto line_of = [](Json event) {
    event["t"] = "2026-01-01T00:00:00.000Z";
    event["attempt"] = 0;
    return to_checked_line(event);
  };
  write(run.path / "events.jsonl",
        line_of({{"event", "claimed"}, {"job", "here:1:2"}}) +
            line_of({{"event", "started"}, {"ranks", 2}}) +
            line_of({{"event", "ended"}, {"state", "failed"}, {"code", 1}, {"message", "done"}}));
  const auto deleted = open_run_log(inspector, run, LogChoice{});
  REQUIRE_FALSE(deleted.has_value());
  CHECK(deleted.error().message.ends_with(
      "there is no log; the state of the run is failed; the log may have been deleted, for example "
      "by `dlrun prune --keep-checkpoints`"));
  const auto later = open_run_log(inspector, run, {std::nullopt, 7, ""});
  REQUIRE_FALSE(later.has_value());
  CHECK(later.error().message.ends_with("there is no log; the state of the run is failed"));
}

TEST_CASE_FIXTURE(User,
                  "the error about the log of a rank says that a job without events has one log") {
  const auto run = add_ended_run("a-1", "completed", "text\n");
  std::filesystem::remove(run.path / "events.jsonl");
  RunInspector inspector(env);
  const auto log = open_run_log(inspector, run, {1, std::nullopt, ""});
  REQUIRE_FALSE(log.has_value());
  CHECK(
      log.error().message.ends_with("; all ranks write to one log, which `dlrun logs a-1` shows"));
}

TEST_CASE_FIXTURE(User,
                  "the error about the log of a rank that does not exist shows which ranks the "
                  "run or the component has") {
  const auto run = add_ended_run("a-1", "completed", "");
  RunInspector inspector(env);
  const auto error_of = [&](const LogChoice& choice) {
    const auto log = open_run_log(inspector, run, choice);
    REQUIRE_FALSE(log.has_value());
    CHECK(log.error().code == Errc::kNotFound);
    return log.error().message;
  };
  const auto record = [&](const Json& event) {
    write(run.path / "events.jsonl", to_checked_line({{"t", "2026-01-01T00:00:00.000Z"},
                                                      {"event", "claimed"},
                                                      {"attempt", 1},
                                                      {"job", "here:1:2"}}) +
                                         to_checked_line(event));
  };
  record({{"t", "2026-01-01T00:00:00.000Z"}, {"event", "started"}, {"attempt", 1}, {"ranks", 2}});
  CHECK(error_of({3, std::nullopt, ""}) == "a-1: has no rank 3: its ranks are 0 to 1");
  CHECK(error_of({1, std::nullopt, ""}).find("there is no log of this rank") != std::string::npos);
  CHECK(error_of({3, 0, ""}).find("there is no log of this rank") != std::string::npos);
  CHECK(error_of({1, 7, ""}) == "a-1: has no attempt 7: its attempts are 0 to 1");
  record({{"t", "2026-01-01T00:00:00.000Z"},
          {"event", "components"},
          {"attempt", 1},
          {"components", {{{"name", "server"}, {"role", "service"}, {"ranks", 1}}}}});
  CHECK(error_of({1, std::nullopt, "server"}) ==
        "a-1: component server has no rank 1: its only rank is 0");
}

TEST_CASE("a list shows why a container could not be started, not the exit code of its rank") {
  const auto summary_of = [](const char* cause) {
    const Json failed{{"rank", 0}, {"host", "n1"}, {"code", 127}};
    RunFacts facts;
    facts.record = sum_up_events(to_checked_line({{"event", "attempt_end"},
                                                  {"attempt", 0},
                                                  {"code", 127},
                                                  {"reason", "rank_failed"},
                                                  {"cause", cause},
                                                  {"first_failed", failed}}) +
                                 to_checked_line({{"event", "ended"},
                                                  {"attempt", 0},
                                                  {"state", "failed"},
                                                  {"code", 127},
                                                  {"message", "the message of lead"}}));
    return summary_text(assess(std::move(facts)));
  };
  CHECK(summary_of("image") == "the message of lead");
  CHECK(summary_of("container") == "the message of lead");
  CHECK(summary_of("failure") == "rank 0 on n1 ended with code 127");
}

TEST_CASE(
    "the cost of a job is shown as GPU-hours and core-hours, as far as the spec determines it") {
  Requested requested;
  CHECK(cost_text(requested).empty());
  requested.gpus = 8;
  requested.cpus = 80;
  requested.time_seconds = 1200;
  CHECK(cost_text(requested) == "at most 2.67 GPU-hours, 26.7 core-hours");
  requested.gpus = 0;
  CHECK(cost_text(requested) == "at most 26.7 core-hours");
}

TEST_CASE(
    "a sweep shows the cost of all points, and with sweep.ask the cost of each point unless a "
    "resource varies") {
  SweepPlan sweep;
  sweep.points.resize(2);
  for (PlannedPoint& point : sweep.points) {
    point.requested.gpus = 8;
    point.requested.cpus = 80;
    point.requested.time_seconds = 1200;
  }
  CHECK(points_and_cost_text(sweep) ==
        "2 points; at most 5.3 GPU-hours, 53.3 core-hours altogether");
  sweep.points.resize(1);
  sweep.chooses_points_later = true;
  sweep.max_parallel = 4;
  CHECK(points_and_cost_text(sweep) ==
        "the program chooses the points, 4 at a time; at most 2.7 GPU-hours, 26.7 core-hours each");
  sweep.keys = {"train.lr", "resources.nodes"};
  CHECK(points_and_cost_text(sweep) == "the program chooses the points, 4 at a time");
}

TEST_CASE(
    "--attempt and --component are refused without --rank, which takes a list of ranks or `all`") {
  const auto message = [](const std::string& list, std::optional<std::int64_t> attempt,
                          const std::string& component) {
    const auto chosen = parse_chosen_ranks(list, attempt, component);
    return chosen ? std::string() : chosen.error().message;
  };
  CHECK(message("", 2, "").find("--attempt chooses among a rank's logs") == 0);
  CHECK(message("", std::nullopt, "server").find("--component chooses") == 0);
  CHECK(message("0", std::nullopt, "../x").find("is not the name of a component") !=
        std::string::npos);
  const auto job = parse_chosen_ranks("", std::nullopt, "");
  REQUIRE(job.has_value());
  CHECK_FALSE(job->is_all);
  CHECK(job->ranks.empty());
  const auto all = parse_chosen_ranks("all", std::nullopt, "");
  REQUIRE(all.has_value());
  CHECK(all->is_all);
  const auto some = parse_chosen_ranks("0,4-5", 2, "server");
  REQUIRE(some.has_value());
  CHECK(some->ranks == std::vector<std::int64_t>{0, 4, 5});
}

TEST_CASE(
    "on a small screen, running and failed points are shown before pending points, and completed "
    "points last") {
  std::vector<PointOverview> points(6);
  for (std::size_t at = 0; at < points.size(); ++at) {
    points[at].number = at;
    points[at].state = at < 3 ? RunState::kCompleted : RunState::kPending;
  }
  points[1].state = RunState::kFailed;
  points[4].state = RunState::kRunning;
  const auto numbers = [&](std::size_t limit) {
    std::vector<std::size_t> all;
    for (const PointOverview* point : shown_points(points, limit)) all.push_back(point->number);
    return all;
  };
  CHECK(numbers(6) == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(numbers(5) == std::vector<std::size_t>{0, 1, 3, 4, 5});
  CHECK(numbers(3) == std::vector<std::size_t>{1, 3, 4});
  CHECK(numbers(0).empty());
}

TEST_CASE_FIXTURE(User,
                  "if the job script failed before its ranks started, the last words are lines of "
                  "its error file or log") {
  using Lines = std::vector<std::string>;
  const auto run = add_ended_run("mnist-20260101-000000-00aa", "failed",
                                 "dlrun: n1 has no conda\ndlrun: done\n");
  auto status = RunInspector(env).inspect(run.path).value();
  CHECK(last_words(run.path, status) == Lines{"dlrun: n1 has no conda"});
  // An attempt was started, so the lines that begin with "dlrun: " are messages of lead.
  status.facts.record.attempt_end_reason = EndReason::kLaunchFailed;
  CHECK(last_words(run.path, status).empty());
  status.facts.record.attempt_end_reason = {};
  Submission& submission = status.facts.submission.emplace();
  submission.job = {"", "42"};
  submission.error_pattern = (home / "%j.err").string();
  submission.log_pattern = (home / "%j.out").string();
  write(home / "42.out", "some output\n");
  CHECK(last_words(run.path, status) == Lines{"some output"});
  write(home / "42.err", "Lmod has detected: X is unknown\ndlrun: done\n");
  CHECK(last_words(run.path, status) == Lines{"Lmod has detected: X is unknown"});
}

}  // namespace dlrun
