// Planner fills a LaunchPlan step by step: counts, environment, rank agent, program, leader,
// sbatch's directives, srun's options. Every check reports the spec's key that it is about.
#include "launcher/plan/plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/plan/rest_job.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/job_id.h"
#include "launcher/spec/slurm_units.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {
namespace {

/// The agent's variables that the leader passes to the ranks. The image must not replace them.
constexpr std::array<std::string_view, 5> kAgentVariables{"DLRUN_RUN", "DLRUN_JOB", "DLRUN_ATTEMPT",
                                                          "DLRUN_LEAD", "DLRUN_SECRET"};

/// The key of variables that tell an image's start-up hooks about GPUs.
constexpr std::string_view kOfGpus = "container: GPUs";

[[nodiscard]] std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

[[nodiscard]] bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (path.size() == folder.size() || folder.ends_with('/') || path[folder.size()] == '/');
}

class Planner {
 public:
  Planner(const LoadedSpec& loaded, const PlanInputs& inputs)
      : spec_(loaded.spec),
        site_(loaded.site),
        preset_(loaded.preset),
        file_(loaded.file),
        specs_folder_(loaded.folder),
        inputs_(inputs) {
    plan_.target = inputs.target;
    plan_.name = spec_.name.value_or("job");
    plan_.folder = start_folder(loaded);
    plan_.snapshot = spec_.code_snapshot.value_or(false);
    plan_.runs_dir = inputs.runs_dir;
    // Local runs always use the agent. launch.agent: false is for nodes without dlrun.
    if (inputs.target == Target::kLocal || spec_.launch.agent.value_or(true))
      plan_.agent = inputs.agent_path;
    plan_.trusted = preset_.trusted;
    plan_.clusters = spec_.resources.clusters;
    if (spec_.submit.via == "slurmrestd" && inputs.target == Target::kSlurm)
      plan_.server =
          RestServer{spec_.submit.url.value_or(""), spec_.submit.token_file.value_or("")};
    plan_.forward_usr1 = spec_.checkpoint.signal_before.has_value();
    runtime_ = container_runtime(spec_, site_);
  }

  [[nodiscard]] tl::expected<LaunchPlan, std::vector<Diagnostic>> run() && {
    count();
    if (inputs_.target == Target::kLocal) check_local();
    check_own_mounts();
    if (inputs_.runs_dir.find('\\') != std::string::npos && !spec_.resources.output) {
      error("resources.output", fmt::format("the runs folder '{}' holds a '\\', which Slurm cannot "
                                            "express in an output path; give --runs another",
                                            inputs_.runs_dir));
    }
    if (!errors_.empty()) return tl::unexpected(std::move(errors_));
    environment();
    rank_variables();
    program();
    retry();
    if (inputs_.target == Target::kSlurm) {
      directives();
      step();
      check_pmi();
      check_save();
      if (plan_.server) check_server();
    }
    if (!errors_.empty()) return tl::unexpected(std::move(errors_));
    return std::move(plan_);
  }

 private:
  void error(std::string_view key, std::string message) {
    const auto origin = spec_.origins.find(key);
    errors_.push_back(
        {Diagnostic::Severity::kError,
         origin != spec_.origins.end() ? origin->second : Origin{Origin::Kind::kFile, file_, 0, 0},
         std::move(message), ""});
  }

  void count() {
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

  void check_local() {
    for (std::string_view key : {"after.ok", "after.any", "after.notok"}) {
      if (spec_.origins.contains(key))
        error(key,
              fmt::format(
                  "{}: dlrun run starts at once and cannot wait for others; give --set {}=null",
                  key, key));
    }
    if (runtime_ != "none") {
      error("container.image",
            "container.image: dlrun run starts the ranks on this machine itself, without a "
            "container; give --set "
            "container.image=null to run without it");
    }
    if (plan_.local_ranks > 1 && preset_.wants_mpi && !preset_.is_trainer) {
      error("launch.preset", fmt::format("launch.preset: an MPI program needs srun to start it; "
                                         "here its {} ranks would be worlds of one each",
                                         plan_.local_ranks));
    }
    if (plan_.local_ranks > 1 && spec_.train.backend == "mpi") {
      error("train.backend", "train.backend: mpi needs srun to start the ranks; use shm, or auto");
    }
  }

  void environment() {
    const Environment& e = spec_.environment;
    Prologue& p = plan_.prologue;
    p.purge_modules = e.modules_purge.value_or(false);
    p.use_modules = e.modules_use;
    p.load_modules = e.modules_load;
    p.module_init = site_.module_init;
    p.conda_module = e.conda_module.value_or("");
    p.conda_name = e.conda_name.value_or("");
    p.venv = e.venv.value_or("");
    p.setup = e.setup.value_or("");
    p.setup_node = e.setup_node.value_or("");
    const auto is_users = [&](std::string_view name) {
      return std::any_of(e.vars.begin(), e.vars.end(),
                         [&](const auto& variable) { return variable.first == name; });
    };
    const auto add = [&](std::string_view name, std::string_view value, std::string key) {
      if (!is_users(name))
        p.vars.push_back({std::string(name), std::string(value), std::move(key)});
    };
    for (const auto& [name, value] : site_.environment) add(name, value, "site " + site_.name);
    if (!site_.interface.empty()) {
      for (std::string_view name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
        add(name, site_.interface, "site " + site_.name);
    }
    for (const auto& [name, value] : preset_.vars)
      add(name, value, "launch.preset: " + preset_.name);
    const auto is_set = [&p](std::string_view name) {
      return std::any_of(p.vars.begin(), p.vars.end(),
                         [&](const auto& variable) { return variable.name == name; });
    };
    if (runtime_ != "none" && gpus_per_node(spec_).value_or(1) > 0) {
      // Images without NVIDIA's own variables would see no GPU.
      add("NVIDIA_VISIBLE_DEVICES", "all", std::string(kOfGpus));
      if (runtime_ == "apptainer") {
        add("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", std::string(kOfGpus));
      } else if (!is_users("NVIDIA_DRIVER_CAPABILITIES") && !is_set("NVIDIA_DRIVER_CAPABILITIES")) {
        p.image_of_gpus = spec_.container.image.value_or("");
      }
    } else if (runtime_ == "pyxis" || runtime_ == "enroot") {
      // An image that asks for GPUs by itself would fail to start on a node without NVIDIA's tool.
      add("NVIDIA_VISIBLE_DEVICES", "void", std::string(kOfGpus));
    }
    if (spec_.container.save)
      p.made_folders.push_back({folder_of(*spec_.container.save), "container.save"});
    for (const auto& [name, value] : e.vars) p.vars.push_back({name, value, "environment.vars"});
  }

  void rank_variables() {
    const std::string from_preset = "launch.preset: " + preset_.name;
    if (const auto nproc = nproc_per_node(spec_); preset_.is_node_launcher && nproc) {
      plan_.rank_options.push_back({"--nproc-per-node", fmt::format("{}", *nproc),
                                    spec_.launch.nproc_per_node     ? "launch.nproc_per_node"
                                    : spec_.resources.gpus_per_task ? "resources.gpus_per_task"
                                    : spec_.resources.gpus_per_node ? "resources.gpus_per_node"
                                    : spec_.resources.gres          ? "resources.gres"
                                                                    : from_preset});
    }
    if (uses_roles(preset_)) {
      std::vector<std::string> roles;
      for (const auto& [name, count] :
           {std::pair("chief", spec_.launch.chief), std::pair("ps", spec_.launch.ps),
            std::pair("evaluator", spec_.launch.evaluator)}) {
        if (count) roles.push_back(fmt::format("{}={}", name, *count));
      }
      if (!roles.empty())
        plan_.rank_options.push_back({"--roles", join(roles, ","), "launch.roles"});
    }
    if (!spec_.health.preflight.empty())
      plan_.rank_options.push_back(
          {"--preflight", join(spec_.health.preflight, ","), "health.preflight"});
    for (const auto& [name, value] : spec_.environment.vars) {
      if (name == "TMPDIR" && inputs_.target == Target::kSlurm)
        plan_.rank_options.push_back({"--tmpdir", value, "environment.vars"});
    }
    for (const auto& word : preset_.words)
      plan_.rank_options.push_back({"--word", word, from_preset});
    for (const auto& [name, value] : preset_.env)
      plan_.rank_env.push_back({name, value, from_preset});
    plan_.secrets = spec_.environment.secrets;
  }

  void program() {
    if (!preset_.is_trainer) {
      plan_.program.push_back({spec_.launch.command, "launch.command"});
      return;
    }
    plan_.program.push_back({{inputs_.trainer_path}, "launch.preset: trainer"});
    for (const KeyRow& row : spec_keys()) {
      const bool is_trainers =
          row.path.starts_with("train.") || row.path.starts_with("checkpoint.");
      if (!is_trainers || row.option.empty()) continue;
      auto value = option_text(row, spec_);
      if (row.path == "train.backend") value = backend();
      if (row.path == "checkpoint.every" && value) {
        if (const auto steps = parse_interval(*value)) value = fmt::format("{}", *steps);
      }
      if (value)
        plan_.program.push_back({{std::string(row.option), *value}, std::string(row.path)});
    }
  }

  /// Returns true if the ranks can use the host's MPI. An image rarely holds the host's libmpi.
  [[nodiscard]] bool may_use_mpi() const {
    return runtime_ == "none" && spec_.launch.mpi != "none";
  }

  [[nodiscard]] std::string backend() const {
    const std::string asked = spec_.train.backend.value_or("auto");
    if (asked != "auto") return asked;
    if (inputs_.target == Target::kLocal) return plan_.local_ranks > 1 ? "shm" : "single";
    if (plan_.requested.nodes == 1)
      return "auto";  // shm, unless somebody gives the script more nodes
    return may_use_mpi() ? "mpi" : "gloo";
  }

  [[nodiscard]] bool trainer_wants_mpi() const {
    const std::string chosen = backend();
    return chosen == "mpi" || (chosen == "auto" && may_use_mpi());
  }

  /// Sets the leader's options for hangs and restarts, and notes what Slurm must allow for them.
  void retry() {
    const auto add = [&](std::string_view option, std::optional<std::string> value,
                         std::string_view key) {
      plan_.lead_options.push_back({std::string(option), std::move(value), std::string(key)});
    };
    const bool is_slurm = inputs_.target == Target::kSlurm;
    if (spec_.health.hang_after) add("--hang-after", spec_.health.hang_after, "health.hang_after");
    if (spec_.health.idle_gpu_after)
      add("--idle-gpu-after", spec_.health.idle_gpu_after, "health.idle_gpu_after");
    if (spec_.health.idle_gpu == "end") add("--end-idle-gpus", std::nullopt, "health.idle_gpu");
    if (is_slurm) remember_bad_nodes();
    if (spec_.checkpoint.signal_before && is_slurm)
      add("--signal-before", spec_.checkpoint.signal_before, "checkpoint.signal_before");
    if (!wants_retry(spec_)) return;
    const auto causes = retry_causes(spec_);
    const auto is_among = [&](std::string_view cause) {
      return std::find(causes.begin(), causes.end(), cause) != causes.end();
    };
    add("--retry", fmt::format("{}", spec_.retry.max.value_or(kRetryMax)), "retry.max");
    add("--retry-on", join(causes, ","), "retry.on");
    if (spec_.retry.no_progress)
      add("--no-progress", fmt::format("{}", *spec_.retry.no_progress), "retry.no_progress");
    if (!is_slurm) return;
    const auto& nodes = spec_.resources.nodes;
    const bool has_spare = spec_.resources.spare_nodes.has_value();
    goes_on_with_fewer_ =
        is_among("node_failure") && nodes && (nodes->min < nodes->max || has_spare);
    is_requeued_ = true;
    if (spec_.retry.exclude_bad_nodes.value_or(false))
      add("--exclude-bad-nodes", std::nullopt, "retry.exclude_bad_nodes");
    if (goes_on_with_fewer_) add("--min-nodes", fmt::format("{}", nodes->min), "resources.nodes");
    if (has_spare) add("--step-nodes", fmt::format("{}", step_nodes_), "resources.spare_nodes");
  }

  /// Tells the leader in which file runs remember bad nodes, and for how long.
  void remember_bad_nodes() {
    const HealthSpec& h = spec_.health;
    if (!h.known_bad_file && !h.known_bad_for) return;
    constexpr std::int64_t kWeek = 7 * 24 * 3600;
    const auto seconds =
        h.known_bad_for ? parse_int(*h.known_bad_for) : std::optional<std::int64_t>();
    plan_.known_bad = KnownBad{h.known_bad_file.value_or(known_bad_file_in(inputs_.runs_dir)),
                               seconds.value_or(kWeek)};
    plan_.lead_options.push_back({"--known-bad", plan_.known_bad->file,
                                  h.known_bad_file ? "health.known_bad.file" : "health.known_bad"});
    plan_.lead_options.push_back(
        {"--known-bad-for", fmt::format("{}", plan_.known_bad->seconds), "health.known_bad.for"});
  }

  void directives() {
    add_directive("--job-name", plan_.name, "name");
    for (const KeyRow& row : spec_keys()) {
      if (!row.path.starts_with("resources.") || row.path == "resources.output" ||
          row.path == "resources.error" || row.path == "resources.signal")
        continue;
      if (!add_derived_resource(row)) add_resource(row);
    }
    after();
    for (const SlurmOption& option : spec_.slurm) {
      if (option.name != "chdir") add_directive("--" + option.name, option.value, "slurm");
    }
    add_output_and_signals();
    add_directive("--open-mode", "append", "a requeue keeps the log");
    if (is_requeued_) {
      add_directive("--requeue", std::nullopt, "retry.on");
    } else {
      add_directive("--no-requeue", std::nullopt, "no retry");
    }
    if (goes_on_with_fewer_)
      add_directive("--no-kill", std::nullopt, "retry.on: node_failure, resources.nodes");
  }

  /// Adds the directive of a resource whose value does not stand in the spec as it is: a default,
  /// or one that follows from another key. Returns false if the spec's own value is to be used.
  bool add_derived_resource(const KeyRow& row) {
    const Resources& r = spec_.resources;
    if (row.path == "resources.nodes" && !r.nodes && !r.ntasks) {
      add_directive("--nodes", "1", "resources.nodes");
      return true;
    }
    if (row.path == "resources.nodes" && r.nodes && r.spare_nodes) {
      add_directive("--nodes", fmt::format("{}", step_nodes_ + *r.spare_nodes),
                    "resources.nodes, resources.spare_nodes");
      return true;
    }
    if (row.path == "resources.tasks_per_node" && !r.tasks_per_node && !r.ntasks) {
      const bool by_gpus = r.gpus_per_node && r.gpus_per_node->count > 0;
      add_directive("--ntasks-per-node", fmt::format("{}", ranks_per_node(spec_).value_or(1)),
                    by_gpus ? "resources.gpus_per_node" : "resources.tasks_per_node");
      return true;
    }
    if (row.path == "resources.gpus_per_node" && r.gpus_per_node) {
      if (r.gpus_per_node->count == 0) return true;
      if (site_.gpu_style != "gres") return false;
      add_directive("--gres", "gpu:" + format_gpus(*r.gpus_per_node), row.path);
      return true;
    }
    return false;
  }

  /// Adds the directive of a resource with the value in the spec or the preset, if it has one.
  void add_resource(const KeyRow& row) {
    const auto value = option_text(row, spec_);
    if (!value || row.option.empty()) return;
    const auto origin = spec_.origins.find(row.path);
    const bool is_presets =
        origin != spec_.origins.end() && origin->second.kind == Origin::Kind::kPreset;
    const std::string key = is_presets ? "launch.preset: " + preset_.name : std::string(row.path);
    if (row.format == Format::kFlag && *value == "true") {
      add_directive(row.option, std::nullopt, key);
    } else {
      add_directive(row.option, *value, key);
    }
  }

  void add_output_and_signals() {
    const Resources& r = spec_.resources;
    const bool is_specs_folder = plan_.folder == specs_folder_;
    add_directive("--chdir", plan_.folder, is_specs_folder ? "the spec's folder" : "slurm.chdir");
    plan_.output_given = r.output.has_value();
    add_directive("--output",
                  r.output
                      ? *r.output
                      : fmt::format("{}/{}-%j.out", escape_pattern(inputs_.runs_dir), plan_.name),
                  "resources.output");
    if (r.error) add_directive("--error", *r.error, "resources.error");
    if (r.signal) add_directive("--signal", *r.signal, "resources.signal");
    if (spec_.checkpoint.signal_before)
      add_directive("--signal", "B:USR1@" + *spec_.checkpoint.signal_before,
                    "checkpoint.signal_before");
  }

  /// Refuses directives that slurmrestd would drop or misread.
  void check_server() {
    for (const PlannedOption& directive : plan_.directives) {
      if (const auto why = rest_refusal(directive.option, directive.value))
        error(directive.key == "slurm" ? "slurm." + directive.option.substr(2) : directive.key,
              fmt::format("{}: {}", directive.key, *why));
    }
  }

  /// Adds the dependencies. Job ids are written into the script. The jobs of runs are known only at
  /// submission; sbatch's --dependency on the command line then lists all of them.
  void after() {
    const auto add = [&](std::string_view type, std::string_view key,
                         const std::vector<std::string>& runs) {
      for (const std::string& run : runs)
        plan_.after.push_back({std::string(type), run, std::string(key)});
    };
    add("afterok", "after.ok", spec_.after.ok);
    add("afterany", "after.any", spec_.after.any);
    add("afternotok", "after.notok", spec_.after.notok);
    if (plan_.after.empty()) return;
    std::vector<std::string> words;
    for (const PlannedDependency& one : plan_.after) {
      if (one.is_job_id()) words.push_back(one.type + ":" + one.run);
    }
    if (!words.empty()) add_directive("--dependency", join(words, ","), "after");
    const bool is_users =
        std::any_of(spec_.slurm.begin(), spec_.slurm.end(),
                    [](const SlurmOption& option) { return option.name == "kill-on-invalid-dep"; });
    if (!is_users) add_directive("--kill-on-invalid-dep", "yes", "after");
  }

  void add_directive(std::string_view option, std::optional<std::string> value,
                     std::string_view key) {
    plan_.directives.push_back({std::string(option), std::move(value), std::string(key)});
  }

  void step() {
    const auto add = [&](std::string_view option, std::optional<std::string> value,
                         std::string_view key) {
      plan_.step.push_back({std::string(option), std::move(value), std::string(key)});
    };
    add("--export", "ALL", "what this script exports reaches the ranks");
    add("--kill-on-bad-exit", "1", "a rank that is lost ends the step");
    if (goes_on_with_fewer_)
      add("--no-kill", std::nullopt, "the leader starts it again on what is left");
    if (spec_.resources.spare_nodes) {
      add("--nodes", fmt::format("{}", step_nodes_), "resources.nodes");
      add("--ntasks", fmt::format("{}", step_nodes_ * ranks_per_node(spec_).value_or(1)),
          "resources.tasks_per_node");
    }
    if (spec_.resources.cpus_per_gpu) {
      add("--cpus-per-gpu", fmt::format("{}", *spec_.resources.cpus_per_gpu),
          "resources.cpus_per_gpu");
    } else if (spec_.resources.cpus_per_task) {
      add("--cpus-per-task", fmt::format("{}", *spec_.resources.cpus_per_task),
          "resources.cpus_per_task");
    } else {
      plan_.shares_cpus = true;
    }
    if (spec_.launch.mpi) {
      add("--mpi", spec_.launch.mpi, "launch.mpi");
    } else if (preset_.wants_mpi && (!preset_.is_trainer || trainer_wants_mpi()) &&
               site_.mpi != "default") {
      add("--mpi", site_.mpi.empty() ? "pmix" : site_.mpi, "launch.preset: " + preset_.name);
    }
    if (spec_.launch.cpu_bind) add("--cpu-bind", spec_.launch.cpu_bind, "launch.cpu_bind");
    if (spec_.launch.gpu_bind) add("--gpu-bind", spec_.launch.gpu_bind, "launch.gpu_bind");

    std::vector<ContainerUserOption> users;
    for (const SlurmOption& option : spec_.launch.srun)
      users.emplace_back(option.name, option.value);
    const ContainerBackend& backend = *find_container_backend(runtime_);
    ContainerStep container = container_step();
    for (const PlannedVariable& variable : plan_.prologue.vars) {
      if (backend.carries(variable.value)) continue;
      plan_.rank_vars.push_back(variable);
      std::erase(container.job_names, variable.name);
    }
    plan_.runtime = runtime_;
    plan_.entry = backend.entry(container);
    // An interactive session finds the secrets in its environment and passes them into the
    // container. The ranks of a job get them from the agent instead.
    for (const SecretSource& secret : plan_.secrets) container.job_names.push_back(secret.name);
    plan_.entry.session = backend.entry(container).session;
    for (ContainerOption& option : backend.step_options(container, users)) {
      plan_.container.push_back(
          {std::move(option.option), std::move(option.value), std::move(option.key)});
    }
    for (const auto& [name, value] : users) add("--" + name, value, "launch.srun");
    step_variables();
    plan_.step.insert(plan_.step.end(), plan_.container.begin(), plan_.container.end());
  }

  /// Adds the preset's variables for PMIx, but only to a step that uses PMIx: one of enroot's hooks
  /// treats any PMIX_* variable as the sign of such a step and fails in others.
  void step_variables() {
    if (!is_over_pmix()) return;
    const auto is_there = [this](const std::string& name) {
      const auto& vars = plan_.prologue.vars;
      return std::any_of(vars.begin(), vars.end(),
                         [&](const auto& variable) { return variable.name == name; });
    };
    for (const auto& [name, value] : preset_.pmix_vars) {
      if (!is_there(name))
        plan_.step_vars.push_back({name, value, "launch.preset: " + preset_.name});
    }
  }

  /// Returns true if srun starts the ranks over PMIx. A site's own default counts as PMIx if there
  /// is no container, where the variables do no harm.
  [[nodiscard]] bool is_over_pmix() const {
    if (inputs_.target == Target::kLocal) return false;
    if (spec_.launch.mpi) return spec_.launch.mpi->starts_with("pmix");
    if (!preset_.wants_mpi || (preset_.is_trainer && !trainer_wants_mpi())) return false;
    if (site_.mpi == "default") return runtime_ == "none";
    return site_.mpi.empty() || site_.mpi.starts_with("pmix");
  }

  /// Checks the folders that dlrun mounts itself. Each has the same path inside the container.
  void check_own_mounts() {
    const auto check = [&](std::string_view key, std::string_view path, std::string_view what,
                           std::string_view remedy) {
      const auto at = path.find_first_of(find_container_backend(runtime_)->cannot_mount());
      if (at == std::string_view::npos) return;
      error(key, fmt::format("{}: {} '{}' holds '{}' and cannot be mounted into a container{}", key,
                             what, printable(path), path[at], remedy));
    };
    check("container.image", inputs_.runs_dir, "the runs folder", "; give --runs another");
    if (!preset_.is_trainer) return;
    check("train.data.path", spec_.train.data_path.value_or(""), "the folder", "");
    check("checkpoint.dir", spec_.checkpoint.dir.value_or(""), "the folder", "");
  }

  /// Refuses PMI2 with enroot: a task of PMI2 uses a descriptor that srun opened, and enroot closes
  /// it.
  void check_pmi() {
    if (runtime_ != "enroot") return;
    const auto mpi =
        std::find_if(plan_.step.begin(), plan_.step.end(),
                     [](const PlannedOption& option) { return option.option == "--mpi"; });
    if (mpi == plan_.step.end() || mpi->value != "pmi2") return;
    error("launch.mpi",
          "launch.mpi: pmi2 does not reach into a container that enroot starts without pyxis; use "
          "pmix, or none for a "
          "program without MPI");
  }

  /// Refuses container.save on several nodes: every node would save its container, and the last one
  /// would overwrite the others.
  void check_save() {
    if (!spec_.container.save || plan_.requested.tasks == 1 || plan_.requested.nodes == 1) return;
    error(
        "container.save",
        plan_.requested.nodes
            ? fmt::format(
                  "container.save: each of the {} nodes would write '{}'; give resources.nodes: 1",
                  *plan_.requested.nodes, printable(*spec_.container.save))
            : fmt::format(
                  "container.save: every node of the job would write '{}'; give resources.nodes: 1",
                  printable(*spec_.container.save)));
  }

  [[nodiscard]] ContainerStep container_step() const {
    ContainerStep step{spec_.container, {}, {}, {}, gpus_per_node(spec_).value_or(1) > 0};
    const auto mount = [&](const std::string& path) {
      const bool is_there =
          std::any_of(step.own_mounts.begin(), step.own_mounts.end(),
                      [&](const Mount& m) { return is_at_or_below(path, m.target); });
      if (!is_there) step.own_mounts.push_back({path, path, {}, true});
    };
    mount(inputs_.runs_dir);
    if (!plan_.agent.empty()) mount(plan_.agent.substr(0, plan_.agent.rfind('/')));
    if (preset_.is_trainer) {
      if (spec_.train.data_path) mount(*spec_.train.data_path);
      if (spec_.checkpoint.dir && spec_.checkpoint.dir->starts_with('/'))
        mount(*spec_.checkpoint.dir);
    }
    for (const PlannedVariable& variable : plan_.prologue.vars) {
      // The image sets its own variables about GPUs; they must not be replaced.
      if (variable.key != kOfGpus) step.env_names.push_back(variable.name);
    }
    if (is_over_pmix()) {
      for (const auto& [name, value] : preset_.pmix_vars) step.env_names.push_back(name);
    }
    step.job_names = step.env_names;
    // Without the agent the task's own shell, inside the container, sets these variables.
    if (!plan_.agent.empty()) {
      for (const PlannedVariable& variable : plan_.rank_env)
        step.env_names.push_back(variable.name);
    }
    if (plan_.agent.empty()) {
      step.env_names.emplace_back("DLRUN_MASTER_PORT");
    } else {
      step.env_names.insert(step.env_names.end(), kAgentVariables.begin(), kAgentVariables.end());
    }
    return step;
  }

  const JobSpec& spec_;
  const SiteProfile& site_;
  const Preset& preset_;
  const std::string& file_;
  const std::string& specs_folder_;
  const PlanInputs& inputs_;
  std::string runtime_;
  /// Nodes that an attempt runs on; 0 if the spec does not fix their number.
  std::int64_t step_nodes_ = 0;
  bool is_requeued_ = false;         ///< Slurm may queue the job again
  bool goes_on_with_fewer_ = false;  ///< losing a node does not end the job
  LaunchPlan plan_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

bool PlannedDependency::is_job_id() const {
  return is_slurm_job_id(run);
}

std::vector<std::string> LaunchPlan::program_argv() const {
  std::vector<std::string> argv;
  for (const PlannedWords& group : program)
    argv.insert(argv.end(), group.words.begin(), group.words.end());
  return argv;
}

tl::expected<LaunchPlan, std::vector<Diagnostic>> make_plan(const LoadedSpec& loaded,
                                                            const PlanInputs& inputs) {
  auto plan = Planner(loaded, inputs).run();
  if (!plan) {
    for (Diagnostic& problem : plan.error()) problem.line_text = line_under(loaded, problem.where);
  }
  return plan;
}

std::string known_bad_file_in(std::string_view runs_dir) {
  return fmt::format("{}/known-bad.jsonl", runs_dir);
}

std::string runs_directory(const std::optional<std::string>& option, const Env& env,
                           const SiteProfile& site, const std::filesystem::path& current_dir) {
  std::string chosen = option.value_or("");
  if (chosen.empty()) chosen = env.get_or("DLRUN_RUNS", "");
  if (chosen.empty() && !site.runs_dir.empty())
    chosen = substitute_variables(site.runs_dir, env).value_or("");
  if (chosen.empty()) chosen = "runs";
  return absolute_path(chosen, current_dir.string(), env).value_or((current_dir / "runs").string());
}

}  // namespace dlrun
