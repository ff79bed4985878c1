// Tests a run at its limits: a slow disk, a blocked output, few open files, many ranks, a flood of
// connections. Runs the real dlrun-agent.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ranks/agent_run.h"

namespace dlrun::agent {
namespace {

/// Returns the strace command that slows a system call of lead and of all its child processes. how:
/// an injection of strace, such as delay_exit=MICROSECONDS. path: slows only calls on this path.
/// With -D lead stays a child of this test.
std::vector<std::string> strace_slowing(const std::string& call, const std::string& how,
                                        const std::string& path = "") {
  std::vector<std::string> words{"strace",
                                 "-D",
                                 "-f",
                                 "--seccomp-bpf",
                                 "-qqq",
                                 "-o",
                                 "/dev/null",
                                 "-e",
                                 "trace=" + call,
                                 "-e",
                                 "inject=" + call + ":" + how};
  if (!path.empty()) words.insert(words.end(), {"-P", path});
  return words;
}

/// Returns true if the signal is pending: sent to the process, but not delivered yet.
bool is_pending(pid_t pid, int signal) {
  const auto status = read_file("/proc/" + std::to_string(pid) + "/status", 1U << 16U).value_or("");
  const auto at = status.find("ShdPnd:\t");
  REQUIRE(at != std::string::npos);
  return ((std::strtoull(status.c_str() + at + 8, nullptr, 16) >>
           static_cast<unsigned>(signal - 1)) &
          1U) != 0;
}

void set_limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit both{soft, hard};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

TEST_CASE(
    "on a slow disk, a run whose ranks all end with 0 is completed, and lead reports that it waits "
    "for the disk") {
  Run run;
  run.prefix = strace_slowing("fdatasync", "delay_exit=2000000");
  run.start(1, "exit 0");
  CHECK(run.wait() == 0);
  REQUIRE(run.events("ended").size() == 1);
  CHECK(run.events("ended")[0]["state"] == "completed");
  CHECK(run.err().find("dlrun: still waiting for the disk: the run's record, " +
                       (run.directory / "events.jsonl").string()) != std::string::npos);
}

TEST_CASE(
    "two TERMs end lead's wait for a disk that hangs, and lead reports that the record is "
    "incomplete") {
  Run run;
  run.prefix = strace_slowing("fdatasync", "delay_exit=60000000");
  run.start(1, "exit 0");
  REQUIRE(comes_true(
      [&] { return run.err().find("still waiting for the disk") != std::string::npos; }));
  const auto began = Clock::now();
  run.signal(SIGTERM);
  // A pending signal would absorb the next one.
  CHECK(comes_true([&] { return !is_pending(run.lead_pid(), SIGTERM); }));
  run.signal(SIGTERM);
  CHECK(comes_true([&] {
    return run.err().find("the run's record lacks its last lines") != std::string::npos;
  }));
  CHECK(Clock::now() - began < seconds(3));
  run.signal(SIGKILL);  // otherwise lead would end only after strace's delay of 60 s
  std::ignore = run.wait();
}

TEST_CASE("output of lead to a file system that hangs does not delay signals") {
  Run run;
  const auto err = (run.test_folder / "err").string();
  std::ofstream(err) << "";
  run.prefix = strace_slowing("write", "delay_enter=30000000", err);
  run.start(1, kReportPid + "echo printed >&2; " + kForever);
  const auto program = run.pid_of_program(0);
  // Lead now blocks while it writes this line to its own output.
  REQUIRE(comes_true([&] { return run.content_of("local.out") == "printed\n"; }));
  run.signal(SIGTERM);
  CHECK(comes_true([&] { return ::kill(program, 0) != 0; }, seconds(3)));
  run.signal(SIGKILL);
  std::ignore = run.wait();
}

TEST_CASE(
    "if lead is suspended until the agents end their programs, lead blames no rank and reports "
    "that it was suspended") {
  Run run;
  run.start(2, "trap 'exit 0' TERM; " + kReportPid + "while :; do sleep 0.1 & wait $!; done");
  run.wait_for_programs(2);
  const auto program = run.pid_of_program(0);
  run.signal(SIGSTOP);
  CHECK(comes_true([&] { return ::kill(program, 0) != 0; }, seconds(20)));
  run.signal(SIGCONT);
  CHECK(run.wait() == 143);
  CHECK(run.events("rank_failed").empty());
  REQUIRE(run.events("attempt_end").size() == 1);
  CHECK(run.events("attempt_end")[0]["reason"] == "lead_unheard");
  CHECK(run.err().find("lead was suspended for 1") != std::string::npos);
}

TEST_CASE(
    "a limit on file sizes is reported and ends neither lead nor the agents, but ends programs "
    "that exceed it") {
  Run run;
  run.before_exec = [] {
    ::signal(SIGXFSZ, SIG_DFL);
    set_limit(RLIMIT_FSIZE, 64 << 10, 64 << 10);
  };
  run.start(2,
            "head -c 200000 /dev/zero | tr '\\0' 'x'; [ $DLRUN_RANK = 0 ] || exit 0; (head -c "
            "100000 /dev/zero > "
            "$DLRUN_RUN/big) "
            "2>/dev/null; kill -l $? > $DLRUN_RUN/signal; exit 0");
  CHECK(run.wait() == 0);
  CHECK(run.events("ended")[0]["state"] == "completed");
  CHECK(run.err().find("File too large (EFBIG)") != std::string::npos);
  CHECK(run.content_of("signal") == "XFSZ\n");  // programs have the signal's default action
}

TEST_CASE("lead sees the ends of ranks even if it is started with SIGCHLD ignored") {
  Run run;
  run.before_exec = [] { ::signal(SIGCHLD, SIG_IGN); };
  run.start(2, "exit 0");
  CHECK(run.wait() == 0);
}

TEST_CASE(
    "lead raises its soft limit on open files, but programs keep the limit that lead was started "
    "with") {
  Run run;
  run.before_exec = [] { set_limit(RLIMIT_NOFILE, 64, 1024); };
  run.start(100, "ulimit -Sn > $DLRUN_RUN/limit-$DLRUN_RANK");
  CHECK(run.wait() == 0);
  CHECK(run.content_of("limit-0") == "64\n");
  CHECK(run.content_of("limit-99") == "64\n");
}

TEST_CASE("if the hard limit on open files is too low, the error has both numbers and the remedy") {
  Run run;
  run.before_exec = [] { set_limit(RLIMIT_NOFILE, 64, 64); };
  run.start(100, "exit 0");
  CHECK(run.wait() == 77);
  CHECK(run.err().find(
            "Too many open files (EMFILE); its limit is 64 open files, and it needs about 164, one "
            "for each rank and some of its own: raise the hard limit where the job starts (`ulimit "
            "-Hn`;") != std::string::npos);
}

TEST_CASE("a short run waits until surroundings.json of a large Python environment is written") {
  Run run;
  const auto packages = run.test_folder / "venv/lib/python3.11/site-packages";
  fs::create_directories(packages);
  for (int i = 0; i < 3000; ++i)
    fs::create_directory(packages / ("package" + std::to_string(i) + ".dist-info"));
  run.env.set("VIRTUAL_ENV", (run.test_folder / "venv").string());
  // Reading the folder of packages takes long, as on a slow file system.
  run.prefix = strace_slowing("getdents64", "delay_exit=60000", packages.string());
  run.start(1, "exit 0");
  CHECK(run.wait() == 0);
  const auto json = Json::parse(run.content_of("surroundings.json"), nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json["venv"]["packages"].size() == 3000);
}

TEST_CASE(
    "if local.out is not written fast enough, the file and lead report how many bytes are "
    "missing") {
  Run run;
  const auto log = (run.directory / "local.out").string();
  std::ofstream(log) << "";
  run.prefix = strace_slowing("write", "delay_enter=300000:when=1..3", log);
  run.start(1, "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; sleep 2; echo end");
  CHECK(run.wait() == 0);
  CHECK(run.content_of("local.out")
            .find(" bytes of output are missing here: the file was not written fast enough\n") !=
        std::string::npos);
  CHECK(run.content_of("local.out").ends_with("end\n"));
  CHECK(run.err().find("dlrun: local.out lacks ") != std::string::npos);
}

TEST_CASE(
    "the processor time for many ranks on one node grows with their number, not with its square") {
  const auto cpu_seconds = [](int ranks) {
    rusage before{};
    ::getrusage(RUSAGE_CHILDREN, &before);
    Run run;
    run.start_program(ranks, {"true"});
    REQUIRE(run.wait() == 0);
    rusage after{};
    ::getrusage(RUSAGE_CHILDREN, &after);
    const auto seconds_of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds_of(after.ru_utime) + seconds_of(after.ru_stime) - seconds_of(before.ru_utime) -
           seconds_of(before.ru_stime);
  };
  const double seconds_of_100 = cpu_seconds(100);
  const double seconds_of_400 = cpu_seconds(400);
  CAPTURE(seconds_of_100);
  CAPTURE(seconds_of_400);
  // A scan of all processes by each rank would take 16 times as long.
  CHECK(seconds_of_400 < 8 * seconds_of_100);
}

TEST_CASE(
    "50 ranks join within 10 s under a flood of connections from strangers, and lead uses less "
    "than 64 MiB") {
  Run run;
  const auto start_fifo = (run.test_folder / "start").string();
  REQUIRE(::mkfifo(start_fifo.c_str(), 0600) == 0);
  const auto wrapper = run.test_folder / "agent";  // the ranks wait until the flood has begun
  std::ofstream(wrapper) << "#!/bin/bash\n[ \"$1\" = lead ] || read -r < " << start_fifo
                         << "\nexec " << kAgent << " \"$@\"\n";
  fs::permissions(wrapper, fs::perms::owner_all);
  run.agent = wrapper.string();
  run.start_program(50, {"true"});
  REQUIRE(comes_true([&] { return !run.events("started").empty(); }));
  const auto address = run.events("started")[0]["lead"].get<std::string>();
  const auto port = address.substr(address.rfind(':') + 1);
  const auto report = (run.test_folder / "flood").string();
  const pid_t flood = ::fork();
  REQUIRE(flood >= 0);
  if (flood == 0) {
    ::dup2(::open(report.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    // The flood begins up to 120,000 connections a second. It has four threads, so that on two
    // cores it gets more processor time than lead, which accepts the connections.
    ::execl(DLRUN_CONNECTION_FLOOD, DLRUN_CONNECTION_FLOOD, port.c_str(), "4", "120000", nullptr);
    ::_exit(99);
  }
  REQUIRE(comes_true([&] { return read_file(report, 4096).value_or("").starts_with("up\n"); }));
  const auto began = Clock::now();
  // All ranks read the end of the FIFO, and then start.
  UniqueFd(::open(start_fifo.c_str(), O_WRONLY | O_CLOEXEC)).reset();
  const bool have_joined = comes_true([&] { return !run.events("joined").empty(); }, seconds(40));
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  const auto status =
      read_file("/proc/" + std::to_string(run.lead_pid()) + "/status", 1U << 16U).value_or("");
  ::kill(flood, SIGTERM);
  ::waitpid(flood, nullptr, 0);
  MESSAGE("joined after " << took.count() << " ms; " << read_file(report, 4096).value_or(""));
  CHECK(have_joined);
  CHECK(took < seconds(10));
  CHECK(run.wait() == 0);
  CHECK(run.events("joined")[0]["ranks"] == 50);
  const auto peak = status.find("VmHWM:");
  if (peak != std::string::npos)
    CHECK(std::strtol(status.c_str() + peak + 6, nullptr, 10) < 64 << 10);  // in KiB
}

}  // namespace
}  // namespace dlrun::agent
