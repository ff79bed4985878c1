// Tests the conversation with an MLflow server. tests/mlflow_server.py is a real HTTP server that
// checks each request; the requests go through the real curl.

#include "common/mlflow.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/bounded_json.h"
#include "common/json_read.h"
#include "tests/contains.h"
#include "tests/python_server.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using TrackJson = nlohmann::ordered_json;

/// A run with an MLflow record, and the server that the record names.
struct TrackedRunOnServer {
  PythonServer server{"mlflow_server.py"};
  TemporaryDirectory run;
  MlflowRecord record{run.path()};
  Env env = Env::of_process();

  TrackedRunOnServer() {
    for (const char* name : {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"})
      env.unset(name);
    create_record();
  }
  void create_record() {
    std::string url = server.url("");
    url.pop_back();
    REQUIRE(record
                .create({.url = url,
                         .experiment = "my experiment/1 & more",
                         .run = "mnist-1",
                         .job = "17",
                         .cluster = "alpha",
                         .start_ms = 1000})
                .has_value());
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(run / name) << text;
  }
  void add_loss(int step, double loss) {
    REQUIRE(
        record.add_line({{"t", 1000 + step}, {"step", step}, {"m", {{"loss", loss}}}}).has_value());
  }
  void add_end(const char* status = "FINISHED") {
    REQUIRE(record.add_line({{"t", 99'000}, {"status", status}}).has_value());
  }
  SyncReport sync(const std::string& token = "") {
    return record.sync(env, token, [] { return true; });
  }
  SyncReport sync_with_missing_end(EndState state, std::int64_t t_ms) {
    return record.sync(
        env, "", [] { return true; }, MissingEnd{state, t_ms});
  }
  TrackJson server_state() {
    std::ifstream file(server.folder() / "state.json");
    return parse_json(std::string{std::istreambuf_iterator<char>(file), {}});
  }
  /// Returns the only run of the server.
  TrackJson only_run() {
    const auto all = server_state()["runs"];
    REQUIRE(all.size() == 1);
    return all.front();
  }
};

}  // namespace

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "the server gets one run with parameters, tags, values and the end") {
  write("parameters.json", R"({"train.lr": "0.1", "launch.command": "[python, train.py]"})");
  write("provenance.json", R"({"user": "kim", "git": {"commit": "abc123"}})");
  add_loss(1, 0.5);
  add_loss(2, 0.25);
  const auto first = sync();
  CHECK(first.problem == "");
  CHECK(first.is_complete);
  CHECK(first.values_sent == 2);
  add_loss(3, 0.125);
  add_end();
  CHECK(sync().is_complete);
  const auto made = only_run();
  CHECK(made["name"] == "mnist-1");
  CHECK(made["start_time"] == 1000);
  CHECK(made["params"] == TrackJson{{"train.lr", "0.1"}, {"launch.command", "[python, train.py]"}});
  CHECK(made["tags"]["dlrun.run"] == "mnist-1");
  CHECK(made["tags"]["dlrun.job"] == "17");
  CHECK(made["tags"]["mlflow.user"] == "kim");
  CHECK(made["tags"]["mlflow.source.git.commit"] == "abc123");
  CHECK(made["metrics"] == parse_json(R"([["loss", 0.5, 1001, 1], ["loss", 0.25, 1002, 2],
                                          ["loss", 0.125, 1003, 3]])"));
  CHECK(made["status"] == "FINISHED");
  CHECK(made["end_time"] == 99'000);
  CHECK(server_state()["experiments"].front() == "my experiment/1 & more");
  // Another call sends no request.
  const auto before = server.requests().size();
  CHECK(sync().is_complete);
  CHECK(server.requests().size() == before);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a lost reply to any request makes neither a second run on the MLflow server nor "
                  "a second value") {
  std::ofstream(server.folder() / "drop")
      << "experiments/create\nruns/create\nruns/log-batch\nruns/log-batch\nruns/update";
  add_loss(1, 0.5);
  add_end("FAILED");
  int failure_count = 0;
  while (!sync().is_complete && failure_count < 10) ++failure_count;
  CHECK(failure_count == 5);
  const auto made = only_run();
  CHECK(made["metrics"].size() == 1);
  CHECK(made["status"] == "FAILED");
  CHECK(server_state()["experiments"].size() == 1);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a record for MLflow that other users can change is not sent") {
  add_loss(1, 0.5);
  std::filesystem::permissions(run / "track", std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  const auto report = sync("token");
  CHECK_FALSE(report.is_complete);
  CHECK(has(report.problem, "only you can write"));
  CHECK(server.requests().empty());
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "a record whose state is lost finds its run on the server") {
  add_loss(1, 0.5);
  REQUIRE(sync().is_complete);
  std::filesystem::remove(run / "track/mlflow.state");
  add_loss(2, 0.25);
  REQUIRE(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 2);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a record is not complete if the server's answer names no run") {
  std::ofstream(server.folder() / "unnamed") << "";
  const auto report = sync();
  CHECK_FALSE(report.is_complete);
  CHECK(report.problem == "the server's answer names no run");
  CHECK(report.mlflow_run_id.empty());
  std::filesystem::remove(server.folder() / "unnamed");
  CHECK(sync().is_complete);
  CHECK(only_run()["name"] == "mnist-1");
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "values and parameters are sent in batches that the MLflow server takes") {
  for (int step = 1; step <= 30; ++step) {
    TrackJson values = TrackJson::object();
    for (int i = 0; i < 64; ++i) values["m" + std::to_string(i)] = i + step;
    REQUIRE(record.add_line({{"t", step}, {"step", step}, {"m", values}}).has_value());
  }
  TrackJson parameters = TrackJson::object();
  for (int i = 0; i < 250; ++i) parameters["p" + std::to_string(i)] = std::string(1000, 'x');
  write("parameters.json", parameters.dump());
  const auto report = sync();
  CHECK(report.problem == "");
  CHECK(report.values_sent == 30 * 64);
  CHECK(only_run()["metrics"].size() == 30 * 64);
  CHECK(only_run()["params"].size() == 250);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "values with many different names can be sent again, and each counts once") {
  // Some names occur only after the first 100 values.
  for (int step = 1; step <= 130; ++step) add_loss(step, 1.0 / step);
  TrackJson rare = TrackJson::object();
  for (int i = 0; i < 64; ++i) rare["test" + std::to_string(i)] = i;
  REQUIRE(record.add_line({{"t", 2000}, {"step", 130}, {"m", rare}}).has_value());
  add_end();
  REQUIRE(sync().is_complete);
  std::filesystem::remove(run / "track/mlflow.state");
  const auto again = sync();
  CHECK(again.problem == "");
  CHECK(again.values_sent == 130 + 64);
  CHECK(only_run()["metrics"].size() == 130 + 64);
  CHECK(only_run()["status"] == "FINISHED");
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "names of values that MLflow does not take are changed, and a parameter with a "
                  "too long name is left out") {
  TrackJson values = TrackJson::object();
  for (const char* name : {"/loss", "a//b", "acc/", ".", "../x", "c/./d", "train/loss"})
    values[name] = 1;
  REQUIRE(record.add_line({{"t", 1}, {"step", 1}, {"m", values}}).has_value());
  write("parameters.json", TrackJson{{std::string(300, 'k'), "1"}, {"name", "x"}}.dump());
  CHECK(sync().problem == "");
  const auto made = only_run();
  std::vector<std::string> names;
  for (const auto& metric : made["metrics"]) names.push_back(metric[0]);
  CHECK(names ==
        std::vector<std::string>{"_/loss", "a/_/b", "acc/_", "_", "_/x", "c/_/d", "train/loss"});
  CHECK(made["params"] == TrackJson{{"name", "x"}});
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "MLflow gets the user and the commit of a run as soon as they are known") {
  add_loss(1, 0.5);
  REQUIRE(sync().is_complete);
  CHECK_FALSE(only_run()["tags"].contains("mlflow.user"));
  write("provenance.json", R"({"user": "kim", "git": null})");
  REQUIRE(sync().is_complete);
  CHECK(only_run()["tags"]["mlflow.user"] == "kim");
  const auto before = server.requests().size();
  CHECK(sync().is_complete);
  CHECK(server.requests().size() == before);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "MLflow gets the user and the commit of the sweep for each of its points") {
  write("provenance.json", R"({"user": "kim", "git": {"commit": "abc123"}})");
  const auto point = run / "array-0/3";
  std::filesystem::create_directories(point);
  std::filesystem::rename(run / "track", point / "track");
  REQUIRE(MlflowRecord(point).sync(env, "", [] { return true; }).is_complete);
  CHECK(only_run()["tags"]["mlflow.source.git.commit"] == "abc123");
}

TEST_CASE_FIXTURE(
    TrackedRunOnServer,
    "the problem that sync() reports says why the server cannot make the experiment") {
  std::string url = server.url("");
  std::string experiment(501, 'x'), expected = "exceeds the maximum length of 500 characters";
  url.pop_back();
  SUBCASE("the server refuses the name") {}
  SUBCASE("the address has another path") {
    url += "/other";
    expected = "status 404; is " + url + " the address of an MLflow server?";
  }
  const TemporaryDirectory other_run;
  const MlflowRecord other_record(other_run.path());
  REQUIRE(other_record.create({.url = url, .experiment = experiment, .run = "y"}).has_value());
  CHECK(has(other_record.sync(env, "", [] { return true; }).problem, expected));
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "values that a server did not get while it was down are sent later") {
  std::ofstream(server.folder() / "down") << "";
  add_loss(1, 0.5);
  const auto failed = sync();
  CHECK_FALSE(failed.is_complete);
  CHECK(has(failed.problem, "status 503"));
  std::filesystem::remove(server.folder() / "down");
  CHECK(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 1);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a slow server gets the values only if the caller's limit is long enough") {
  REQUIRE(sync().is_complete);
  add_loss(1, 0.5);
  std::ofstream(server.folder() / "slow") << "";
  const auto sync_within = [&](int seconds) {
    return record.sync(
        env, "", [] { return true; }, {}, std::chrono::seconds(seconds));
  };
  CHECK(has(sync_within(1).problem, "no reply within 1 s"));
  CHECK(sync_within(30).is_complete);
  CHECK(only_run()["metrics"].size() == 1);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "MLflow's token is sent, and no message or file contains it") {
  std::ofstream(server.folder() / "token") << "canary";
  add_loss(1, 0.5);
  const auto without_token = sync();
  CHECK(has(without_token.problem, "status 401"));
  CHECK(sync("canary").is_complete);
  const auto with_newline = sync("canary\r\nX: y");
  CHECK_FALSE(has(with_newline.problem, "canary"));
  for (const auto& entry : std::filesystem::directory_iterator(run / "track")) {
    std::ifstream file(entry.path());
    CHECK_FALSE(has(std::string{std::istreambuf_iterator<char>(file), {}}, "canary"));
  }
}

TEST_CASE_FIXTURE(
    TrackedRunOnServer,
    "damaged lines of a record for MLflow are skipped, and half a line waits for its end") {
  add_loss(1, 0.5);
  std::ofstream(run / "track/mlflow.jsonl", std::ios::app)
      << "{\n[1]\n{\"m\": 4}\n{\"m\": {\"loss\": \"x\"}}\n{\"t\": 7, \"step\": 2, \"m\": {\"lo";
  CHECK(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 1);
  std::ofstream(run / "track/mlflow.jsonl", std::ios::app) << "ss\": 2}}\n";
  CHECK(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 2);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a line that is too long is skipped, and every sync reports the line") {
  add_loss(1, 0.5);
  std::ofstream(run / "track/mlflow.jsonl", std::ios::app)
      << "{\"t\": 7, \"m\": {\"loss\": 1}, \"x\": \"" << std::string(600'000, 'x') << "\"}\n";
  add_loss(2, 0.25);
  add_end();
  const auto report = sync();
  CHECK_FALSE(report.is_complete);
  CHECK(has(report.problem, "lines of more than 262144 bytes, and mlflow.jsonl has 1 of them"));
  CHECK(report.values_sent == 2);
  CHECK(only_run()["metrics"].size() == 2);
  CHECK(only_run()["status"] == "FINISHED");
  CHECK_FALSE(sync().is_complete);
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "a line for MLflow after an incomplete one is not lost") {
  add_loss(1, 0.5);
  std::ofstream(run / "track/mlflow.jsonl", std::ios::app) << "{\"t\": 7, \"m\": {\"lo";
  add_loss(2, 0.25);
  CHECK(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 2);
}

TEST_CASE("add_line() fails without waiting if the record's file of values is a FIFO") {
  const TemporaryDirectory run;
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://127.0.0.1:1", .experiment = "x", .run = "y"}).has_value());
  REQUIRE(::mkfifo((run / "track/mlflow.jsonl").c_str(), 0600) == 0);
  const auto added = record.add_line({{"t", 1}, {"step", 1}, {"m", {{"loss", 0.5}}}});
  REQUIRE_FALSE(added.has_value());
  CHECK(has(added.error().message, "is not a regular file"));
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "a record whose values cannot be read is not complete") {
  add_loss(1, 0.5);
  REQUIRE(sync().is_complete);
  // The kernel cannot read at this offset. A failing disk gives an error in the same way.
  write("track/mlflow.state",
        R"({"run_id": "x", "sent": 9223372036854775807, "has_params": true})");
  const auto report = sync();
  CHECK_FALSE(report.is_complete);
  CHECK(has(report.problem, "mlflow.jsonl: Invalid argument"));
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "an end that lead could not write is added once") {
  add_loss(1, 0.5);
  SUBCASE("lead was killed between two lines") {}
  SUBCASE("lead was killed in the middle of a line") {
    std::ofstream(run / "track/mlflow.jsonl", std::ios::app) << "{\"t\": 7, \"m\": {\"lo";
  }
  REQUIRE(sync().is_complete);
  CHECK(only_run()["status"] == "RUNNING");
  CHECK_FALSE(record.has_end().value());
  CHECK(sync_with_missing_end(EndState::kFailed, 5000).is_complete);
  CHECK(record.has_end().value());
  CHECK(sync_with_missing_end(EndState::kCompleted, 6000).is_complete);
  CHECK(only_run()["status"] == "FAILED");
  CHECK(only_run()["end_time"] == 5000);
  CHECK(only_run()["metrics"].size() == 1);
}

TEST_CASE_FIXTURE(TrackedRunOnServer,
                  "a run without values gets the end that lead could not write") {
  CHECK(sync_with_missing_end(EndState::kCancelled, 5000).is_complete);
  CHECK(only_run()["status"] == "KILLED");
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "no end is added while another process sends the record") {
  add_loss(1, 0.5);
  const int lock = ::open((run / "track/mlflow.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(lock >= 0);
  REQUIRE(::flock(lock, LOCK_EX) == 0);
  const auto report = sync_with_missing_end(EndState::kFailed, 5000);
  CHECK_FALSE(report.is_complete);
  CHECK(has(report.problem, "another process sends the record now"));
  CHECK_FALSE(record.has_end().value());
  ::close(lock);
  CHECK(sync_with_missing_end(EndState::kFailed, 5000).is_complete);
  CHECK(record.has_end().value());
}

TEST_CASE_FIXTURE(TrackedRunOnServer, "a later attempt keeps the MLflow run of the first attempt") {
  add_loss(1, 0.5);
  REQUIRE(sync().is_complete);
  REQUIRE(record.create({.url = "http://other", .experiment = "x", .run = "y"}).has_value());
  CHECK(record.read_run()->run == "mnist-1");
  add_loss(2, 0.25);
  CHECK(sync().is_complete);
  CHECK(only_run()["metrics"].size() == 2);
}

TEST_CASE("sync() fails without a record, without a server that can be reached, and without time") {
  const TemporaryDirectory run;
  const MlflowRecord record(run.path());
  CHECK_FALSE(record.exists());
  CHECK_FALSE(record.sync(Env::of_process(), "", [] { return true; }).is_complete);
  REQUIRE(record.create({.url = "http://127.0.0.1:1", .experiment = "x", .run = "y"}).has_value());
  CHECK(record.exists());
  CHECK(has(record.sync(Env::of_process(), "", [] { return true; }).problem, "cannot be reached"));
  CHECK(has(record.sync(Env::of_process(), "", [] { return false; }).problem, "no time"));
}

}  // namespace dlrun
