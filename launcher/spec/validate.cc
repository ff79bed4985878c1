#include "launcher/spec/validate.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/rest_server.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/validator.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// Returns the nodes of a list, sorted and without duplicates. Returns none if the list is absent
/// or malformed; a malformed list was reported when it was read.
[[nodiscard]] std::vector<std::string> distinct_nodes(const std::optional<std::string>& list) {
  auto nodes = expand_hostlist(list.value_or(""));
  if (!nodes) return {};
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
  return std::move(*nodes);
}

/// Returns "no GPUs", "1 GPU" or "4 GPUs".
[[nodiscard]] std::string with_unit(std::int64_t number, std::string_view unit) {
  return number == 0 ? fmt::format("no {}s", unit)
                     : fmt::format("{} {}{}", number, unit, number == 1 ? "" : "s");
}

}  // namespace

std::vector<Diagnostic> Validator::run() && {
  if (spec_.name == "last")
    error("name", "name: 'last' always refers to the newest run; choose another name");
  check_exclusive_keys();
  if (has("components"_key)) {
    check_components();
    return std::move(findings_);
  }
  if (has("hetjob"_key))
    error("hetjob"_key, "hetjob: components is missing; set it to the programs of the job");
  check_ntasks();
  check_nodes();
  check_gpus();
  check_partition();
  check_time();
  check_container();
  check_environment(container_runtime(spec_, site_) != "none");
  warn_of_secret_variables();
  check_launch();
  warn_of_unused_checkpoint_keys();
  check_preset();
  if (preset_.needs_components)
    error(
        "launch.preset"_key,
        fmt::format("launch.preset: '{}' starts a server that other programs of the job use; give "
                    "the job components (docs/components.md)",
                    preset_.name));
  check_agent();
  check_retry_and_health();
  check_profile();
  check_notify();
  check_track();
  check_data();
  check_sweep();
  check_submit();
  return std::move(findings_);
}

void Validator::add_finding(Diagnostic::Severity severity, std::string_view key,
                            std::string message) {
  if (refused_.contains(key)) return;
  const auto origin = spec_.origins.find(key);
  if (origin == spec_.origins.end() && is_misspelt(key)) return;
  findings_.push_back({severity,
                       origin != spec_.origins.end() ? origin->second : fallback_origin_,
                       std::move(message),
                       {},
                       std::string(key)});
}

bool Validator::is_misspelt(std::string_view key) const {
  return std::any_of(
      correct_spellings_.begin(), correct_spellings_.end(), [&](std::string_view meant) {
        return key.starts_with(meant) && (key.size() == meant.size() || key[meant.size()] == '.');
      });
}

void Validator::check_exclusive_keys() {
  for (const auto& [one, other] : exclusive_keys()) {
    if (has(one) && has(other)) error(one, fmt::format("{} and {} exclude each other", one, other));
  }
  for (std::size_t i = 0; i < spec_.environment.secrets.size(); ++i) {
    const std::string& name = spec_.environment.secrets[i].name;
    if (has("environment.vars." + name))
      error(fmt::format("environment.secrets[{}]", i),
            fmt::format("{} is a secret; remove it from environment.vars, which the script shows",
                        name));
  }
  if (spec_.environment.conda_module && !has("environment.conda.name"_key)) {
    error("environment.conda.module"_key,
          "environment.conda.name is missing; set it to the environment to activate");
  }
}

void Validator::check_ntasks() {
  const Resources& r = spec_.resources;
  if (r.ntasks && r.tasks_per_node && r.nodes) {
    const auto most = *r.tasks_per_node * r.nodes->max;
    if (*r.ntasks > most) {
      error("resources.ntasks"_key,
            fmt::format("resources.ntasks is {}, but {} nodes x {} tasks are {}", *r.ntasks,
                        r.nodes->max, *r.tasks_per_node, most));
    }
  }
  if (r.ntasks && r.nodes && *r.ntasks < r.nodes->min) {
    error("resources.ntasks"_key,
          fmt::format("resources.ntasks is {}, fewer than the {} nodes", *r.ntasks, r.nodes->min));
  }
}

void Validator::check_nodes() {
  const Resources& r = spec_.resources;
  const auto listed = distinct_nodes(r.nodelist), excluded = distinct_nodes(r.exclude);
  const auto spare_count = r.spare_nodes.value_or(0);
  const auto most = r.nodes    ? std::optional(r.nodes->max + spare_count)
                    : r.ntasks ? std::nullopt
                               : std::optional<std::int64_t>(1);
  if (const auto count = static_cast<std::int64_t>(listed.size()); most && count > *most) {
    const auto spares =
        spare_count > 0 ? fmt::format(" and resources.spare_nodes is {}", spare_count) : "";
    error("resources.nodelist"_key,
          fmt::format("resources.nodelist has {} nodes, but resources.nodes is {}{}; the job must "
                      "have every node of the list",
                      count, r.nodes ? format_nodes(*r.nodes) : "1 by default", spares));
  }
  std::vector<std::string> both;
  std::set_intersection(listed.begin(), listed.end(), excluded.begin(), excluded.end(),
                        std::back_inserter(both));
  if (!both.empty())
    error("resources.exclude"_key,
          fmt::format("resources.exclude and resources.nodelist both contain {}",
                      compress_hostlist(both)));
}

void Validator::check_gpus() {
  const Resources& r = spec_.resources;
  const std::string key = r.gpus_per_node ? "resources.gpus_per_node"_key : "resources.gres"_key;
  const auto gpus = gpus_per_node(spec_);
  if (r.gpus && r.nodes && site_.max_gpus_per_node &&
      r.gpus->count > *site_.max_gpus_per_node * r.nodes->max) {
    error(
        "resources.gpus"_key,
        fmt::format("resources.gpus is {} on {} nodes, but site '{}' has at most {} GPUs per node",
                    r.gpus->count, r.nodes->max, site_.name, *site_.max_gpus_per_node));
  }
  if (!gpus || *gpus == 0) return;
  if (site_.max_gpus_per_node && *gpus > *site_.max_gpus_per_node) {
    return error(key, fmt::format("{} is {}, but site '{}' has at most {} GPUs per node", key,
                                  *gpus, site_.name, *site_.max_gpus_per_node));
  }
  const auto ranks = ranks_per_node(spec_);
  if (ranks && *ranks % *gpus != 0 && *gpus % *ranks != 0) {
    warn(has("resources.tasks_per_node"_key) ? "resources.tasks_per_node"_key : key,
         fmt::format("{} tasks on {} GPUs of a node: neither is a multiple of the other, so some "
                     "GPUs are shared unevenly or idle",
                     *ranks, *gpus));
  } else if (ranks && *ranks > 1 && *ranks < *gpus) {
    warn(has("resources.tasks_per_node"_key) ? "resources.tasks_per_node"_key : key,
         fmt::format("{} tasks on {} GPUs of a node: fewer tasks than GPUs", *ranks, *gpus));
  } else if (ranks && *ranks > *gpus) {
    warn(has("resources.tasks_per_node"_key) ? "resources.tasks_per_node"_key : key,
         fmt::format("{} tasks on {} GPU{} of a node: tasks that share a GPU cannot use NCCL",
                     *ranks, *gpus, *gpus == 1 ? "" : "s"));
  }
}

void Validator::check_partition() {
  const Resources& r = spec_.resources;
  const std::string name = r.partition.value_or(site_.default_partition);
  const auto found = site_.partitions.find(name);
  if (found == site_.partitions.end()) {
    std::vector<std::string_view> names;
    for (const auto& [known, profile] : site_.partitions) names.push_back(known);
    if (const auto similar = r.partition ? nearest(name, names) : std::nullopt) {
      warn("resources.partition"_key,
           fmt::format("site '{}' knows no partition '{}'; did you mean '{}'?", site_.name,
                       printable(name), *similar));
    }
    return;
  }
  const PartitionProfile& partition = found->second;
  const auto warn_limit = [&](std::string_view key, std::string_view asked, std::string_view limit,
                              bool may_prevent_start = false) {
    const std::size_t earlier_count = findings_.size();
    warn(key, fmt::format("{} is {}, but partition '{}' of site '{}' has {}", key, asked, name,
                          site_.name, limit));
    if (findings_.size() > earlier_count) findings_.back().may_prevent_start = may_prevent_start;
  };
  const std::string_view gpu_key =
      r.gpus_per_node ? "resources.gpus_per_node"_key : "resources.gres"_key;
  if (const auto gpus = gpus_per_node(spec_);
      gpus && partition.gpus_per_node && *gpus > *partition.gpus_per_node) {
    const bool is_reported = site_.max_gpus_per_node && *gpus > *site_.max_gpus_per_node;
    if (!is_reported)
      warn_limit(gpu_key, fmt::format("{}", *gpus),
                 with_unit(*partition.gpus_per_node, "GPU") + " per node");
  }
  if (r.gpus_per_node && !r.gpus_per_node->type.empty() && !partition.gpu_types.empty() &&
      std::find(partition.gpu_types.begin(), partition.gpu_types.end(), r.gpus_per_node->type) ==
          partition.gpu_types.end()) {
    warn_limit(gpu_key, format_gpus(*r.gpus_per_node),
               "GPUs of type " + join(partition.gpu_types, ", "));
  }
  if (r.nodes && partition.max_nodes && r.nodes->min > *partition.max_nodes) {
    warn_limit("resources.nodes"_key, format_nodes(*r.nodes),
               fmt::format("at most {} for one job", with_unit(*partition.max_nodes, "node")),
               true);
  }
  const auto ranks = ranks_per_node(spec_);
  if (ranks && r.cpus_per_task && partition.cpus_per_node &&
      *ranks * *r.cpus_per_task > *partition.cpus_per_node) {
    warn_limit("resources.cpus_per_task"_key,
               fmt::format("{} for each of {} tasks of a node", *r.cpus_per_task, *ranks),
               with_unit(*partition.cpus_per_node, "CPU") + " per node");
  }
  if (const auto memory = memory_mib(r.mem.value_or("0"));
      memory && partition.mem_per_node_mib && *memory > *partition.mem_per_node_mib) {
    warn_limit("resources.mem"_key, *r.mem,
               fmt::format("{} MiB per node", *partition.mem_per_node_mib));
  }
  if (const auto limit = r.time ? parse_time_limit(*r.time) : std::nullopt;
      limit && *limit && partition.max_time_seconds && **limit > *partition.max_time_seconds) {
    warn_limit("resources.time"_key, format_time_limit(**limit),
               fmt::format("at most {}", format_time_limit(*partition.max_time_seconds)), true);
  }
}

void Validator::check_time() {
  // `man sbatch`, option --signal: Slurm may send the signal up to 60 seconds early.
  constexpr std::int64_t kMostEarlySeconds = 60;
  if (!has("resources.time"_key)) {
    warn("resources.time"_key,
         "resources.time is not given: the partition's default limit applies; it may be minutes "
         "or unlimited");
  } else if (spec_.resources.time == "UNLIMITED") {
    warn("resources.time"_key,
         "resources.time is UNLIMITED: the job cannot start if a maintenance is planned");
  }
  if (spec_.checkpoint.signal_before && spec_.resources.time &&
      spec_.resources.time != "UNLIMITED") {
    const auto limit = parse_time_limit(*spec_.resources.time);
    const auto before = parse_duration(*spec_.checkpoint.signal_before);
    if (limit && before && *limit && *before >= **limit) {
      error("checkpoint.signal_before"_key,
            fmt::format("checkpoint.signal_before is {} s, but must be less than resources.time, "
                        "which is {} s",
                        *before, **limit));
    } else if (limit && before && *limit && *before + kMostEarlySeconds >= **limit) {
      warn("checkpoint.signal_before"_key,
           fmt::format(
               "checkpoint.signal_before is {} s, and the time limit is {} s: Slurm may "
               "send the signal up to {} s earlier, perhaps as soon as the job starts; set a "
               "longer resources.time or a shorter signal_before",
               *before, **limit, kMostEarlySeconds));
    }
  }
  if (const auto before = parse_duration(spec_.checkpoint.signal_before.value_or("60"));
      before && (*before < 1 || *before > 65535)) {
    error("checkpoint.signal_before"_key,
          fmt::format("checkpoint.signal_before is {} s; Slurm accepts 1 s to 65535 s", *before));
  }
}

void Validator::check_sweep() {
  const bool has_no_points = !spec_.sweep.is_given() &&
                             !refused_.contains("sweep.parameters"_key) &&
                             !refused_.contains("sweep.points"_key);
  for (const char* key : {"sweep.random"_key, "sweep.seed"_key, "sweep.ask"_key}) {
    if (has(key) && has_no_points)
      error(key,
            fmt::format("{}: sweep.parameters is missing; set it to keys and their values", key));
  }
  for (const char* key : {"sweep.max_parallel"_key, "sweep.pack"_key}) {
    if (has(key) && has_no_points)
      error(key, fmt::format("{}: sweep.parameters is missing; set it to keys and their values, or "
                             "list the points in sweep.points",
                             key));
  }
  if (!spec_.sweep.is_given() || refused_.contains("sweep.parameters"_key) ||
      refused_.contains("sweep.points"_key))
    return;
  check_swept_trainer_keys();
  if (spec_.sweep.pack.value_or(1) > 1) check_pack();
  check_stop_early();
  check_ask();
  bool is_endless = false;
  for (const SweptKey& key : spec_.sweep.parameters) {
    if (!key.range || spec_.sweep.random || spec_.sweep.is_search()) continue;
    is_endless = true;
    if (!refused_.contains("sweep.random"_key))
      findings_.push_back(
          {Diagnostic::Severity::kError, key.where,
           fmt::format("sweep.parameters: '{}' has a range; set sweep.random to the "
                       "number of points to draw, or give a list",
                       key.key),
           ""});
  }
  if (is_endless) return;
  const std::uint64_t all = count_possible_points(spec_.sweep);
  const bool is_random = spec_.sweep.random.has_value();
  if (!is_random && all > kMostSweepPoints)
    error(
        "sweep.parameters"_key,
        fmt::format("sweep.parameters: {} points, and a sweep has at most {}; try fewer values, or "
                    "sweep.random",
                    all == UINT64_MAX ? "more than 2^64" : std::to_string(all), kMostSweepPoints));
  if (is_random && static_cast<std::uint64_t>(*spec_.sweep.random) > all)
    error("sweep.random"_key,
          fmt::format("sweep.random is {}, but sweep.parameters has only {} combinations",
                      *spec_.sweep.random, all));
}

void Validator::check_stop_early() {
  if (!has("sweep.stop_early.metric"_key)) {
    for (const char* key : {"sweep.stop_early.rule"_key, "sweep.stop_early.after"_key}) {
      if (has(key))
        error(key, fmt::format("{}: sweep.stop_early.metric is missing; set it to the name of a "
                               "number that the program reports",
                               key));
    }
    return;
  }
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key,
          "launch.agent: false: sweep.stop_early needs the agent, which reads the reports and ends "
          "the points");
}

void Validator::check_ask() {
  if (spec_.sweep.is_search()) return;
  for (const char* key : {"sweep.ask_timeout"_key, "sweep.max_points"_key}) {
    if (has(key) && !refused_.contains("sweep.ask"_key))
      error(key,
            fmt::format("{}: sweep.ask is missing; set it to the program that chooses the points",
                        key));
  }
}

void Validator::check_pack() {
  const Resources& r = spec_.resources;
  const std::int64_t pack = *spec_.sweep.pack;
  if (r.nodes && r.nodes->max > 1)
    error("sweep.pack"_key,
          fmt::format("sweep.pack: all points of a job run on one node, but resources.nodes is {}",
                      format_nodes(*r.nodes)));
  if (spec_.sweep.max_parallel.value_or(pack) < pack)
    error("sweep.max_parallel"_key,
          fmt::format("sweep.max_parallel is {}, but each job runs {} points together (sweep.pack)",
                      *spec_.sweep.max_parallel, pack));
  if (r.gpus_per_node && site_.max_gpus_per_node &&
      r.gpus_per_node->count * pack > *site_.max_gpus_per_node)
    error("sweep.pack"_key,
          fmt::format("sweep.pack: {} points with {} GPUs each need {}, but site '{}' has at most "
                      "{} GPUs per node",
                      pack, r.gpus_per_node->count, r.gpus_per_node->count * pack, site_.name,
                      *site_.max_gpus_per_node));
  using Reason = std::pair<const char*, std::string_view>;
  constexpr std::string_view kCannotMultiply =
      "dlrun cannot multiply the value by the number of points; give resources.gpus_per_node";
  constexpr std::string_view kOwnLog = "each point of a job writes its own log";
  for (const auto& [key, why] :
       {Reason{"resources.gres"_key, kCannotMultiply},
        Reason{"resources.gpus"_key, kCannotMultiply},
        Reason{"resources.gpus_per_task"_key, kCannotMultiply},
        Reason{"resources.output"_key, kOwnLog}, Reason{"resources.error"_key, kOwnLog},
        Reason{"environment.setup_node"_key,
               "each point of a node would run it; use environment.setup"}}) {
    if (has(key)) error(key, fmt::format("{}: cannot be given with sweep.pack: {}", key, why));
  }
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key,
          "launch.agent: false: sweep.pack needs the agent, which writes the record of each point");
  if (wants_retry(spec_))
    error("sweep.pack"_key,
          "sweep.pack: a single point of a job cannot restart (retry); set retry.max: 0, and use "
          "`dlrun resubmit RUN/N` to submit a point again as its own job");
}

void Validator::check_swept_trainer_keys() {
  if (runs_trainer(loaded_) || sweeps_over(spec_.sweep, "launch.preset"_key)) return;
  std::set<std::string> reported;
  const auto refuse_trainer_key = [&](const std::string& key, const Origin& where) {
    if (!key.starts_with("train.") || !reported.insert(key).second) return;
    const std::string name = key.substr(key.rfind('.') + 1);
    findings_.push_back(
        {Diagnostic::Severity::kError, where,
         fmt::format("the sweep's key '{0}' is for the preset 'trainer', but the preset is '{1}', "
                     "so all points would be the same; sweep over '{2}' and write {{{2}}} in "
                     "launch.command",
                     key, preset_.name, name),
         ""});
  };
  for (const SweptKey& key : spec_.sweep.parameters) refuse_trainer_key(key.key, key.where);
  for (const SweepPoint& point : spec_.sweep.points) {
    for (const SweptValue& value : point) refuse_trainer_key(value.key, value.where);
  }
}

void Validator::check_submit() {
  const SubmitSpec& s = spec_.submit;
  if (s.url) {
    if (const auto address = parse_rest_url(*s.url); !address)
      error("submit.url"_key, "submit.url: " + address.error().message);
  }
  if (s.via.value_or("sbatch") != "slurmrestd") return;
  if (!s.url) {
    error("submit.via"_key,
          "submit.via is slurmrestd, but submit.url is missing; set it to the server's address");
  } else if (!s.url->starts_with("unix:") && !s.token_file) {
    error("submit.url"_key,
          "submit.url: the server does not know which user connects to a TCP port; set "
          "submit.token_file to a file with the output of `scontrol token`");
  }
}

std::vector<Diagnostic> validate(const LoadedSpec& loaded,
                                 const std::set<std::string, std::less<>>& refused,
                                 const std::set<std::string, std::less<>>& correct_spellings) {
  return Validator(loaded, refused, correct_spellings).run();
}

std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys() {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kExclusive{{
      {"resources.gres"_key, "resources.gpus_per_node"_key},
      {"resources.cpus_per_gpu"_key, "resources.cpus_per_task"_key},
      {"resources.mem_per_cpu"_key, "resources.mem"_key},
      {"resources.mem_per_gpu"_key, "resources.mem"_key},
      {"resources.mem_per_gpu"_key, "resources.mem_per_cpu"_key},
      {"resources.signal"_key, "checkpoint.signal_before"_key},
      {"environment.venv"_key, "environment.conda.name"_key},
      {"environment.uv.project"_key, "environment.conda.name"_key},
      {"environment.uv.project"_key, "environment.venv"_key},
      {"environment.pixi.project"_key, "environment.conda.name"_key},
      {"environment.pixi.project"_key, "environment.venv"_key},
      {"environment.pixi.project"_key, "environment.uv.project"_key},
      {"environment.spack"_key, "environment.conda.name"_key},
      {"environment.spack"_key, "environment.pixi.project"_key},
      {"environment.eessi"_key, "environment.conda.name"_key},
      {"environment.eessi"_key, "environment.pixi.project"_key},
      {"environment.eessi"_key, "environment.spack"_key},
      {"environment.eessi"_key, "environment.uenv.images"_key},
      {"resources.hint"_key, "launch.cpu_bind"_key},
      {"sweep.points"_key, "sweep.parameters"_key},
      {"sweep.points"_key, "sweep.random"_key},
      {"sweep.ask"_key, "sweep.points"_key},
      {"sweep.ask"_key, "sweep.random"_key},
      {"sweep.ask"_key, "sweep.seed"_key},
  }};
  return kExclusive;
}

}  // namespace dlrun
