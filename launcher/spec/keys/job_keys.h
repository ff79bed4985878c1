#pragma once
// A part of the key table (launcher/spec/spec_keys.h): name, site, base, resources and slurm. The
// rows of resources have the order of the #SBATCH lines in the script.

#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
inline constexpr KeyRow kJobKeys[] = {
  {.path = "name", FIELD(name), .format = Format::kSlug, .option = sbatch("--job-name", kWholeJob),
   .help = "The run and its Slurm job have this name.",
   .fallback = "the file's name without its ending", .example = "mnist-mlp"},
  {.path = "site", FIELD(site), .format = Format::kSlug,
   .help = "The site file with this name (VALUE.yaml) describes the cluster. `dlrun site list` "
           "shows all names.",
   .fallback = "$DLRUN_SITE, else the site of this cluster, else 'generic'", .example = "juwels"},
  {.path = "base", FIELD(base), .format = Format::kPath,
   .help = "This spec inherits from another one: maps merge, lists and values replace. `KEY: null` "
           "removes an inherited value.",
   .example = "../common.yaml"},

  {.path = "resources.clusters", FIELD(resources.clusters),
   .option = sbatch("--clusters", kEachPart),
   .help = "The job runs on this Slurm cluster (sbatch -M).",
   .example = "inter"},
  {.path = "resources.partition", FIELD(resources.partition),
   .option = sbatch("--partition", kEachPart),
   .help = "The job runs in this partition. If commas separate several partitions, Slurm chooses "
           "one of them.",
   .fallback = "$SBATCH_PARTITION", .example = "develgpus"},
  {.path = "resources.account", FIELD(resources.account), .option = sbatch("--account", kEachPart),
   .help = "Slurm charges the job to this account.",
   .fallback = "$SBATCH_ACCOUNT", .example = "proj-1"},
  {.path = "resources.qos", FIELD(resources.qos), .option = sbatch("--qos", kEachPart),
   .help = "The job has this quality of service (QOS).",
   .fallback = "$SBATCH_QOS", .example = "high"},
  {.path = "resources.reservation", FIELD(resources.reservation),
   .option = sbatch("--reservation", kEachPart),
   .help = "The job runs in this reservation.",
   .example = "course"},
  {.path = "resources.nodes", FIELD(resources.nodes), .option = sbatch("--nodes", kRankRequest),
   .help = "The job runs on this number of nodes: 2, or \"2-4\" for Slurm's range.",
   .fallback = "1, or Slurm's choice if ntasks is given", .example = "2"},
  {.path = "resources.spare_nodes", FIELD(resources.spare_nodes), .min = 1, .max = 1e6,
   .help = "The job allocates this number of nodes beyond resources.nodes. A spare node is idle "
           "until a node is lost. The next attempt then runs on the spare node, with the same "
           "number of ranks. This key needs node_failure in retry.on, and one number in "
           "resources.nodes. It cannot be combined with resources.ntasks or resources.gpus. The "
           "cost of the job includes spare nodes.",
   .fallback = "none", .example = "1"},
  {.path = "resources.ntasks", FIELD(resources.ntasks), .min = 1, .max = kDefaultMax,
   .option = sbatch("--ntasks", kRankRequest),
   .help = "The whole job has this number of ranks.",
   .example = "8"},
  {.path = "resources.tasks_per_node", FIELD(resources.tasks_per_node), .min = 1, .max = 1e6,
   .option = sbatch("--ntasks-per-node", kRankRequest),
   .help = "Each node has this number of ranks. Slurm calls a rank a task. Under torchrun each "
           "node has one task, in which torchrun starts launch.nproc_per_node processes.",
   .fallback = "gpus_per_node, or 1", .example = "4"},
  {.path = "resources.cpus_per_task", FIELD(resources.cpus_per_task), .min = 1, .max = 1e6,
   .option = sbatch("--cpus-per-task", kRankRequest),
   .help = "Each rank has this number of CPUs. sbatch and srun both get this option.",
   .fallback = "the node's allocated CPUs, shared evenly", .example = "10"},
  {.path = "resources.gpus_per_node", FIELD(resources.gpus_per_node),
   .option = sbatch("--gpus-per-node", kRankRequest),
   .help = "Each node provides this number of GPUs: 4, a100:4 or {type: a100, count: 4}; 0 for "
           "none. The script uses --gres if the site wants that.",
   .example = "{type: a100, count: 4}"},
  {.path = "resources.gpus", FIELD(resources.gpus), .option = sbatch("--gpus", kRankRequest),
   .help = "The whole job has this number of GPUs.",
   .example = "8"},
  {.path = "resources.gpus_per_task", FIELD(resources.gpus_per_task),
   .option = sbatch("--gpus-per-task", kRankRequest),
   .help = "Each rank has this number of GPUs.",
   .example = "1"},
  {.path = "resources.cpus_per_gpu", FIELD(resources.cpus_per_gpu), .min = 1, .max = 1e6,
   .option = sbatch("--cpus-per-gpu", kRankRequest),
   .help = "Each GPU comes with this number of CPUs. This key cannot be combined with "
           "cpus_per_task.",
   .example = "8"},
  {.path = "resources.gres", FIELD(resources.gres), .option = sbatch("--gres", kRankRequest),
   .help = "Each node provides these generic resources, in Slurm's own form: gpu:a100:4. This key "
           "cannot be combined with gpus_per_node.",
   .example = "gpu:a100:4"},
  {.path = "resources.mem", FIELD(resources.mem), .format = Format::kMemory,
   .option = sbatch("--mem", kRankRequest),
   .help = "Each node provides this memory: 64G; 0 for all of its memory.",
   .example = "64G"},
  {.path = "resources.mem_per_cpu", FIELD(resources.mem_per_cpu), .format = Format::kMemory,
   .option = sbatch("--mem-per-cpu", kRankRequest),
   .help = "Each CPU comes with this memory. This key cannot be combined with mem.",
   .example = "4G"},
  {.path = "resources.mem_per_gpu", FIELD(resources.mem_per_gpu), .format = Format::kMemory,
   .option = sbatch("--mem-per-gpu", kRankRequest),
   .help = "Each GPU comes with this memory. This key cannot be combined with mem or mem_per_cpu.",
   .example = "32G"},
  {.path = "resources.time", FIELD(resources.time), .format = Format::kTimeLimit,
   .option = sbatch("--time", kEachPart),
   .help = "Slurm ends the job after this time: 00:10:00, 1-12:00:00, 10m, 1h30m, 2d. A number "
           "without a unit is in minutes. Without this key the default limit of the partition "
           "applies.",
   .example = "1h30m"},
  {.path = "resources.begin", FIELD(resources.begin), .option = sbatch("--begin", kWholeJob),
   .help = "The job does not start before this time, which has one of Slurm's forms.",
   .example = "now+1hour"},
  {.path = "resources.constraint", FIELD(resources.constraint),
   .option = sbatch("--constraint", kEachPart),
   .help = "The job runs only on nodes with these features.",
   .example = "a100"},
  {.path = "resources.nodelist", FIELD(resources.nodelist), .format = Format::kNodeList,
   .option = sbatch("--nodelist", kNodeChoice),
   .help = "The job must have all of these nodes: n[1-3]. The list must not be longer than "
           "resources.nodes.",
   .example = "n[1-3]"},
  {.path = "resources.exclude", FIELD(resources.exclude), .format = Format::kNodeList,
   .option = sbatch("--exclude", kNodeChoice),
   .help = "The job must not have any of these nodes.",
   .example = "n7"},
  {.path = "resources.exclusive", FIELD(resources.exclusive), .format = Format::kTextOrSwitch,
   .option = sbatch("--exclusive", kEachPart),
   .help = "The job shares its nodes with no other job (true), or only with jobs of the same user "
           "(user) or the same MCS label (mcs).",
   .example = "true"},
  {.path = "resources.licenses", FIELD(resources.licenses),
   .option = sbatch("--licenses", kWholeJob),
   .help = "The job needs these licences.",
   .example = "foo:2"},
  {.path = "resources.hint", FIELD(resources.hint), .format = Format::kChoice,
   .choices = "compute_bound memory_bound multithread nomultithread",
   .option = sbatch("--hint", kRankRequest),
   .help = "Slurm binds ranks to CPUs according to this hint. This key cannot be combined with "
           "launch.cpu_bind.",
   .example = "nomultithread"},
  {.path = "resources.threads_per_core", FIELD(resources.threads_per_core), .min = 1, .max = 1024,
   .option = sbatch("--threads-per-core", kRankRequest),
   .help = "The job uses this number of hardware threads of each core.",
   .example = "1"},
  {.path = "resources.distribution", FIELD(resources.distribution),
   .option = sbatch("--distribution", kRankRequest),
   .help = "Slurm distributes the ranks over nodes, sockets and cores in this way.",
   .example = "block:cyclic"},
  {.path = "resources.output", FIELD(resources.output), .format = Format::kPathPattern,
   .option = sbatch("--output", kWholeJob),
   .help = "Slurm writes the output of the job script and of all ranks to this file. Slurm's % "
           "patterns are allowed.",
   .fallback = "in the run's directory", .example = "logs/%j.out"},
  {.path = "resources.error", FIELD(resources.error), .format = Format::kPathPattern,
   .option = sbatch("--error", kWholeJob),
   .help = "Slurm writes the job's standard error separately, to this file.",
   .example = "logs/%j.err"},
  {.path = "resources.signal", FIELD(resources.signal), .option = sbatch("--signal", kWholeJob),
   .help = "Slurm sends this signal before the time limit. The form is Slurm's. This key cannot be "
           "combined with checkpoint.signal_before.",
   .example = "B:USR1@120"},
  {.path = "slurm", FIELD(slurm), .option = sbatch(),
   .help = "Other options of sbatch, by their long names: {mail-type: ALL}.",
   .example = "{mail-type: ALL, mail-user: me@example.org}"},
};
// clang-format on

}  // namespace dlrun::keys
