#pragma once
// A part of the key table (launcher/spec/spec_keys.h): retry, health, profile, notify, track,
// after, code, sweep and submit.

#include "common/cause_words.h"
#include "common/chain_limits.h"
#include "common/joined.h"
#include "common/notice.h"
#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
inline constexpr KeyRow kRunKeys[] = {
  {.path = "retry.max", FIELD(retry.max), .min = 0, .max = 1000,
   .help = "A failed run restarts at most this number of times: in its allocation while the "
           "allocation exists, else from Slurm's queue. The program continues from its checkpoint. "
           "DLRUN_ATTEMPT counts the starts from 0.",
   .fallback = "0 (no restart). If only other keys of retry are given: 3. With retry.chain: N, "
               "the larger of 3 and N - 1",
   .example = "3"},
  {.path = "retry.on", FIELD(retry.on), .format = Format::kChoice,
   .choices = kJoined<kRetryCauses>,
   .help = "The run restarts after these causes. timeout needs checkpoint.signal_before: the "
           "program saves a checkpoint shortly before the time limit, and the job is queued again. "
           "The job is queued again even if the program exits with 0, unless the program has "
           "reported through $DLRUN_PROGRESS that it is done. failure: a rank failed, or was "
           "killed, for any other reason.",
   .fallback = "all causes; timeout only with checkpoint.signal_before",
   .example = "[preemption, node_failure, hang]"},
  {.path = "retry.exclude_bad_nodes", FIELD(retry.exclude_bad_nodes),
   .help = "With true the next attempt avoids nodes that failed or whose rank hung.",
   .fallback = "false", .example = "true"},
  {.path = "retry.no_progress", FIELD(retry.no_progress), .min = 1, .max = 1000,
   .help = "The run ends if this number of attempts in a row did not get beyond the furthest "
           "training step that any earlier attempt reached. The trainer reports its steps, and any "
           "program can report them through $DLRUN_PROGRESS. If a program never reports a step, "
           "an attempt counts only under two conditions: it ended before the program started, and "
           "its cause is failure, hang or oom.",
   .fallback = "3", .example = "2"},
  {.path = "retry.grow.mem", FIELD(retry.grow_mem), .min = 1.1, .max = 16,
   .help = "After the cause oom the job is queued again with its memory (resources.mem or "
           "mem_per_cpu) times this factor. Other causes do not change the memory. This key needs "
           "retry.grow.max, and oom in retry.on.",
   .fallback = "the memory stays the same", .example = "1.5"},
  {.path = "retry.grow.max", FIELD(retry.grow_max), .format = Format::kMemory,
   .help = "The memory grows at most to this size: per node if the spec has resources.mem, per CPU "
           "if it has mem_per_cpu. A job that runs out of this memory ends. This key needs "
           "retry.grow.mem.",
   .example = "500G"},
  {.path = "retry.chain", FIELD(retry.chain), .min = kFewestChainJobs, .max = kMostChainJobs,
   .help = "The run gets up to this number of jobs, which dlrun queues together when it submits "
           "the run. Each one waits for the end of the one before it. After the causes timeout and "
           "preemption the next job continues the run from its checkpoint, and no job is queued "
           "again. A job that starts after the end of the run ends immediately. Use this key where "
           "a job that is queued again loses its place in the queue. `dlrun submit --chain` is "
           "different: it submits several specs. This key needs timeout or preemption in retry.on, "
           "and cannot be combined with a sweep.",
   .fallback = "one job, which is queued again", .example = "4"},
  {.path = "health.preflight", FIELD(health.preflight), .format = Format::kChoice,
   .choices = "gpu nccl rccl gloo disk clock binding fabric",
   .help = "These checks examine every node before any program starts. dlrun names a node that "
           "fails; its failure counts as node_failure in retry.on. If the job has several nodes "
           "and all fail for the same reason, the run ends with code 80 and does not restart. gpu: "
           "nvidia-smi, amd-smi or rocm-smi lists every GPU that the rank sees, and none has "
           "uncorrected memory errors (rocm-smi does not report them). disk: the run's folder, "
           "$TMPDIR and /dev/shm accept a file. clock: the clock is within five seconds of the "
           "first node's clock. nccl: all ranks, each on its GPU, do an all-reduce of four MiB "
           "over NCCL within a minute with correct sums; dlrun names a rank that does not join, "
           "and its node. rccl: the same check with RCCL, for AMD GPUs. gloo: the same check with "
           "CPUs and the network only. Give at most one of nccl, rccl and gloo. binding: the rank "
           "may use CPUs near its GPU. fabric: InfiniBand ports, NVLink and the speed of "
           "all-reduce reach at least the figures of the site file; fabric measures the speed only "
           "together with nccl or gloo. {run: LINE}: the shell line ends with 0 on each node. "
           "`dlrun bench collectives` measures the speed of collectives.",
   .example = "[gpu, nccl, binding, fabric, {run: ./check.sh}]"},
  {.path = "health.hang_after", FIELD(health.hang_after), .format = Format::kDuration,
   .help = "A run hangs if it shows no progress for this long. dlrun then ends it, and restarts it "
           "if retry.on contains `hang`. Progress is what the program reports. The trainer "
           "reports by itself. Another program writes {\"step\": 120, \"steps\": 5000, \"loss\": "
           "0.5} into the file that rank 0 finds in $DLRUN_PROGRESS: the whole object each time, "
           "in place, without a rename. If a program reports nothing, output of any rank is "
           "progress. A rank also counts as hung if its program, or the only process that the "
           "program waits for, has been suspended (SIGSTOP) for this long.",
   .fallback = "30 minutes for programs that report progress, 1 minute for suspended programs",
   .example = "15m"},
  {.path = "health.idle_gpu_after", FIELD(health.idle_gpu_after), .format = Format::kDuration,
   .help = "A GPU whose utilisation has stayed below 1 % for this long is idle, and dlrun names "
           "its node. The shortest time is 10s. The agents ask nvidia-smi, amd-smi or rocm-smi "
           "every five seconds.",
   .fallback = "no check", .example = "30m"},
  {.path = "health.idle_gpu", FIELD(health.idle_gpu), .format = Format::kChoice,
   .choices = "warn end",
   .help = "dlrun warns about an idle GPU (idle_gpu_after) in the output of the job and in `dlrun "
           "status`. With `end`, the run ends with code 81 and does not restart. This key needs "
           "idle_gpu_after.",
   .fallback = "warn", .example = "end"},
  {.path = "health.known_bad.file", FIELD(health.known_bad_file), .format = Format::kPath,
   .help = "This file contains the list of bad nodes. All runs that name the same file share the "
           "list. A node is bad if it was lost, if it hung, or if it failed health.preflight. "
           "`dlrun nodes` lists and forgets bad nodes.",
   .fallback = "known-bad.jsonl in the runs folder", .example = "~/known-bad.jsonl"},
  {.path = "health.known_bad.for", FIELD(health.known_bad_for), .format = Format::kDuration,
   .help = "A bad node stays in the list for this long. A submission adds the bad nodes to "
           "resources.exclude and prints them. A node of resources.nodelist is not excluded. "
           "`known_bad: 7d` is short for this key.",
   .fallback = "7d if another key of known_bad is given", .example = "7d"},

  {.path = "profile.tool", FIELD(profile.tool), .format = Format::kChoice,
   .choices = "nsys py-spy perf",
   .help = "The programs of profile.ranks run under this profiler, which the job must have on its "
           "PATH. The result is in profile/ of the run's directory. nsys cannot be combined with "
           "checkpoint.signal_before. `profile: nsys` is short for this key.",
   .example = "nsys"},
  {.path = "profile.ranks", FIELD(profile.ranks),
   .help = "These ranks are profiled.",
   .fallback = "[0]", .example = "[0, 8]"},
  {.path = "profile.delay", FIELD(profile.delay), .format = Format::kDuration,
   .help = "The profile starts this long after the program. py-spy and perf start after one second "
           "at the earliest.",
   .fallback = "0", .example = "2m"},
  {.path = "profile.for", FIELD(profile.length), .format = Format::kDuration,
   .help = "The profile ends after this time. The program goes on.",
   .fallback = "to the end of the program", .example = "30s"},

  {.path = "notify.on", FIELD(notify.on), .format = Format::kChoice,
   .choices = kJoined<kNoticeOccasions>,
   .help = "dlrun sends a message on each of these occasions. failed: the run has failed or "
           "reached its time limit. restarted: another attempt follows. hang: an attempt has hung, "
           "whatever follows. started: all ranks of the first attempt run. The message names the "
           "run, the cause, the rank with its node and last output, and the progress. This key "
           "needs notify.webhook or notify.command.",
   .fallback = "[failed, hang, completed] if another key of notify is given",
   .example = "[failed, restarted, hang, completed]"},
  {.path = "notify.webhook.secret", FIELD(notify.webhook_secret),
   .help = "This key names a variable of your environment. The value that the variable has at "
           "submission is the address to which dlrun sends the messages. Slack, Mattermost, Teams "
           "and Discord get their own form, any other address a JSON object. The address is in no "
           "script, argument, log or record. If nodes cannot reach the address, the next "
           "`dlrun ls`, `top`, `wait`, `submit --watch` or `notify --relay` on a login node sends "
           "the message.",
   .example = "SLACK_URL"},
  {.path = "notify.webhook.url", FIELD(notify.webhook_url),
   .help = "Messages go to this address. A spec is a file that you may share, and the run keeps a "
           "copy of it: use notify.webhook.secret for an address that grants access. This key "
           "cannot be combined with notify.webhook.secret.",
   .example = "https://ntfy.example.org/my-runs"},
  {.path = "notify.command", FIELD(notify.command), .format = Format::kLines,
   .help = "dlrun runs this command for each message, on the first node, with the text on its "
           "standard input. {subject}, {run}, {job} and {event} are replaced. If the command "
           "fails, `dlrun notify --relay RUN` on a login node runs it again.",
   .example = "[mail, -s, \"{subject}\", me@example.org]"},

  {.path = "track.tensorboard", FIELD(track.tensorboard),
   .help = "With true dlrun writes an event file for TensorBoard to tensorboard/ of the run's "
           "directory: all numbers that the program reports through $DLRUN_PROGRESS (the trainer "
           "reports loss, accuracy, lr and samples_per_s), and the use of CPUs, GPUs and memory.",
   .fallback = "false", .example = "true"},

  {.path = "track.mlflow.url", FIELD(track.mlflow_url),
   .help = "dlrun records the run on the MLflow server at this address: the values of the spec as "
           "parameters, commit and job as tags, and as metrics all numbers that the program "
           "reports. All attempts are one run of MLflow. `dlrun track sync` sends later what nodes "
           "could not send.",
   .example = "https://mlflow.example.org"},
  {.path = "track.mlflow.experiment", FIELD(track.mlflow_experiment),
   .help = "The run belongs to this experiment of the server, which dlrun creates if it is "
           "missing.",
   .fallback = "the run's name", .example = "mnist"},
  {.path = "track.mlflow.secret", FIELD(track.mlflow_secret),
   .help = "This key names a variable of your environment. dlrun sends the value that the "
           "variable has at submission to the server, as the token in the header Authorization. "
           "The program does not get the token.",
   .example = "MLFLOW_TRACKING_TOKEN"},

  {.path = "track.wandb.project", FIELD(track.wandb_project),
   .help = "The program finds WANDB_PROJECT, WANDB_DIR (the run's directory), WANDB_NAME (the "
           "run's id), and a WANDB_RUN_ID that is the same in all attempts, with "
           "WANDB_RESUME=allow: after a restart, the program's own wandb continues its run. Pass "
           "WANDB_API_KEY with environment.secrets.",
   .example = "mnist"},
  {.path = "track.wandb.entity", FIELD(track.wandb_entity),
   .help = "The program finds this user or team in WANDB_ENTITY.",
   .example = "my-team"},
  {.path = "track.wandb.mode", FIELD(track.wandb_mode), .format = Format::kChoice,
   .choices = "online offline",
   .help = "The program finds this value in WANDB_MODE. `offline` is for nodes without access to "
           "the internet: `wandb sync` uploads the files in wandb/ of the run's directory later.",
   .fallback = "the mode that wandb chooses", .example = "offline"},

  {.path = "after.ok", FIELD(after.ok),
   .help = "The job starts when these runs (name, id or path) or Slurm jobs (id) have succeeded. "
           "Slurm cancels a job that can never start.",
   .example = "[preprocess, \"4711\"]"},
  {.path = "after.any", FIELD(after.any),
   .help = "The job starts when these runs or jobs have ended, whether they succeeded or failed.",
   .example = "last"},
  {.path = "after.notok", FIELD(after.notok),
   .help = "The job starts when these runs or jobs have failed.",
   .example = "[train]"},

  {.path = "code.snapshot", FIELD(code_snapshot),
   .help = "With true dlrun copies the source tree into the run, and the job starts in the copy. "
           "Later edits then do not change a job that waits. The copy contains the files of the "
           "git repository that git does not ignore; without git it contains the spec's folder (or "
           "slurm.chdir). dlrun records commit and diff in any case. `dlrun resubmit` runs "
           "the same copy again; a submission of the run's resolved.yaml makes a new copy.",
   .fallback = "false", .example = "true"},

  {.path = "sweep.parameters", FIELD(sweep.parameters),
   .help = "dlrun submits a sweep as a job array. This map has names and the values to try; each "
           "combination is a run of its own. The last name changes fastest. A name is a key of "
           "the spec, or a parameter of your program (a program parameter). The value of a program "
           "parameter replaces {NAME} in launch.command and environment.vars. If a sweep has a "
           "program parameter, write each literal brace in launch.command and environment.vars "
           "twice. With sweep.random or sweep.ask a name may have {min, max} instead of a list, "
           "and log: true. If min and max of a program parameter are whole numbers, all values of "
           "the parameter are whole numbers.",
   .example = "{lr: [0.1, 0.01], depth: [4, 8]}"},
  {.path = "sweep.points", FIELD(sweep.points),
   .help = "The sweep has exactly these combinations. This key cannot be combined with "
           "parameters, random or ask.",
   .example = "[{lr: 0.1, depth: 4}, {lr: 0.01, depth: 8}]"},
  {.path = "sweep.random", FIELD(sweep.random), .min = 1, .max = 10000,
   .help = "The sweep tries this number of random points of parameters, all different, instead of "
           "all combinations.",
   .example = "20"},
  {.path = "sweep.seed", FIELD(sweep.seed), .min = 0, .max = 4294967295.0,
   .help = "This number seeds the random points. The same seed gives the same points.",
   .fallback = "1", .example = "1"},
  {.path = "sweep.max_parallel", FIELD(sweep.max_parallel), .min = 1, .max = 1e6,
   .help = "At most this number of points run at the same time.",
   .fallback = "as many as Slurm starts; with sweep.ask one point (one job if sweep.pack is given)",
   .example = "4"},
  {.path = "sweep.pack", FIELD(sweep.pack), .min = 1, .max = 256,
   .help = "One job runs this number of points side by side on one node. The job requests the "
           "resources of all of them. Each point has its own GPUs, cores, memory, logs and result.",
   .fallback = "1", .example = "4"},
  {.path = "sweep.ask", FIELD(sweep.ask), .format = Format::kLines,
   .help = "This program chooses the points, one after the other, from the results of earlier "
           "points. `dlrun submit` starts the program in the spec's folder, exchanges JSON lines "
           "with it over its standard input and output, and runs until the search ends. Without "
           "sweep.max_parallel, only one point (with sweep.pack, one job) runs at a time. This "
           "key cannot be combined with points, random or seed.",
   .example = "[python, search.py]"},
  {.path = "sweep.ask_timeout", FIELD(sweep.ask_timeout), .format = Format::kDuration,
   .help = "The search fails if its program needs longer than this time for an answer.",
   .fallback = "60s", .example = "5m"},
  {.path = "sweep.max_points", FIELD(sweep.max_points), .min = 1, .max = 10000,
   .help = "The search ends after this number of points, even if its program has more.",
   .fallback = "until the search program ends the search", .example = "50"},
  {.path = "sweep.stop_early.metric", FIELD(sweep.stop_metric),
   .help = "A point ends early if this number in its reports (DLRUN_PROGRESS) is worse than in "
           "the reports of the other points. A smaller number is better if the name contains loss, "
           "error, perplexity or seconds; otherwise a larger number is better.",
   .example = "loss"},
  {.path = "sweep.stop_early.rule", FIELD(sweep.stop_rule), .format = Format::kChoice,
   .choices = "median",
   .help = "median: the point ends if its best value is worse than the median of the best values "
           "of the other points at the same epoch or step. At least three other points must have "
           "reached that epoch or step.",
   .fallback = "median", .example = "median"},
  {.path = "sweep.stop_early.after", FIELD(sweep.stop_after), .min = 1, .max = kDefaultMax,
   .help = "No point ends early before this epoch, or before this step if its program reports no "
           "epoch.",
   .fallback = "1", .example = "5"},
  {.path = "submit.via", FIELD(submit.via), .format = Format::kChoice,
   .choices = "sbatch slurmrestd",
   .help = "dlrun submits the job with sbatch, or through Slurm's REST API (slurmrestd). Later "
           "queries and cancellations of the run use the same interface. `dlrun interactive` needs "
           "salloc.",
   .fallback = "sbatch", .example = "sbatch"},
  {.path = "submit.url", FIELD(submit.url),
   .help = "This is the address of slurmrestd: unix:/PATH, http://127.0.0.1:PORT or "
           "https://HOST[:PORT]. The key is necessary if submit.via is slurmrestd. dlrun sends "
           "nothing to a server that no site file lists.",
   .example = "unix:/run/slurmrestd/socket"},
  {.path = "submit.token_file", FIELD(submit.token_file), .format = Format::kPath,
   .help = "This file of mode 0600 contains the token that `scontrol token` prints. A socket needs "
           "no token.",
   .example = "~/.config/dlrun/token"},
};
// clang-format on

}  // namespace dlrun::keys
