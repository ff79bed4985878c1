#include "runtime/agent/gpu_probe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/pump.h"

namespace dlrun::agent {
namespace {

using std::chrono::seconds;

constexpr seconds kAskGpusEvery{5};
constexpr seconds kAnswerLimit{20};  // the tool is slow when the driver has a problem
constexpr int kFailuresLimit = 5;
constexpr std::size_t kToolTextLimitBytes = 64U << 10U;

/// Returns true for a list of visible devices that contains no device. Slurm writes such a list as
/// "NoDevFiles".
bool means_none(std::string_view visible) {
  return trim(visible).empty() || trim(visible) == "-1" || trim(visible) == "NoDevFiles";
}

}  // namespace

std::vector<GpuReading> visible_gpus(std::vector<GpuReading> all,
                                     std::optional<std::string_view> visible) {
  if (!visible) return all;
  if (means_none(*visible)) return {};
  std::vector<GpuReading> listed;
  for (const auto word : split(*visible, ',')) {
    const auto name = trim(word);
    const auto found = std::find_if(all.begin(), all.end(), [&](const GpuReading& reading) {
      const auto index = parse_int(name);
      return index ? reading.index == *index : !name.empty() && reading.uuid.starts_with(name);
    });
    if (found != all.end()) listed.push_back(*found);
  }
  return listed;
}

GpuScope gpu_scope(const Env& env, const World& world) {
  const auto visible = visible_devices(env);
  if (visible && means_none(*visible)) return GpuScope::kNone;
  const auto has_any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&](auto name) { return env.has(name); });
  };
  // Slurm gave this job no GPU. The GPUs of the node belong to other jobs.
  if (!visible && env.has("SLURM_JOB_ID") &&
      !has_any({"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"})) {
    return GpuScope::kNone;
  }
  if (world.local_size == 1 ||
      has_any({"SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_GPU_BIND"})) {
    return GpuScope::kOwn;
  }
  return world.local_rank == 0 ? GpuScope::kNode : GpuScope::kNone;
}

std::unique_ptr<GpuProbe> GpuProbe::create(EventLoop& loop, const Env& env) {
  auto tool = find_gpu_tool(env);
  if (!tool) return nullptr;
  std::unique_ptr<GpuProbe> probe(new GpuProbe(loop, env, std::move(*tool)));
  return probe->null_.is_open() ? std::move(probe) : nullptr;
}

GpuProbe::GpuProbe(EventLoop& loop, Env env, GpuTool tool)
    : loop_(loop),
      env_(std::move(env)),
      tool_(std::move(tool)),
      null_(::open("/dev/null", O_RDWR | O_CLOEXEC)) {
  env_.remove_matching({"DLRUN_SECRET"}, {});
}

GpuProbe::~GpuProbe() {
  stop_reading();
}

void GpuProbe::start(Clock::time_point now) {
  next_ = now + kAskGpusEvery;
  auto pipe = make_output_pipe();
  if (!pipe) return;
  std::vector<std::string> argv{tool_.program};
  argv.insert(argv.end(), tool_.usage_arguments.begin(), tool_.usage_arguments.end());
  Program program{.argv = std::move(argv),
                  .env = env_,
                  .in = null_.get(),
                  .out = pipe->write_end.get(),
                  .err = null_.get(),
                  .dies_with_us = true,
                  .is_routine = true};
  const auto pid = start_program(program);
  if (!pid) {
    ++failure_count_;
    return;
  }
  pid_ = *pid;
  kill_at_ = now + kAnswerLimit;
  text_.clear();
  out_ = std::move(pipe->read_end);
  watch_ = loop_.watch(out_.get(), EPOLLIN, [this](std::uint32_t) { read_some(); });
}

void GpuProbe::read_some() {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(out_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return stop_reading();
    if (text_.size() < kToolTextLimitBytes)
      text_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void GpuProbe::stop_reading() {
  if (watch_) loop_.unwatch(*watch_);
  watch_.reset();
  out_.reset();
}

bool GpuProbe::on_reaped(pid_t pid, int status) {
  if (pid != pid_) return false;
  if (out_.is_open()) read_some();
  stop_reading();
  pid_ = -1;
  auto readings = tool_.parse_usage(text_);
  const bool is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !readings.empty();
  failure_count_ = is_ok ? 0 : failure_count_ + 1;
  if (is_ok) readings_ = std::move(readings);
  return true;
}

void GpuProbe::tick(Clock::time_point now) {
  if (pid_ > 0) {
    if (now >= kill_at_) ::kill(pid_, SIGKILL);
    return;
  }
  if (now >= next_ && failure_count_ < kFailuresLimit) start(now);
}

std::optional<std::vector<GpuReading>> GpuProbe::take() {
  return std::exchange(readings_, std::nullopt);
}

}  // namespace dlrun::agent
