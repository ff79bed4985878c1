#include "runtime/agent/node_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <stdlib.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/binding_check.h"
#include "runtime/agent/gpu_probe.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kTestFileBytes = 4U << 20U;
constexpr milliseconds kGpuToolTimeout{60'000};
constexpr milliseconds kLargestClockDifference{5'000};

/// Returns the problems of the GPUs in the list `visible`; nullopt: of all GPUs. tool: the
/// program's name, for messages.
std::vector<std::string> problems_of_visible_gpus(std::vector<GpuReading> all,
                                                  std::optional<std::string_view> visible,
                                                  std::string_view tool) {
  std::vector<std::string> problems;
  if (all.empty()) return {fmt::format("gpu: {} lists no GPU", tool)};
  const std::size_t wanted = visible ? split(*visible, ',').size() : all.size();
  const auto mine = visible_gpus(std::move(all), visible);
  if (mine.size() < wanted) {
    problems.push_back(fmt::format(
        "gpu: {} is '{}', but {} lists {} of them",
        tool == "nvidia-smi" ? "CUDA_VISIBLE_DEVICES" : "the list of visible devices",
        printable(*visible), tool, mine.empty() ? "none" : fmt::to_string(mine.size())));
  }
  for (const auto& gpu : mine) {
    if (gpu.uncorrected_errors.value_or(0) > 0)
      problems.push_back(fmt::format("gpu: GPU {} ({}) has uncorrected memory errors", gpu.index,
                                     printable(gpu.uuid)));
  }
  return problems;
}

std::vector<std::string> gpu_problems_here(const Env& env) {
  const auto tool = find_gpu_tool(env);
  if (!tool) return {fmt::format("gpu: {}", kNoGpuTool)};
  const auto answer = ask_gpu_tool(env, *tool, tool->memory_error_arguments);
  if (!answer) return {fmt::format("gpu: {}", answer.error().message)};
  return problems_of_visible_gpus(tool->parse_memory_errors(*answer), visible_devices(env),
                                  tool->name());
}

/// Returns the last line that is not blank, shortened and escaped for a message.
std::string last_line(std::string_view text) {
  constexpr std::size_t kMostOfALine = 200;
  const auto words = trim(text);
  const auto start = words.rfind('\n');
  return printable(
      words.substr(start == std::string_view::npos ? 0 : start + 1).substr(0, kMostOfALine));
}

}  // namespace

Result<std::string> ask_gpu_tool(const Env& env, const GpuTool& tool,
                                 const std::vector<std::string>& arguments) {
  Command command;
  command.argv = {tool.program};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = env;
  command.env.unset("DLRUN_SECRET");
  command.timeout = kGpuToolTimeout;
  DLRUN_TRY_ASSIGN(auto done, run_command(command));
  if (done.exit_code == 0) return std::move(done.out);
  const std::string output = done.out + done.err;
  const auto words = trim(output);
  return fail(Errc::kUnavailable, "{} ended with {}: {}", tool.name(), done.exit_code,
              printable(words.substr(0, words.find('\n'))));
}

std::optional<std::string> user_check_problem(const std::string& line, const Env& env,
                                              milliseconds limit) {
  Command command;
  command.argv = {"sh", "-c", line};
  command.env = env;
  command.env.unset("DLRUN_SECRET");
  command.timeout = limit;
  constexpr std::size_t kMostShown = 100;
  const std::string shown =
      printable(line.substr(0, kMostShown)) + (line.size() > kMostShown ? "..." : "");
  const auto done = run_command(command);
  if (!done) return fmt::format("run: '{}': {}", shown, done.error().message);
  if (done->exit_code == 0) return std::nullopt;
  const auto words = last_line(trim(done->err).empty() ? done->out : done->err);
  return fmt::format("run: '{}' ended with {}{}", shown, done->exit_code,
                     words.empty() ? "" : fmt::format(" [{}]", words));
}

std::optional<std::string> disk_problem(const std::string& folder) {
  const auto sentence = [&](std::string_view action, int error) {
    return fmt::format("disk: cannot {} in {}: {}", action, printable(folder),
                       std::generic_category().message(error));
  };
  std::string path = folder + "/.dlrun-check-XXXXXX";
  const UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) return sentence("create a file", errno);
  ::unlink(path.c_str());
  if (!write_all(file.get(), std::string(kTestFileBytes, '\0')) || ::fsync(file.get()) != 0)
    return sentence("write a file of 4 MiB", errno);
  return std::nullopt;
}

Result<NodeChecks> NodeChecks::parse(std::string_view words) {
  NodeChecks checks;
  for (const auto word : split(words, ',')) {
    if (word == "gpu") {
      checks.gpu = true;
    } else if (word == "disk") {
      checks.disk = true;
    } else if (word == "clock") {
      checks.clock = true;
    } else if (word == "binding") {
      checks.binding = true;
    } else if (word == "fabric") {
      checks.fabric = true;
    } else if (word == "run") {
      // Stands for the user's shell lines, which come from the options --preflight-run.
    } else if (word == "nccl" || word == "rccl" || word == "gloo") {
      if (!checks.collective.empty())
        return fail(Errc::kUsage,
                    "--preflight has '{}' and '{}', but takes only one of nccl, rccl and gloo",
                    checks.collective, word);
      checks.collective = word;
    } else {
      return fail(Errc::kUsage,
                  "--preflight '{}' is none of gpu, disk, clock, binding, fabric, run, "
                  "nccl (or rccl, gloo)",
                  printable(word));
    }
  }
  return checks;
}

std::vector<std::string> gpu_problems(std::string_view csv,
                                      std::optional<std::string_view> visible) {
  const GpuTool tool;
  return problems_of_visible_gpus(tool.parse_memory_errors(csv), visible, "nvidia-smi");
}

std::vector<std::string> node_problems(const NodeChecks& checks, const Env& env,
                                       const World& world) {
  std::vector<std::string> problems;
  if (checks.disk && world.local_rank == 0) {
    for (const std::string& folder :
         {env.get_or("DLRUN_RUN", ""), env.get_or("TMPDIR", "/tmp"), std::string("/dev/shm")}) {
      if (folder.empty()) continue;
      if (auto problem = disk_problem(folder)) problems.push_back(std::move(*problem));
    }
  }
  if (checks.gpu && gpu_scope(env, world) != GpuScope::kNone) {
    for (auto& problem : gpu_problems_here(env)) problems.push_back(std::move(problem));
  }
  const auto add = [&](std::vector<std::string> found) {
    for (auto& problem : found) problems.push_back(std::move(problem));
  };
  if (checks.binding) add(binding_problems(env, world, "/sys/bus/pci/devices"));
  if (checks.fabric) add(fabric_problems(checks.figures, env, world, "/sys/class/infiniband"));
  if (world.local_rank != 0) return problems;
  for (const std::string& line : checks.user_lines) {
    if (auto problem = user_check_problem(line, env)) problems.push_back(std::move(*problem));
  }
  return problems;
}

std::optional<std::string> clock_problem(milliseconds node, milliseconds lead) {
  const auto ahead = node - lead;
  if (std::chrono::abs(ahead) <= kLargestClockDifference) return std::nullopt;
  return fmt::format("clock: {:.1f} s {} lead's",
                     static_cast<double>(std::chrono::abs(ahead).count()) / 1000,
                     ahead.count() > 0 ? "ahead of" : "behind");
}

}  // namespace dlrun::agent
