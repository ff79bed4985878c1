#include "runtime/agent/node_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <stdlib.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/gpu_probe.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFileBytes = 4U << 20U;
constexpr milliseconds kGpuLimit{60'000};
constexpr milliseconds kClockLimit{5'000};

std::vector<std::string> ask_gpus(const Env& env) {
  Command command;
  command.argv = {"nvidia-smi", "--query-gpu=index,uuid,ecc.errors.uncorrected.volatile.total",
                  "--format=csv,noheader,nounits"};
  command.env = env;
  command.timeout = kGpuLimit;
  const auto done = run_command(command);
  if (!done) return {fmt::format("gpu: {}", done.error().message)};
  if (done->exit_code != 0) {
    const std::string output = done->out + done->err;
    const auto words = trim(output);
    return {fmt::format("gpu: nvidia-smi ended with {}: {}", done->exit_code,
                        printable(words.substr(0, words.find('\n'))))};
  }
  return gpu_problems(done->out, env.get("CUDA_VISIBLE_DEVICES"));
}

}  // namespace

std::optional<std::string> disk_problem(const std::string& folder) {
  const auto because = [&](int error) {
    return fmt::format("disk: cannot create a file in {}: {}", printable(folder),
                       std::generic_category().message(error));
  };
  std::string path = folder + "/.dlrun-check-XXXXXX";
  const UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) return because(errno);
  ::unlink(path.c_str());
  if (!write_all(file.get(), std::string(kFileBytes, '\0')) || ::fsync(file.get()) != 0)
    return because(errno);
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
    } else if ((word == "nccl" || word == "gloo") && checks.collective.empty()) {
      checks.collective = word;
    } else {
      return fail(Errc::kUsage, "--preflight '{}' is none of gpu, disk, clock, nccl (or gloo)",
                  printable(word));
    }
  }
  return checks;
}

std::vector<std::string> gpu_problems(std::string_view csv,
                                      std::optional<std::string_view> visible) {
  std::vector<std::string> problems;
  std::vector<GpuReading> all;
  std::set<std::int64_t> damaged;
  for (const auto line : split(csv, '\n')) {
    const auto fields = split(line, ',');
    if (fields.size() != 3) continue;
    const auto index = parse_int(trim(fields[0]));
    if (!index) continue;
    all.emplace_back();
    all.back().index = *index;
    all.back().uuid = trim(fields[1]);
    if (const auto errors = parse_int(trim(fields[2])); errors && *errors > 0)
      damaged.insert(*index);
  }
  if (all.empty()) return {"gpu: nvidia-smi lists none"};
  const std::size_t wanted = visible ? split(*visible, ',').size() : all.size();
  const auto mine = visible_gpus(std::move(all), visible);
  if (mine.size() < wanted) {
    problems.push_back(
        fmt::format("gpu: CUDA_VISIBLE_DEVICES is '{}', but nvidia-smi lists {} of them",
                    printable(*visible), mine.size()));
  }
  for (const auto& gpu : mine) {
    if (damaged.contains(gpu.index))
      problems.push_back(fmt::format("gpu: GPU {} ({}) has uncorrected memory errors", gpu.index,
                                     printable(gpu.uuid)));
  }
  return problems;
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
    for (auto& problem : ask_gpus(env)) problems.push_back(std::move(problem));
  }
  return problems;
}

std::optional<std::string> clock_problem(milliseconds node, milliseconds lead) {
  const auto ahead = node - lead;
  if (std::chrono::abs(ahead) <= kClockLimit) return std::nullopt;
  return fmt::format("clock: {:.1f} s {} lead's",
                     static_cast<double>(std::chrono::abs(ahead).count()) / 1000,
                     ahead.count() > 0 ? "ahead of" : "behind");
}

}  // namespace dlrun::agent
