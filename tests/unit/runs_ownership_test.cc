// Tests how dlrun treats a run that belongs to another user. Only root can give files to another
// user; without root the tests with another user's files do nothing and say so.
// tests/e2e/foreign_runs.bats uses two real users.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/executors/foreground.h"
#include "launcher/runs/last_words.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOtherUser = 65534;

#define NEEDS_ROOT()                                               \
  if (::geteuid() != 0) {                                          \
    MESSAGE("skipped: only root can give a file to another user"); \
    return;                                                        \
  }                                                                \
  static_assert(true)

/// A server on loopback that never answers. The tests check whether a client has connected.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(fd_.get(), 8) == 0);
    REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Returns true if a client has connected. On loopback a connection is in the queue as soon as
  /// connect() has returned.
  [[nodiscard]] bool has_connection() const {
    pollfd one{fd_.get(), POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
  }

 private:
  UniqueFd fd_;
  std::string url_;
};

struct OwnershipFixture {
  TemporaryDirectory folder;
  fs::path runs = folder.path() / "runs", token_file = folder.path() / "token",
           config = folder.path() / "config";
  RunIndex index{folder.path() / "state"};
  Env env;

  OwnershipFixture() {
    fs::create_directories(runs);
    put(token_file, "secretword\n");
    const fs::path bin = folder.path() / "bin";
    fs::create_directories(bin);
    for (const char* name : {"squeue", "sacct", "scancel", "scontrol"}) {
      put(bin / name, "#!/bin/sh\necho \"$0 $*\" >>" + (folder.path() / "calls").string() + "\n");
      fs::permissions(bin / name, fs::perms::owner_all);
    }
    env.set("PATH", bin.string() + ":/usr/bin:/bin");
    env.set("XDG_RUNTIME_DIR", folder.path().string());
  }
  static void put(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  /// Creates a run whose journal has these values. By default, Slurm has accepted it as job 42.
  fs::path make_run(const std::string& id, std::optional<RestServer> server = std::nullopt,
                    Submission::State state = Submission::State::kSubmitted,
                    const char* job = "42") const {
    const fs::path run = runs / id;
    fs::create_directories(run);
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = state;
    submission.job.id = job;
    submission.server = std::move(server);
    REQUIRE(write_submission(run, submission).has_value());
    return run;
  }
  static void give_to_other_user(const fs::path& path) {
    REQUIRE(::lchown(path.c_str(), kOtherUser, kOtherUser) == 0);
    if (!fs::is_directory(fs::symlink_status(path))) return;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      REQUIRE(::lchown(entry.path().c_str(), kOtherUser, kOtherUser) == 0);
  }
  /// Makes this server the only one that the site `mine` of the configuration lists.
  void configure_server(const std::string& url) const {
    put(config / "sites" / "mine.yaml",
        "slurmrestd: [{url: \"" + url + "\", token_file: " + token_file.string() + "}]\n");
  }
  [[nodiscard]] KnownServers servers() const { return {{config}, env}; }
  [[nodiscard]] RunStatus inspect(const fs::path& run) const {
    auto status = RunInspector(env, servers()).inspect(run);
    REQUIRE(status.has_value());
    return std::move(*status);
  }
  [[nodiscard]] std::string calls() const {
    return read_file(folder.path() / "calls", 1U << 20U).value_or("");
  }
};

}  // namespace

TEST_CASE_FIXTURE(OwnershipFixture,
                  "a run is foreign if another user owns its folder, a link to it, or a file that "
                  "determines what dlrun does") {
  NEEDS_ROOT();
  const auto run = make_run("mnist-20261121-120000-00aa");
  CHECK_FALSE(foreign_owner(run).has_value());
  CHECK(require_own("mnist", run, "cancel it").has_value());
  for (const char* file : {"submission.json", "claim", "events.jsonl", "job.sh", "sweep.json",
                           "resubmitted", "plan.json"}) {
    CAPTURE(file);
    const bool was_there = fs::exists(run / file);
    if (!was_there) put(run / file, "{}");
    give_to_other_user(run / file);
    CHECK(foreign_owner(run)->uid == kOtherUser);
    CHECK(require_own("mnist", run, "cancel it").error().message.find("belongs to user nobody") !=
          std::string::npos);
    REQUIRE(::chown((run / file).c_str(), 0, 0) == 0);
    if (!was_there) fs::remove(run / file);
  }
  const auto link = folder.path() / "link";
  fs::create_directory_symlink(run, link);
  CHECK_FALSE(foreign_owner(link).has_value());
  give_to_other_user(link);
  CHECK(foreign_owner(link).has_value());
  REQUIRE(::chown(run.c_str(), kOtherUser, kOtherUser) == 0);
  CHECK(foreign_owner(run).has_value());
  CHECK(RunInspector::read_facts(run)->foreign->uid == kOtherUser);
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "a point is foreign if its array or its sweep belongs to another user") {
  NEEDS_ROOT();
  const fs::path sweep = runs / "lr-20261121-120000-00aa", array = sweep / "array-0",
                 point = array / "3";
  put(point / "submission.json", journal_of_task(3));
  put(sweep / "sweep.json", "{}");
  CHECK_FALSE(foreign_owner(point).has_value());
  REQUIRE(::chown((sweep / "sweep.json").c_str(), kOtherUser, kOtherUser) == 0);
  CHECK(foreign_owner(point).has_value());
  REQUIRE(::chown((sweep / "sweep.json").c_str(), 0, 0) == 0);
  REQUIRE(::chown(array.c_str(), kOtherUser, kOtherUser) == 0);
  CHECK(foreign_owner(point).has_value());
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "another user's run is not added to the index, and cannot be found by name, "
                  "prefix, job id or `last`") {
  NEEDS_ROOT();
  const auto own = make_run("mnist-20261121-120000-00aa");
  const auto foreign =
      make_run("mnist-20261121-130000-00bb", std::nullopt, Submission::State::kSubmitted, "43");
  give_to_other_user(foreign);
  fs::last_write_time(foreign / "submission.json",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  const auto additions = index.add_missing_runs(runs);
  REQUIRE(additions.has_value());
  CHECK(additions->added_count == 1);
  REQUIRE(additions->foreign.size() == 1);
  CHECK(additions->foreign[0].path == foreign);
  CHECK(index.list()->entries.size() == 1);
  // The current folder is `runs`.
  const auto resolve = [&](std::string_view text) { return resolve_run(text, index, runs); };
  for (const char* name : {"mnist", "last", "mnist-2026", "42"}) CHECK(resolve(name)->path == own);
  CHECK_FALSE(resolve("43").has_value());
  // A name without a '/' does not mean a folder, even if the current folder has one of that name.
  const auto bare = resolve(foreign.filename().string());
  REQUIRE_FALSE(bare.has_value());
  CHECK(bare.error().message.find("of user nobody") != std::string::npos);
  CHECK(resolve("./" + foreign.filename().string())->path == foreign);
  CHECK(resolve(foreign.string())->path == foreign);
  CHECK(index.add({foreign.filename().string(), "mnist", foreign, "2026"}).error().code ==
        Errc::kInvalid);
  give_to_other_user(own);  // the path of the indexed run is another user's folder now
  for (const char* name : {"mnist", "last", "mnist-2026", "42"})
    CHECK_FALSE(resolve(name).has_value());
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "for another user's run neither its server nor a command of Slurm is called") {
  NEEDS_ROOT();
  Listener listener;
  // The server gets no request, although the configuration lists it.
  configure_server(listener.url());
  for (const auto state : {Submission::State::kIntent, Submission::State::kSubmitted}) {
    const char* const job = state == Submission::State::kIntent ? "" : "42";
    const auto over_rest =
        make_run("rest", RestServer{listener.url(), token_file.string()}, state, job);
    const auto over_sbatch = make_run("plain", std::nullopt, state, job);
    for (const auto& run : {over_rest, over_sbatch}) {
      const std::string journal = read_file(run / "submission.json", 1U << 20U).value();
      put(run / "secrets", "A=b");
      give_to_other_user(run);
      const auto status = inspect(run);
      CHECK(status.facts.foreign->name == "nobody");
      CHECK(status.may_be_outdated);
      CHECK_FALSE(is_unreachable(status));
      CHECK(status.detail.find("Slurm is not asked") != std::string::npos);
      RunInspector inspector(env, servers());
      CHECK(inspector.executor_of(status.facts).cancel({"", "42"}, "t").error().code ==
            Errc::kUsage);
      CHECK(read_file(run / "submission.json", 1U << 20U).value() == journal);
      CHECK(fs::exists(run / "secrets"));
      fs::remove_all(run);
    }
  }
  CHECK_FALSE(listener.has_connection());
  CHECK(calls().empty());
  static_cast<void>(inspect(make_run("own")));
  CHECK(calls().find("squeue") != std::string::npos);  // Slurm is asked about this user's run
}

TEST_CASE_FIXTURE(
    OwnershipFixture,
    "a server that is in a run's journal but not in the configuration gets no request") {
  Listener listener;
  const auto run = make_run("mnist", RestServer{listener.url(), token_file.string()});
  auto status = inspect(run);
  CHECK(status.may_be_outdated);
  CHECK(status.detail.find("your configuration does not list it") != std::string::npos);
  RunInspector inspector(env, servers());
  const auto cancelled = inspector.executor_of(status.facts).cancel(status.job, "t");
  CHECK(cancelled.error().code == Errc::kInvalid);
  CHECK_FALSE(listener.has_connection());
  configure_server("unix:/run/other");
  put(config / "sites" / "other.yaml",
      "defaults: {submit: {url: \"" + listener.url() +
          "\", token_file: " + (folder.path() / "theirs").string() + "}}\n");
  status = inspect(run);
  CHECK(status.detail.find("is not the one that your configuration lists") != std::string::npos);
  CHECK_FALSE(listener.has_connection());
  CHECK(calls().empty());
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "a server that a site lists in slurmrestd or defaults is known, and its token "
                  "file is the configuration's") {
  configure_server("unix:/run/one");
  put(config / "sites" / "two.yaml", "defaults: {submit: {url: \"unix:/run/two\"}}\n");
  put(config / "sites" / "three.yaml",
      "partitions: {gpu: {defaults: {submit: {url: \"https://r.example.org\", token_file: "
      "\"${HOME}/t\"}}}}\n");
  put(config / "sites" / "four.yaml",
      "slurmrestd: [{url: \"unix:/run/two\", version: v0.0.42}, {url: \"unix:/run/one\"}]\n");
  put(config / "sites" / "versions.yaml",
      "slurmrestd: [{url: \"https://r.example.org\", version: v0.0.43}]\n");
  env.set("HOME", "/home/kim");
  const auto known = servers();
  CHECK(known.all().size() == 3);
  CHECK(known.find({"unix:/run/two", ""})->version == "v0.0.42");
  CHECK(known.find({"unix:/run/one", ""})->version.empty());
  CHECK(known.find({"unix:/run/one", token_file.string()})->token_file == token_file.string());
  CHECK_FALSE(known.find({"unix:/run/one", "/home/kim/.ssh/id"}).has_value());
  CHECK(known.find({"unix:/run/two", ""})->token_file.empty());
  CHECK(known.find({"https://r.example.org", ""})->token_file == "/home/kim/t");
  CHECK(known.find({"https://r.example.org", "/home/kim/t"})->version == "v0.0.43");
  const auto none = known.find({"https://evil.example.org", token_file.string()});
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().message.find("https://evil.example.org") != std::string::npos);
  CHECK_FALSE(KnownServers().find({"unix:/run/one", ""}).has_value());
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "dlrun appends no event `ended` to another user's local run, even if the run's "
                  "lead is gone") {
  NEEDS_ROOT();
  const auto run = runs / "here";
  Submission submission;
  submission.token = std::string(32, 'a');
  submission.state = Submission::State::kSubmitted;
  // A process that no longer exists.
  submission.job = {std::string(kLocalCluster), local_job_id(::getpid()).value() + "1"};
  submission.pid_namespace = own_pid_namespace();
  fs::create_directories(run);
  REQUIRE(write_submission(run, submission).has_value());
  const std::string claimed = to_checked_line({{"event", "claimed"}, {"attempt", 0}});
  put(run / "events.jsonl", claimed);
  give_to_other_user(run);
  const auto status = inspect(run);
  CHECK(status.state == RunState::kRunning);
  CHECK(status.may_be_outdated);
  CHECK(read_file(run / "events.jsonl", 1U << 20U).value() == claimed);
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "a run leads to its successor only if both have the same owner") {
  NEEDS_ROOT();
  const auto own = make_run("own"), foreign = make_run("foreign");
  put(foreign / "resubmitted", own.string() + "\n");
  give_to_other_user(foreign);
  CHECK(current_run_of(foreign) == foreign);
  REQUIRE(write_successor(own, foreign).has_value());
  CHECK(current_run_of(own) == own);
  const auto next = make_run("next");
  REQUIRE(write_successor(own, next).has_value());
  CHECK(current_run_of(own) == next);
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "a run that is reached through another user's link counts as that user's run") {
  NEEDS_ROOT();
  const auto own = make_run("own-20261121-120000-00aa");
  REQUIRE(index.add({own.filename().string(), "own", own, "2026"}).has_value());
  const auto theirs = folder.path() / "theirs", mine = folder.path() / "mine";
  fs::create_directory(theirs);
  fs::create_directory_symlink(own, theirs / "run");
  fs::create_directory_symlink(runs, theirs / "runs");
  fs::create_directory_symlink("theirs/runs", mine);  // the user's link through another user's link
  for (const auto& path :
       {theirs / "run", theirs / "runs" / own.filename(), mine / own.filename()}) {
    CAPTURE(path);
    const auto resolved_path = [&] { return resolve_run(path.string(), index, runs)->path; };
    CHECK(require_own("own", resolved_path(), "cancel it").has_value());
    CHECK(resolved_path() == own);
    give_to_other_user(theirs / "run");
    give_to_other_user(theirs / "runs");
    CHECK_FALSE(require_own("own", resolved_path(), "cancel it").has_value());
    CHECK(inspect(resolved_path()).facts.foreign->uid == kOtherUser);
    for (const char* link : {"run", "runs"}) REQUIRE(::lchown((theirs / link).c_str(), 0, 0) == 0);
  }
}

TEST_CASE_FIXTURE(
    OwnershipFixture,
    "a link in another user's sweep leads neither to this user's point nor to its successor") {
  NEEDS_ROOT();
  const auto next = make_run("next");
  const fs::path sweep = runs / "own", foreign = runs / "foreign", array = sweep / "array-0";
  put(array / "3" / "submission.json", journal_of_task(3));
  REQUIRE(write_successor(array / "3", next).has_value());
  fs::create_directory(foreign);
  fs::create_directory_symlink(array, foreign / "array-0");
  give_to_other_user(foreign);
  const auto point = foreign / "array-0" / "3";
  CHECK(current_run_of(array / "3") == next);
  CHECK(current_run_of(point) == point);
  CHECK_FALSE(require_own("foreign/3", point, "cancel it").has_value());
}

TEST_CASE_FIXTURE(OwnershipFixture,
                  "the log of another user's run is shown only if the file belongs to that user") {
  NEEDS_ROOT();
  const auto run = runs / "hostile";
  const auto secret = folder.path() / "private-key", theirs = folder.path() / "their.log";
  put(secret, "BEGIN PRIVATE KEY\n");
  put(theirs, "Traceback\n");
  give_to_other_user(theirs);
  for (const auto& [log, is_shown] : {std::pair(secret, false), std::pair(theirs, true)}) {
    put(run / "claim",
        fmt::format(R"({{"cluster":"c","job":"42","token":"","log":"{}"}})", log.string()));
    put(run / "events.jsonl",
        to_checked_line({{"event", "ended"}, {"state", "failed"}, {"code", 1}, {"message", "m"}}));
    give_to_other_user(run);
    const auto status = inspect(run);
    CHECK(last_words(run, status).empty() != is_shown);
    LogReader reader(log, status.facts);
    const auto text = reader.read_more();
    CHECK(text.has_value() == is_shown);
    if (!is_shown) CHECK(text.error().message.find("the file is not shown") != std::string::npos);
  }
  // A rank's log that is a link to a file of this user is not shown either.
  put(run / "events.jsonl",
      to_checked_line({{"event", "rank_failed"}, {"rank", 0}, {"code", 1}}) +
          to_checked_line(
              {{"event", "ended"}, {"state", "failed"}, {"code", 1}, {"message", "m"}}));
  fs::create_directories(run / "logs" / "attempt-0");
  fs::create_symlink(secret, run / "logs" / "attempt-0" / "rank-0000.log");
  // If the run belonged to this user, the log would be shown.
  CHECK_FALSE(last_words(run,
                         [&] {
                           auto status = inspect(run);
                           status.facts.foreign.reset();
                           return status;
                         }())
                  .empty());
  give_to_other_user(run);
  CHECK(last_words(run, inspect(run)).empty());
}

TEST_CASE_FIXTURE(
    OwnershipFixture,
    "the secrets of a submission without a job are removed, unless the submission is in progress") {
  const auto run = make_run("lost", std::nullopt, Submission::State::kIntent, "");
  put(run / "secrets", "A=b");
  {
    const auto lock = SubmissionLock::take_if_free(run);
    CHECK(inspect(run).state == RunState::kPending);
    CHECK(fs::exists(run / "secrets"));
  }
  CHECK(inspect(run).state == RunState::kNotSubmitted);
  CHECK_FALSE(fs::exists(run / "secrets"));
}

TEST_CASE("a log that is not a regular file is refused without waiting") {
  const TemporaryDirectory folder;
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  LogReader reader(folder.path() / "fifo", RunFacts{});
  CHECK(reader.read_more().error().code == Errc::kInvalid);
}

}  // namespace dlrun
