// Plans the parts that every job has: counts, environment, rank agent, program and lead.
#include "launcher/plan/planner.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/notice.h"
#include "common/text.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace

Planner::Planner(const LoadedSpec& loaded, const PlanInputs& inputs)
    : spec_(loaded.spec),
      site_(loaded.site),
      preset_(loaded.preset),
      file_(loaded.file),
      spec_folder_(loaded.folder),
      inputs_(inputs) {
  plan_.target = inputs.target;
  plan_.name = spec_.name.value_or("job");
  plan_.folder = start_folder(loaded);
  plan_.takes_snapshot = spec_.code_snapshot.value_or(false);
  plan_.runs_dir = inputs.runs_dir;
  // Local runs always use the agent. launch.agent: false is for nodes without dlrun.
  if (inputs.target == Target::kLocal || spec_.launch.agent.value_or(true))
    plan_.agent = inputs.agent_path;
  plan_.program_is_bundled = preset_.program_is_bundled;
  plan_.clusters = spec_.resources.clusters;
  if (spec_.submit.via == "slurmrestd" && inputs.target == Target::kSlurm)
    plan_.server = RestServer{spec_.submit.url.value_or(""), spec_.submit.token_file.value_or("")};
  plan_.forwards_usr1 = spec_.checkpoint.signal_before.has_value();
  runtime_ = container_runtime(spec_, site_);
}

tl::expected<LaunchPlan, std::vector<Diagnostic>> Planner::run() && {
  count_resources();
  if (inputs_.target == Target::kLocal) check_local();
  if (inputs_.uses_existing_allocation) check_existing_allocation();
  check_dlrun_mounts();
  check_runs_folder();
  if (!errors_.empty()) return tl::unexpected(std::move(errors_));
  plan_prologue();
  plan_rank_agent();
  plan_program();
  add_lead_options();
  add_notify_options();
  add_track_options();
  add_wandb_variables();
  if (inputs_.target == Target::kSlurm) {
    plan_directives();
    plan_step();
    check_pmi();
    check_container_save();
    if (plan_.server) check_rest_directives();
  }
  if (!errors_.empty()) return tl::unexpected(std::move(errors_));
  return std::move(plan_);
}

void Planner::add_error(std::string_view key, std::string message) {
  const auto origin = spec_.origins.find(key);
  errors_.push_back(
      {Diagnostic::Severity::kError,
       origin != spec_.origins.end() ? origin->second : Origin{Origin::Kind::kFile, file_, 0, 0},
       std::move(message),
       {}});
}

void Planner::check_runs_folder() {
  if (inputs_.runs_dir.find('\\') == std::string::npos || spec_.resources.output) return;
  add_error("resources.output"_key,
            fmt::format("the runs folder '{}' holds a '\\', which Slurm cannot "
                        "express in an output path; choose another folder with --runs",
                        inputs_.runs_dir));
}

void Planner::count_resources() {
  const Resources& r = spec_.resources;
  Requested& q = plan_.requested;
  const auto per_node = ranks_per_node(spec_);
  const auto gpus = gpus_per_node(spec_);
  if (r.nodes && r.nodes->min == r.nodes->max) q.nodes = r.nodes->min;
  if (!r.nodes && !r.ntasks) q.nodes = 1;
  step_nodes_ = q.nodes.value_or(0);
  if (q.nodes) *q.nodes += r.spare_nodes.value_or(0);
  if (r.ntasks) {
    q.tasks = r.ntasks;
  } else if (q.nodes && per_node) {
    q.tasks = *q.nodes * *per_node;
  }
  if (r.gpus) {
    q.gpus = r.gpus->count;
  } else if (r.gpus_per_task && q.tasks) {
    q.gpus = r.gpus_per_task->count * *q.tasks;
  } else if (gpus && (q.nodes || *gpus == 0)) {
    q.gpus = *gpus * q.nodes.value_or(0);
  }
  if (q.tasks && r.cpus_per_task) q.cpus = *q.tasks * *r.cpus_per_task;
  if (r.time) {
    if (const auto limit = parse_time_limit(*r.time)) q.time_seconds = *limit;
  }
  plan_.local_ranks = per_node ? *per_node : r.ntasks.value_or(1);
}

void Planner::check_local() {
  for (std::string_view key : {"after.ok"_key, "after.any"_key, "after.notok"_key}) {
    if (spec_.origins.contains(key))
      add_error(
          key,
          fmt::format("{0}: dlrun run starts immediately and cannot wait for other jobs; add --set "
                      "{0}=null",
                      key));
  }
  if (runtime_ != "none") {
    add_error("container.image"_key,
              "container.image: dlrun run starts the ranks on this machine itself, without a "
              "container; give --set container=null to run without a container");
  }
  if (!spec_.environment.uenv_images.empty()) {
    add_error(
        "environment.uenv.images"_key,
        "environment.uenv.images: only Slurm's plugin mounts a uenv; call dlrun run with --set "
        "environment.uenv=null in a shell that `uenv start` opens");
  }
  if (plan_.local_ranks > 1 && preset_.wants_mpi && !preset_.is_trainer) {
    add_error("launch.preset"_key,
              fmt::format("launch.preset: an MPI program needs srun to start it; here "
                          "each of its {} ranks would run alone, as a world of one rank",
                          plan_.local_ranks));
  }
  if (plan_.local_ranks > 1 && spec_.train.backend == "mpi") {
    add_error("train.backend"_key,
              "train.backend: mpi needs srun to start the ranks; use shm, or auto");
  }
}

void Planner::check_existing_allocation() {
  for (std::string_view key : {"after.ok"_key, "after.any"_key, "after.notok"_key}) {
    if (spec_.origins.contains(key))
      add_error(key,
                fmt::format("{0}: a run in an allocation that you already have starts immediately "
                            "and cannot wait for other jobs; add --set {0}=null",
                            key));
  }
  if (!spec_.launch.agent.value_or(true))
    add_error(
        "launch.agent"_key,
        "launch.agent: false: only the agent can record a run in an allocation that you already "
        "have; add --set launch.agent=true");
}

void Planner::plan_activations() {
  const Environment& e = spec_.environment;
  Prologue& p = plan_.prologue;
  p.purge_modules = e.modules_purge.value_or(false);
  p.use_modules = e.modules_use;
  p.load_modules = e.modules_load;
  p.module_init = site_.module_init;
  p.conda_module = e.conda_module.value_or("");
  p.conda_name = e.conda_name.value_or("");
  p.venv = e.venv.value_or("");
  p.uv_project = e.uv_project.value_or("");
  p.pixi_project = e.pixi_project.value_or("");
  p.pixi_environment = e.pixi_environment.value_or("default");
  p.spack = e.spack.value_or("");
  p.eessi = e.eessi.value_or("");
}

void Planner::plan_prologue() {
  const Environment& e = spec_.environment;
  Prologue& p = plan_.prologue;
  plan_activations();
  p.setup = e.setup.value_or("");
  p.setup_node = e.setup_node.value_or("");
  const auto is_set_by_user = [&](std::string_view name) {
    return std::any_of(e.vars.begin(), e.vars.end(),
                       [&](const auto& variable) { return variable.first == name; });
  };
  const auto add = [&](std::string_view name, std::string_view value, std::string key,
                       Origin::Kind origin_kind, bool is_about_gpus = false) {
    if (is_set_by_user(name)) return;
    p.vars.push_back(
        {std::string(name), std::string(value), std::move(key), is_about_gpus, origin_kind});
  };
  const auto add_gpu_variable = [&](std::string_view name, std::string_view value) {
    add(name, value, "container: GPUs", Origin::Kind::kDefault, true);
  };
  for (const auto& [name, value] : site_.environment)
    add(name, value, "site " + site_.name, Origin::Kind::kSite);
  if (!site_.interface.empty()) {
    for (std::string_view name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
      add(name, site_.interface, "site " + site_.name, Origin::Kind::kSite);
  }
  for (const auto& [name, value] : preset_.vars)
    add(name, value, "launch.preset: " + preset_.name, Origin::Kind::kPreset);
  const auto is_set = [&p](std::string_view name) {
    return std::any_of(p.vars.begin(), p.vars.end(),
                       [&](const auto& variable) { return variable.name == name; });
  };
  const auto gets_gpus = has_gpus(spec_, site_);
  const GpuDriverSource driver = find_container_backend(runtime_)->gpu_driver_source();
  if (runtime_ != "none" && gets_gpus.value_or(driver == GpuDriverSource::kByOption) &&
      driver != GpuDriverSource::kInImage) {
    // Images without NVIDIA's own variables would see no GPU.
    add_gpu_variable("NVIDIA_VISIBLE_DEVICES", "all");
    if (driver == GpuDriverSource::kByOption) {
      add_gpu_variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
    } else if (!is_set_by_user("NVIDIA_DRIVER_CAPABILITIES") &&
               !is_set("NVIDIA_DRIVER_CAPABILITIES")) {
      p.driver_capabilities_image = spec_.container.image.value_or("");
    }
  } else if (runtime_ != "none" && driver == GpuDriverSource::kByHook && gets_gpus == false) {
    // Without this value, an image that sets the variable itself would fail to start on a node
    // without NVIDIA's tool. If it is unknown whether the nodes have GPUs, the image's own value
    // decides.
    add_gpu_variable("NVIDIA_VISIBLE_DEVICES", "void");
  }
  if (spec_.container.save)
    p.folders_to_make.push_back({folder_of(*spec_.container.save), "container.save"_key});
  for (const OutputCopy& one : spec_.outputs) {
    if (one.to.starts_with('/')) p.folders_to_make.push_back({one.to, "outputs"_key});
  }
  if (spec_.download.path)
    p.vars.push_back({"DLRUN_DOWNLOADS", *spec_.download.path, "download.path"_key, false,
                      Origin::Kind::kDefault});
  for (const auto& [name, value] : e.vars)
    p.vars.push_back({name, value, "environment.vars"_key, false, Origin::Kind::kFile});
}

void Planner::add_profile_options() {
  const ProfileSpec& p = spec_.profile;
  if (!p.tool) return;
  const auto add = [&](std::string_view option, const std::string& value, std::string_view key) {
    plan_.rank_options.push_back({std::string(option), value, std::string(key)});
  };
  add("--profile", *p.tool, "profile.tool"_key);
  if (!p.ranks.empty()) add("--profile-ranks", join(p.ranks, ","), "profile.ranks"_key);
  if (p.delay) add("--profile-delay", *p.delay, "profile.delay"_key);
  if (p.length) add("--profile-for", *p.length, "profile.for"_key);
}

void Planner::add_preflight_options() {
  constexpr const char* kKey = "health.preflight"_key;
  std::vector<std::string> names;
  for (const PreflightCheck& check : spec_.health.preflight) names.push_back(check.name);
  if (names.empty()) return;
  plan_.rank_options.push_back({"--preflight", join(names, ","), kKey});
  for (const PreflightCheck& check : spec_.health.preflight) {
    if (!check.line.empty()) plan_.rank_options.push_back({"--preflight-run", check.line, kKey});
    // The trainer measures the collectives of these checks (runtime/agent/collective_check.h).
    if (check.name == "nccl" || check.name == "rccl" || check.name == "gloo")
      plan_.needs_trainer = true;
  }
  if (std::find(names.begin(), names.end(), "fabric") == names.end()) return;
  const SiteFabric& fabric = fabric_of_job(spec_, site_);
  std::vector<std::string> figures;
  const auto add = [&](std::string_view name, const std::optional<std::int64_t>& figure) {
    if (figure) figures.push_back(fmt::format("{}={}", name, *figure));
  };
  add("infiniband_ports", fabric.infiniband_ports);
  add("infiniband_gbps", fabric.infiniband_gbps);
  if (!fabric.gpu_link.empty()) figures.push_back("gpu_link=" + fabric.gpu_link);
  add("all_reduce", fabric.all_reduce);
  add("node_all_reduce", fabric.node_all_reduce);
  if (!figures.empty())
    plan_.rank_options.push_back({"--fabric", join(figures, ","), "site " + site_.name});
}

void Planner::plan_rank_agent() {
  const std::string from_preset = "launch.preset: " + preset_.name;
  if (const auto nproc = nproc_per_node(spec_); preset_.is_node_launcher && nproc) {
    plan_.rank_options.push_back({"--nproc-per-node", fmt::format("{}", *nproc),
                                  spec_.launch.nproc_per_node     ? "launch.nproc_per_node"_key
                                  : spec_.resources.gpus_per_task ? "resources.gpus_per_task"_key
                                  : spec_.resources.gpus_per_node ? "resources.gpus_per_node"_key
                                  : spec_.resources.gres          ? "resources.gres"_key
                                                                  : from_preset});
  }
  if (uses_roles(preset_)) {
    std::vector<std::string> roles;
    for (const auto& [name, count] :
         {std::pair("chief", spec_.launch.chief), std::pair("ps", spec_.launch.ps),
          std::pair("evaluator", spec_.launch.evaluator)}) {
      if (count) roles.push_back(fmt::format("{}={}", name, *count));
    }
    if (!roles.empty()) plan_.rank_options.push_back({"--roles", join(roles, ","), "launch.roles"});
  }
  add_preflight_options();
  add_profile_options();
  for (const auto& [name, value] : spec_.environment.vars) {
    if (name == "TMPDIR" && inputs_.target == Target::kSlurm)
      plan_.rank_options.push_back({"--tmpdir", value, "environment.vars"_key});
  }
  add_stage_and_output_options();
  for (const auto& word : preset_.words)
    plan_.rank_options.push_back({"--word", word, from_preset});
  for (const auto& [name, value] : preset_.env)
    plan_.rank_templates.push_back({name, value, from_preset});
  plan_.secrets = spec_.environment.secrets;
}

void Planner::add_stage_and_output_options() {
  constexpr std::int64_t kDefaultLimitSeconds = 600;
  for (const StagedData& one : spec_.stage) {
    nlohmann::ordered_json item{{"from", one.from}, {"to", one.to}};
    if (one.unpack) item["unpack"] = true;
    if (runtime_ != "none") item["in_container"] = true;
    plan_.rank_options.push_back({"--stage", json_read::dump(item), "stage"_key});
  }
  for (const OutputCopy& one : spec_.outputs) {
    nlohmann::ordered_json item{{"from", one.from}, {"to", one.to}};
    if (one.every_s) item["every_s"] = *one.every_s;
    item["limit_s"] = one.limit_s.value_or(kDefaultLimitSeconds);
    plan_.rank_options.push_back({"--output", json_read::dump(item), "outputs"_key});
  }
}

void Planner::plan_program() {
  if (!preset_.is_trainer) {
    plan_.program.push_back({spec_.launch.command, "launch.command"_key});
    return;
  }
  plan_.program.push_back({{inputs_.trainer_path}, "launch.preset: trainer"});
  plan_.needs_trainer = true;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kTrainer) continue;
    auto value = option_text(row, spec_);
    if (row.path == "train.backend"_key) value = trainer_backend();
    if (row.path == "checkpoint.every"_key && value) {
      if (const auto steps = parse_checkpoint_interval(*value)) value = fmt::format("{}", *steps);
    }
    if (!value) continue;
    std::vector<std::string> words{std::string(row.option.name)};
    if (!row.option.is_switch) words.push_back(*value);
    if (row.option.is_switch && *value != "true") continue;
    plan_.program.push_back({std::move(words), std::string(row.path)});
  }
}

bool Planner::may_use_mpi() const {
  return runtime_ == "none" && spec_.launch.mpi != "none";
}

std::string Planner::trainer_backend() const {
  const std::string asked = spec_.train.backend.value_or("auto");
  if (asked != "auto") return asked;
  if (inputs_.target == Target::kLocal) return plan_.local_ranks > 1 ? "shm" : "single";
  if (plan_.requested.nodes == 1)
    return "auto";  // the trainer chooses shm, unless an edited script uses more nodes
  return may_use_mpi() ? "mpi" : "gloo";
}

bool Planner::trainer_wants_mpi() const {
  const std::string chosen = trainer_backend();
  return chosen == "mpi" || (chosen == "auto" && may_use_mpi());
}

void Planner::add_lead_options() {
  const auto add = [&](std::string_view option, std::optional<std::string> value,
                       std::string_view key) {
    plan_.lead_options.push_back({std::string(option), std::move(value), std::string(key)});
  };
  const bool is_slurm = inputs_.target == Target::kSlurm;
  if (spec_.health.hang_after)
    add("--hang-after", spec_.health.hang_after, "health.hang_after"_key);
  if (spec_.health.idle_gpu_after)
    add("--idle-gpu-after", spec_.health.idle_gpu_after, "health.idle_gpu_after"_key);
  if (spec_.health.idle_gpu == "end") add("--end-idle-gpus", std::nullopt, "health.idle_gpu"_key);
  if (is_slurm) add_bad_node_options();
  if (inputs_.uses_existing_allocation)
    add("--borrowed", std::nullopt, "the allocation belongs to another script or shell");
  if (spec_.checkpoint.signal_before && is_slurm)
    add("--signal-before", spec_.checkpoint.signal_before, "checkpoint.signal_before"_key);
  const SweepSpec& sweep = spec_.sweep;
  if (sweep.stop_metric && is_slurm) {
    add("--stop-early",
        (is_smaller_better(*sweep.stop_metric) ? "min:" : "max:") + *sweep.stop_metric,
        "sweep.stop_early.metric"_key);
    add("--stop-after", fmt::format("{}", sweep.stop_after.value_or(1)),
        "sweep.stop_early.after"_key);
  }
  if (inputs_.rehearsal_s > 0)
    return add("--rehearse", fmt::format("{}", inputs_.rehearsal_s), "--rehearse");
  if (!wants_retry(spec_)) return;
  const auto causes = retry_causes(spec_);
  const auto is_among = [&](std::string_view cause) {
    return std::find(causes.begin(), causes.end(), cause) != causes.end();
  };
  add("--retry", fmt::format("{}", retry_max(spec_)), "retry.max"_key);
  add("--retry-on", join(causes, ","), "retry.on"_key);
  if (spec_.retry.no_progress)
    add("--no-progress", fmt::format("{}", *spec_.retry.no_progress), "retry.no_progress"_key);
  if (!is_slurm) return;
  if (spec_.retry.grow_mem) {
    add("--grow-memory", fmt::format("{}", *spec_.retry.grow_mem), "retry.grow.mem"_key);
    add("--memory-limit",
        fmt::format("{}", memory_mib(spec_.retry.grow_max.value_or("0")).value_or(0)),
        "retry.grow.max"_key);
  }
  if (spec_.retry.chain && !inputs_.uses_existing_allocation)
    add("--chain", fmt::format("{}", *spec_.retry.chain), "retry.chain"_key);
  const auto& nodes = spec_.resources.nodes;
  const bool has_spare = spec_.resources.spare_nodes.has_value();
  continues_with_fewer_nodes_ =
      is_among("node_failure") && nodes && (nodes->min < nodes->max || has_spare);
  may_be_requeued_ = !inputs_.uses_existing_allocation;
  if (spec_.retry.exclude_bad_nodes.value_or(false))
    add("--exclude-bad-nodes", std::nullopt, "retry.exclude_bad_nodes"_key);
  if (continues_with_fewer_nodes_)
    add("--min-nodes", fmt::format("{}", nodes->min), "resources.nodes"_key);
  if (has_spare) add("--step-nodes", fmt::format("{}", step_nodes_), "resources.spare_nodes"_key);
}

void Planner::add_wandb_variables() {
  const TrackSpec& t = spec_.track;
  if (!t.wandb_project) return;
  const auto& vars = spec_.environment.vars;
  const auto is_set_by_user = [&](std::string_view name) {
    return std::any_of(vars.begin(), vars.end(),
                       [&](const auto& variable) { return variable.first == name; });
  };
  constexpr std::array<std::pair<const char*, const char*>, 4> kTemplates{{
      {"WANDB_RUN_ID", "{run_id}"},
      {"WANDB_NAME", "{run_id}"},
      {"WANDB_RESUME", "allow"},
      {"WANDB_DIR", "{run}"},
  }};
  for (const auto& [name, text] : kTemplates) {
    if (!is_set_by_user(name))
      plan_.rank_templates.push_back(
          {name, text, "track.wandb.project"_key, false, Origin::Kind::kDefault});
  }
  const auto add = [&](const char* name, const std::optional<std::string>& value,
                       std::string_view key) {
    if (value && !is_set_by_user(name))
      plan_.rank_vars.push_back({name, *value, std::string(key), false, Origin::Kind::kDefault});
  };
  add("WANDB_PROJECT", t.wandb_project, "track.wandb.project"_key);
  add("WANDB_ENTITY", t.wandb_entity, "track.wandb.entity"_key);
  add("WANDB_MODE", t.wandb_mode, "track.wandb.mode"_key);
}

void Planner::add_track_options() {
  const TrackSpec& t = spec_.track;
  if (t.tensorboard.value_or(false))
    plan_.lead_options.push_back({"--tensorboard", std::nullopt, "track.tensorboard"_key});
  if (!t.mlflow_url) return;
  const auto add = [&](std::string_view option, std::string value, std::string_view key) {
    plan_.lead_options.push_back({std::string(option), std::move(value), std::string(key)});
  };
  std::string url = *t.mlflow_url;
  while (url.ends_with('/')) url.pop_back();
  add("--mlflow", url, "track.mlflow.url"_key);
  add("--mlflow-experiment", t.mlflow_experiment.value_or(plan_.name),
      "track.mlflow.experiment"_key);
  if (!t.mlflow_secret) return;
  plan_.lead_secrets.push_back(*t.mlflow_secret);
  add("--mlflow-secret", *t.mlflow_secret, "track.mlflow.secret"_key);
}

void Planner::add_notify_options() {
  const NotifySpec& n = spec_.notify;
  if (!n.has_webhook() && n.command.empty()) return;
  const auto add = [&](std::string_view option, std::string value, std::string_view key) {
    plan_.lead_options.push_back({std::string(option), std::move(value), std::string(key)});
  };
  const std::vector<std::string> defaults(kDefaultOccasions.begin(), kDefaultOccasions.end());
  add("--notify", join(n.on.empty() ? defaults : n.on, ","), "notify.on"_key);
  if (n.has_webhook()) {
    const std::string name = n.webhook_secret.value_or(kWebhookUrlSecret);
    plan_.lead_secrets.push_back(name);
    // The script names notify.webhook.secret even if the spec has notify.webhook.url: in
    // resolved.yaml notify.webhook.secret replaces the url, and resolved.yaml must give the same
    // script.
    add("--webhook", name, "notify.webhook.secret"_key);
  }
  for (const std::string& word : n.command) add("--notify-word", word, "notify.command"_key);
}

void Planner::add_bad_node_options() {
  const HealthSpec& h = spec_.health;
  if (!h.known_bad_file && !h.known_bad_for) return;
  constexpr std::int64_t kWeek = 7 * 24 * 3600;
  const auto seconds =
      h.known_bad_for ? parse_int(*h.known_bad_for) : std::optional<std::int64_t>();
  plan_.known_bad = KnownBadSettings{h.known_bad_file.value_or(known_bad_file_in(inputs_.runs_dir)),
                                     seconds.value_or(kWeek)};
  plan_.lead_options.push_back(
      {"--known-bad", plan_.known_bad->file,
       h.known_bad_file ? "health.known_bad.file"_key : "health.known_bad"});
  plan_.lead_options.push_back(
      {"--known-bad-for", fmt::format("{}", plan_.known_bad->seconds), "health.known_bad.for"_key});
}

}  // namespace dlrun
