// Saves the stacks of a hung rank's processes while they are still alive.
#include "runtime/agent/autopsy.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "common/bounded_json.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/nccl_reports.h"
#include "runtime/agent/process_facts.h"
#include "runtime/agent/stack_dump.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

/// Time limit for the stacks of one process. One dump that takes all of this time fits into lead's
/// limit (AutopsyBoard::kLimit). If several dumps take so long, lead no longer waits for this
/// rank's answer.
constexpr milliseconds kDumpLimit{8000};
constexpr milliseconds kReportLimit{1500};  ///< time for NCCL, and for torch, to answer
/// Number of processes to dump, the largest first. The other processes are mostly workers of a data
/// loader, and their stacks are all alike.
constexpr std::size_t kDumpedProcesses = 4;
constexpr std::size_t kStacksLimitBytes = 2U << 20U;

/// Returns text with terminal control characters escaped, line by line.
std::string safe_lines(std::string_view text) {
  std::string safe;
  for (const auto line : split(text, '\n')) safe += printable(line) + "\n";
  return safe;
}

/// Reads the processes that still exist, the largest first.
std::vector<ProcessFacts> read_processes(const std::vector<pid_t>& pids) {
  std::vector<ProcessFacts> processes;
  for (const pid_t pid : pids) {
    auto process = read_process(pid);
    if (!process.threads.empty()) processes.push_back(std::move(process));
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [](const ProcessFacts& a, const ProcessFacts& b) {
                     return a.resident_bytes > b.resident_bytes;
                   });
  return processes;
}

}  // namespace

int run_autopsy(const AutopsyOptions& options, const Env& env) {
  // The autopsy adds lines to the log of the rank's agent. An error is ignored here, because the
  // agent has reported the same error.
  if (const auto log =
          prepare_job_log(env, env.get_or("DLRUN_RUN", ""),
                          rank_debug_log_name(component_of(env), "rank", options.rank)))
    std::ignore = open_log(fmt::format("autopsy {}", options.rank), *log, env);
  std::string text;
  std::vector<std::string> frames;
  const auto processes = read_processes(options.pids);
  if (const auto made = make_private_directories(options.file.parent_path()); !made)
    text += made.error().message;
  for (std::size_t i = 0; i < processes.size() && text.size() < kStacksLimitBytes; ++i) {
    const auto& process = processes[i];
    text += to_text(process);
    if (i >= kDumpedProcesses) continue;
    auto scratch = options.file;
    scratch += ".stacks";
    const auto dump = dump_stacks(process.pid, env, scratch, kDumpLimit);
    text += dump.text + "\n";
    if (i == 0)
      frames = dump.frames.empty() ? std::vector{describe(process.threads.front())} : dump.frames;
  }
  if (processes.empty()) text += "the rank has no process any more\n";
  if (!processes.empty()) {
    auto trace = options.file;
    trace.replace_extension(".nccl-trace");
    if (copy_flight_record(environment_of(processes.front().pid), options.rank, trace,
                           kReportLimit))
      text += fmt::format("torch's flight recorder: {}\n", trace.filename().string());
  }
  if (options.asks_ras) {
    if (const auto answer = ask_nccl_ras(kReportLimit))
      text += "NCCL's RAS says:\n" + safe_lines(*answer);
  }
  text.resize(std::min(text.size(), kStacksLimitBytes));
  const auto written = write_file_atomic(options.file, text);
  const Json line{{"frames", frames}, {"pid", processes.empty() ? 0 : processes.front().pid}};
  std::ignore =
      write_all(STDOUT_FILENO, line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  return written ? 0 : 1;
}

std::vector<std::string> frames_of_line(std::string_view line) {
  return frames_of(parse_json<Json>(line));
}

std::vector<std::string> frames_of(const Json& object) {
  std::vector<std::string> frames;
  const auto found = object.is_object() ? object.find("frames") : object.end();
  if (!object.is_object() || found == object.end() || !found->is_array()) return frames;
  for (const auto& frame : *found) {
    if (frames.size() >= kFramesLimit || !frame.is_string()) break;
    frames.push_back(printable(frame.get<std::string>().substr(0, kFrameLimitBytes)));
  }
  return frames;
}

}  // namespace dlrun::agent
