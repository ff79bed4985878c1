#include "runtime/agent/process_facts.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kProcLimitBytes = 64U << 10U;
constexpr std::size_t kCommandLimitBytes = 400;

std::string read_text(const std::filesystem::path& path) {
  auto text = read_file(path, kProcLimitBytes);
  return text ? std::string(trim(*text)) : std::string();
}

/// Returns the value of a field of /proc/PID/status, such as "S (sleeping)" of "State:".
std::string_view field_of_status(std::string_view status, std::string_view name) {
  for (const auto line : split(status, '\n')) {
    if (line.starts_with(name)) return trim(line.substr(name.size()));
  }
  return {};
}

ThreadFacts read_thread(pid_t id, const std::filesystem::path& folder) {
  ThreadFacts thread{.id = id};
  const auto status = read_text(folder / "status");
  thread.name = printable(field_of_status(status, "Name:"));
  if (const auto state = field_of_status(status, "State:"); !state.empty())
    thread.state = state.front();
  thread.waits_in = read_text(folder / "wchan");
  if (thread.waits_in == "0") thread.waits_in.clear();
  thread.system_call = read_text(folder / "syscall");
  thread.kernel_stack = read_text(folder / "stack");
  return thread;
}

std::string_view phrase_of(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
    case 'I':
      return "sleeps";
    case 'D':
      return "waits for a device or a file system";
    case 'T':
      return "is suspended";
    case 't':
      return "is stopped by a debugger";
    case 'Z':
    case 'X':
      return "is dead";
    default:
      return "is in an unknown state";
  }
}

}  // namespace

ProcessFacts read_process(pid_t pid, const std::filesystem::path& proc) {
  ProcessFacts process{.pid = pid};
  const auto folder = proc / std::to_string(pid);
  process.command = read_text(folder / "cmdline");
  std::replace(process.command.begin(), process.command.end(), '\0', ' ');
  process.command = printable(std::string_view(process.command).substr(0, kCommandLimitBytes));
  const auto status = read_text(folder / "status");
  const auto resident = field_of_status(status, "VmRSS:");
  const auto kib = parse_int(resident.substr(0, resident.find(' '))).value_or(0);
  process.resident_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(kib, 0)) * 1024;
  std::vector<pid_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator threads(folder / "task", error), end;
       !error && threads != end; threads.increment(error)) {
    if (const auto id = parse_int(threads->path().filename().string()))
      ids.push_back(static_cast<pid_t>(*id));
  }
  process.thread_count = ids.size();
  std::sort(ids.begin(), ids.end(),
            [pid](pid_t a, pid_t b) { return (a != pid ? a : 0) < (b != pid ? b : 0); });
  if (ids.size() > kThreadsLimit) ids.resize(kThreadsLimit);
  for (const pid_t id : ids)
    process.threads.push_back(read_thread(id, folder / "task" / std::to_string(id)));
  return process;
}

std::string describe(const ThreadFacts& thread) {
  const auto number = thread.system_call.substr(0, thread.system_call.find(' '));
  std::string text(phrase_of(thread.state));
  if (!thread.waits_in.empty()) text += " in " + printable(thread.waits_in);
  if (parse_int(number)) text += fmt::format(" (system call {})", number);
  return text;
}

std::string to_text(const ProcessFacts& process) {
  std::string text = fmt::format(
      "process {}: {}\n  {:.1f} MiB resident, {} threads\n", process.pid, process.command,
      static_cast<double>(process.resident_bytes) / (1U << 20U), process.thread_count);
  for (const auto& thread : process.threads) {
    text += fmt::format("  thread {} ({}) {}\n", thread.id, thread.name, describe(thread));
    if (thread.kernel_stack.empty()) continue;
    for (const auto line : split(thread.kernel_stack, '\n'))
      text += fmt::format("    {}\n", printable(trim(line)));
  }
  return text;
}

}  // namespace dlrun::agent
