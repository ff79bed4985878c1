#include "launcher/doctor/findings.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/rest_version.h"
#include "launcher/spec/value_syntax.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// Returns true if Slurm has --gpus-per-node and similar options. Only the plugin cons_tres
/// supports them; with other plugins, jobs request GPUs by --gres.
[[nodiscard]] bool has_gpu_options(const ClusterFacts& facts) {
  return facts.setting("SelectType").ends_with("cons_tres");
}

[[nodiscard]] std::int64_t most_gpus_per_node(const ClusterFacts& facts) {
  std::int64_t most = 0;
  for (const PartitionFacts& partition : facts.partitions)
    most = std::max(most, partition.gpus_per_node.value_or(0));
  return most;
}

[[nodiscard]] std::string container_runtime(const ClusterFacts& facts) {
  if (facts.has_pyxis) return "pyxis";
  return facts.container_tools.empty() ? "none" : facts.container_tools.front().first;
}

/// Returns a POSIX extended regular expression that matches only this text.
[[nodiscard]] std::string escaped_for_regex(std::string_view text) {
  std::string expression;
  for (char c : text) {
    if (std::string_view(".[]{}()*+?|^$\\").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
}

[[nodiscard]] std::string partition_line(const PartitionFacts& partition) {
  std::vector<std::string> parts;
  if (partition.gpus_per_node)
    parts.push_back(fmt::format("gpus_per_node: {}", *partition.gpus_per_node));
  std::vector<std::string> types;
  for (const std::string& type : partition.gpu_types) {
    if (check_gpu_type(type)) types.push_back(yaml_text(type));
  }
  if (!types.empty()) parts.push_back(fmt::format("gpu_types: [{}]", join(types, ", ")));
  if (partition.cpus_per_node)
    parts.push_back(fmt::format("cpus_per_node: {}", *partition.cpus_per_node));
  // A node whose configuration states no memory reports one mebibyte.
  if (partition.mem_per_node_mib.value_or(1) > 1)
    parts.push_back(fmt::format("mem_per_node: {}M", *partition.mem_per_node_mib));
  if (partition.max_nodes) parts.push_back(fmt::format("max_nodes: {}", *partition.max_nodes));
  if (partition.max_time_seconds)
    parts.push_back("time: " + yaml_text(format_time_limit(*partition.max_time_seconds)));
  return fmt::format("  {}: {{{}}}\n", yaml_text(partition.name), join(parts, ", "));
}

using Kind = Finding::Kind;

/// Collects findings in the order of the calls.
class Findings {
 public:
  void add(Kind kind, std::string what, std::string is, std::string means) {
    found_.push_back({kind, std::move(what), std::move(is), std::move(means)});
  }
  [[nodiscard]] std::vector<Finding> take() { return std::move(found_); }

 private:
  std::vector<Finding> found_;
};

/// Adds a finding: whether srun can start MPI programs over PMIx.
void add_mpi(const ClusterFacts& facts, Findings& found) {
  const std::string plugins = join(facts.mpi_plugins, " ");
  if (facts.has_mpi("pmix")) {
    found.add(Kind::kFine, "MPI",
              "srun --mpi=pmix" +
                  (facts.pmix_versions.empty() ? "" : " (" + join(facts.pmix_versions, " ") + ")"),
              "presets for MPI programs use it, and so does the bundled trainer on several nodes");
  } else if (facts.mpi_plugins.empty()) {
    found.add(Kind::kNote, "MPI", "srun --mpi=list names no plugin",
              "presets for MPI programs rely on srun's own default");
  } else {
    found.add(
        Kind::kMissing, "MPI", "no pmix, but " + plugins,
        "an Open MPI of version 4 or 5 needs PMIx; without it, each rank would run alone, as a "
        "world of one rank. Set launch.mpi, or use gloo or nccl");
  }
}

/// Adds the GPUs of the partitions.
void add_gpus(const ClusterFacts& facts, Findings& found) {
  const std::int64_t gpus = most_gpus_per_node(facts);
  if (gpus == 0) {
    found.add(Kind::kMissing, "GPUs", "Slurm reports no node with gres/gpu", "jobs run on CPUs");
  } else {
    std::vector<std::string> types;
    for (const PartitionFacts& partition : facts.partitions) {
      for (const std::string& type : partition.gpu_types) {
        if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
      }
    }
    found.add(
        Kind::kFine, "GPUs",
        fmt::format("up to {} per node{}", gpus, types.empty() ? "" : ": " + join(types, ", ")),
        has_gpu_options(facts)
            ? "resources.gpus_per_node becomes --gpus-per-node"
            : fmt::format("{} does not support --gpus-per-node: gpu_style is gres",
                          facts.setting("SelectType")));
  }
}

/// Adds the tools that run containers.
void add_containers(const ClusterFacts& facts, Findings& found) {
  if (facts.has_pyxis) {
    found.add(Kind::kFine, "pyxis", "srun --help lists --container-image",
              "container.runtime: pyxis");
  } else {
    found.add(
        Kind::kMissing, "pyxis", "srun --help does not list --container-image",
        container_runtime(facts) == "none"
            ? "no container runtime was found on this node: use modules, conda or a venv, or a "
              "module that brings apptainer"
            : "container.runtime: " + container_runtime(facts) + " instead");
  }
  for (const auto& [tool, version] : facts.container_tools) {
    found.add(Kind::kFine, tool, version,
              fmt::format("container.runtime: {}, if the nodes also have it", tool));
  }
}

/// Adds Slurm's settings for jobs: accounting, tracking, binding, requeue, arrays.
void add_job_settings(const ClusterFacts& facts, Findings& found) {
  if (facts.has_accounting()) {
    found.add(Kind::kFine, "accounting", facts.setting("AccountingStorageType"),
              "sacct also finds jobs that have left the queue");
    if (!facts.setting("AccountingStorageEnforce").empty() &&
        facts.setting("AccountingStorageEnforce") != "none")
      found.add(Kind::kNote, "accounts", "enforced: " + facts.setting("AccountingStorageEnforce"),
                "you may have to set resources.account or $SBATCH_ACCOUNT: sacctmgr show assoc "
                "user=$USER lists your accounts");
  } else {
    found.add(Kind::kNote, "accounting", "none", "status and wait use each run's own record");
  }
  const std::string proctrack = facts.setting("ProctrackType");
  if (proctrack.ends_with("cgroup")) {
    found.add(Kind::kFine, "processes", proctrack,
              "Slurm ends all processes of a job with the job");
  } else {
    found.add(Kind::kNote, "processes", proctrack,
              "not tracked by control groups: the agent ends its ranks' children itself");
  }
  if (facts.setting("TaskPlugin").find("affinity") == std::string::npos &&
      facts.setting("TaskPlugin").find("cgroup") == std::string::npos)
    found.add(Kind::kNote, "binding",
              facts.setting("TaskPlugin").empty() ? "no TaskPlugin" : facts.setting("TaskPlugin"),
              "launch.cpu_bind has no effect: tasks are not bound to cores");
  if (facts.setting("JobRequeue") == "0")
    found.add(Kind::kNote, "requeue", "JobRequeue=0", "Slurm requeues only jobs that request it");
  const std::string array = facts.setting("MaxArraySize");
  if (!array.empty())
    found.add(Kind::kFine, "arrays", "MaxArraySize=" + array,
              "a job array has at most this many tasks");
}

/// Adds the versions of the API that dlrun shares with a slurmrestd of a site file.
void add_rest_server(const RestServerFacts& server, Findings& found) {
  if (!server.problem.empty())
    return found.add(Kind::kMissing, "REST", server.problem,
                     "submit.via: slurmrestd cannot use this server");
  std::vector<std::string> shared;
  for (const std::string& version : server.served_versions) {
    if (parse_rest_version(version)) shared.push_back(version);
  }
  const std::string serves =
      fmt::format("slurmrestd at {} serves {}", server.url,
                  server.served_versions.empty() ? "no API that takes jobs"
                                                 : join(server.served_versions, ", "));
  const std::string& configured = server.configured_version;
  const auto newest = newest_rest_version(shared);
  if (!newest)
    return found.add(Kind::kMissing, "REST", serves,
                     fmt::format("dlrun speaks {}: submit.via: slurmrestd cannot use this server",
                                 supported_rest_versions_text()));
  if (!configured.empty() && std::find(shared.begin(), shared.end(), configured) == shared.end())
    return found.add(
        Kind::kMissing, "REST", serves,
        fmt::format("dlrun and this server share {}, but not the configured version {}",
                    join(shared, ", "), configured));
  found.add(Kind::kFine, "REST", serves,
            fmt::format("dlrun and this server share {}; dlrun uses {}", join(shared, ", "),
                        configured.empty() ? rest_version_text(*newest) : configured));
}

/// Adds the findings about slurmrestd: about each server that a site file lists, or, if no site
/// file lists one, whether Slurm could accept a token.
void add_rest(const ClusterFacts& facts, Findings& found) {
  for (const RestServerFacts& server : facts.rest_servers) add_rest_server(server, found);
  if (!facts.rest_servers.empty()) return;
  if (facts.setting("AuthAltTypes").find("jwt") == std::string::npos)
    return found.add(Kind::kNote, "REST", "no auth/jwt",
                     "slurmrestd accepts no tokens: submit.via: slurmrestd needs a unix socket");
  const std::string here = facts.has_slurmrestd ? ", slurmrestd is on this node" : "";
  const std::string release = facts.setting("SLURM_VERSION");
  const auto versions = rest_versions_of_release(release);
  if (versions.empty())
    return found.add(Kind::kNote, "REST", "auth/jwt" + here,
                     fmt::format("dlrun does not know the versions of the API in Slurm {}; doctor "
                                 "asks a slurmrestd that a site file lists",
                                 release));
  found.add(
      Kind::kFine, "REST", "auth/jwt" + here,
      fmt::format(
          "dlrun can use {} of Slurm {}'s slurmrestd, with a token that `scontrol token` prints",
          versions.front() == versions.back()
              ? std::string(rest_version_text(versions.front()))
              : fmt::format("{} to {}", rest_version_text(versions.front()),
                            rest_version_text(versions.back())),
          release));
}

/// Adds the modules, the scratch folder and the fast networks of the login node.
void add_login_node(const ClusterFacts& facts, Findings& found) {
  if (facts.has_modules)
    found.add(Kind::kFine, "modules", "the command module is set up here",
              "environment.modules can load modules");
  found.add(facts.scratch_variable.empty() ? Kind::kNote : Kind::kFine, "scratch",
            facts.scratch_variable.empty()
                ? "none of $SCRATCH, $WORK, $PSCRATCH and $SCRATCHDIR names a writable folder"
                : "$" + facts.scratch_variable,
            facts.scratch_variable.empty()
                ? "runs are created in ./runs: submit from a file system that the nodes share"
                : "use this folder for runs_dir");
  if (!facts.fast_networks.empty())
    found.add(Kind::kNote, "network", join(facts.fast_networks, " "),
              "if the nodes also have such a network, set interface in the site's file");
}

/// Adds the errors of the queries that failed.
void add_query_errors(const ClusterFacts& facts, Findings& found) {
  for (const std::string& error : facts.query_errors)
    found.add(Kind::kMissing, "unanswered", error, "this information is missing");
}

}  // namespace

std::vector<Finding> findings(const ClusterFacts& facts) {
  Findings found;
  add_mpi(facts, found);
  add_gpus(facts, found);
  add_containers(facts, found);
  add_job_settings(facts, found);
  add_rest(facts, found);
  add_login_node(facts, found);
  add_query_errors(facts, found);
  return found.take();
}

std::string site_draft_name(const ClusterFacts& facts) {
  std::string name;
  for (char c : facts.cluster_name()) {
    const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    name += is_allowed ? c : '-';
  }
  name = name.substr(0, 64);
  return name.empty() || name[0] == '-' || name[0] == '.' ? "mine" : name;
}

std::string site_draft(const ClusterFacts& facts) {
  const std::string name = site_draft_name(facts), cluster = facts.cluster_name();
  std::string text = fmt::format(
      "# Drafted by `dlrun doctor --site-file` from the answers of Slurm. Save this file as\n"
      "# ~/.config/dlrun/sites/{0}.yaml; `dlrun site show {0}` then shows it. docs/sites.md lists "
      "every key.\n",
      name);
  const auto line = [&](std::string_view key, std::string_view value,
                        std::string_view comment = "") {
    const std::string row = fmt::format("{}: {}", key, value);
    text += comment.empty() ? row + "\n" : fmt::format("{:<36}  # {}\n", row, comment);
  };
  line("help", yaml_text(fmt::format("Slurm cluster {}, version {}", printable(cluster),
                                     printable(facts.setting("SLURM_VERSION")))));
  if (!cluster.empty())
    line("clusters", yaml_text(escaped_for_regex(cluster)), "Slurm's ClusterName");
  line("gpu_style", has_gpu_options(facts) ? "gpus" : "gres",
       has_gpu_options(facts) ? "--gpus-per-node" : "--gres=gpu:N");
  line("container_runtime", container_runtime(facts));
  line("mpi", facts.has_mpi("pmix") ? "pmix" : "default",
       "srun --mpi=list: " + printable(join(facts.mpi_plugins, " ")));
  if (facts.scratch_variable.empty()) {
    line("# runs_dir", "/scratch/${USER}/dlrun", "where runs are created; default: ./runs");
  } else {
    line("runs_dir", fmt::format("${{{}}}/dlrun", facts.scratch_variable),
         "./runs if the variable is not set");
  }
  const std::string network = facts.fast_networks.empty() ? "ib0" : facts.fast_networks.front();
  line("# interface", yaml_text(network),
       "for collectives, if the nodes' host names have addresses in a slow network");
  line("# environment", "{NCCL_DEBUG: WARN}", "for every job");
  const auto default_partition = std::find_if(facts.partitions.begin(), facts.partitions.end(),
                                              [](const auto& p) { return p.is_default; });
  if (default_partition != facts.partitions.end())
    line("default_partition", yaml_text(default_partition->name));
  if (!facts.partitions.empty()) {
    line("max_gpus_per_node", fmt::format("{}", most_gpus_per_node(facts)));
    text += "partitions:\n";
    for (const PartitionFacts& partition : facts.partitions) text += partition_line(partition);
  }
  return text;
}

}  // namespace dlrun
