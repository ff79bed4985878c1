#include "launcher/submit/rehearsal_submission.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "launcher/runs/rehearsal.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

constexpr std::int64_t kShortestSeconds = 10, kLongestSeconds = 24 * 3600;
/// The time for the start of the ranks. The time limit of a rehearsal is this time plus the time
/// for which the programs run.
constexpr std::int64_t kStartSeconds = 300;
/// The part of kStartSeconds that must fit into the time limit of a partition.
constexpr std::int64_t kLeastStartSeconds = 60;
/// A rehearsal has this many ranks, or one rank if the run has only one.
constexpr std::int64_t kMostRehearsalRanks = 2;
constexpr std::size_t kLongestRunName = 64;  ///< the longest name of a run, in characters

/// Returns true if each node of the partition has at least `count` GPUs and, as far as the types
/// are known, GPUs of the requested type and of the types of the job's own partition. If `count` is
/// 0: returns true if the partition has no GPUs.
bool gpus_fit(const PartitionProfile& partition, const PartitionProfile* job_partition,
              const JobSpec& spec, std::int64_t count) {
  if (count == 0) return partition.gpus_per_node.value_or(0) == 0;
  if (partition.gpus_per_node.value_or(0) < count) return false;
  const auto& types = partition.gpu_types;
  const auto& wanted = spec.resources.gpus_per_node;
  if (wanted && !wanted->type.empty() && !types.empty() &&
      std::find(types.begin(), types.end(), wanted->type) == types.end())
    return false;
  return job_partition == nullptr || job_partition->gpu_types.empty() || types.empty() ||
         job_partition->gpu_types == types;
}

/// Returns the share of `count` GPUs that belongs to `ranks` of `all_ranks` ranks: at least 1, or 0
/// if `count` is 0.
std::int64_t gpus_of_ranks(std::int64_t count, std::int64_t all_ranks, std::int64_t ranks) {
  return count == 0 ? 0 : std::max<std::int64_t>(count * ranks / all_ranks, 1);
}

/// Returns the GPUs that `ranks` ranks on one node use. If the spec does not count them, returns 1,
/// or 0 for a job without GPUs.
std::int64_t gpus_used_on_node(const JobSpec& spec, const SiteProfile& site, std::int64_t ranks) {
  const Resources& r = spec.resources;
  const std::int64_t per_node = std::max<std::int64_t>(ranks_per_node(spec).value_or(1), 1);
  if (r.gpus_per_node) return gpus_of_ranks(r.gpus_per_node->count, per_node, ranks);
  if (r.gpus_per_task) return r.gpus_per_task->count * ranks;
  if (r.gpus) return gpus_of_ranks(r.gpus->count, per_node * (r.nodes ? r.nodes->min : 1), ranks);
  return has_gpus(spec, site).value_or(true) ? 1 : 0;
}

/// Returns the name of the run with "-rehearsal". Cuts a long name, because a name has a limit.
std::string name_of_rehearsal(std::string_view name) {
  constexpr std::string_view kEnding = "-rehearsal";
  return fmt::format("{}{}", name.substr(0, kLongestRunName - kEnding.size()), kEnding);
}

std::string gpus_text(const Gpus& gpus, std::int64_t count) {
  return gpus.type.empty() ? fmt::format("{}", count) : fmt::format("{}:{}", gpus.type, count);
}

Result<> check_can_rehearse(const LoadedSpec& loaded) {
  const JobSpec& spec = loaded.spec;
  const char* const why = spec.sweep.is_given() ? "has a sweep, whose points differ from each other"
                          : !spec.components.empty() ? "has components, which need all their nodes"
                          : !spec.launch.agent.value_or(true)
                              ? "has launch.agent: false, and only the agent can end a "
                                "rehearsal"
                          : !ranks_per_node(spec) ? "does not say how many ranks a node has; give "
                                                    "resources.tasks_per_node"
                                                  : nullptr;
  if (why != nullptr) return fail(Errc::kUsage, "--rehearse: {} {}", printable(loaded.file), why);
  return {};
}

/// Writes rehearsal.json of the run: the rehearsal's id and the run's requests. A failure is only a
/// warning, because both jobs are queued already.
void record_rehearsal_in_run(Reporter& reporter, const RunDirectory& rehearsal,
                             const RunDirectory& run, const JobSpec& spec) {
  RehearsalNote note;
  note.id = rehearsal.id;
  note.ranks_per_node = ranks_per_node(spec);
  note.mem_mib = memory_mib(spec.resources.mem.value_or("0")).value_or(0);
  if (*note.mem_mib == 0) note.mem_mib.reset();
  if (const auto time = parse_time_limit(spec.resources.time.value_or("")); time)
    note.time_s = *time;
  if (const auto written = write_rehearsal_note(run.path, note); !written)
    reporter.warning(
        fmt::format("the record of the run does not name its rehearsal, so `dlrun status` shows "
                    "no predictions: {}",
                    written.error().message));
}

}  // namespace

Result<RehearsalChoices> parse_rehearsal(std::string_view text) {
  const auto at = text.find('@');
  const auto seconds = parse_duration(text.substr(0, at));
  RehearsalChoices choices;
  choices.seconds = seconds.value_or(0);
  if (at != std::string_view::npos) choices.partition = std::string(text.substr(at + 1));
  const bool is_valid_partition =
      !choices.partition || (!choices.partition->empty() &&
                             std::all_of(choices.partition->begin(), choices.partition->end(),
                                         [](char c) { return c > ' ' && c < 0x7f && c != ','; }));
  if (choices.seconds < kShortestSeconds || choices.seconds > kLongestSeconds ||
      !is_valid_partition)
    return fail(Errc::kUsage,
                "--rehearse '{}': expected a time from 10s to 24h, such as 2m, or 2m@PARTITION",
                printable(text));
  return choices;
}

std::optional<std::string> short_partition(const SiteProfile& site, const JobSpec& spec,
                                           std::int64_t seconds, std::int64_t ranks) {
  const Resources& r = spec.resources;
  const auto found = site.partitions.find(r.partition.value_or(site.default_partition));
  const PartitionProfile* const job_partition =
      found == site.partitions.end() ? nullptr : &found->second;
  const std::int64_t gpus = gpus_used_on_node(spec, site, ranks);
  const auto mem = memory_mib(r.mem.value_or("0")).value_or(0);
  const std::string* best = nullptr;
  std::int64_t best_seconds = 0;
  for (const auto& [name, partition] : site.partitions) {
    const auto limit = partition.max_time_seconds;
    if (!limit || *limit < seconds + kLeastStartSeconds) continue;
    if (job_partition != nullptr && job_partition->max_time_seconds &&
        *limit >= *job_partition->max_time_seconds)
      continue;
    if (!gpus_fit(partition, job_partition, spec, gpus)) continue;
    if (partition.cpus_per_node && *partition.cpus_per_node < r.cpus_per_task.value_or(1) * ranks)
      continue;
    if (partition.mem_per_node_mib && *partition.mem_per_node_mib < mem) continue;
    if (best != nullptr && *limit >= best_seconds) continue;
    best = &name;
    best_seconds = *limit;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

Result<std::vector<std::string>> changes_for_rehearsal(const LoadedSpec& loaded,
                                                       std::string_view name,
                                                       const RehearsalChoices& choices) {
  DLRUN_TRY(check_can_rehearse(loaded));
  const JobSpec& spec = loaded.spec;
  const Resources& r = spec.resources;
  const std::int64_t per_node = *ranks_per_node(spec);
  const std::int64_t nodes = r.nodes ? r.nodes->min : 1;
  const bool fits_one_node = per_node >= kMostRehearsalRanks;
  const std::int64_t rehearsal_per_node = fits_one_node ? kMostRehearsalRanks : 1;
  const std::int64_t rehearsal_nodes = fits_one_node ? 1 : std::min(nodes, kMostRehearsalRanks);
  auto limit_seconds = choices.seconds + kStartSeconds;
  const auto partition =
      choices.partition ? choices.partition
                        : short_partition(loaded.site, spec, choices.seconds, rehearsal_per_node);
  const auto profile = loaded.site.partitions.find(partition.value_or(""));
  if (profile != loaded.site.partitions.end() && profile->second.max_time_seconds)
    limit_seconds = std::min(limit_seconds, *profile->second.max_time_seconds);

  std::vector<std::string> changes;
  const auto set = [&](std::string_view key, std::string_view value) {
    changes.push_back(fmt::format("{}={}", key, value));
  };
  // These keys would contradict the smaller job, delay it, or let it change the results of the run.
  for (const std::string_view key :
       {"resources.ntasks"_key, "resources.spare_nodes"_key, "resources.nodelist"_key,
        "resources.reservation"_key, "resources.begin"_key, "checkpoint.signal_before"_key,
        "checkpoint.dir"_key, "retry.on"_key, "outputs"_key}) {
    if (loaded.spec.origins.contains(key)) set(key, "null");
  }
  set("name"_key, name_of_rehearsal(name));
  set("resources.nodes"_key, fmt::format("{}", rehearsal_nodes));
  set("resources.tasks_per_node"_key, fmt::format("{}", rehearsal_per_node));
  set("resources.time"_key, fmt::format("{}s", limit_seconds));
  if (partition) set("resources.partition"_key, *partition);
  if (r.gpus_per_node)
    set("resources.gpus_per_node"_key,
        gpus_text(*r.gpus_per_node,
                  gpus_of_ranks(r.gpus_per_node->count, per_node, rehearsal_per_node)));
  if (r.gpus)
    set("resources.gpus"_key,
        gpus_text(*r.gpus, gpus_of_ranks(r.gpus->count, per_node * nodes,
                                         rehearsal_per_node * rehearsal_nodes)));
  return changes;
}

Result<SubmittedSequence> submit_run_and_rehearsal(Context& context, Reporter& reporter,
                                                   RunInspector& inspector,
                                                   const SpecOptions& options,
                                                   const RehearsalChoices& choices) {
  DLRUN_TRY(refuse_remote_call(context, "--rehearse"));
  if (options.file == "-")
    return fail(Errc::kUsage, "--rehearse: reads the spec twice; give a file instead of -");
  DLRUN_TRY_ASSIGN(auto job, job_of_spec_file(context, reporter, options));
  const JobSpec spec = job.experiment->loaded.spec;
  DLRUN_TRY_ASSIGN(const auto changes,
                   changes_for_rehearsal(job.experiment->loaded, job.name, choices));
  SpecOptions rehearsal_options = options;
  rehearsal_options.set_arguments.insert(rehearsal_options.set_arguments.end(), changes.begin(),
                                         changes.end());
  rehearsal_options.rehearsal_s = choices.seconds;
  DLRUN_TRY_ASSIGN(auto rehearsal, job_of_spec_file(context, reporter, rehearsal_options));
  SubmittedSequence sequence;
  DLRUN_TRY_ASSIGN(auto first, submit_planned(context, reporter, inspector, std::move(rehearsal)));
  sequence.submitted.push_back(std::move(first));
  if (sequence.submitted.front().is_interrupted) return sequence;
  const RunDirectory rehearsal_run = sequence.submitted.front().run;
  add_dependency_on_run(job, rehearsal_run, "--rehearse");
  auto submitted_run = submit_planned(context, reporter, inspector, std::move(job));
  if (!submitted_run) {
    sequence.failure = std::move(submitted_run.error());
    sequence.advice = fmt::format(
        "the run itself was not submitted; its rehearsal stays queued. `{}` submits the run",
        command_that_submits_run(options, sequence.submitted.front()));
    return sequence;
  }
  record_rehearsal_in_run(reporter, rehearsal_run, submitted_run->run, spec);
  sequence.submitted.push_back(std::move(*submitted_run));
  return sequence;
}

std::string command_that_submits_run(const SpecOptions& options, const Submitted& rehearsal) {
  std::vector<std::string> runs_before;
  if (rehearsal.job.experiment) runs_before = rehearsal.job.experiment->loaded.spec.after.ok;
  runs_before.push_back(rehearsal.run.handle());
  return command_that_submits(options, runs_before);
}

}  // namespace dlrun
