#pragma once
// `dlrun-agent lead`: the process in the batch step (or on this machine, for a local run) that
// leads one run to its end.
//
// Terms of this folder:
// - lead: this process. It claims the run, starts its ranks, and decides how the run ends.
// - rank: one task of the job. An agent (`dlrun-agent rank`) starts the task's program.
// - attempt: one start of all ranks. A run that restarts has several attempts (attempt.h, retry.h).
// - step: the processes of one attempt: srun, or the agents that lead itself starts (step.h).
// - component: one program of a job with several programs. Each component has its own ranks and its
//   own step (component_options.h).
// - store: lead's table of keys and values, in which ranks find each other (store_table.h).
// - rank connections: lead's listening socket and the connections of the ranks to it
//   (rank_connections.h).
// - record: events.jsonl, the durable log of the run. Lead is its only writer (event_log.h).
// - autopsy: saving all stacks before a hung attempt is ended (autopsy.h).

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/retry.h"
#include "runtime/agent/stop_early.h"

namespace dlrun::agent {

/// Options of health.known_bad, the file of bad nodes that several runs share.
struct KnownBadOptions {
  std::filesystem::path file{};              ///< empty: bad nodes are not remembered
  std::chrono::seconds time{7 * 24 * 3600};  ///< how long a node is remembered
};

/// Options of notify.
struct NotifyOptions {
  std::vector<std::string> on{};       ///< occasions (common/notice.h); empty: no notices
  std::string webhook{};               ///< name of the secret with the address; empty: none
  std::vector<std::string> command{};  ///< argv with placeholders; empty: none
};

/// Options of track.mlflow.
struct MlflowOptions {
  std::string url{};  ///< address of the server; empty: the run has no record there
  std::string experiment{};
  std::string secret{};  ///< name of the secret with the token; empty: none
};

struct LeadOptions {
  std::filesystem::path runs = "runs";  ///< parent of a new run directory if DLRUN_RUN is not set
  std::string name = "run";
  std::optional<int> local_ranks;  ///< number of ranks to start on this machine, without Slurm
  /// The job's allocation belongs to another script or shell. Lead then never asks Slurm to queue
  /// the job again. The run ends if only another allocation could continue it.
  bool uses_existing_allocation = false;
  std::chrono::milliseconds join_timeout{600'000};
  bool forwards_usr1 = false;                      ///< a USR1 makes the programs save a checkpoint
  std::optional<std::chrono::seconds> hang_after;  ///< health.hang_after
  std::optional<std::chrono::seconds> idle_gpu_after;  ///< health.idle_gpu_after
  bool idle_gpus_end_run = false;  ///< idle GPUs end the run; otherwise lead only warns
  RetryOptions retry;
  KnownBadOptions known_bad;
  NotifyOptions notify{};
  MlflowOptions mlflow{};
  bool writes_tensorboard = false;  ///< track.tensorboard
  /// The time after which a rehearsal ends its programs and is successful (submit --rehearse).
  std::optional<std::chrono::seconds> rehearsal{};
  StopRule stop_early{};  ///< the rule by which this point of a sweep may end early
  /// The program is bundled with dlrun (`rank --bundled`) and reports progress from its first step
  /// on.
  bool program_is_bundled = false;
  /// The ranks' `--preflight` option: the checks that run before the programs start. Empty: none.
  std::string node_checks;
  /// The ranks' `--stage` options, from which lead chooses files to broadcast. Empty if the job has
  /// components: lead broadcasts no files for them.
  std::vector<StageItem> stage{};
  /// Exit code of a job script that ended before it started the ranks. If set, there is no step,
  /// and `command` is the command at which the script ended.
  std::optional<int> failed_script_code;
  /// With failed_script_code: the container tool's message when the container could not be
  /// made. Empty: the container is not the reason.
  std::string container_error;
  /// The srun command line; with `local_ranks` the `dlrun-agent rank` command line. Empty if the
  /// job has components.
  std::vector<std::string> command;
  std::vector<ComponentOptions> components;  ///< empty: the job has one program
};

/// Leads the run until the run ends, or until only another start of a job can continue it. Returns
/// the exit code of the process. Blocks signals. Prints the output of the ranks on standard output
/// and standard error, and its own messages on standard error. Call it once per process.
[[nodiscard]] int run_lead(const LeadOptions& options, const Env& env);

}  // namespace dlrun::agent
