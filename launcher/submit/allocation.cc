#include "launcher/submit/allocation.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/job_fields.h"
#include "common/job_id.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/classify.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// Returns the value of a field such as "NumNodes=2" in scontrol's output; "" if it is missing.
std::string_view field_in(std::string_view details, std::string_view name) {
  const std::string wanted = fmt::format("{}=", name);
  for (std::size_t at = details.find(wanted); at != std::string_view::npos;
       at = details.find(wanted, at + 1)) {
    const bool is_start = at == 0 || details[at - 1] == ' ' || details[at - 1] == '\n';
    if (!is_start) continue;
    const auto value = details.substr(at + wanted.size());
    return value.substr(0, value.find_first_of(" \n"));
  }
  return {};
}

/// Returns the value of one resource in a list such as "cpu=4,mem=8G,gres/gpu=2".
std::optional<std::string_view> resource_in(std::string_view list, std::string_view name) {
  for (const auto one : split(list, ',')) {
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Returns the number of GPUs; nullopt if Slurm does not report it.
std::optional<std::int64_t> gpus_in(std::string_view details, std::string_view resources) {
  if (const auto counted = resource_in(resources, "gres/gpu")) return parse_int(*counted);
  const auto gres = field_in(details, "JOB_GRES");
  if (gres.empty()) return std::nullopt;
  return gres == "(null)" ? 0 : gpus_in_gres(gres);
}

/// Returns the output of a command of Slurm, or "" if Slurm does not know the job. Fails with the
/// message of the command.
Result<std::string> slurm_output(const Context& context, std::vector<std::string> argv) {
  Command command;
  const std::string name = argv.front();
  command.argv = std::move(argv);
  command.env = scrubbed_for_slurm(context.env, munge_is_available());
  DLRUN_TRY_ASSIGN(auto done, run_command(command));
  if (done.exit_code != 0) {
    if (says_unknown_job(done.err)) return std::string();
    return tl::unexpected(slurm_error(name, done.err, done.exit_code));
  }
  return std::move(done.out);
}

}  // namespace

Result<Allocation> parse_allocation(std::string_view squeue, std::string_view scontrol,
                                    std::string_view job, uid_t user) {
  constexpr std::size_t kFields = 8;
  const auto line = trim(squeue);
  const auto fields = split(line.substr(0, line.find('\n')), '|');
  if (fields.size() != kFields) {
    return fail(Errc::kNotFound, "Slurm has no running job {}; `squeue --me` lists your jobs", job);
  }
  if (parse_int(fields[1]) != static_cast<std::int64_t>(user))
    return fail(Errc::kUsage,
                "job {} belongs to another user (id {}); your run can start only in a job of yours",
                job, printable(fields[1]));
  if (fields[2] != "RUNNING")
    return fail(Errc::kUsage, "job {} is {}; a run can start in a running job only", job,
                printable(fields[2]));
  Allocation allocation;
  allocation.job = fields[0];
  const auto nodes = parse_int(fields[3]), cpus = parse_int(fields[4]);
  if (!is_slurm_job_id(allocation.job) || !nodes || !cpus || *nodes < 1 || *cpus < 1 ||
      fields[7].empty())
    return fail(Errc::kUnavailable, "squeue does not describe job {}: {}", job, printable(line));
  allocation.nodes = *nodes;
  allocation.cpus = *cpus;
  allocation.partition = fields[5];
  allocation.end = fields[6];
  allocation.node_list = fields[7];
  const std::string details = fields_of_jobs(scontrol);
  auto resources = field_in(details, "AllocTRES");
  if (resources.empty()) resources = field_in(details, "TRES");
  if (const auto memory = resource_in(resources, "mem"))
    allocation.memory_mib = memory_mib(*memory);
  allocation.gpus = gpus_in(details, resources);
  const auto restarts = parse_int(field_in(details, "Restarts"));
  if (restarts && *restarts > 0 && *restarts < std::numeric_limits<int>::max())
    allocation.restarts = static_cast<int>(*restarts);
  return allocation;
}

Result<Allocation> find_allocation(const Context& context, const std::string& job) {
  if (!is_slurm_job_id(job))
    return fail(Errc::kUsage, "'{}' is not the id of a Slurm job; `squeue --me` lists your jobs",
                printable(job));
  DLRUN_TRY_ASSIGN(const auto listed, slurm_output(context, {"squeue", "-h", "-j", job, "-o",
                                                             std::string(kAllocationFormat)}));
  DLRUN_TRY_ASSIGN(auto allocation, parse_allocation(listed, "", job, ::geteuid()));
  DLRUN_TRY_ASSIGN(const auto details,
                   slurm_output(context, {"scontrol", "--details", "show", "job", allocation.job}));
  return parse_allocation(listed, details, job, ::geteuid());
}

std::vector<Diagnostic> unfulfilled_requests(const Experiment& experiment,
                                             const Allocation& allocation) {
  std::vector<Diagnostic> found;
  const LoadedSpec& loaded = experiment.loaded;
  const Resources& r = loaded.spec.resources;
  const Requested& wanted = experiment.plan.requested;
  /// Adds an error. what: the message up to the job's id.
  const auto add_error = [&](std::string_view key, const std::string& what) {
    const auto origin = loaded.spec.origins.find(key);
    Diagnostic one;
    one.where = origin != loaded.spec.origins.end()
                    ? origin->second
                    : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
    one.line = source_line_of(loaded, one.where);
    one.message = fmt::format("{}: {} {}", key, what, allocation.job);
    one.key = key;
    found.push_back(std::move(one));
  };
  const std::int64_t nodes = r.nodes ? r.nodes->min + r.spare_nodes.value_or(0) : 1;
  if (nodes > allocation.nodes)
    add_error("resources.nodes"_key,
              fmt::format("the run needs {} nodes{}, but there are {} ({}) in job", nodes,
                          r.spare_nodes.value_or(0) > 0 ? " with its spare nodes" : "",
                          allocation.nodes, allocation.node_list));
  const std::int64_t cpus = wanted.cpus.value_or(wanted.tasks.value_or(1));
  if (cpus > allocation.cpus)
    add_error(
        r.cpus_per_task ? "resources.cpus_per_task"_key
        : r.ntasks      ? "resources.ntasks"_key
                        : "resources.tasks_per_node"_key,
        fmt::format("the ranks need {} CPUs, but there are {} in job", cpus, allocation.cpus));
  if (wanted.gpus && allocation.gpus && *wanted.gpus > *allocation.gpus)
    add_error(r.gres            ? "resources.gres"_key
              : r.gpus          ? "resources.gpus"_key
              : r.gpus_per_task ? "resources.gpus_per_task"_key
                                : "resources.gpus_per_node"_key,
              fmt::format("the run needs {} GPUs, but there are {} in job", *wanted.gpus,
                          *allocation.gpus));
  if (const auto memory = memory_mib(r.mem.value_or("0"));
      memory && allocation.memory_mib && *memory * nodes > *allocation.memory_mib)
    add_error("resources.mem"_key, fmt::format("the run needs {} MiB, but there are {} MiB in job",
                                               *memory * nodes, *allocation.memory_mib));
  const auto available = expand_hostlist(allocation.node_list).value_or(std::vector<std::string>());
  for (const auto& node :
       expand_hostlist(r.nodelist.value_or("")).value_or(std::vector<std::string>())) {
    if (std::find(available.begin(), available.end(), node) == available.end())
      add_error("resources.nodelist"_key, fmt::format("{} is not a node of job", node));
  }
  return found;
}

void set_allocation_variables(Env& env, const LaunchPlan& plan, const Allocation& allocation,
                              const std::string& cluster) {
  const auto nodes = fmt::format("{}", allocation.nodes);
  const std::int64_t cpus = std::max<std::int64_t>(allocation.cpus / allocation.nodes, 1);
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) env.set(name, allocation.job);
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    env.set(name, allocation.node_list);
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) env.set(name, nodes);
  env.set("SLURM_JOB_PARTITION", allocation.partition);
  if (!cluster.empty()) env.set("SLURM_CLUSTER_NAME", cluster);
  env.set("SLURM_JOB_CPUS_PER_NODE", fmt::format("{}(x{})", cpus, nodes));
  env.set("SLURM_CPUS_ON_NODE", fmt::format("{}", cpus));
  env.set("SLURM_TASKS_PER_NODE", fmt::format("{}(x{})", plan.local_ranks, nodes));
  if (plan.requested.tasks) {
    for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"})
      env.set(name, fmt::format("{}", *plan.requested.tasks));
  }
  env.set("SLURM_RESTART_COUNT", fmt::format("{}", allocation.restarts));
}

}  // namespace dlrun
