// Tests lead's statistics of the running ranks (ranks.json and the samples events), and how agents
// measure the use of GPUs and processes for them.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/gpu_probe.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/rewritten_file.h"
#include "runtime/agent/sample_board.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

namespace dlrun::agent {
namespace {

using Clock = SampleBoard::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::time_point kAttemptStart{seconds(1000)};

World world_of(int rank, int size, int local_size) {
  return {rank,
          size,
          rank % local_size,
          local_size,
          rank / local_size,
          size / local_size,
          WorldSource::kDlrun};
}

SampleBoard board_of(int ranks, int local_size) {
  SampleBoard board(kAttemptStart);
  for (int rank = 0; rank < ranks; ++rank) {
    board.add(world_of(rank, ranks, local_size), "n" + std::to_string(rank / local_size));
  }
  return board;
}

/// Adds a heartbeat of a rank, with these fields, to the board.
void add_beat(SampleBoard& board, int rank, const Json& fields, Clock::time_point now) {
  auto message = to_lead::Beat().json();
  message.update(fields);
  board.add_beat(rank, to_lead::Beat::of(message), now);
}

/// Returns one cell of ranks.json, or "no such column".
Json cell(const Json& snapshot, std::size_t row, std::string_view column) {
  const auto& columns = snapshot["columns"];
  for (std::size_t at = 0; at < columns.size(); ++at) {
    if (columns[at] == column) return snapshot["rows"][row][at];
  }
  return "no such column";
}

Json snapshot_of(SampleBoard& board, Clock::time_point now) {
  return Json::parse(board.take_ranks_json(0, "2026-01-01T00:00:00.000Z", now));
}

/// Writes a script nvidia-smi with this body into the folder. Returns an environment whose PATH has
/// the folder.
Env env_with_nvidia_smi(const TemporaryDirectory& folder, const std::string& body) {
  const auto path = folder / "nvidia-smi";
  std::ofstream(path) << "#!/bin/sh\n" << body << '\n';
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  return env;
}

/// Runs the loop until the probe's tool has ended, for 20 s at most. Returns the probe's readings.
std::optional<std::vector<GpuReading>> wait_for_readings(EventLoop& loop, GpuProbe& probe) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (probe.tool_pid() > 0 && std::chrono::steady_clock::now() < until) {
    loop.run_once(milliseconds(20));
    int status = 0;
    if (const auto pid = ::waitpid(probe.tool_pid(), &status, WNOHANG); pid > 0)
      probe.on_reaped(pid, status);
  }
  return probe.take();
}

}  // namespace

TEST_CASE(
    "a report that is already in a samples event is also written to ranks.json, exactly once") {
  auto board = board_of(1, 1);
  add_beat(board, 0, {{"type", "beat"}, {"cpu", 0.5}}, kAttemptStart);
  const auto later = kAttemptStart + seconds(30);
  REQUIRE(board.is_event_due(later));
  REQUIRE(board.take_event(later).has_value());
  CHECK_FALSE(board.is_event_due(later + seconds(100)));
  CHECK(board.is_ranks_json_due(later));
  CHECK(cell(snapshot_of(board, later), 0, "cpu") == 0.5);
  CHECK_FALSE(board.is_ranks_json_due(later + seconds(100)));
}

TEST_CASE("ranks.json leaves out ranks without reports, and lists the others by rank") {
  SampleBoard board(kAttemptStart);
  for (const int rank : {2, 0, 1}) board.add(world_of(rank, 3, 1), "n" + std::to_string(rank));
  add_beat(board, 2, {{"type", "beat"}, {"cpu", 0.5}}, kAttemptStart);
  add_beat(board, 0, {{"type", "beat"}, {"cpu", 1.5}, {"rss", 4096}}, kAttemptStart);
  add_beat(board, 1, {{"type", "beat"}}, kAttemptStart);
  const auto snapshot = snapshot_of(board, kAttemptStart + seconds(3));
  REQUIRE(snapshot["rows"].size() == 2);
  CHECK(snapshot["ranks"] == 3);
  CHECK(cell(snapshot, 0, "rank") == 0);
  CHECK(cell(snapshot, 0, "cpu") == 1.5);
  CHECK(cell(snapshot, 0, "rss_bytes") == 4096);
  CHECK(cell(snapshot, 1, "rank") == 2);
  CHECK(cell(snapshot, 1, "rss_bytes").is_null());
  CHECK(snapshot["nodes"][cell(snapshot, 1, "node").get<std::size_t>()] == "n2");
  CHECK(cell(snapshot, 1, "age_s") == 3);
}

TEST_CASE(
    "the rank with the longest work per step is marked slow, although all ranks are at the same "
    "step") {
  auto board = board_of(4, 2);
  for (int rank = 0; rank < 4; ++rank) {
    add_beat(board, rank, {{"step", 100}, {"work_ms", rank == 2 ? 30.0 : 10.0 + rank}},
             kAttemptStart);
  }
  const auto samples = board.take_event(kAttemptStart);
  REQUIRE(samples);
  CHECK(samples->slow_rank_count == 1);
  CHECK(samples->slowest_ranks.at(0).rank == 2);
  CHECK(samples->slowest_ranks.at(0).host == "n1");
  CHECK(samples->fields()["work_ms"] == Json{10.0, 16.0, 30.0});
  CHECK_FALSE(board.take_event(kAttemptStart + seconds(4)));  // nothing new was reported
}

TEST_CASE(
    "a rank whose report is only late does not lag, and a rank that reports no further step does") {
  auto board = board_of(3, 1);
  const auto report_step = [&](int rank, int step, seconds when) {
    add_beat(board, rank, {{"step", step}}, kAttemptStart + when);
  };
  for (int rank = 0; rank < 3; ++rank) report_step(rank, 100, seconds(0));
  CHECK(cell(snapshot_of(board, kAttemptStart), 0, "lag") == 0);
  report_step(0, 400, seconds(4));
  report_step(1, 400, seconds(4));
  CHECK(cell(snapshot_of(board, kAttemptStart + seconds(4)), 2, "slow") == false);
  for (int at = 8; at <= 24; at += 4) {
    report_step(0, 100 * at, seconds(at));
    report_step(1, 100 * at, seconds(at));
    std::ignore = board.take_ranks_json(0, "", kAttemptStart + seconds(at));
  }
  const auto snapshot = snapshot_of(board, kAttemptStart + seconds(25));
  CHECK(cell(snapshot, 2, "lag") > 0);
  CHECK(cell(snapshot, 2, "slow") == true);
  CHECK(cell(snapshot, 0, "slow") == false);
}

TEST_CASE(
    "a node's GPUs are divided among its ranks in order, and a rank can also report its own GPUs") {
  auto board = board_of(4, 2);
  add_beat(
      board, 0,
      {{"node_gpus", {{10, 100, 1000}, {20, 200, 1000}, {30, 300, 1000}, {nullptr, 400, 1000}}}},
      kAttemptStart);
  add_beat(board, 1, {{"cpu", 1}}, kAttemptStart);
  add_beat(board, 2, {{"gpus", {{50, 1, 2}, {100, 3, 4}}}}, kAttemptStart);
  add_beat(board, 3, {{"cpu", 1}}, kAttemptStart);
  const auto snapshot = snapshot_of(board, kAttemptStart);
  CHECK(cell(snapshot, 0, "gpu") == 15);
  CHECK(cell(snapshot, 0, "gpu_used_bytes") == 300);
  CHECK(cell(snapshot, 1, "gpu_used_bytes") == 700);
  CHECK(cell(snapshot, 2, "gpu") == 75);
  CHECK(cell(snapshot, 2, "gpu_total_bytes") == 6);
  CHECK(cell(snapshot, 3, "gpu").is_null());
}

TEST_CASE("the power of GPUs is summed up, and GPUs that ranks share count once") {
  auto board = board_of(6, 4);  // four ranks on the first node share two GPUs
  CHECK_FALSE(board.take_event(kAttemptStart).value_or(events::RankStatistics{}).gpu_watts);
  add_beat(board, 0, {{"node_gpus", {{10, 1, 2, 100.5}, {20, 1, 2, 200}}}}, kAttemptStart);
  add_beat(board, 3, {{"cpu", 1}}, kAttemptStart);
  const auto report_gpu = [&](int rank, Json gpu) {
    add_beat(board, rank, {{"gpus", Json::array({std::move(gpu)})}}, kAttemptStart);
  };
  report_gpu(4, Json::array({50, 1, 2, 300}));
  report_gpu(5, Json::array({50, 1, 2}));
  const auto samples = board.take_event(kAttemptStart + seconds(4));
  REQUIRE(samples);
  CHECK(samples->gpu_watts == 600.5);
  report_gpu(5, Json::array({50, 1, 2, -1}));
  report_gpu(4, Json::array({50, 1, 2, "much"}));
  CHECK(board.take_event(kAttemptStart + seconds(8))->gpu_watts == 300.5);
}

TEST_CASE("fields of a heartbeat that are not valid numbers are ignored") {
  auto board = board_of(1, 1);
  add_beat(board, 0,
           {{"cpu", "fast"}, {"rss", -1}, {"step", "x"}, {"gpus", {{1}, "x", {"y", -5, 1.5}}}},
           kAttemptStart);
  add_beat(board, 7, {{"cpu", 1}}, kAttemptStart);
  const auto snapshot = snapshot_of(board, kAttemptStart);
  for (const char* column : {"cpu", "rss_bytes", "gpu", "gpu_used_bytes", "step", "work_ms"}) {
    CHECK(cell(snapshot, 0, column).is_null());
  }
}

TEST_CASE("a GPU without a reading does not lower the mean of its rank's GPUs") {
  auto board = board_of(2, 2);
  add_beat(board, 0,
           {{"node_gpus", {{nullptr, 1, 2}, {80, 1, 2}, {nullptr, 1, 2}, {nullptr, 1, 2}}}},
           kAttemptStart);
  add_beat(board, 1, {{"step", 1}}, kAttemptStart);
  const auto snapshot = snapshot_of(board, kAttemptStart);
  CHECK(cell(snapshot, 0, "gpu") == 80);
  CHECK(cell(snapshot, 1, "gpu").is_null());
}

TEST_CASE(
    "10,000 ranks give a small event, and a snapshot every 20 s that takes less than half a "
    "second") {
  auto board = board_of(10'000, 8);
  for (int rank = 0; rank < 10'000; ++rank) {
    add_beat(board, rank,
             {{"cpu", 7.25},
              {"rss", 12'345'678'901},
              {"step", 123'456},
              {"work_ms", rank % 100 == 0 ? 250.0 : 181.4}},
             kAttemptStart);
  }
  CHECK_FALSE(board.is_ranks_json_due(kAttemptStart + seconds(19)));
  CHECK(board.is_ranks_json_due(kAttemptStart + seconds(20)));
  const auto begin = Clock::now();
  const auto text =
      board.take_ranks_json(0, "2026-01-01T00:00:00.000Z", kAttemptStart + seconds(20));
  const auto took = Clock::now() - begin;
  CHECK(took < wall_limit(milliseconds(500)));  // takes about 10 ms; it runs in lead's event loop
  CHECK(text.size() < 1'000'000);
  const auto samples = board.take_event(kAttemptStart + seconds(20));
  REQUIRE(samples);
  CHECK(samples->slow_rank_count == 100);
  CHECK(samples->fields().dump().size() < 700);
}

TEST_CASE("samples are recorded less often the longer an attempt lasts") {
  auto board = board_of(1, 1);
  const auto records_within = [&](seconds from, seconds to) {
    int record_count = 0;
    for (auto at = from; at < to; at += seconds(1)) {
      add_beat(board, 0, {{"cpu", 1}}, kAttemptStart + at);
      if (board.is_event_due(kAttemptStart + at) && board.take_event(kAttemptStart + at))
        ++record_count;
    }
    return record_count;
  };
  CHECK(records_within(seconds(0), seconds(60)) == 14);
  const int in_eleventh_hour = records_within(seconds(36'000), seconds(39'600));
  CHECK(in_eleventh_hour == 60);
}

TEST_CASE("GPU lines of nvidia-smi are parsed, and other lines are ignored") {
  const auto gpus = parse_nvidia_csv(
      "0, GPU-aa, 93, 40000, 81559, 412.35\n1, GPU-bb, [N/A], [Not Supported], 81559\n"
      "No devices were found\n");
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].utilization_percent == 93);
  CHECK(gpus[0].used_bytes == 40'000ULL << 20U);
  CHECK(gpus[0].watts == 412.35);
  CHECK_FALSE(gpus[1].watts);
  CHECK(gpus[1].uuid == "GPU-bb");
  CHECK_FALSE(gpus[1].utilization_percent);
  CHECK_FALSE(gpus[1].used_bytes);
  CHECK(gpus[1].total_bytes == 81'559ULL << 20U);
}

TEST_CASE("the CSV of amd-smi and rocm-smi is read by the names of its columns") {
  const auto amd = parse_amd_csv(
      "WARNING: no root\ngpu,gfx_activity,umc_activity,vcn_activity,total_vram,used_vram\n"
      "0,93,4,\"['N/A', 'N/A']\",65520,1024\n1,N/A,0,N/A,65520,N/A\n");
  REQUIRE(amd.size() == 2);
  CHECK(amd[0].utilization_percent == 93);
  CHECK(amd[0].used_bytes == 1024ULL << 20U);
  CHECK(amd[0].total_bytes == 65'520ULL << 20U);
  CHECK_FALSE(amd[1].utilization_percent);
  CHECK_FALSE(amd[1].used_bytes);
  const auto power = parse_amd_csv(
      "gpu,socket_power,current_socket_power,average_socket_power\n0,N/A,550,N/A\n1,301,N/A,N/A\n"
      "2,N/A,N/A,-4\n3,65535,N/A,N/A\n");
  REQUIRE(power.size() == 4);
  CHECK(power[0].watts == 550);
  CHECK(power[1].watts == 301);
  CHECK_FALSE(power[2].watts);
  CHECK_FALSE(power[3].watts);
  const auto rocm = parse_amd_csv(
      "device,Unique ID,Average Graphics Package Power (W),GPU use (%),VRAM Total Memory (B),"
      "VRAM Total Used Memory (B)\ncard0,0xaa,93.0,7,68702699520,10960896\n\n");
  REQUIRE(rocm.size() == 1);
  CHECK(rocm[0].index == 0);
  CHECK(rocm[0].uuid == "0xaa");
  CHECK(rocm[0].utilization_percent == 7);
  CHECK(rocm[0].watts == 93);
  CHECK(rocm[0].used_bytes == 10'960'896ULL);
  CHECK(parse_amd_csv("No AMD GPUs specified\n").empty());
}

TEST_CASE("GPUs are read with nvidia-smi, else with amd-smi, else with rocm-smi") {
  const TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string());
  CHECK_FALSE(find_gpu_tool(env).has_value());
  for (const char* name : {"rocm-smi", "amd-smi", "nvidia-smi"}) {
    const auto file = folder / name;
    REQUIRE(write_file_atomic(file, "#!/bin/sh\n", 0700).has_value());
    CHECK(find_gpu_tool(env)->name() == name);
  }
}

TEST_CASE("CUDA_VISIBLE_DEVICES selects GPUs by index or UUID, in its own order") {
  const auto all = parse_nvidia_csv("0, GPU-aa, 1, 1, 1\n1, GPU-bb, 2, 2, 2\n2, GPU-cc, 3, 3, 3\n");
  CHECK(visible_gpus(all, std::nullopt).size() == 3);
  CHECK(visible_gpus(all, "").empty());
  CHECK(visible_gpus(all, "NoDevFiles").empty());
  const auto two = visible_gpus(all, "2, GPU-aa");
  REQUIRE(two.size() == 2);
  CHECK(two[0].index == 2);
  CHECK(two[1].index == 0);
  CHECK(visible_gpus(all, "MIG-xx").empty());
}

TEST_CASE(
    "a node's first rank reads the node's GPUs, but each rank reads its own if Slurm has bound "
    "GPUs to ranks") {
  const auto env_of = [](std::map<std::string, std::string, std::less<>> values) {
    return Env(std::move(values));
  };
  const auto first = world_of(0, 8, 4), second = world_of(1, 8, 4);
  CHECK(gpu_scope(env_of({}), first) == GpuScope::kNode);
  CHECK(gpu_scope(env_of({}), second) == GpuScope::kNone);
  CHECK(gpu_scope(env_of({}), world_of(1, 2, 1)) == GpuScope::kOwn);
  CHECK(gpu_scope(env_of({{"SLURM_JOB_ID", "1"}}), first) == GpuScope::kNone);
  CHECK(gpu_scope(env_of({{"SLURM_JOB_ID", "1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}), first) ==
        GpuScope::kNode);
  CHECK(gpu_scope(env_of({{"SLURM_JOB_ID", "1"},
                          {"CUDA_VISIBLE_DEVICES", "0"},
                          {"SLURM_GPUS_PER_TASK", "1"}}),
                  second) == GpuScope::kOwn);
  CHECK(gpu_scope(env_of({{"CUDA_VISIBLE_DEVICES", ""}}), first) == GpuScope::kNone);
}

TEST_CASE(
    "the GPU tool's output arrives through the event loop, and the tool does not get the run's "
    "secret") {
  const TemporaryDirectory folder;
  auto loop = EventLoop::create();
  REQUIRE(loop);
  auto env = env_with_nvidia_smi(folder, "echo \"0, GPU-$DLRUN_SECRET, 50, 1024, 2048\"");
  env.set("DLRUN_SECRET", "precious");
  const auto probe = GpuProbe::create(*loop, env);
  REQUIRE(probe);
  probe->tick(Clock::now());
  const auto gpus = wait_for_readings(*loop, *probe);
  REQUIRE(gpus);
  REQUIRE(gpus->size() == 1);
  CHECK((*gpus)[0].uuid == "GPU-");
  CHECK((*gpus)[0].utilization_percent == 50);
  CHECK_FALSE(probe->take());
}

TEST_CASE("a GPU tool that hangs blocks nothing and is killed") {
  const TemporaryDirectory folder;
  auto loop = EventLoop::create();
  REQUIRE(loop);
  const auto probe = GpuProbe::create(*loop, env_with_nvidia_smi(folder, "exec sleep 600"));
  REQUIRE(probe);
  const auto begin = Clock::now();
  probe->tick(begin);
  REQUIRE(probe->tool_pid() > 0);
  probe->tick(begin + seconds(10));
  CHECK(::waitpid(probe->tool_pid(), nullptr, WNOHANG) == 0);
  probe->tick(begin + seconds(21));
  CHECK_FALSE(wait_for_readings(*loop, *probe));
  CHECK(probe->tool_pid() == -1);
  CHECK(Clock::now() - begin < seconds(20));
}

TEST_CASE("a GPU tool that fails five times is not started again") {
  const TemporaryDirectory folder;
  auto loop = EventLoop::create();
  REQUIRE(loop);
  const auto log = folder / "calls";
  const auto probe =
      GpuProbe::create(*loop, env_with_nvidia_smi(folder, "echo x >>" + log.string() + "; exit 9"));
  REQUIRE(probe);
  for (int i = 0; i < 10; ++i) {
    probe->tick(Clock::now() + seconds(6 * i));
    CHECK_FALSE(wait_for_readings(*loop, *probe));
  }
  CHECK(*read_file(log, 1000) == "x\nx\nx\nx\nx\n");
}

TEST_CASE(
    "the processor time of a process tree grows with its work, and an excluded process is not "
    "counted") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (;;) std::ignore = ::getppid();
  }
  const auto before = use_of_descendants_without(-1).cpu_ticks;
  const auto until = Clock::now() + seconds(30);
  ProcessTreeUse use;
  do {
    ::usleep(20'000);
    use = use_of_descendants_without(-1);
  } while (use.cpu_ticks < before + 10 && Clock::now() < until);
  CHECK(use.cpu_ticks >= before + 10);  // a tenth of a second of processor time
  CHECK(use.process_count == 1);
  CHECK(use.resident_bytes > 0);
  CHECK(use_of_descendants_without(child).process_count == 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a rewritten file holds the last content, and a missing folder is reported once") {
  const TemporaryDirectory folder;
  {
    RewrittenFile file(folder / "ranks.json");
    for (int i = 0; i <= 100; ++i) file.put(std::to_string(i));
    REQUIRE(file.drain(seconds(20)));
    CHECK(*read_file(folder / "ranks.json", 100) == "100");
    CHECK_FALSE(file.take_failure());
  }
  RewrittenFile lost(folder / "gone" / "ranks.json");
  for (int i = 0; i < 2; ++i) {
    lost.put("x");
    REQUIRE(lost.drain(seconds(20)));
    CHECK(lost.take_failure().has_value() == (i == 0));
  }
}

}  // namespace dlrun::agent
