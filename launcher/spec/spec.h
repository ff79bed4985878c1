#pragma once
// The experiment as plain data: what exp.yaml says once its text, --set, the site and the
// environment are merged. A field here has one row in launcher/spec/spec_keys.cc; nothing else
// knows its name, type or range.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "container/container.h"

namespace dlrun {

/// Where a value came from.
struct Origin {
  enum class Kind { kDefault, kFile, kSite, kPreset, kEnv, kSet };
  Kind kind = Kind::kDefault;
  std::string source;  ///< kFile, kSite, kPreset: the file as it was named; kEnv: the variable;
                       ///< kSet: the argument
  int line = 0;        ///< from 1; 0 where the source has no lines
  int column = 0;      ///< from 1
};

/// "exp.yaml:12:3", "--set resources.nodes=4", "env SBATCH_ACCOUNT", "site juwels
/// (sites/juwels.yaml:12)", "default"
[[nodiscard]] std::string describe(const Origin& origin);

/// Key to origin, for every value that was set: "resources.nodes" -> exp.yaml:4:10.
using Origins = std::map<std::string, Origin, std::less<>>;

/// Pairs in the order they were written.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

struct NodeRange {
  std::int64_t min = 1;
  std::int64_t max = 1;
};

/// GPUs as Slurm counts them, with the type where one is asked for: 4, a100:4, 1g.5gb:2.
struct Gpus {
  std::string type;
  std::int64_t count = 0;
};

/// An option of sbatch or srun by its long name. No value: a flag.
struct SlurmOption {
  std::string name;
  std::optional<std::string> value;
};

struct Resources {
  std::optional<NodeRange> nodes;
  std::optional<std::int64_t>
      spare_nodes;  ///< allocated beyond `nodes`, and used once one of those is lost
  std::optional<std::int64_t> ntasks, tasks_per_node, cpus_per_task, cpus_per_gpu, threads_per_core;
  std::optional<Gpus> gpus, gpus_per_node, gpus_per_task;
  std::optional<std::string> gres, mem, mem_per_cpu, mem_per_gpu, time;
  std::optional<std::string> partition, account, qos, reservation, constraint, nodelist, exclude,
      exclusive, licenses, begin;
  std::optional<std::string> clusters, hint, distribution, output, error, signal;
};

/// A variable that only the program may see.
struct SecretSource {
  std::string name;
  std::string file;  ///< absolute; empty: the submitter's environment has it
};

struct Environment {
  std::optional<bool> modules_purge;
  std::vector<std::string> modules_use, modules_load;
  std::optional<std::string> conda_module, conda_name;
  std::optional<std::string> venv;
  NamedValues vars;
  std::vector<SecretSource> secrets;
  std::optional<std::string> setup, setup_node;
};

struct Launch {
  std::optional<std::string> preset;
  std::vector<std::string> command;
  std::optional<bool> agent;  ///< false: a script that needs nothing of dlrun on the nodes
  std::optional<std::int64_t> nproc_per_node;  ///< of a preset that starts a node's ranks itself
  std::optional<std::int64_t> chief, ps, evaluator;  ///< roles; every other rank is a worker
  std::optional<std::string> mpi, cpu_bind, gpu_bind;
  std::vector<SlurmOption> srun;
};

/// A file that a login node fetches before the job is queued.
struct Download {
  std::string url;     ///< https:// or http://, without user and password
  std::string sha256;  ///< 64 small hex digits
  std::string file;    ///< its name in train.data.path
  std::optional<std::int64_t> bytes;
};

/// The bundled trainer's settings; an absent one is the trainer's own default.
struct TrainSpec {
  std::optional<bool> cuda_graphs;
  std::optional<std::string> dataset, data_path, model, loss, optimizer, optimizer_state,
      compression, lr_scaling, lr_decay, shard, backend, device, precision;
  std::optional<double> lr, momentum, weight_decay, beta1, beta2, epsilon, alpha, trust, clip_norm,
      warmup_epochs, local_after, lr_step_factor, lr_power;
  std::optional<std::int64_t> batch, micro_batch, epochs, seed, threads, train_samples,
      test_samples, local_steps,
      trace_steps;                                    ///< batches of a rank
  std::vector<std::string> hidden, layers, lr_steps;  ///< numbers, as text
  std::vector<Download> downloads;
};

struct CheckpointSpec {
  std::optional<std::string> dir;    ///< absolute, or below the run directory
  std::optional<std::string> every;  ///< "500 steps"; "1 epoch"
  std::optional<std::int64_t> keep;
  std::optional<std::string>
      signal_before;  ///< seconds before the time limit, in Slurm's or our forms
};

/// When a run starts again.
struct RetrySpec {
  std::optional<std::int64_t> max;
  std::vector<std::string> on;  ///< causes
  std::optional<bool> exclude_bad_nodes;
  std::optional<std::int64_t> no_progress;
};

struct HealthSpec {
  std::vector<std::string> preflight;         ///< checks
  std::optional<std::string> hang_after;      ///< seconds, as text
  std::optional<std::string> idle_gpu_after;  ///< seconds, as text
  std::optional<std::string> idle_gpu;        ///< warn, end
  std::optional<std::string> known_bad_file;  ///< absolute
  std::optional<std::string> known_bad_for;   ///< seconds, as text
};

/// What must have happened to others before this job starts: runs, by any of their names, and Slurm
/// job ids.
struct AfterSpec {
  std::vector<std::string> ok, any, notok;
};

/// A value of a swept key: one line of YAML that means the same wherever it is read, and where it
/// stands.
struct SweptValue {
  std::string key, text;
  Origin where;
};

/// Numbers that a random sweep draws from, both ends included.
struct SweptRange {
  double min = 0, max = 0;
  bool is_log = false;    ///< every power of ten is as likely as the next
  bool is_whole = false;  ///< the key takes whole numbers only
};

/// What a sweep tries for one key: values, or a range.
struct SweptKey {
  std::string key;
  std::vector<SweptValue> values;
  std::optional<SweptRange> range;
  Origin where;
};

/// One experiment of a sweep: what it sets, in the order of the spec.
using SweepPoint = std::vector<SweptValue>;

struct SweepSpec {
  std::vector<SweptKey> parameters;
  std::vector<SweepPoint> points;
  std::optional<std::int64_t> random, seed, max_parallel;
  [[nodiscard]] bool is_given() const { return !parameters.empty() || !points.empty(); }
};

/// How a job gets to Slurm.
struct SubmitSpec {
  std::optional<std::string> via;         ///< sbatch, slurmrestd
  std::optional<std::string> url;         ///< slurmrestd's
  std::optional<std::string> token_file;  ///< absolute
};

struct JobSpec {
  std::optional<std::string> name, site;
  std::optional<std::string>
      base;  ///< while a spec is loaded; what it inherits is in the other members afterwards
  Resources resources;
  std::vector<SlurmOption> slurm;
  Environment environment;
  ContainerSpec container;
  Launch launch;
  TrainSpec train;
  CheckpointSpec checkpoint;
  RetrySpec retry;
  HealthSpec health;
  AfterSpec after;
  SweepSpec sweep;
  SubmitSpec submit;
  std::optional<bool> code_snapshot;
  Origins origins;
};

}  // namespace dlrun
