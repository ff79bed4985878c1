#include "launcher/spec/validate.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/slurm_units.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

/// Returns the nodes of a list, sorted and without duplicates. Returns none if the list is not
/// given or malformed; the key itself reports the latter.
[[nodiscard]] std::vector<std::string> distinct_nodes(const std::optional<std::string>& list) {
  auto nodes = expand_hostlist(list.value_or(""));
  if (!nodes) return {};
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
  return std::move(*nodes);
}

class Validator {
 public:
  Validator(const LoadedSpec& loaded, const std::set<std::string, std::less<>>& refused)
      : spec_(loaded.spec),
        site_(loaded.site),
        preset_(loaded.preset),
        file_(loaded.file),
        refused_(refused) {}

  [[nodiscard]] std::vector<Diagnostic> run() && {
    if (spec_.name == "last")
      error("name", "name: 'last' is the newest run wherever a run is asked for; take another");
    check_exclusive_keys();
    check_counts();
    check_nodes();
    check_gpus();
    check_partition();
    check_time();
    check_container();
    check_launch();
    check_preset();
    check_agent();
    check_retry();
    check_sweep();
    check_submit();
    return std::move(found_);
  }

 private:
  void error(std::string_view key, std::string message) {
    add(Diagnostic::Severity::kError, key, std::move(message));
  }
  void warn(std::string_view key, std::string message) {
    add(Diagnostic::Severity::kWarning, key, std::move(message));
  }
  void add(Diagnostic::Severity severity, std::string_view key, std::string message) {
    if (refused_.contains(key)) return;
    const auto origin = spec_.origins.find(key);
    found_.push_back(
        {severity,
         origin != spec_.origins.end() ? origin->second : Origin{Origin::Kind::kFile, file_, 0, 0},
         std::move(message), ""});
  }
  [[nodiscard]] bool has(std::string_view key) const {
    return spec_.origins.contains(key) || refused_.contains(key);
  }

  void check_exclusive_keys() {
    for (const auto& [one, other] : exclusive_keys()) {
      if (has(one) && has(other))
        error(one, fmt::format("{} and {} exclude each other", one, other));
    }
    for (std::size_t i = 0; i < spec_.environment.secrets.size(); ++i) {
      const std::string& name = spec_.environment.secrets[i].name;
      if (has("environment.vars." + name))
        error(fmt::format("environment.secrets[{}]", i),
              fmt::format(
                  "{} is a secret and cannot stand in environment.vars, which the script shows",
                  name));
    }
    if (spec_.environment.conda_module && !has("environment.conda.name")) {
      error("environment.conda.module",
            "environment.conda.name is missing: which environment is to be activated?");
    }
  }

  void check_counts() {
    const Resources& r = spec_.resources;
    if (r.ntasks && r.tasks_per_node && r.nodes) {
      const auto most = *r.tasks_per_node * r.nodes->max;
      if (*r.ntasks > most) {
        error("resources.ntasks",
              fmt::format("resources.ntasks is {}, but {} nodes x {} tasks are {}", *r.ntasks,
                          r.nodes->max, *r.tasks_per_node, most));
      }
    }
    if (r.ntasks && r.nodes && *r.ntasks < r.nodes->min) {
      error("resources.ntasks", fmt::format("resources.ntasks is {}, fewer than the {} nodes",
                                            *r.ntasks, r.nodes->min));
    }
  }

  /// Checks nodelist and exclude. With more listed nodes than the job has, Slurm ignores some of
  /// them or lets the job wait for ever.
  void check_nodes() {
    const Resources& r = spec_.resources;
    const auto listed = distinct_nodes(r.nodelist), excluded = distinct_nodes(r.exclude);
    const auto most = r.nodes    ? std::optional(r.nodes->max)
                      : r.ntasks ? std::nullopt
                                 : std::optional<std::int64_t>(1);
    if (const auto count = static_cast<std::int64_t>(listed.size()); most && count > *most) {
      error("resources.nodelist",
            fmt::format("resources.nodelist: the job must have all of its {} nodes, but "
                        "resources.nodes is {}{}",
                        count, *most, r.nodes ? "" : " where it is not given"));
    }
    std::vector<std::string> both;
    std::set_intersection(listed.begin(), listed.end(), excluded.begin(), excluded.end(),
                          std::back_inserter(both));
    if (!both.empty())
      error("resources.exclude", fmt::format("resources.exclude: resources.nodelist asks for {}",
                                             compress_hostlist(both)));
  }

  void check_gpus() {
    const Resources& r = spec_.resources;
    const std::string key = r.gpus_per_node ? "resources.gpus_per_node" : "resources.gres";
    const auto gpus = gpus_per_node(spec_);
    if (r.gpus && r.nodes && site_.max_gpus_per_node &&
        r.gpus->count > *site_.max_gpus_per_node * r.nodes->max) {
      error("resources.gpus",
            fmt::format(
                "resources.gpus is {} on {} nodes, but site '{}' has at most {} GPUs per node",
                r.gpus->count, r.nodes->max, site_.name, *site_.max_gpus_per_node));
    }
    if (!gpus || *gpus == 0) return;
    if (site_.max_gpus_per_node && *gpus > *site_.max_gpus_per_node) {
      return error(key, fmt::format("{} is {}, but site '{}' has at most {} GPUs per node", key,
                                    *gpus, site_.name, *site_.max_gpus_per_node));
    }
    const auto ranks = ranks_per_node(spec_);
    if (ranks && *ranks % *gpus != 0 && *gpus % *ranks != 0) {
      warn(has("resources.tasks_per_node") ? "resources.tasks_per_node" : key,
           fmt::format("{} tasks on {} GPUs of a node: neither is a multiple of the other, so some "
                       "GPUs are shared "
                       "unevenly or idle",
                       *ranks, *gpus));
    } else if (ranks && *ranks > 1 && *ranks < *gpus) {
      warn(has("resources.tasks_per_node") ? "resources.tasks_per_node" : key,
           fmt::format("{} tasks on {} GPUs of a node: fewer tasks than GPUs", *ranks, *gpus));
    }
  }

  /// Compares the spec with the site's facts about the job's partition. Reports warnings only,
  /// because the cluster may have changed since; Slurm decides.
  void check_partition() {
    const Resources& r = spec_.resources;
    const std::string name = r.partition.value_or(site_.default_partition);
    const auto found = site_.partitions.find(name);
    if (found == site_.partitions.end()) {
      std::vector<std::string_view> names;
      for (const auto& [known, profile] : site_.partitions) names.push_back(known);
      if (const auto similar = r.partition ? nearest(name, names) : std::nullopt) {
        warn("resources.partition",
             fmt::format("site '{}' knows no partition '{}'; did you mean '{}'?", site_.name,
                         printable(name), *similar));
      }
      return;
    }
    const PartitionProfile& partition = found->second;
    const auto tell = [&](std::string_view key, std::string_view asked, std::string_view has_text) {
      warn(key, fmt::format("{} is {}, but partition '{}' of site '{}' has {}", key, asked, name,
                            site_.name, has_text));
    };
    const auto count = [](std::int64_t number, std::string_view unit) {
      return number == 0 ? fmt::format("no {}s", unit)
                         : fmt::format("{} {}{}", number, unit, number == 1 ? "" : "s");
    };
    const std::string_view gpu_key = r.gpus_per_node ? "resources.gpus_per_node" : "resources.gres";
    if (const auto gpus = gpus_per_node(spec_);
        gpus && partition.gpus_per_node && *gpus > *partition.gpus_per_node) {
      const bool is_told = site_.max_gpus_per_node && *gpus > *site_.max_gpus_per_node;
      if (!is_told)
        tell(gpu_key, fmt::format("{}", *gpus),
             count(*partition.gpus_per_node, "GPU") + " per node");
    }
    if (r.gpus_per_node && !r.gpus_per_node->type.empty() && !partition.gpu_types.empty() &&
        std::find(partition.gpu_types.begin(), partition.gpu_types.end(), r.gpus_per_node->type) ==
            partition.gpu_types.end()) {
      tell(gpu_key, format_gpus(*r.gpus_per_node),
           "GPUs of type " + join(partition.gpu_types, ", "));
    }
    if (r.nodes && partition.max_nodes && r.nodes->min > *partition.max_nodes) {
      tell("resources.nodes", fmt::format("{}", r.nodes->min),
           fmt::format("at most {} for one job", count(*partition.max_nodes, "node")));
    }
    const auto ranks = ranks_per_node(spec_);
    if (ranks && r.cpus_per_task && partition.cpus_per_node &&
        *ranks * *r.cpus_per_task > *partition.cpus_per_node) {
      tell("resources.cpus_per_task",
           fmt::format("{} for each of {} tasks of a node", *r.cpus_per_task, *ranks),
           count(*partition.cpus_per_node, "CPU") + " per node");
    }
    if (const auto memory = memory_mib(r.mem.value_or("0"));
        memory && partition.mem_per_node_mib && *memory > *partition.mem_per_node_mib) {
      tell("resources.mem", *r.mem, fmt::format("{} MiB per node", *partition.mem_per_node_mib));
    }
    if (const auto limit = r.time ? parse_time_limit(*r.time) : std::nullopt;
        limit && *limit && partition.max_time_seconds && **limit > *partition.max_time_seconds) {
      tell("resources.time", format_time_limit(**limit),
           fmt::format("at most {}", format_time_limit(*partition.max_time_seconds)));
    }
  }

  void check_time() {
    if (!has("resources.time")) {
      warn("resources.time",
           "resources.time is not given: the partition's default limit holds, which may be minutes "
           "or for ever");
    } else if (spec_.resources.time == "UNLIMITED") {
      warn("resources.time",
           "resources.time is UNLIMITED: such a job may never start before a maintenance");
    }
    if (spec_.checkpoint.signal_before && spec_.resources.time &&
        spec_.resources.time != "UNLIMITED") {
      const auto limit = parse_time_limit(*spec_.resources.time);
      const auto before = parse_duration(*spec_.checkpoint.signal_before);
      if (limit && before && *limit && *before >= **limit) {
        error("checkpoint.signal_before",
              fmt::format("checkpoint.signal_before is {} s, but the time limit is {} s", *before,
                          **limit));
      }
    }
    if (const auto before = parse_duration(spec_.checkpoint.signal_before.value_or("60"));
        before && (*before < 1 || *before > 65535)) {
      error("checkpoint.signal_before",
            fmt::format("checkpoint.signal_before is {} s; Slurm takes 1 to 65535", *before));
    }
  }

  void check_container() {
    if (refused_.contains("container.runtime")) return;
    const ContainerSpec& c = spec_.container;
    const std::string runtime = container_runtime(spec_, site_);
    if (runtime == "none") {
      if (!c.image) {
        for (std::string_view key :
             {"container.mounts", "container.workdir", "container.name", "container.save"}) {
          if (spec_.origins.contains(key)) error(key, fmt::format("{} needs container.image", key));
        }
      } else if (c.runtime == "none") {
        error("container.image", "container.image is given, but container.runtime is none");
      } else {
        error("container.image", fmt::format("site '{}' names no container runtime; give "
                                             "container.runtime: pyxis where the cluster has it",
                                             site_.name));
      }
      return;
    }
    const ContainerBackend* backend = find_container_backend(runtime);
    if (backend == nullptr) {
      return error(c.runtime && *c.runtime != "auto" ? "container.runtime" : "container.image",
                   fmt::format("container.runtime: '{}' is not a runtime that dlrun knows",
                               printable(runtime)));
    }
    if (!c.image && !c.name && !refused_.contains("container.image"))
      error("container.runtime", "container.image is missing");
    for (const ContainerProblem& problem : backend->problems(c)) {
      add(problem.is_warning ? Diagnostic::Severity::kWarning : Diagnostic::Severity::kError,
          problem.key, problem.message);
    }
  }

  void check_agent() {
    if (spec_.launch.agent.value_or(true)) return;
    if (preset_.trusted) {
      return error(
          "launch.agent",
          "launch.agent: false: the preset 'trainer' cannot do without; its ranks meet over it");
    }
    if (!spec_.environment.secrets.empty()) {
      return error(
          "launch.agent",
          "launch.agent: false: environment.secrets reach the programs by the agent alone");
    }
    if (const auto field = field_of_agent(preset_)) {
      error("launch.agent",
            fmt::format(
                "launch.agent: false: the preset '{}' asks for {{{}}}, which only the agent knows",
                preset_.name, *field));
    }
  }

  void check_retry() {
    const RetrySpec& r = spec_.retry;
    if (has("retry.on") && r.on.empty() && !refused_.contains("retry.on"))
      error("retry.on", "retry.on names no cause; retry.max: 0 is how a run never starts again");
    const bool wants_timeout = std::find(r.on.begin(), r.on.end(), "timeout") != r.on.end();
    if (wants_timeout && !has("checkpoint.signal_before")) {
      error("retry.on",
            "retry.on: timeout needs checkpoint.signal_before: so long before the limit a "
            "checkpoint is saved and the "
            "job "
            "queued again; afterwards is too late");
    }
    if (!spec_.launch.agent.value_or(true)) {
      if (wants_retry(spec_))
        error("launch.agent",
              "launch.agent: false: it is the agent that starts a run again (retry)");
      if (spec_.health.hang_after)
        error("launch.agent",
              "launch.agent: false: it is the agent that sees a run hang (health.hang_after)");
      if (!spec_.health.preflight.empty())
        error("launch.agent",
              "launch.agent: false: it is the agent that checks its node (health.preflight)");
    }
    check_spare_nodes();
    check_known_bad();
    const auto& checks = spec_.health.preflight;
    const bool has_nccl = std::find(checks.begin(), checks.end(), "nccl") != checks.end();
    if (has_nccl && std::find(checks.begin(), checks.end(), "gloo") != checks.end()) {
      error("health.preflight",
            "health.preflight: nccl and gloo are the same check, over GPUs or without; name one");
    } else if (has_nccl && !may_have_gpus(spec_)) {
      error("health.preflight",
            "health.preflight: nccl is a check among GPUs, and the job asks for none "
            "(resources.gpus_per_node); gloo is "
            "the same check without them");
    }
    if (preset_.is_trainer && spec_.checkpoint.keep == 0 && wants_retry(spec_))
      warn("checkpoint.keep",
           "checkpoint.keep is 0, so none is written: a run that starts again (retry) begins from "
           "its first step");
    check_idle_gpu();
    if (const auto after = parse_duration(spec_.health.hang_after.value_or("60"));
        after && *after < 1)
      error("health.hang_after", "health.hang_after is 0 s: every run would hang");
  }

  void check_idle_gpu() {
    const HealthSpec& h = spec_.health;
    if (h.idle_gpu && !h.idle_gpu_after)
      error("health.idle_gpu",
            "health.idle_gpu needs health.idle_gpu_after: how long a GPU may be idle");
    if (!h.idle_gpu_after) return;
    if (!spec_.launch.agent.value_or(true))
      error("launch.agent",
            "launch.agent: false: it is the agent that sees idle GPUs (health.idle_gpu_after)");
    if (!may_have_gpus(spec_))
      error("health.idle_gpu_after",
            "health.idle_gpu_after: the job asks for none of the GPUs that could be idle");
    if (const auto after = parse_duration(*h.idle_gpu_after); after && *after < 10)
      error("health.idle_gpu_after",
            "health.idle_gpu_after is less than 10 s: GPUs are asked every five seconds");
  }

  void check_spare_nodes() {
    const Resources& r = spec_.resources;
    if (!r.spare_nodes) return;
    constexpr const char* kKey = "resources.spare_nodes";
    const auto causes = retry_causes(spec_);
    if (!wants_retry(spec_) ||
        std::find(causes.begin(), causes.end(), "node_failure") == causes.end())
      error(kKey,
            "resources.spare_nodes: a spare node is used by the next attempt only; add retry.on: "
            "[node_failure]");
    if (!r.nodes || r.nodes->min != r.nodes->max)
      error(kKey,
            "resources.spare_nodes: needs resources.nodes with one number, the nodes of every "
            "attempt");
    for (const std::string_view key : {"resources.ntasks", "resources.gpus"}) {
      if (has(key))
        error(
            kKey,
            fmt::format(
                "resources.spare_nodes: {} counts over all nodes, spare ones too; give {} instead",
                key,
                key == "resources.gpus" ? "resources.gpus_per_node" : "resources.tasks_per_node"));
    }
  }

  void check_known_bad() {
    const HealthSpec& h = spec_.health;
    if (!h.known_bad_file && !h.known_bad_for) return;
    if (!spec_.launch.agent.value_or(true))
      error("launch.agent",
            "launch.agent: false: it is the agent that remembers bad nodes (health.known_bad)");
    if (const auto time = parse_duration(h.known_bad_for.value_or("60")); time && *time < 1)
      error("health.known_bad.for",
            "health.known_bad.for is 0 s: every node would be forgotten at once");
  }

  void check_preset() {
    const auto per_node = ranks_per_node(spec_);
    if (preset_.is_node_launcher) {
      const std::string_view key =
          has("resources.tasks_per_node") ? "resources.tasks_per_node" : "resources.ntasks";
      if (!per_node || *per_node != 1) {
        error(key, fmt::format("{}: the preset '{}' starts the ranks of a node itself and wants "
                               "one task per node; "
                               "launch.nproc_per_node says how many ranks",
                               key, preset_.name));
      } else if (!nproc_per_node(spec_)) {
        error("launch.nproc_per_node",
              fmt::format(
                  "launch.nproc_per_node is missing: how many ranks is '{}' to start on each node?",
                  preset_.name));
      }
    } else if (spec_.launch.nproc_per_node) {
      warn("launch.nproc_per_node", fmt::format("launch.nproc_per_node is for presets that start "
                                                "the ranks of a node themselves, such as "
                                                "torchrun; with '{}' every task is a rank "
                                                "(resources.tasks_per_node), so it has no effect",
                                                preset_.name));
    }
    const Launch& l = spec_.launch;
    const auto others = l.chief.value_or(0) + l.ps.value_or(0) + l.evaluator.value_or(0);
    if (others == 0) return;
    const std::string_view key = l.ps      ? "launch.roles.ps"
                                 : l.chief ? "launch.roles.chief"
                                           : "launch.roles.evaluator";
    const auto& nodes = spec_.resources.nodes;
    const auto tasks = spec_.resources.ntasks ? spec_.resources.ntasks
                       : per_node && (!nodes || nodes->min == nodes->max)
                           ? std::optional(*per_node * (nodes ? nodes->min : 1))
                           : std::nullopt;
    if (!uses_roles(preset_)) {
      warn(key,
           fmt::format("launch.roles: the preset '{}' gives ranks no roles, so it has no effect",
                       preset_.name));
    } else if (tasks && *tasks < others) {
      error(key, fmt::format("launch.roles asks for {} ranks, but the job has {}", others, *tasks));
    } else if (tasks && *tasks == others && l.chief.value_or(0) == 0) {
      error(key,
            fmt::format(
                "launch.roles: all {} ranks have another role, and none is left to be a worker",
                *tasks));
    }
  }

  void check_launch() {
    if (preset_.is_trainer) {
      if (preset_.trusted && spec_.origins.contains("launch.command"))
        error("launch.command",
              "launch.command: the preset 'trainer' brings its own program; see train");
    } else if (spec_.launch.command.empty()) {
      error("launch.command", "launch.command is missing: which program is to run?");
    } else {
      const auto& words = spec_.launch.command;
      if (std::find(words.begin(), words.end(), ":") != words.end()) {
        error("launch.command",
              "launch.command: srun takes a word ':' as the start of another job's part, so it "
              "cannot reach the program; "
              "put it into a shell: [bash, -c, 'program :']");
      }
      for (const KeyRow& row : spec_keys()) {
        if (row.path.substr(0, 6) == "train." && spec_.origins.contains(row.path)) {
          warn(row.path,
               fmt::format(
                   "{} is for the preset 'trainer'; this spec's is '{}', so it has no effect",
                   row.path, preset_.name));
        }
      }
    }
    const std::string mpi = spec_.launch.mpi.value_or("");
    if (spec_.train.backend == "mpi" && mpi == "none") {
      error("train.backend",
            "train.backend is mpi, but launch.mpi is none: its ranks would be worlds of one each");
    }
    if (spec_.train.backend == "mpi" && container_runtime(spec_, site_) != "none") {
      error("train.backend",
            "train.backend: mpi needs the host's MPI library, which an image lacks; use gloo");
    }
    if (spec_.train.backend == "shm" && spec_.resources.nodes && spec_.resources.nodes->max > 1) {
      error("train.backend", fmt::format("train.backend: shm reaches the ranks of one node, but "
                                         "resources.nodes is {}; use mpi or gloo",
                                         spec_.resources.nodes->max));
    }
    if (!spec_.train.layers.empty() && (spec_.train.model || !spec_.train.hidden.empty())) {
      error("train.layers",
            "train.layers is the whole network: train.model and train.hidden have no part in it");
    }
    if ((spec_.train.lr_decay == "step") == spec_.train.lr_steps.empty()) {
      error(spec_.train.lr_steps.empty() ? "train.lr_decay" : "train.lr_steps",
            "train.lr_decay: step and train.lr_steps, the epochs after which the learning rate "
            "falls, go together");
    }
    const std::string rule = spec_.train.optimizer.value_or("");
    if (spec_.train.optimizer_state == "sharded" &&
        (rule == "lars" || rule == "lamb" || rule == "novograd")) {
      error(
          "train.optimizer.state",
          fmt::format("train.optimizer.state: sharded cuts across the layers, whose norms {} needs",
                      rule));
    }
    if (spec_.train.optimizer_state == "sharded" && spec_.train.local_steps) {
      error("train.local_steps",
            "train.local_steps: ranks average whole arrays; train.optimizer.state is sharded");
    }
    if (spec_.train.local_after && !spec_.train.local_steps) {
      error("train.local_after",
            "train.local_after needs train.local_steps, the steps between averages");
    }
    if (spec_.train.precision == "bf16" && spec_.train.device.value_or("cpu") != "cuda") {
      error("train.precision",
            "train.precision: bf16 needs train.device: cuda; on the CPU products are in float32");
    }
    if (spec_.train.cuda_graphs.value_or(false) && spec_.train.device.value_or("cpu") != "cuda") {
      error("train.cuda_graphs",
            "train.cuda_graphs: true needs train.device: cuda; on the CPU there is nothing to hand "
            "over");
    }
    if (preset_.is_trainer && spec_.train.loss == "sigmoid" && spec_.train.dataset != "patches" &&
        spec_.train.dataset.value_or("digits") != "arrays") {
      error("train.loss",
            fmt::format(
                "train.loss: sigmoid wants labels that are 0 or 1 for each class, and those of "
                "train.data.dataset: {} are one class of several; arrays can hold such",
                spec_.train.dataset.value_or("digits")));
    }
    if (spec_.train.shard == "file" && spec_.train.dataset != "arrays") {
      error(
          "train.shard",
          "train.shard: file spreads the partitions of train.data.dataset: arrays over the ranks");
    }
    if (preset_.is_trainer && spec_.train.dataset && *spec_.train.dataset != "digits" &&
        *spec_.train.dataset != "patches" && !has("train.data.path")) {
      error("train.data.dataset",
            fmt::format("train.data.path is missing: where are the files of '{}'?",
                        *spec_.train.dataset));
    }
    check_images();
    if (preset_.is_trainer && !spec_.train.downloads.empty()) check_downloads();
  }

  void check_images() {
    if (preset_.is_trainer && spec_.train.dataset == "patches" &&
        spec_.train.loss.value_or("softmax") != "sigmoid" &&
        !sweeps_over(spec_.sweep, "train.loss")) {
      error("train.data.dataset",
            "train.data.dataset: patches needs train.loss: sigmoid, because an image has several "
            "labels");
    }
    if (preset_.is_trainer && spec_.train.dataset == "patches" && has("train.data.path")) {
      error("train.data.path",
            "train.data.path: the trainer draws the images of train.data.dataset: patches itself");
    }
    if (spec_.train.patch_size && spec_.train.dataset != "patches") {
      error("train.data.patch_size", "train.data.patch_size needs train.data.dataset: patches");
    }
    for (const std::string& word : spec_.train.augment) {
      if (word == "flip" || word == "rotate" || word == "shift") continue;
      if (word == "none" && spec_.train.augment.size() == 1) continue;
      const auto pixels = word.starts_with("shift ") ? parse_int(trim(word.substr(6)))
                                                     : std::optional<std::int64_t>();
      if (pixels && *pixels >= 1 && *pixels <= 1024) continue;
      error("train.augment",
            fmt::format("train.augment: '{}' is none of flip, rotate and shift [PIXELS], with 1 to "
                        "1024 pixels",
                        printable(word)));
    }
  }

  void check_downloads() {
    const std::string_view key = "train.data.download";
    if (!has("train.data.path"))
      error(
          key,
          "train.data.download: train.data.path is missing: in which folder are the files to lie?");
    if (spec_.train.dataset.value_or("digits") == "digits" &&
        !refused_.contains("train.data.dataset"))
      error(key,
            "train.data.download: train.data.dataset says digits, or nothing, which need no files: "
            "mnist, idx, "
            "cifar10 and arrays are read from files");
    if (sweeps_over(spec_.sweep, "train.data.path"))
      error(key,
            "train.data.download: the sweep gives its points several train.data.path, and the "
            "files go into one");
  }

  void check_sweep() {
    for (const char* key : {"sweep.random", "sweep.seed", "sweep.max_parallel"}) {
      if (has(key) && !spec_.sweep.is_given() && !refused_.contains("sweep.parameters") &&
          !refused_.contains("sweep.points"))
        error(key,
              fmt::format("{}: sweep.parameters is missing: which keys, and which values?", key));
    }
    if (!spec_.sweep.is_given() || refused_.contains("sweep.parameters") ||
        refused_.contains("sweep.points"))
      return;
    bool is_endless = false;
    for (const SweptKey& key : spec_.sweep.parameters) {
      if (!key.range || spec_.sweep.random) continue;
      is_endless = true;
      if (!refused_.contains("sweep.random"))
        found_.push_back(
            {Diagnostic::Severity::kError, key.where,
             fmt::format(
                 "sweep.parameters: '{}' has a range: sweep.random says how many points to draw "
                 "from it; else give a list",
                 key.key),
             ""});
    }
    if (is_endless) return;
    const std::uint64_t all = grid_size(spec_.sweep);
    const bool is_random = spec_.sweep.random.has_value();
    if (!is_random && all > kMostSweepPoints)
      error("sweep.parameters",
            fmt::format(
                "sweep.parameters: {} points, and a sweep has at most {}; try fewer values, "
                "or sweep.random",
                all == UINT64_MAX ? "more than 2^64" : std::to_string(all), kMostSweepPoints));
    if (is_random && static_cast<std::uint64_t>(*spec_.sweep.random) > all)
      error("sweep.random",
            fmt::format("sweep.random is {}, but sweep.parameters has only {} combinations",
                        *spec_.sweep.random, all));
  }

  void check_submit() {
    const SubmitSpec& s = spec_.submit;
    if (s.url) {
      if (const auto address = parse_rest_url(*s.url); !address)
        error("submit.url", "submit.url: " + address.error().message);
    }
    if (s.via.value_or("sbatch") != "slurmrestd") return;
    if (!s.url) {
      error("submit.via", "submit.via is slurmrestd, but submit.url does not say where it listens");
    } else if (!s.url->starts_with("unix:") && !s.token_file) {
      error("submit.url",
            "submit.url: whoever can reach a port may be anybody: give submit.token_file, a file "
            "with what `scontrol "
            "token` prints");
    }
  }

  const JobSpec& spec_;
  const SiteProfile& site_;
  const Preset& preset_;
  const std::string& file_;
  const std::set<std::string, std::less<>>& refused_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> validate(const LoadedSpec& loaded,
                                 const std::set<std::string, std::less<>>& refused) {
  return Validator(loaded, refused).run();
}

std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kExclusive{{
      {"resources.gres", "resources.gpus_per_node"},
      {"resources.cpus_per_gpu", "resources.cpus_per_task"},
      {"resources.mem_per_cpu", "resources.mem"},
      {"resources.mem_per_gpu", "resources.mem"},
      {"resources.mem_per_gpu", "resources.mem_per_cpu"},
      {"resources.signal", "checkpoint.signal_before"},
      {"environment.venv", "environment.conda.name"},
      {"resources.hint", "launch.cpu_bind"},
      {"sweep.points", "sweep.parameters"},
      {"sweep.points", "sweep.random"},
  }};
  return kExclusive;
}

}  // namespace dlrun
