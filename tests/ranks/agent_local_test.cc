// Tests what ranks receive and leave behind: numbers, output, store, record. Runs the real
// dlrun-agent on this machine; agent_ends_test.cc tests how ranks end.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/json_lines.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "tests/ranks/agent_run.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

namespace dlrun::agent {
namespace {

TEST_CASE(
    "every rank learns its number, the number of ranks and the address of rank 0, and its output "
    "arrives in its log, in local.out and on lead's output") {
  Run run;
  run.start(4, "echo out $RANK of $WORLD at $M; echo err $DLRUN_RANK >&2", {},
            {"--env", "RANK={rank}", "--env", "WORLD={world_size}", "--env", "M={master_addr}"});
  CHECK(run.wait() == 0);
  for (int rank = 0; rank < 4; ++rank) {
    const auto number = std::to_string(rank);
    const auto line = "out " + number + " of 4 at 127.0.0.1\n";
    CHECK(run.out().find(line) != std::string::npos);
    CHECK(run.err().find("err " + number + "\n") != std::string::npos);
    CHECK(run.content_of("local.out").find(line) != std::string::npos);
    const auto log = run.content_of("logs/attempt-0/rank-000" + number + ".log");
    CHECK(log.find(line) != std::string::npos);
    CHECK(log.find("err " + number + "\n") != std::string::npos);
  }
  CHECK(run.events("joined")[0]["ranks"] == 4);
  CHECK(run.events("ended")[0]["state"] == "completed");
  CHECK(run.events("ended")[0]["message"] == "all 4 ranks ended with 0");
}

TEST_CASE("megabytes of output arrive completely, even without a newline at the end") {
  Run run;
  run.start(2, "head -c 3000000 /dev/zero | tr '\\0' 'x'; printf end");
  CHECK(run.wait() == 0);
  CHECK(run.out().size() == 2 * 3'000'003);
  CHECK(run.content_of("logs/attempt-0/rank-0001.log").size() == 3'000'003);
}

TEST_CASE(
    "a program that is not bundled gets no secret, token, store or address of lead, and keeps "
    "inherited variables") {
  Run run;
  run.env.set("KEPT_BY_TEST", "kept");
  run.start(
      1, "env; ls -l /proc/self/fd; [ -z \"$DLRUN_SECRET$DLRUN_LEAD$DLRUN_TOKEN$DLRUN_STORE\" ]");
  CHECK(run.wait() == 0);
  CHECK(run.out().find("DLRUN_SECRET") == std::string::npos);
  CHECK(run.out().find("KEPT_BY_TEST=kept") != std::string::npos);
  CHECK(run.out().find("DLRUN_MASTER_PORT=") != std::string::npos);
}

TEST_CASE(
    "templates give each rank the same list of all addresses, and a port of its own that a program "
    "can bind") {
  constexpr int kRanks = 12;
  Run run;
  // The agent keeps the port bound. A program that sets SO_REUSEADDR, as servers do, can still
  // listen on this port.
  run.start(kRanks,
            "echo \"ALL $ALL MINE $MINE.\"; [[ $TF == *'\"task\":{\"type\":\"ps\",\"index\":1}}' "
            "|| $DLRUN_RANK != 11 ]] && "
            "exec python3 -c 'import os, socket; socket.create_server((\"\", "
            "int(os.environ[\"PORT\"])))'",
            {},
            {"--env", "ALL={addresses}", "--env", "MINE={rank}:{addr}:{port}", "--env",
             "PORT={port}", "--env", "TF={tf_config}", "--roles", "ps=2"});
  CHECK(run.wait() == 0);
  const auto out = run.out();
  const auto all = out.substr(out.find("ALL "), out.find(" MINE") - out.find("ALL ")).substr(4);
  const auto members = split(all, ',');
  REQUIRE(members.size() == kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(out.find(fmt::format("ALL {} MINE {}:{}.\n", all, rank,
                               members[static_cast<std::size_t>(rank)])) != std::string::npos);
    CHECK(std::count(members.begin(), members.end(), members[static_cast<std::size_t>(rank)]) == 1);
  }
}

TEST_CASE("a run ends before anything starts if its roles leave no rank for the workers") {
  Run run;
  run.start(2, "echo started", {}, {"--env", "TF_CONFIG={tf_config}", "--roles", "ps=2"});
  CHECK(run.wait() == 64);
  CHECK(run.out().find("started") == std::string::npos);
  CHECK(run.err().find("needs at least 3 ranks, not 2") != std::string::npos);
}

TEST_CASE("a rank belongs to lead's world even if the shell has the variables of another task") {
  Run run;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"SLURM_PROCID", "5"},
                                                        {"SLURM_STEP_ID", "0"},
                                                        {"SLURM_STEP_NUM_TASKS", "9"},
                                                        {"SLURM_LOCALID", "5"},
                                                        {"SLURM_NODEID", "0"},
                                                        {"DLRUN_RANK", "7"}}) {
    run.env.set(name, value);
  }
  run.start(2, "echo $DLRUN_RANK/$DLRUN_WORLD_SIZE $SLURM_PROCID");
  CHECK(run.wait() == 0);
  CHECK(run.out().find("1/2\n") != std::string::npos);
}

TEST_CASE(
    "a missing command ends with 127 and one that cannot be executed with 126, each with a clear "
    "message") {
  {
    Run run;
    run.env.set("PATH", "/nowhere:/bin");
    run.start_program(2, {"pythonx", "train.py"});
    CHECK(run.wait() == 127);
    CHECK(run.err().find(": pythonx: command not found (PATH=/nowhere:/bin)") != std::string::npos);
  }
  {
    Run run;
    std::ofstream(run.test_folder / "script") << "#!/no/such/interpreter\n";
    fs::permissions(run.test_folder / "script", fs::perms::owner_all);
    run.start_program(1, {(run.test_folder / "script").string()});
    CHECK(run.wait() == 126);
    CHECK(run.err().find("interpreter") != std::string::npos);
  }
  {
    Run run;
    std::ofstream(run.test_folder / "data") << "x";
    run.start_program(1, {(run.test_folder / "data").string()});
    CHECK(run.wait() == 126);
    CHECK(run.err().find("Permission denied") != std::string::npos);
  }
}

TEST_CASE("a wrong template ends the rank before its program starts") {
  Run run;
  run.start(1, "touch $DLRUN_RUN/started", {}, {"--env", "A={rnak}"});
  CHECK(run.wait() == 64);
  CHECK(run.err().find("did you mean '{rank}'") != std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "started"));
}

TEST_CASE("a node that fails its checks is named with the reason, and no program starts") {
  Run run;
  run.env.set("TMPDIR", "/no/such/folder");
  run.start(2, "touch $DLRUN_RUN/started", {}, {"--preflight", "disk,clock"});
  CHECK(run.wait() == 80);
  CHECK(
      run.err().find(
          "is not fit for the job: disk: cannot create a file in /no/such/folder: No such file") !=
      std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "started"));
}

TEST_CASE(
    "the program gets the requested TMPDIR if files can be created there, otherwise a warning "
    "gives the reason") {
  Run run;
  run.env.set("TMPDIR", "/tmp");  // in place of the value that Slurm sets
  run.start(2, "echo $TMPDIR", {}, {"--tmpdir", run.test_folder.string()});
  CHECK(run.wait() == 0);
  CHECK(run.content_of("logs/attempt-0/rank-0001.log") == run.test_folder.string() + "\n");
  Run other;
  other.env.set("TMPDIR", "/tmp");
  other.start(2, "echo $TMPDIR", {}, {"--tmpdir", "/no/such/folder"});
  CHECK(other.wait() == 0);
  CHECK(other.content_of("logs/attempt-0/rank-0001.log") == "/tmp\n");
  REQUIRE(other.events("warning").size() == 1);
  CHECK(other.events("warning")[0]["message"] ==
        "disk: cannot create a file in /no/such/folder: No such file or directory (TMPDIR of "
        "environment.vars; Slurm has put "
        "'/tmp' in its place)");
}

TEST_CASE(
    "a log that cannot be opened does not stop the program, its output arrives, and a warning is "
    "recorded") {
  Run run;
  fs::create_directories(run.directory / "logs/attempt-0");
  fs::create_symlink("/dev/full", run.directory / "logs/attempt-0/rank-0000.log");
  run.start(1, "echo all the same");
  CHECK(run.wait() == 0);
  CHECK(run.out() == "all the same\n");
  REQUIRE(run.events("warning").size() == 1);
  CHECK(run.events("warning")[0]["rank"] == 0);
  CHECK(run.events("warning")[0]["message"].get<std::string>().find("no log is kept") !=
        std::string::npos);
}

TEST_CASE("a full disk in the run directory does not stop the program, and causes a clear error") {
  Run run;
  if (::mount("tmpfs", run.directory.c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("skipped: a file system to fill cannot be mounted (it needs root)");
    return;
  }
  run.start(1, kReportPid + "head -c 1000000 /dev/zero | tr '\\0' 'x'; echo; echo still here");
  const int code = run.wait();
  const auto err = run.err();
  CHECK(code == 0);
  CHECK(run.out().ends_with("still here\n"));
  CHECK(run.out().size() > 1'000'000);
  CHECK(err.find("No space left on device") != std::string::npos);
  ::umount2(run.directory.c_str(), MNT_DETACH);
}

TEST_CASE(
    "another job that finds the run claimed exits with 75, starts no program and changes nothing") {
  Run run;
  run.start(1, "true");
  CHECK(run.wait() == 0);
  const auto claim = run.content_of("claim");
  run.start(1, "touch $DLRUN_RUN/second");
  CHECK(run.wait() == 75);  // without Slurm, each lead process is a job of its own
  CHECK(run.err().find("holds this run") != std::string::npos);
  CHECK_FALSE(fs::exists(run.directory / "second"));
  CHECK(run.content_of("claim") == claim);
  CHECK(run.events("ended").size() == 1);
}

TEST_CASE("a run directory that cannot be created is an error with exit code 73") {
  Run run;
  std::ofstream(run.test_folder / "file") << "";
  run.directory = run.test_folder / "file" / "run";
  run.start(1, "true");
  CHECK(run.wait() == 73);
  CHECK(run.err().find("file: exists and is not a directory") != std::string::npos);
}

TEST_CASE("after --join-timeout lead names the ranks that have not joined and exits with 76") {
  Run run;
  // bash runs in place of the two agents, so that no rank connects to lead.
  std::vector<std::string> options{"--join-timeout", "0.5", "--", "bash", "-c", kForever};
  run.start_program(2, {"unused"}, options);
  CHECK(run.wait() == 76);
  CHECK(run.err().find("2 of 2 ranks did not connect to lead within 0.5") != std::string::npos);
  CHECK(run.events("missing")[0]["ranks"] == Json{0, 1});
  CHECK(processes_of(run.directory).empty());
}

TEST_CASE("the ranks join within 2 s although strangers flood lead's port") {
  Run run;
  // Each rank's agent waits until the flood has begun.
  std::vector<std::string> options{
      "--", "bash", "-c", "while [ ! -e $DLRUN_RUN/go ]; do sleep 0.02; done; exec \"$0\" \"$@\""};
  run.start(4, "echo here", options);
  std::string lead;
  REQUIRE(comes_true([&] {
    const auto started = run.events("started");
    if (!started.empty()) lead = started[0]["lead"].get<std::string>();
    return !lead.empty();
  }));
  const auto endpoint = parse_endpoints(lead)->front();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) {
    if (auto socket = begin_connect(endpoint)) silent.push_back(std::move(*socket));
  }
  std::atomic<bool> should_stop = false;
  std::thread garbage([&] {
    const std::string bytes(600, '\xff');
    while (!should_stop) {
      const auto socket = begin_connect(endpoint);
      ::usleep(1000);
      if (socket) ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  });
  std::ofstream(run.directory / "go") << "";
  const auto began = Clock::now();
  CHECK(comes_true([&] { return !run.events("joined").empty(); }));
  const auto took = Clock::now() - began;
  should_stop = true;
  garbage.join();
  CHECK(run.wait() == 0);
  // Without the flood the ranks join in some 0.05 s. The limit includes the ranks' own start on a
  // busy machine.
  CHECK(took < wall_limit(seconds(2)));
}

TEST_CASE(
    "a bundled program can use the store: other ranks get the values of one rank, and progress "
    "reaches the record") {
  Run run;
  run.start(3,
            "n=${DLRUN_STORE#fd:}; ask() { printf '%s\\n' \"$1\" >&$n; read -r -u $n line; echo "
            "\"$DLRUN_RANK $line\"; }\n"
            "if [ $DLRUN_RANK = 0 ]; then\n"
            "  ask '{\"op\":\"put\",\"key\":\"id\",\"value\":\"beef\"}'\n"
            "  ask '{\"op\":\"put\",\"key\":\"id\",\"value\":\"dead\"}'\n"
            "  ask '{\"op\":\"get\",\"key\":\"never\",\"wait_ms\":100}'\n"
            "  ask 'not json'\n"
            "  printf '%s\\n' '{\"op\":\"progress\",\"epoch\":1,\"loss\":0.5}' >&$n\n"
            "  printf '%s\\n' '{\"op\":\"progress\",\"final\":true,\"test_accuracy\":0.98}' >&$n\n"
            "  ask '{\"op\":\"get\",\"key\":\"id\"}'\n"
            "else ask '{\"op\":\"get\",\"key\":\"id\",\"wait_ms\":20000}'; fi",
            {}, {"--bundled"});
  CHECK(run.wait() == 0);
  const auto out = run.out();
  for (const auto* line :
       {"0 {\"ok\":true}\n",
        "0 {\"ok\":false,\"error\":\"key 'id' exists already with another "
        "value\",\"code\":\"refused\"}\n",
        "0 {\"ok\":false,\"error\":\"no rank has put key 'never' within 100 "
        "ms\",\"code\":\"timeout\"}\n",
        "0 {\"ok\":false,\"error\":\"the request is not a JSON object",
        "0 {\"ok\":true,\"value\":\"beef\"}\n", "1 {\"ok\":true,\"value\":\"beef\"}\n",
        "2 {\"ok\":true,\"value\":\"beef\"}\n"}) {
    CAPTURE(line);
    CHECK(out.find(line) != std::string::npos);
  }
  CHECK(run.events("progress")[0]["loss"] == 0.5);
  CHECK(run.events("result")[0]["test_accuracy"] == 0.98);
}

TEST_CASE(
    "if the other ranks of a bundled program report a rank's failure, that rank is named with its "
    "message") {
  Run run;
  run.start(3,
            "[ $DLRUN_RANK != 1 ] || sleep 60\n"
            "printf '%s\\n' '{\"op\":\"progress\",\"failed\":\"ckpt: No space left\",\"of\":1}' "
            ">&${DLRUN_STORE#fd:}; "
            "exit 74",
            {}, {"--bundled"});
  CHECK(run.wait() == 74);
  CHECK(run.err().find("dlrun: rank 1 on ") != std::string::npos);
  CHECK(run.err().find(": ckpt: No space left; dlrun ends the other 2 ranks\n") !=
        std::string::npos);
  CHECK(run.events("rank_failed")[0]["rank"] == 1);
  CHECK(run.events("attempt_end")[0]["first_failed"]["rank"] == 1);
}

/// The result of a `dlrun-agent rank` that ran on a terminal of its own, without a lead.
struct FinishedOnTerminal {
  pid_t pid = -1;
  std::string output;
  int wait_status = -1;  ///< from waitpid()
};

/// Runs `dlrun-agent rank` to its end on a new terminal, with these arguments, and with TMPDIR set
/// to `tmpdir`.
FinishedOnTerminal run_on_terminal(std::vector<std::string> arguments, const std::string& tmpdir) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  arguments.insert(arguments.begin(), {kAgent, "rank"});
  std::vector<char*> argv;
  for (auto& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  FinishedOnTerminal finished;
  finished.pid = ::fork();
  REQUIRE(finished.pid >= 0);
  if (finished.pid == 0) {
    ::setsid();
    ::setenv("TMPDIR", tmpdir.c_str(), 1);
    for (const int fd : {0, 1, 2}) ::dup2(::open(name.c_str(), O_RDWR), fd);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  std::array<char, 1024> buffer;
  CHECK(comes_true([&] {
    const auto got = ::read(terminal, buffer.data(), buffer.size());
    if (got > 0) finished.output.append(buffer.data(), static_cast<std::size_t>(got));
    return got < 0;  // no process has the terminal any more
  }));
  CHECK(::waitpid(finished.pid, &finished.wait_status, 0) == finished.pid);
  ::close(terminal);
  return finished;
}

TEST_CASE(
    "without a lead, a program whose standard input is a terminal replaces the agent, so that no "
    "pipe or process is between them") {
  const auto finished = run_on_terminal({"--env", "RANK={rank}", "--", "bash", "-c",
                                         "[ -t 0 ] && [ -t 1 ] && echo rank $RANK pid $$"},
                                        "/tmp");
  CHECK(finished.output == "rank 0 pid " + std::to_string(finished.pid) + "\r\n");
  CHECK(finished.wait_status == 0);
}

TEST_CASE("without a lead, a program on a terminal gets the variables of a rank") {
  const auto finished = run_on_terminal(
      {"--", "bash", "-c",
       "echo $DLRUN_RANK/$DLRUN_WORLD_SIZE $DLRUN_LOCAL_RANK/$DLRUN_LOCAL_WORLD_SIZE "
       "$DLRUN_NODE_RANK/$DLRUN_NNODES $DLRUN_ADDR $DLRUN_MASTER_ADDR ${DLRUN_MASTER_PORT:+port}"},
      "/tmp");
  CHECK(finished.output == "0/1 0/1 0/1 127.0.0.1 127.0.0.1 port\r\n");
}

TEST_CASE("without a lead, --tmpdir restores TMPDIR, with a terminal and without one") {
  const TemporaryDirectory folder;
  const std::vector<std::string> program{"--", "bash", "-c", "echo tmp $TMPDIR"};
  const auto arguments_with = [&](std::vector<std::string> options) {
    options.insert(options.end(), program.begin(), program.end());
    return options;
  };
  const auto requested = folder.path().string();
  CHECK(run_on_terminal(arguments_with({"--tmpdir", requested}), "/tmp").output ==
        "tmp " + requested + "\r\n");
  const auto missing = run_on_terminal(arguments_with({"--tmpdir", requested + "/none"}), "/tmp");
  CHECK(missing.output.find("Slurm has put '/tmp' in its place") != std::string::npos);
  CHECK(missing.output.ends_with("\ntmp /tmp\r\n"));
  Env env = Env::of_process();
  env.set("TMPDIR", "/tmp");
  auto argv = arguments_with({"--tmpdir", requested});
  argv.insert(argv.begin(), {kAgent, "rank"});
  const auto piped =
      run_command({.argv = argv, .env = env, .stdin_text = "", .directory = std::nullopt});
  REQUIRE(piped);
  CHECK(piped->out == "tmp " + requested + "\n");
}

TEST_CASE("on a terminal without a lead, a line lists the options that have no effect") {
  const auto finished =
      run_on_terminal({"--preflight", "disk", "--profile", "perf", "--output",
                       R"({"from": "$TMPDIR/x", "to": "/none", "limit_s": 1})", "--", "true"},
                      "/tmp");
  CHECK(finished.output.find("no effect then: --preflight, --output, --profile\r\n") !=
        std::string::npos);
  CHECK(finished.wait_status == 0);
  CHECK(run_on_terminal({"--", "true"}, "/tmp").output.empty());
}

TEST_CASE("without a lead, `dlrun-agent rank` only runs the program and returns its exit code") {
  Env env = Env::of_process();
  const auto finished = run_command({.argv = {kAgent, "rank", "--env", "R={rank}/{world_size}",
                                              "--", "sh", "-c", "echo $R; exit 5"},
                                     .env = env,
                                     .stdin_text = "",
                                     .directory = std::nullopt});
  REQUIRE(finished);
  CHECK(finished->exit_code == 5);
  CHECK(finished->out == "0/1\n");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("two thousand ranks of one node start and end") {
  Run run;
  run.start(2000, "exit 0");
  CHECK(run.wait() == 0);
  CHECK(run.events("joined")[0]["ranks"] == 2000);
  CHECK(run.events("ended")[0]["state"] == "completed");
}
#endif

TEST_CASE("the agent is one static binary of at most 4 MB that starts within 20 ms") {
  const auto binary = read_file(kAgent, 256U << 20U);
  REQUIRE(binary);
  const std::string_view bytes(*binary);
  if (bytes.find("__asan_init") != std::string_view::npos ||
      bytes.find("__tsan_init") != std::string_view::npos) {
    MESSAGE("skipped: a build with sanitizers is neither static nor small");
    return;
  }
#ifdef NDEBUG  // other builds have debug information
  CHECK(bytes.size() <= 4'000'000);
#endif
  // A static program has no path of a dynamic loader, such as ld-linux.
  CHECK(bytes.substr(0, 4096).find("ld-linux") == std::string_view::npos);
  auto best = seconds(9) + Clock::duration(0);
  for (int i = 0; i < 10; ++i) {
    const auto began = Clock::now();
    REQUIRE(run_command(
        {.argv = {kAgent, "--version"}, .env = {}, .stdin_text = "", .directory = std::nullopt}));
    best = std::min(best, Clock::now() - began);
  }
  CHECK(best < wall_limit(milliseconds(20)));
}

}  // namespace
}  // namespace dlrun::agent
