// Checks of the container, environments, the agent, restarts, the health of nodes, profiles,
// messages (notify) and records for other tools (track).

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/curl_process.h"
#include "common/secret_names.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/validator.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

bool has_retry_cause(const JobSpec& spec, std::string_view cause) {
  const auto causes = retry_causes(spec);
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
}

/// Returns the end of a message about a key that only a restart uses: how to change the spec, so
/// that the run restarts. add_cause: the advice for a spec whose retry.on lacks the cause.
std::string how_to_restart(const JobSpec& spec, bool has_cause, std::string_view add_cause) {
  if (spec.retry.max != 0) return fmt::format("; {}", add_cause);
  return fmt::format(", but retry.max is 0, so the run never restarts; raise retry.max{}{}",
                     has_cause ? "" : ", and ", has_cause ? "" : add_cause);
}

}  // namespace

void Validator::check_container() {
  if (refused_.contains("container.runtime"_key)) return;
  const ContainerSpec& c = spec_.container;
  const std::string runtime = container_runtime(spec_, site_);
  if (runtime == "none") {
    if (!c.image) {
      for (std::string_view key : {"container.mounts"_key, "container.workdir"_key,
                                   "container.name"_key, "container.save"_key}) {
        if (spec_.origins.contains(key)) error(key, fmt::format("{} needs container.image", key));
      }
    } else if (c.runtime == "none") {
      error("container.image"_key, "container.image is given, but container.runtime is none");
    } else {
      error("container.image"_key,
            fmt::format("site '{}' names no container runtime; set container.runtime to {} "
                        "(`dlrun doctor` lists those that are installed)",
                        site_.name, container_tools_text()));
    }
    return;
  }
  const ContainerBackend* backend = find_container_backend(runtime);
  if (backend == nullptr) {
    return error(
        c.runtime && *c.runtime != "auto" ? "container.runtime"_key : "container.image"_key,
        fmt::format("container.runtime: '{}' is not a runtime that dlrun knows",
                    printable(runtime)));
  }
  if (!c.image && !c.name && !refused_.contains("container.image"_key))
    error("container.runtime"_key,
          "container.runtime is given, but container.image is missing; set it to the image");
  if (backend->gpu_driver_source() == GpuDriverSource::kInImage &&
      gpus_per_node(spec_).value_or(0) > 0) {
    warn("container.runtime"_key,
         fmt::format(
             "container.runtime: {} does not bring NVIDIA's driver; the image must "
             "contain its files, which `ch-fromhost --nvidia IMAGE` copies into an image that "
             "is a folder",
             runtime));
  }
  for (const ContainerProblem& problem : backend->problems(c)) {
    add_finding(problem.is_warning ? Diagnostic::Severity::kWarning : Diagnostic::Severity::kError,
                problem.key, problem.message);
  }
}

void Validator::check_environment(bool all_in_container) {
  constexpr std::array kEnvironments{"environment.uv.project"_key,
                                     "environment.pixi.project"_key,
                                     "environment.pixi.environment"_key,
                                     "environment.spack"_key,
                                     "environment.uenv.images"_key,
                                     "environment.uenv.views"_key,
                                     "environment.eessi"_key};
  for (const char* key : kEnvironments) {
    if (sweeps_over(spec_.sweep, key))
      error(key,
            fmt::format("{}: a sweep cannot change the key, because dlrun builds one environment "
                        "for all points; submit one sweep for each environment",
                        key));
    if (!has(key)) continue;
    if (all_in_container)
      error(key, fmt::format("{}: the ranks run in a container, which does not have this "
                             "environment; remove the key, or remove the section container",
                             key));
  }
  if (has("environment.pixi.environment"_key) && !has("environment.pixi.project"_key))
    error("environment.pixi.environment"_key,
          "environment.pixi.environment needs environment.pixi.project, the project's folder");
  if (has("environment.uenv.views"_key) && !has("environment.uenv.images"_key))
    error("environment.uenv.views"_key,
          "environment.uenv.views needs environment.uenv.images, the images with these views");
  if (spec_.environment.uv_project && spec_.code_snapshot.value_or(false))
    warn("environment.uv.project"_key,
         fmt::format("environment.uv.project: uv installs a package of the project from {}, not "
                     "from the copy of the code (code.snapshot)",
                     printable(*spec_.environment.uv_project)));
}

void Validator::check_agent() {
  if (spec_.launch.agent.value_or(true)) return;
  if (preset_.program_is_bundled) {
    return error(
        "launch.agent"_key,
        fmt::format("launch.agent: false: the preset '{}' needs the agent to connect its ranks",
                    preset_.name));
  }
  if (!spec_.environment.secrets.empty()) {
    return error("launch.agent"_key,
                 "launch.agent: false: only the agent can pass environment.secrets to the program");
  }
  if (const auto field = first_field_only_agent_knows(preset_)) {
    error("launch.agent"_key,
          fmt::format(
              "launch.agent: false: the preset '{}' asks for {{{}}}, which only the agent knows",
              preset_.name, *field));
  }
}

void Validator::check_retry_and_health() {
  const RetrySpec& r = spec_.retry;
  if (has("retry.on"_key) && r.on.empty() && !refused_.contains("retry.on"_key))
    error("retry.on"_key, "retry.on names no cause; set retry.max: 0 to disable restarts");
  const bool wants_timeout = std::find(r.on.begin(), r.on.end(), "timeout") != r.on.end();
  if (wants_timeout && !has("checkpoint.signal_before"_key)) {
    error(
        "retry.on"_key,
        "retry.on: timeout needs checkpoint.signal_before: the time before the limit at which the "
        "program saves a checkpoint and the job is queued again");
  }
  if (!spec_.launch.agent.value_or(true)) {
    if (wants_retry(spec_))
      error("launch.agent"_key, "launch.agent: false: only the agent can restart a run (retry)");
    if (spec_.health.hang_after)
      error("launch.agent"_key,
            "launch.agent: false: only the agent can detect a hang (health.hang_after)");
    if (!spec_.health.preflight.empty())
      error("launch.agent"_key,
            "launch.agent: false: only the agent can check a node (health.preflight)");
  }
  check_grow();
  check_chain();
  check_spare_nodes();
  check_known_bad();
  const auto& checks = spec_.health.preflight;
  const auto wants = [&](std::string_view name) {
    return std::any_of(checks.begin(), checks.end(),
                       [&](const PreflightCheck& check) { return check.name == name; });
  };
  const bool has_nccl = wants("nccl"), has_rccl = wants("rccl");
  if (has_nccl && has_rccl) {
    error(
        "health.preflight"_key,
        "health.preflight: nccl and rccl are the same check, for GPUs of NVIDIA and of AMD; remove "
        "one");
  } else if ((has_nccl || has_rccl) && wants("gloo")) {
    error("health.preflight"_key,
          fmt::format("health.preflight: {} and gloo are the same check, with and without GPUs; "
                      "remove one",
                      has_nccl ? "nccl" : "rccl"));
  } else if ((has_nccl || has_rccl) && !may_have_gpus(spec_)) {
    error("health.preflight"_key,
          fmt::format("health.preflight: {} needs GPUs, but the job requests none "
                      "(resources.gpus_per_node); use gloo, the same check without GPUs",
                      has_nccl ? "nccl" : "rccl"));
  }
  if (wants("binding") && !may_have_gpus(spec_))
    error("health.preflight"_key,
          "health.preflight: binding needs GPUs, but the job requests none "
          "(resources.gpus_per_node)");
  if (wants("fabric")) check_fabric(has_nccl || wants("gloo"), has_rccl);
  if (preset_.is_trainer && spec_.checkpoint.keep == 0 && wants_retry(spec_))
    warn("checkpoint.keep"_key,
         "checkpoint.keep is 0, so that no checkpoint is saved: a restarted run (retry) begins at "
         "its first step");
  check_idle_gpu();
  if (const auto after = parse_duration(spec_.health.hang_after.value_or("60"));
      after && *after < 1)
    error("health.hang_after"_key, "health.hang_after is 0 s: every run would count as hung");
}

void Validator::check_grow() {
  const RetrySpec& r = spec_.retry;
  constexpr const char *kMem = "retry.grow.mem"_key, *kMax = "retry.grow.max"_key;
  if (!r.grow_mem) {
    if (r.grow_max && !refused_.contains(kMem))
      error(kMax, "retry.grow.max needs retry.grow.mem, the factor by which the memory grows");
    return;
  }
  if (!r.grow_max) {
    if (!refused_.contains(kMax))
      error(kMem, "retry.grow.mem needs retry.grow.max, the largest memory of the job");
    return;
  }
  const bool has_cause = has_retry_cause(spec_, "oom");
  if (!wants_retry(spec_) || !has_cause)
    error(kMem, "retry.grow.mem: only a restart after oom gets more memory" +
                    how_to_restart(spec_, has_cause, "add oom to retry.on"));
  const Resources& wanted = spec_.resources;
  const auto& initial = wanted.mem ? wanted.mem : wanted.mem_per_cpu;
  const auto initial_mib = memory_mib(initial.value_or("0")), most = memory_mib(*r.grow_max);
  if (initial && !initial_mib)
    return error(kMem, fmt::format("retry.grow.mem: {} is {}, which is not a size that can grow; "
                                   "set the key to the memory that the job has at first",
                                   wanted.mem ? "resources.mem"_key : "resources.mem_per_cpu"_key,
                                   *initial));
  if (!initial_mib)
    return error(kMem,
                 "retry.grow.mem needs resources.mem or resources.mem_per_cpu, the memory from "
                 "which it grows");
  if (!most || *most <= *initial_mib)
    error(kMax, fmt::format("retry.grow.max is {}, which is not more than {}, the memory that the "
                            "job has at first",
                            *r.grow_max, *initial));
}

void Validator::check_chain() {
  const RetrySpec& r = spec_.retry;
  if (!r.chain) return;
  constexpr const char* kKey = "retry.chain"_key;
  if (spec_.sweep.is_given())
    error(kKey,
          "retry.chain: cannot be given with a sweep, whose points are tasks of one job; without "
          "retry.chain Slurm queues each task again");
  const bool has_cause = has_retry_cause(spec_, "timeout") || has_retry_cause(spec_, "preemption");
  if (!wants_retry(spec_) || !has_cause)
    error(kKey, "retry.chain: another job continues the run only after timeout or preemption" +
                    how_to_restart(spec_, has_cause, "add one of them to retry.on"));
  const std::int64_t most = retry_max(spec_);
  if (most > 0 && most < *r.chain - 1)
    error(kKey, fmt::format("retry.chain: {} jobs need {} restarts, but retry.max is {}; set "
                            "retry.max to at least {}",
                            *r.chain, *r.chain - 1, most, *r.chain - 1));
}

void Validator::check_profile() {
  const ProfileSpec& p = spec_.profile;
  if (!has("profile.tool"_key)) {
    for (const char* key : {"profile.ranks"_key, "profile.delay"_key, "profile.for"_key}) {
      if (has(key)) error(key, fmt::format("{} needs profile.tool: nsys, py-spy or perf", key));
    }
    return;
  }
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key, "launch.agent: false: only the agent can profile ranks (profile)");
  if (parse_duration(p.length.value_or("1")) == 0)
    error("profile.for"_key, "profile.for is 0 s: the profile would be empty");
  const Resources& r = spec_.resources;
  const auto per_node = ranks_per_node(spec_);
  const auto rank_count = r.ntasks ? r.ntasks
                          : per_node && (!r.nodes || r.nodes->min == r.nodes->max)
                              ? std::optional(*per_node * (r.nodes ? r.nodes->min : 1))
                              : std::nullopt;
  for (const std::string& text : p.ranks) {
    const auto rank = parse_int(text);
    if (!rank || *rank < 0) {
      error("profile.ranks"_key,
            fmt::format("profile.ranks: '{}' is not the number of a rank", printable(text)));
    } else if (rank_count && *rank >= *rank_count) {
      error("profile.ranks"_key, fmt::format("profile.ranks: there is no rank {}; the job has the "
                                             "ranks 0 to {}",
                                             *rank, *rank_count - 1));
    }
  }
  if (p.tool == "nsys" && has("checkpoint.signal_before"_key))
    error("profile.tool"_key,
          "profile.tool: nsys starts the program itself, so nsys would get the signal of "
          "checkpoint.signal_before instead of the program; remove one of the two keys, or use "
          "perf or py-spy");
}

void Validator::check_secret_name(std::string_view key, const std::string& name,
                                  std::string_view secret_in_words) {
  // The message does not show the value: the user may have given the secret itself by mistake.
  if (!is_variable_name(name)) {
    error(key, fmt::format("{} is the name of a variable that holds {}; this value is not a valid "
                           "name of a variable",
                           key, secret_in_words));
  } else if (has("environment.vars." + name)) {
    error(key,
          fmt::format("{} is a secret; remove it from environment.vars, which the script shows",
                      name));
  }
}

void Validator::warn_of_secret_variables() {
  for (const auto& [name, value] : spec_.environment.vars) {
    const std::string key = "environment.vars." + name;
    const auto origin = spec_.origins.find(key);
    const bool is_set_by_user =
        origin != spec_.origins.end() && (origin->second.kind == Origin::Kind::kFile ||
                                          origin->second.kind == Origin::Kind::kSetOption);
    // A number and a path are no secrets, and a field of a sweep is replaced later.
    const bool may_be_secret =
        !value.empty() && value.front() != '/' && value.front() != '{' && !parse_double(value);
    if (!is_set_by_user || !may_be_secret || !is_secret_name(name)) continue;
    warn(key, fmt::format("{}: its value is readable in the script in the run's directory; if it "
                          "is a secret, set the variable in your shell and name it in "
                          "environment.secrets",
                          key));
  }
}

void Validator::check_webhook() {
  const NotifySpec& n = spec_.notify;
  constexpr const char* kSecret = "notify.webhook.secret"_key;
  constexpr const char* kUrl = "notify.webhook.url"_key;
  if (has(kSecret) && has(kUrl))
    return error(kSecret, fmt::format("{} and {} exclude each other", kSecret, kUrl));
  if (n.webhook_secret) check_secret_name(kSecret, *n.webhook_secret, "the address");
  if (!n.webhook_url) return;
  if (const auto why = address_problem(*n.webhook_url); !why.empty())
    error(kUrl, fmt::format("notify.webhook.url: {}", why));
  const auto origin = spec_.origins.find(std::string_view(kUrl));
  if (origin != spec_.origins.end() && origin->second.kind == Origin::Kind::kSetOption)
    error(kUrl,
          "notify.webhook.url: other users can see the arguments of a command; write the address "
          "into the spec, or use notify.webhook.secret");
}

void Validator::check_track() {
  const TrackSpec& t = spec_.track;
  constexpr const char* kUrl = "track.mlflow.url"_key;
  constexpr const char* kSecret = "track.mlflow.secret"_key;
  constexpr const char* kProject = "track.wandb.project"_key;
  if (!spec_.launch.agent.value_or(true) &&
      (t.tensorboard.value_or(false) || has(kUrl) || has(kProject)))
    error("launch.agent"_key,
          "launch.agent: false: only the agent can record the run for other tools (track)");
  if (!has(kProject)) {
    for (const char* key : {"track.wandb.entity"_key, "track.wandb.mode"_key}) {
      if (has(key)) error(key, fmt::format("{} needs {}", key, kProject));
    }
  }
  if (!has(kUrl)) {
    for (const char* key : {"track.mlflow.experiment"_key, kSecret}) {
      if (has(key)) error(key, fmt::format("{} needs {}", key, kUrl));
    }
  }
  if (t.mlflow_url) {
    if (const auto why = address_problem(*t.mlflow_url); !why.empty())
      error(kUrl, fmt::format("{}: {}", kUrl, why));
    if (t.mlflow_url->find_first_of("?#") != std::string::npos)
      error(kUrl, fmt::format("{}: the address of the server has no '?' and no '#'", kUrl));
    if (t.mlflow_url->starts_with("http://") && t.mlflow_secret)
      warn(kUrl, fmt::format("{}: the token of {} is sent without encryption; use https://", kUrl,
                             kSecret));
  }
  if (t.mlflow_secret) check_secret_name(kSecret, *t.mlflow_secret, "the token");
}

void Validator::check_notify() {
  const NotifySpec& n = spec_.notify;
  constexpr std::array kKeys{"notify.on"_key, "notify.webhook.secret"_key, "notify.webhook.url"_key,
                             "notify.command"_key};
  const auto given =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const char* k) { return has(k); });
  if (given == kKeys.end()) return;
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key, "launch.agent: false: only the agent can send messages (notify)");
  check_webhook();
  if (has("notify.on"_key) && n.on.empty() && !refused_.contains("notify.on"_key))
    error("notify.on"_key, "notify.on names no occasion; remove notify to send no messages");
  if (has("notify.command"_key) && (n.command.empty() || n.command.front().empty()))
    error("notify.command"_key, "notify.command names no program");
  // A refused key of notify may be a misspelling of the missing key.
  const bool is_refused = std::any_of(refused_.begin(), refused_.end(), [](const std::string& key) {
    return key.starts_with("notify.");
  });
  if (!has("notify.webhook.secret"_key) && !has("notify.webhook.url"_key) &&
      !has("notify.command"_key) && !is_refused)
    error(*given, fmt::format("{} needs notify.webhook or notify.command, which send the messages",
                              *given));
}

void Validator::check_fabric(bool measures_all_reduce, bool has_rccl) {
  const SiteFabric& fabric = fabric_of_job(spec_, site_);
  if (!fabric.is_given())
    return warn("health.preflight"_key,
                fmt::format("health.preflight: fabric: site '{}' gives no figures for its network, "
                            "so this check finds only ports without a subnet manager; "
                            "docs/sites.md describes the key `fabric`",
                            site_.name));
  if ((fabric.all_reduce || fabric.node_all_reduce) && !measures_all_reduce)
    warn("health.preflight"_key,
         has_rccl ? "health.preflight: fabric does not measure the speed of all-reduce over RCCL"
                  : "health.preflight: fabric measures the speed of all-reduce only together with "
                    "nccl or gloo; add one of them");
}

void Validator::check_idle_gpu() {
  const HealthSpec& h = spec_.health;
  if (h.idle_gpu && !h.idle_gpu_after)
    error("health.idle_gpu"_key,
          "health.idle_gpu needs health.idle_gpu_after, the time that a GPU may be idle");
  if (!h.idle_gpu_after) return;
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key,
          "launch.agent: false: only the agent can detect idle GPUs (health.idle_gpu_after)");
  if (!may_have_gpus(spec_))
    error("health.idle_gpu_after"_key,
          "health.idle_gpu_after needs GPUs, but the job requests none");
  if (const auto after = parse_duration(*h.idle_gpu_after); after && *after < 10)
    error("health.idle_gpu_after"_key,
          "health.idle_gpu_after must be at least 10 s, because dlrun checks GPUs only every five "
          "seconds");
}

void Validator::check_spare_nodes() {
  const Resources& r = spec_.resources;
  if (!r.spare_nodes) return;
  constexpr const char* kKey = "resources.spare_nodes"_key;
  const bool has_cause = has_retry_cause(spec_, "node_failure");
  if (!wants_retry(spec_) || !has_cause)
    error(kKey, "resources.spare_nodes: only a restarted attempt uses a spare node" +
                    how_to_restart(spec_, has_cause,
                                   spec_.retry.on.empty() ? "add retry.on: [node_failure]"
                                                          : "add node_failure to retry.on"));
  if (!r.nodes || r.nodes->min != r.nodes->max)
    error(kKey,
          "resources.spare_nodes needs one number in resources.nodes: the nodes of every attempt");
  for (const std::string_view key : {"resources.ntasks"_key, "resources.gpus"_key}) {
    if (has(key))
      error(kKey,
            fmt::format(
                "resources.spare_nodes: {} would also count the spare nodes; set {} instead", key,
                key == "resources.gpus"_key ? "resources.gpus_per_node"_key
                                            : "resources.tasks_per_node"_key));
  }
}

void Validator::check_known_bad() {
  const HealthSpec& h = spec_.health;
  if (!h.known_bad_file && !h.known_bad_for) return;
  if (!spec_.launch.agent.value_or(true))
    error("launch.agent"_key,
          "launch.agent: false: only the agent can remember bad nodes (health.known_bad)");
  if (const auto time = parse_duration(h.known_bad_for.value_or("60")); time && *time < 1)
    error("health.known_bad.for"_key,
          "health.known_bad.for is 0 s: every node would be forgotten immediately");
}

}  // namespace dlrun
