#include "runtime/agent/process_usage.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/agent/descendants.h"

namespace dlrun::agent {
namespace {

constexpr std::chrono::milliseconds kSampleEvery{2500};
constexpr std::chrono::seconds kLongestSamplePause{30};
/// The shortest pause between samples, as a multiple of a sample's processor time.
constexpr int kSamplePauseFactor = 200;

/// Returns the processor time of this thread. Wall-clock time would overestimate the cost of a
/// sample on a busy machine.
std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::optional<ProcessUsage> ProcessUsageMeter::sample(pid_t excluded, Clock::time_point now) {
  if (now < next_sample_) return std::nullopt;
  const auto begin = thread_cpu_time();
  const ProcessTreeUse use = use_of_descendants_without(excluded);
  next_sample_ = now + std::clamp<Clock::duration>(kSamplePauseFactor * (thread_cpu_time() - begin),
                                                   kSampleEvery, kLongestSamplePause);
  const auto previous_ticks = std::exchange(previous_ticks_, use.cpu_ticks);
  const auto elapsed_s =
      std::chrono::duration<double>(now - std::exchange(previous_sample_, now)).count();
  if (!previous_ticks || elapsed_s <= 0 || use.process_count == 0) return std::nullopt;
  // The time of a process for which no parent waits is lost, so the sum may shrink.
  const std::uint64_t ticks = use.cpu_ticks > *previous_ticks ? use.cpu_ticks - *previous_ticks : 0;
  static const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ProcessUsage{static_cast<double>(ticks) / ticks_per_s / elapsed_s, use.resident_bytes};
}

}  // namespace dlrun::agent
