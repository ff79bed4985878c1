// Tests an autopsy, which collects the stacks of the ranks of a hung attempt: the data that it
// reads, how it groups ranks, and when the attempt ends.

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "runtime/agent/address.h"
#include "runtime/agent/autopsy.h"
#include "runtime/agent/nccl_reports.h"
#include "runtime/agent/process_facts.h"
#include "runtime/agent/stack_dump.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

using Frames = std::vector<std::string>;

const Frames kReduceFrames{"all_reduce (distributed_c10d.py:2050)", "step (train.py:40)"};
const Frames kWaitFrames{"acquire (threading.py:320)", "load (train.py:12)"};

/// Returns a scene whose attempt hangs: rank 0 has reported progress once, and all agents still
/// send heartbeats.
Scene hung_scene(int ranks = 4) {
  Scene scene({.hang_after = seconds(10), .makes_autopsy = true});
  scene.all_join(ranks);
  scene.attempt.on_progress(0, {{"step", 7}}, scene.now);
  for (int second = 0; second < 10; ++second) {
    for (int rank = 0; rank < ranks; ++rank) scene.attempt.on_heard(rank, scene.now);
    scene.pass(seconds(1));
  }
  return scene;
}

/// A program that runs until this object ends it.
class RunningProgram {
 public:
  explicit RunningProgram(std::vector<std::string> argv) : pid_(::fork()) {
    if (pid_ != 0) return;
    std::vector<char*> arguments;
    for (auto& argument : argv) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    // With ptrace_scope 1, gdb needs this permission, because gdb is no parent of this process.
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~RunningProgram() {
    if (!has_ended()) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  }

 private:
  pid_t pid_;
};

/// Returns the environment of this process with a gdb that knows no debug information of libc, as
/// on most clusters, and without py-spy. Writes this gdb into the folder.
Env env_with_gdb_of_a_cluster(const std::filesystem::path& folder) {
  Env env = Env::of_process();
  const auto gdb = find_program("gdb", env);
  REQUIRE(gdb.has_value());
  std::ofstream(folder / "gdb") << "#!/bin/sh\nexec " << *gdb
                                << " -iex 'set debug-file-directory /nonexistent' \"$@\"\n";
  REQUIRE(::chmod((folder / "gdb").c_str(), 0755) == 0);
  env.set("PATH", folder.string() + ":/usr/bin:/bin");
  return env;
}

}  // namespace

TEST_CASE(
    "a hung attempt ends when all agents have reported their stacks, and names the rank whose "
    "stack differs") {
  Scene scene = hung_scene();
  CHECK(scene.actions.broadcast_count("autopsy") == 1);
  CHECK(scene.actions.broadcast_count("end") == 0);
  for (const int rank : {0, 1, 3}) scene.attempt.on_autopsy(rank, kReduceFrames, scene.now);
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.attempt.on_autopsy(2, kWaitFrames, scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  const auto event = scene.actions.last("autopsy");
  CHECK(event["odd"] == 1);  // the number of ranks in the first group, which differs
  REQUIRE(event["groups"].size() == 2);
  CHECK(event["groups"][0] ==
        Json{{"ranks", "2"}, {"count", 1}, {"hosts", "n2"}, {"frames", kWaitFrames}});
  CHECK(event["groups"][1]["ranks"] == "0-1, 3");
  end_four_ranks(scene);
  scene.attempt.on_step_end(143, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == EndReason::kHang);
  CHECK(scene.attempt.end().cause == Cause::kHang);
  CHECK(scene.attempt.end().message.find(
            "rank 2 on n2 is at acquire (threading.py:320), the others at all_reduce") !=
        std::string::npos);
}

TEST_CASE(
    "if the other ranks have several stacks, the message names the stack of their largest group") {
  Scene scene = hung_scene(6);
  scene.attempt.on_autopsy(2, kWaitFrames, scene.now);
  for (const int rank : {0, 1})
    scene.attempt.on_autopsy(rank, Frames{"save (train.py:9)"}, scene.now);
  for (const int rank : {3, 4, 5}) scene.attempt.on_autopsy(rank, kReduceFrames, scene.now);
  CHECK(scene.actions.last("autopsy")["groups"].size() == 3);
  CHECK(scene.attempt.end().message.find("is at acquire (threading.py:320), the largest group of "
                                         "the others at all_reduce") != std::string::npos);
}

TEST_CASE(
    "a rank that dies while stacks are collected, and a later TERM, do not change the verdict of a "
    "hang") {
  Scene scene = hung_scene();
  REQUIRE(scene.actions.broadcast_count("autopsy") == 1);
  scene.attempt.on_exit(0, {134, SIGABRT, "", true}, scene.now);
  scene.attempt.on_rank_signal(2, SIGTERM, scene.now);
  for (const int rank : {1, 2, 3}) scene.attempt.on_autopsy(rank, kWaitFrames, scene.now);
  scene.attempt.on_step_end(0, "", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().reason == EndReason::kHang);
  CHECK(scene.attempt.end().cause == Cause::kHang);
  CHECK_FALSE(scene.attempt.end().is_cancelled);
  CHECK(scene.actions.count("rank_failed") == 0);
}

TEST_CASE("the wait for agents that do not answer is bounded") {
  Scene scene = hung_scene();
  scene.attempt.on_autopsy(0, kReduceFrames, scene.now);
  scene.pass(AutopsyBoard::kLimit - seconds(1));
  CHECK(scene.actions.broadcast_count("end") == 0);
  scene.pass(seconds(1));
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.actions.last("autopsy")["groups"].size() == 1);
}

TEST_CASE(
    "the autopsy does not wait for a rank that died during it, and the verdict is still a hang") {
  Scene scene = hung_scene();
  for (const int rank : {0, 1, 3}) scene.attempt.on_autopsy(rank, kReduceFrames, scene.now);
  scene.attempt.on_exit(2, {128 + SIGKILL, SIGKILL, {}}, scene.now);
  scene.pass(seconds(1));
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.attempt.end().reason == EndReason::kHang);
}

TEST_CASE("a cancellation during an autopsy ends the attempt without a wait for the agents") {
  Scene scene = hung_scene();
  scene.attempt.on_lead_signal(SIGTERM, scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  CHECK(scene.attempt.end().is_cancelled);
}

TEST_CASE(
    "a rank whose stack differs is an outlier, but not if the ranks divide evenly or all stacks "
    "differ") {
  const auto outliers_of = [](const std::vector<Frames>& frames) {
    AutopsyBoard board({0, 1, 2, 3});
    for (std::size_t rank = 0; rank < frames.size(); ++rank)
      board.add_answer(static_cast<int>(rank), frames[rank]);
    return AutopsyBoard::outliers(board.groups());
  };
  CHECK(outliers_of({kReduceFrames, kWaitFrames, kReduceFrames, kReduceFrames}) ==
        std::vector<int>{1});
  CHECK(outliers_of({kReduceFrames, kWaitFrames, kReduceFrames, kWaitFrames}).empty());
  CHECK(outliers_of({{"a"}, {"b"}, {"c"}, {"d"}}).empty());
  CHECK(outliers_of({kReduceFrames, kReduceFrames, kReduceFrames, kReduceFrames}).empty());
  CHECK(outliers_of({kReduceFrames, {}, kReduceFrames, {}}).empty());
}

TEST_CASE(
    "the main thread's frames are read from the output of py-spy, Python's faulthandler and gdb") {
  CHECK(frames_of_py_spy(
            "Process 12: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
            "Thread 14 (idle): \"Thread-1\"\n    wait (threading.py:324)\n"
            "Thread 12 (idle): \"MainThread\"\n    acquire (lock.py:3)\n    main (train.py:9)\n") ==
        Frames{"acquire (lock.py:3)", "main (train.py:9)"});
  CHECK(frames_of_faulthandler("Thread 0x00007ff444b626c0 (most recent call first):\n  File "
                               "\"/x/train.py\", line 3 in worker\n\n"
                               "Current thread 0x00007ff4457c3b80 (most recent call first):\n"
                               "  File \"/home/me/a b/train.py\", line 5 in step\n  File "
                               "\"/x/train.py\", line 7 in <module>\n") ==
        Frames{"step (train.py:5)", "<module> (train.py:7)"});
  CHECK(frames_of_gdb(
            "[New LWP 5]\n\nThread 2 (Thread 0x7f (LWP 5) \"t\"):\n#0  worker () at a.c:1\n\n"
            "Thread 1 (Thread 0x7f (LWP 4) \"t\"):\n#0  0x00007ff444b61ab0 in futex_wait (op=1) at "
            "f.c:5\n"
            "#1  pthread_mutex_lock (m=0x1) at m.c:2\n#2  0x01 in main ()\n[Inferior 1 "
            "detached]\n") == Frames{"futex_wait", "pthread_mutex_lock", "main"});
  CHECK(frames_of_gdb("").empty());
  CHECK(frames_of_faulthandler("nonsense\n  File \"x, line in\n").empty());
}

TEST_CASE("if gdb is missing, the text says whether py-spy is missing, too, or shows no frames") {
  const TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string());
  const auto text_of_own_dump = [&] {
    return dump_stacks(::getpid(), env, folder.path() / "scratch", seconds(1)).text;
  };
  CHECK(text_of_own_dump() == "no stacks: neither py-spy nor gdb is in PATH here\n");
  std::ofstream(folder.path() / "py-spy") << "#!/bin/sh\n";
  REQUIRE(::chmod((folder.path() / "py-spy").c_str(), 0755) == 0);
  CHECK(text_of_own_dump() ==
        "no stacks: py-spy shows none of this process, and gdb is not in PATH here\n");
}

TEST_CASE("even without libc's debug information, gdb shows Python's frames and harms no program") {
  const TemporaryDirectory folder;
  const Env env = env_with_gdb_of_a_cluster(folder.path());
  const auto ready = folder.path() / "ready";
  std::ofstream(folder.path() / "train.py") << "import sys, threading\n"
                                               "lock = threading.Lock()\n"
                                               "def load_next_batch():\n"
                                               "    open(sys.argv[1], 'w').close()\n"
                                               "    lock.acquire()\n"
                                               "    lock.acquire()\n"
                                               "load_next_batch()\n";
  const RunningProgram program(
      {"/usr/bin/python3", (folder.path() / "train.py").string(), ready.string()});
  for (int i = 0; i < 1000 && read_process(program.pid()).threads.size() == 1; ++i) {
    if (std::filesystem::exists(ready) && read_process(program.pid()).threads[0].state == 'S')
      break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  REQUIRE(std::filesystem::exists(ready));
  for (int pass = 0; pass < 2; ++pass) {  // the first dump changes nothing for the second
    const auto dump = dump_stacks(program.pid(), env, folder.path() / "scratch", seconds(20));
    CHECK(dump.frames == Frames{"load_next_batch (train.py:6)", "<module> (train.py:7)"});
    std::this_thread::sleep_for(milliseconds(100));
    CHECK_FALSE(program.has_ended());
  }
}

TEST_CASE("gdb calls nothing in a program that is named python3 but is not Python") {
  const TemporaryDirectory folder;
  const Env env = env_with_gdb_of_a_cluster(folder.path());
  const auto python = folder.path() / "python3";
  std::filesystem::copy_file("/usr/bin/sleep", python);
  const RunningProgram program({python.string(), "100"});
  const auto program_file = std::filesystem::canonical(python);
  const auto exe = fmt::format("/proc/{}/exe", program.pid());
  std::error_code error;
  for (int i = 0; i < 1000 && std::filesystem::read_symlink(exe, error) != program_file; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  REQUIRE(std::filesystem::read_symlink(exe, error) == program_file);
  const auto open_files = [&] {
    return std::distance(
        std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", program.pid())), {});
  };
  const auto open_files_before = open_files();
  const auto dump = dump_stacks(program.pid(), env, folder.path() / "scratch", seconds(20));
  CHECK_FALSE(dump.is_python);
  CHECK(dump.text.find("native stacks:") != std::string::npos);
  CHECK(open_files() == open_files_before);
  CHECK_FALSE(program.has_ended());
}

TEST_CASE(
    "a process of one thread is described by its thread's state and memory, and a missing process "
    "has no threads") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ProcessFacts facts;
  for (int i = 0; i < 200 && (facts.threads.empty() || facts.threads[0].state != 'S'); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    facts = read_process(child);
  }
  ::kill(child, SIGKILL);
  REQUIRE(facts.threads.size() == 1);
  CHECK(facts.threads[0].id == child);
  CHECK(facts.thread_count == 1);
  CHECK(facts.resident_bytes > 0);
  CHECK(describe(facts.threads[0]).starts_with("sleeps"));
  CHECK(to_text(facts).find(fmt::format("process {}: ", child)) == 0);
  CHECK(read_process(1 << 29).threads.empty());
}

TEST_CASE(
    "an agent reports a limited number of frames without control characters, and malformed reports "
    "give no frames") {
  std::string many = R"({"frames":[)";
  for (int i = 0; i < 100; ++i) many += (i == 0 ? "\"" : ",\"") + std::string(1000, 'x') + "\x1b\"";
  const auto frames = frames_of_line(R"({"frames":["a \u001b[31m","b"],"pid":3})");
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].find('\x1b') == std::string::npos);
  CHECK(frames_of_line(many + "]}").size() <= kFramesLimit);
  for (const char* text : {"", "[]", "{}", R"({"frames":3})", R"({"frames":[3]})"})
    CHECK(frames_of_line(text).empty());
}

TEST_CASE(
    "torch's flight recorder writes its dump when asked over its pipe, and the dump is copied into "
    "the run") {
  const TemporaryDirectory folder;
  const auto pipe_prefix = (folder / "pipe-").string();
  REQUIRE(::mkfifo((pipe_prefix + "3.pipe").c_str(), 0600) == 0);
  Env program_env;
  program_env.set("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", pipe_prefix);
  program_env.set("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", (folder / "record-").string());
  // No recorder has opened the pipe.
  CHECK_FALSE(copy_flight_record(program_env, 3, folder / "copy", milliseconds(100)));
  std::thread recorder([&] {
    std::ifstream request(pipe_prefix + "3.pipe");
    std::string line;
    std::getline(request, line);
    std::ofstream(folder / "record-3") << "a record";
  });
  bool is_copied = false;
  for (const auto until = std::chrono::steady_clock::now() + seconds(30);
       !is_copied && std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(milliseconds(10))) {
    // The recorder may not have opened the pipe yet.
    is_copied = copy_flight_record(program_env, 3, folder / "copy", seconds(5));
  }
  recorder.join();
  REQUIRE(is_copied);
  CHECK(read_file(folder / "copy", 100) == "a record");
  CHECK_FALSE(copy_flight_record(Env(), 3, folder / "copy", milliseconds(100)));
}

TEST_CASE(
    "NCCL's RAS service on this node is queried, and a query that gets no answer ends soon after "
    "its limit") {
  const auto listener = listen_on_free_port(true);
  REQUIRE(listener);
  std::string question;
  std::thread ras([&] {
    pollfd ready{.fd = listener->socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, 10'000);
    const UniqueFd peer(::accept(listener->socket.get(), nullptr, nullptr));
    ready.fd = peer.get();
    ::poll(&ready, 1, 10'000);
    question.resize(100);
    question.resize(
        static_cast<std::size_t>(std::max<ssize_t>(::read(peer.get(), question.data(), 100), 0)));
    std::ignore = write_all(peer.get(), "NCCL version 2.28\nCommunicators: 1\n");
  });
  const auto answer = ask_nccl_ras(seconds(10), listener->port);
  ras.join();
  CHECK(question == "verbose status\n");
  REQUIRE(answer);
  CHECK(answer->find("Communicators: 1") != std::string::npos);
  const auto before = std::chrono::steady_clock::now();
  // The port is open but never answers.
  CHECK_FALSE(ask_nccl_ras(milliseconds(300), listener->port));
  CHECK(std::chrono::steady_clock::now() - before < seconds(5));
}

}  // namespace dlrun::agent
