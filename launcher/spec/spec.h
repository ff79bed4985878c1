#pragma once
// The experiment as plain data: the result of merging a spec, its bases, --set, the environment and
// the site. For each field, a row of the key table (launcher/spec/keys) defines the key, the type
// and the range.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/diagnostic.h"
#include "container/container.h"

namespace dlrun {

/// Maps the key of every given value to the origin of the value: "resources.nodes" ->
/// exp.yaml:4:10.
using Origins = std::map<std::string, Origin, std::less<>>;

/// Names and values in the order of the source.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

struct NodeRange {
  std::int64_t min = 1;
  std::int64_t max = 1;
};

/// A number of GPUs, with their type if one is requested: 4, a100:4, 1g.5gb:2.
struct Gpus {
  std::string type;
  std::int64_t count = 0;
};

/// An option of sbatch or srun by its long name. A flag has no value.
struct SlurmOption {
  std::string name;
  std::optional<std::string> value;
};

/// The texts are values of sbatch's options. `time` is as format_time_limit() writes it, or
/// UNLIMITED. Memory sizes are as they were given, such as 64G; without a unit they are in MiB.
/// `exclusive` is "true" for the option without a value.
struct Resources {
  std::optional<NodeRange> nodes;
  /// Nodes to allocate beyond `nodes`, used after a node is lost.
  std::optional<std::int64_t> spare_nodes;
  std::optional<std::int64_t> ntasks, tasks_per_node, cpus_per_task, cpus_per_gpu, threads_per_core;
  std::optional<Gpus> gpus, gpus_per_node, gpus_per_task;
  std::optional<std::string> gres, mem, mem_per_cpu, mem_per_gpu, time;
  std::optional<std::string> partition, account, qos, reservation, constraint, nodelist, exclude,
      exclusive, licenses, begin;
  std::optional<std::string> clusters, hint, distribution, output, error, signal;
};

/// A variable with a secret that only the program may see, and the source of its value.
struct SecretSource {
  std::string name;
  std::string file;  ///< absolute; empty: the value is in the submitter's environment
};

struct Environment {
  std::optional<bool> modules_purge;
  std::vector<std::string> modules_use, modules_load;
  std::optional<std::string> conda_module, conda_name;
  std::optional<std::string> venv;
  std::optional<std::string> uv_project;  ///< absolute
  /// The folder of the pixi project, absolute, and the environment in it.
  std::optional<std::string> pixi_project, pixi_environment;
  std::optional<std::string> spack;  ///< a name, or an absolute folder
  std::vector<std::string> uenv_images, uenv_views;
  std::optional<std::string> eessi;  ///< a version
  NamedValues vars;
  std::vector<SecretSource> secrets;
  std::optional<std::string> setup, setup_node;
};

struct Launch {
  std::optional<std::string> preset;
  std::vector<std::string> command;
  std::optional<bool> agent;  ///< false: the script needs no part of dlrun on the nodes
  std::optional<std::int64_t> nproc_per_node;  ///< for a preset that starts a node's ranks itself
  /// The numbers of ranks in these roles. All other ranks are workers.
  std::optional<std::int64_t> chief, ps, evaluator;
  std::optional<std::string> mpi, cpu_bind, gpu_bind;
  std::vector<SlurmOption> srun;
};

/// A file that dlrun downloads on the submitting machine before the job is queued.
struct Download {
  std::string url;     ///< https:// or http://, without user and password
  std::string sha256;  ///< 64 hexadecimal digits, lowercase
  std::string file;    ///< the file's name in its folder
  std::optional<std::int64_t> bytes;
};

/// Data that the agent copies to each node before the ranks' programs start.
struct StagedData {
  std::string from;     ///< a file or a folder, absolute
  std::string to;       ///< $VARIABLE/PATH: the node expands the variable
  bool unpack = false;  ///< `from` is a tar archive; `to` is the folder of its contents
};

/// A folder on each node, whose files the agent copies to a folder that remains after the job.
struct OutputCopy {
  std::string from;                     ///< $VARIABLE/PATH: the node expands the variable
  std::string to;                       ///< absolute, or relative to the run's directory
  std::optional<std::int64_t> every_s;  ///< nullopt: copies only when an attempt ends
  std::optional<std::int64_t> limit_s;  ///< the longest time for one copy; nullopt: 600 s
};

/// Files that dlrun downloads for any program. TrainSpec has those for the bundled trainer.
struct DownloadSpec {
  std::optional<std::string> path;  ///< absolute
  std::vector<Download> files;
};

/// Settings of the bundled trainer. The trainer has its own default for each absent setting.
struct TrainSpec {
  std::optional<bool> cuda_graphs;
  std::optional<std::string> dataset, data_path, model, loss, optimizer, optimizer_state,
      compression, lr_scaling, lr_decay, shard, backend, device, precision;
  std::optional<double> lr, momentum, weight_decay, beta1, beta2, epsilon, alpha, trust, clip_norm,
      warmup_epochs, local_after, lr_step_factor, lr_power;
  std::optional<std::int64_t> batch, micro_batch, epochs, seed, threads, train_samples,
      test_samples, patch_size, local_steps, trace_steps;
  std::vector<std::string> hidden, lr_steps;  ///< whole numbers, as text
  std::vector<std::string> layers;            ///< one layer per item, such as "dense 10"
  std::vector<std::string> augment;           ///< flip, rotate, shift [PIXELS]
  std::vector<Download> downloads;
};

struct CheckpointSpec {
  std::optional<std::string> dir;    ///< absolute, or relative to the run's directory
  std::optional<std::string> every;  ///< "500 steps"; "1 epoch"
  std::optional<std::int64_t> keep;
  std::optional<bool> resume;  ///< the first attempt accepts checkpoints of another run
  /// The program gets the signal this long before the time limit: seconds, as text.
  std::optional<std::string> signal_before;
};

/// The conditions for restarting a run, and the memory that a restarted run requests.
struct RetrySpec {
  std::optional<std::int64_t> max;
  std::vector<std::string> on;  ///< causes of failure
  std::optional<bool> exclude_bad_nodes;
  /// The run ends after this number of attempts in a row without progress.
  std::optional<std::int64_t> no_progress;
  std::optional<double> grow_mem;       ///< grow.mem: the factor by which the memory grows
  std::optional<std::string> grow_max;  ///< grow.max: the largest memory
  /// The largest number of jobs that work on the run one after another.
  std::optional<std::int64_t> chain;
};

/// A check of nodes before the programs start: one of dlrun's own, or a shell line of the user.
struct PreflightCheck {
  std::string name;    ///< "run" for a shell line
  std::string line{};  ///< the shell line; empty for dlrun's own checks
};

struct HealthSpec {
  std::vector<PreflightCheck> preflight;
  std::optional<std::string> hang_after;      ///< seconds, as text
  std::optional<std::string> idle_gpu_after;  ///< seconds, as text
  std::optional<std::string> idle_gpu;        ///< warn, end
  std::optional<std::string> known_bad_file;  ///< absolute
  std::optional<std::string> known_bad_for;   ///< seconds, as text
};

/// The tool that profiles chosen ranks, and when it runs.
struct ProfileSpec {
  std::optional<std::string> tool;           ///< nsys, py-spy, perf
  std::vector<std::string> ranks;            ///< whole numbers, as text
  std::optional<std::string> delay, length;  ///< seconds, as text
};

/// Messages to people about the run.
struct NotifySpec {
  std::vector<std::string> on;                ///< occasions (common/notice.h)
  std::optional<std::string> webhook_secret;  ///< the variable that holds the address at submission
  std::optional<std::string> webhook_url;     ///< the address itself; dlrun never shows it
  std::vector<std::string> command;
  [[nodiscard]] bool has_webhook() const { return webhook_secret || webhook_url; }
};

/// Records of the run that other tools read.
struct TrackSpec {
  std::optional<bool> tensorboard;
  std::optional<std::string> mlflow_url, mlflow_experiment;
  std::optional<std::string> wandb_project, wandb_entity;
  std::optional<std::string> wandb_mode;     ///< online, offline
  std::optional<std::string> mlflow_secret;  ///< the variable that holds the token at submission
};

/// The name under which a run keeps the address of notify.webhook.url.
inline constexpr const char* kWebhookUrlSecret = "DLRUN_WEBHOOK_URL";

/// The jobs that this job waits for: names of runs, and Slurm job ids.
struct AfterSpec {
  std::vector<std::string> ok, any, notok;
};

/// A value of a swept key with its origin. `text` is one line of YAML with the same meaning in any
/// folder.
struct SweptValue {
  std::string key, text;
  Origin where;
};

/// The range that a random sweep draws from; both ends are included.
struct SweptRange {
  double min = 0, max = 0;
  bool is_log = false;    ///< draws uniformly on a logarithmic scale
  bool is_whole = false;  ///< draws only whole numbers
};

/// The values that a sweep tries for one key: a list or a range.
struct SweptKey {
  std::string key;
  std::vector<SweptValue> values;
  std::optional<SweptRange> range;
  Origin where;
};

/// One experiment of a sweep: the values that it sets, in the order of the spec.
using SweepPoint = std::vector<SweptValue>;

struct SweepSpec {
  std::vector<SweptKey> parameters;
  std::vector<SweepPoint> points;
  std::optional<std::int64_t> random;        ///< the number of points to draw
  std::optional<std::int64_t> seed;          ///< of the draws; nullopt: 1
  std::optional<std::int64_t> max_parallel;  ///< the largest number of points that run together
  std::optional<std::int64_t> pack;          ///< points that one job runs side by side
  std::optional<std::string> stop_metric, stop_rule;  ///< stop_early.metric, stop_early.rule
  std::optional<std::int64_t> stop_after;             ///< stop_early.after: an epoch or a step
  std::vector<std::string> ask;            ///< the search program that chooses the points
  std::optional<std::string> ask_timeout;  ///< the limit for one answer: seconds, as text
  std::optional<std::int64_t> max_points;  ///< the largest number of points of a search
  [[nodiscard]] bool is_given() const { return !parameters.empty() || !points.empty(); }
  /// Returns true if a search program chooses the points.
  [[nodiscard]] bool is_search() const { return !ask.empty(); }
  /// Removes all settings that do not apply to the run of a single point.
  void reduce_to_point() {
    SweepSpec kept;
    kept.stop_metric = std::move(stop_metric);
    kept.stop_rule = std::move(stop_rule);
    kept.stop_after = stop_after;
    *this = std::move(kept);
  }
};

/// The way in which a job is submitted to Slurm.
struct SubmitSpec {
  std::optional<std::string> via;         ///< sbatch, slurmrestd
  std::optional<std::string> url;         ///< slurmrestd's address
  std::optional<std::string> token_file;  ///< absolute
};

struct ComponentSpec;

struct JobSpec {
  std::optional<std::string> name, site;
  /// Used only while a spec is loaded; afterwards the other members hold the inherited values.
  std::optional<std::string> base;
  Resources resources;
  std::vector<SlurmOption> slurm;
  Environment environment;
  ContainerSpec container;
  Launch launch;
  DownloadSpec download;
  std::vector<StagedData> stage;
  std::vector<OutputCopy> outputs;
  TrainSpec train;
  CheckpointSpec checkpoint;
  RetrySpec retry;
  HealthSpec health;
  ProfileSpec profile;
  NotifySpec notify;
  TrackSpec track;
  AfterSpec after;
  SweepSpec sweep;
  SubmitSpec submit;
  std::vector<ComponentSpec> components;
  std::optional<std::string> hetjob;  ///< auto, true, false
  std::optional<bool> code_snapshot;
  Origins origins;
};

/// The condition under which a service is ready. Without http and tcp, a service is ready when all
/// its ranks have joined.
struct ReadySpec {
  std::optional<std::string> http;  ///< a GET of this path at the service's port gets status 200
  bool tcp = false;                 ///< the service's port accepts connections
  std::optional<std::int64_t> timeout_s;
};

/// One of several programs of a job.
struct ComponentSpec {
  std::string name;
  /// The job ends a service when all components that are not services have ended.
  bool is_service = false;
  std::optional<ReadySpec> ready;
  std::optional<std::int64_t> retry_max;
  std::vector<std::string> after;  ///< names of components
  std::string shares;  ///< the component whose nodes this one uses; empty: nodes of its own
  /// The component's own values for keys of a spec. `own.origins` also has the component's other
  /// keys, such as "component.after".
  JobSpec own;
  /// The keys that the component sets, and the inherited keys that it removes.
  std::vector<std::string> keys;
};

}  // namespace dlrun
