#include "launcher/report/run_use.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "common/hostlist.h"
#include "common/units.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/plan/script_resources.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

constexpr double kMebi = 1024.0 * 1024;
constexpr double kMibPerGib = 1024;
/// A suggested amount is the largest use, multiplied by one of these factors.
constexpr double kMemoryRoom = 1.3, kCoresRoom = 1.2, kTimeRoom = 1.25;
/// A smaller amount is suggested only if it is below this fraction of the request.
constexpr double kWorthwhileFraction = 0.75;
/// GPUs that are busy for less than this percentage of the time wait often.
constexpr double kBusyGpuPercent = 50;
/// A run that uses less than this fraction of a GPU's memory could use a larger batch.
constexpr double kWellFilledGpuFraction = 0.4;
/// A use above this fraction of the request is close to the limit.
constexpr double kCloseToLimitFraction = 0.9;

/// Returns the time of the last event, progress report or sample of an attempt.
double last_time_of(const RunHistory& history, const AttemptHistory& attempt) {
  double last = attempt.begun;
  const auto take = [&](const auto& points) {
    for (const auto& point : points) {
      if (point.attempt == attempt.number) last = std::max(last, point.t);
    }
  };
  take(history.events());
  take(history.progress());
  take(history.samples());
  return last;
}

/// Sets the times of the attempts, the number of starts, and the hours of GPUs and cores.
void add_times(const UseFacts& facts, RunUse& use) {
  double start = 0;  // of the job that the present attempt runs in
  for (const AttemptHistory& attempt : facts.history.attempts()) {
    // Lead records the job's id once after each start of the job. So an attempt with a job id is
    // the first one after a start.
    if (use.start_count == 0 || !attempt.job.empty()) {
      start = attempt.begun;
      ++use.start_count;
    }
    const double end = attempt.ended.value_or(last_time_of(facts.history, attempt));
    use.seconds += std::max(end - attempt.begun, 0.0);
    use.longest_job_seconds = std::max(use.longest_job_seconds, end - start);
  }
  if (!facts.requested) return;
  const Requested& requested = facts.requested->whole_job;
  const double hours = use.seconds / 3600;
  if (requested.gpus && *requested.gpus > 0)
    use.gpu_hours = hours * static_cast<double>(*requested.gpus);
  if (requested.cpus) use.core_hours = hours * static_cast<double>(*requested.cpus);
}

/// Returns a limit that leaves room above `seconds`: whole 5 minutes, half hours or hours.
std::int64_t suggested_limit_seconds(double seconds) {
  const double wanted = seconds * kTimeRoom;
  const double step = wanted <= 3600 ? 300 : wanted <= 12 * 3600 ? 1800 : 3600;
  return static_cast<std::int64_t>(std::ceil(wanted / step) * step);
}

void add_time_row(const UseFacts& facts, bool advises, RunUse& use) {
  if (use.longest_job_seconds <= 0) return;
  ResourceRow row{.resource = "time", .used = fine_duration_text(use.longest_job_seconds)};
  if (use.start_count > 1)
    row.used += fmt::format(" in the longest of {} allocations", use.start_count);
  if (facts.requested && facts.requested->whole_job.time_seconds) {
    const auto limit = static_cast<double>(*facts.requested->whole_job.time_seconds);
    row.requested = format_time_limit(*facts.requested->whole_job.time_seconds);
    const auto suggested = suggested_limit_seconds(use.longest_job_seconds);
    if (advises && static_cast<double>(suggested) < kWorthwhileFraction * limit)
      row.advice = fmt::format("time: {}; Slurm can start a shorter job earlier",
                               format_time_limit(suggested));
    if (advises && use.longest_job_seconds > kCloseToLimitFraction * limit)
      row.advice = "this is close to the limit; a longer time is safer";
  }
  use.rows.push_back(std::move(row));
}

/// Returns the number of ranks on a node, rounded up. Assumes that the ranks are spread evenly.
double ranks_per_node(const UseFacts& facts) {
  const RunRecord& record = facts.status.facts.record;
  const auto hosts = expand_hostlist(record.hosts);
  double nodes = hosts && !hosts->empty() ? static_cast<double>(hosts->size()) : 0;
  if (nodes == 0 && facts.requested && facts.requested->whole_job.nodes)
    nodes = static_cast<double>(*facts.requested->whole_job.nodes);
  const auto ranks = static_cast<double>(std::max<std::int64_t>(record.ranks, 1));
  return std::ceil(ranks / std::max(nodes, 1.0));
}

/// Returns a memory size for a spec, rounded up: whole GiB, or a multiple of 64 MiB below one GiB.
std::string spec_memory(double mib) {
  if (mib < kMibPerGib) return fmt::format("{:.0f}M", std::ceil(mib / 64) * 64);
  return fmt::format("{:.0f}G", std::ceil(mib / kMibPerGib));
}

void add_memory_row(const UseFacts& facts, bool advises, RunUse& use) {
  double peak = 0;  // bytes of one node
  const double per_node = ranks_per_node(facts);
  for (const SamplesPoint& point : facts.history.samples()) {
    if (!point.rss_bytes) continue;
    const double all = point.rss_bytes->mean * static_cast<double>(point.ranks);
    peak = std::max(peak, std::min(point.rss_bytes->most * per_node, all));
  }
  if (peak <= 0) return;
  ResourceRow row{.resource = "memory of a node", .used = fine_memory_text(peak)};
  if (facts.requested && facts.requested->mem_mib) {
    const RequestedResources& requested = *facts.requested;
    row.requested = fine_memory_text(*requested.mem_mib * kMebi);
    const double wanted_mib = std::max(peak / kMebi * kMemoryRoom, 256.0);
    if (advises && wanted_mib < kWorthwhileFraction * *requested.mem_mib)
      row.advice = fmt::format("{}: {}", requested.mem_key,
                               spec_memory(wanted_mib / requested.units_per_node));
    if (advises && peak > kCloseToLimitFraction * *requested.mem_mib * kMebi)
      row.advice = "this is close to the limit; more memory is safer";
  }
  use.rows.push_back(std::move(row));
}

/// The sum and the integral over time of a value. Samples without the value are left out.
struct SampleSums {
  double sum = 0, count = 0;  ///< the sum of the values, and their number
  double area = 0;            ///< the integral of the value over `seconds`
  double seconds = 0;         ///< the time between samples of the same attempt
};

/// Adds up the samples. value_of(point) returns the value of a sample, or nullopt.
template <typename Value>
SampleSums sums_of_samples(const std::vector<SamplesPoint>& samples, const Value& value_of) {
  SampleSums all;
  double value_before = 0;
  const SamplesPoint* point_before = nullptr;
  for (const SamplesPoint& point : samples) {
    const std::optional<double> value = value_of(point);
    if (!value) continue;
    all.sum += *value;
    ++all.count;
    if (point_before != nullptr && point_before->attempt == point.attempt &&
        point.t > point_before->t) {
      const double between = point.t - point_before->t;
      all.area += (value_before + *value) / 2 * between;
      all.seconds += between;
    }
    value_before = *value;
    point_before = &point;
  }
  return all;
}

/// Returns the mean over time of a value; nullopt without samples. The time between two samples
/// grows during an attempt, so the mean of the samples would count the beginning too much.
std::optional<double> mean_over_time(const std::vector<SamplesPoint>& samples,
                                     std::optional<Spread> SamplesPoint::*field) {
  const SampleSums all = sums_of_samples(samples, [field](const SamplesPoint& point) {
    const auto& spread = point.*field;
    return spread ? std::optional<double>(spread->mean) : std::nullopt;
  });
  if (all.count == 0) return std::nullopt;
  return all.seconds > 0 ? all.area / all.seconds : all.sum / all.count;
}

void add_cores_row(const UseFacts& facts, bool advises, RunUse& use) {
  const auto mean = mean_over_time(facts.history.samples(), &SamplesPoint::cpu);
  if (!mean) return;
  double peak = 0;
  for (const SamplesPoint& point : facts.history.samples()) {
    if (point.cpu) peak = std::max(peak, point.cpu->most);
  }
  ResourceRow row{.resource = "cores of a rank",
                  .used = fmt::format("{} on average, {} at most", measurement_text(*mean),
                                      measurement_text(peak))};
  if (facts.requested && facts.requested->cpus_per_task) {
    const auto requested = static_cast<double>(*facts.requested->cpus_per_task);
    row.requested = fmt::format("{:.0f}", requested);
    const double wanted = std::max(std::ceil(peak * kCoresRoom), 1.0);
    if (advises && wanted < kWorthwhileFraction * requested)
      row.advice = fmt::format("cpus_per_task: {:.0f}", wanted);
    if (advises && *mean > kCloseToLimitFraction * requested)
      row.advice = "all cores are busy: more of them may make the run faster";
  }
  use.rows.push_back(std::move(row));
}

void add_gpu_rows(const UseFacts& facts, bool advises, RunUse& use) {
  const auto percent = mean_over_time(facts.history.samples(), &SamplesPoint::gpu);
  double peak_bytes = 0;
  for (const SamplesPoint& point : facts.history.samples()) {
    if (point.gpu_used_bytes) peak_bytes = std::max(peak_bytes, point.gpu_used_bytes->most);
  }
  const auto requested = facts.requested ? facts.requested->whole_job.gpus : std::nullopt;
  if (percent) {
    ResourceRow row{
        .resource = "GPUs",
        .requested = requested && *requested > 0 ? fmt::format("{}", *requested) : std::string(),
        .used = fmt::format("busy for {} of the time", fraction_as_percent_text(*percent / 100))};
    if (advises && *percent < kBusyGpuPercent)
      row.advice = "the GPUs wait often: speed up the input, or ask for fewer GPUs";
    use.rows.push_back(std::move(row));
  }
  if (peak_bytes <= 0) return;
  ResourceRow row{.resource = "GPU memory of a rank", .used = fine_memory_text(peak_bytes)};
  if (facts.gpu_memory_size_bytes && *facts.gpu_memory_size_bytes > 0) {
    row.requested = fine_memory_text(*facts.gpu_memory_size_bytes);
    if (advises && peak_bytes < kWellFilledGpuFraction * *facts.gpu_memory_size_bytes)
      row.advice = "a larger batch, or a smaller GPU, would fit";
  }
  use.rows.push_back(std::move(row));
}

}  // namespace

std::optional<RequestedResources> requested_resources(std::string_view script) {
  if (sbatch_lines(script).empty()) return std::nullopt;
  RequestedResources requested;
  requested.whole_job = requested_of_script(script);
  if (line_of_part_separator(script)) return requested;
  const Requested& all = requested.whole_job;
  if (all.cpus && all.tasks && *all.tasks > 0) requested.cpus_per_task = *all.cpus / *all.tasks;
  const auto per_node = [&](const std::optional<std::int64_t>& count) {
    return count && all.nodes && *all.nodes > 0
               ? static_cast<double>(*count) / static_cast<double>(*all.nodes)
               : 0.0;
  };
  struct Form {
    const char* option;
    const char* key;
    double units_per_node;
  };
  const std::array<Form, 3> forms{{{"--mem", "mem", 1},
                                   {"--mem-per-cpu", "mem_per_cpu", per_node(all.cpus)},
                                   {"--mem-per-gpu", "mem_per_gpu", per_node(all.gpus)}}};
  for (const Form& form : forms) {
    const auto text = sbatch_value(script, form.option, "");
    const auto mib = text ? memory_mib(*text) : std::nullopt;
    if (!mib || form.units_per_node <= 0) continue;
    requested.mem_mib = static_cast<double>(*mib) * form.units_per_node;
    requested.mem_key = form.key;
    requested.units_per_node = form.units_per_node;
    break;
  }
  return requested;
}

std::optional<double> gpu_joules_of(const std::vector<SamplesPoint>& samples) {
  const SampleSums watts = sums_of_samples(samples, [](const SamplesPoint& point) {
    return point.gpu_watts && *point.gpu_watts >= 0 ? point.gpu_watts : std::nullopt;
  });
  return watts.seconds > 0 ? std::optional<double>(watts.area) : std::nullopt;
}

RunUse use_of(const UseFacts& facts) {
  RunUse use;
  add_times(facts, use);
  const bool advises = facts.status.state == RunState::kCompleted;
  add_time_row(facts, advises, use);
  // The samples are those of one component and the request is that of all components, so they
  // cannot be compared.
  if (!facts.status.facts.record.components.empty()) return use;
  use.gpu_joules = gpu_joules_of(facts.history.samples());
  add_memory_row(facts, advises, use);
  add_cores_row(facts, advises, use);
  add_gpu_rows(facts, advises, use);
  return use;
}

}  // namespace dlrun
