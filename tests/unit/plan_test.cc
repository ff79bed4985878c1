#include "launcher/plan/plan.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/plan/bad_nodes_exclusion.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_resources.h"
#include "launcher/spec/spec_keys.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest request(std::string_view text) {
  LoadRequest made;
  made.file = "exp.yaml";
  made.text = std::string(text);
  made.current_dir = "/exp";
  return made;
}

PlanInputs inputs(Target target = Target::kSlurm) {
  return {"/runs", "/runs/.agents/h/dlrun-agent", "/runs/.agents/h/dlrun-trainer", target};
}

LoadedSpec loaded(std::string_view text) {
  auto result = load_spec(request(text));
  if (!result) FAIL(format_diagnostics(result.error()));
  return std::move(*result);
}

LaunchPlan planned(std::string_view text, const PlanInputs& with = inputs()) {
  auto plan = make_plan(loaded(text), with);
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return std::move(*plan);
}

std::string refused(std::string_view text, const PlanInputs& with) {
  const auto plan = make_plan(loaded(text), with);
  REQUIRE_FALSE(plan.has_value());
  return format_diagnostics(plan.error());
}

/// Returns the option of this name as a word such as "--nodes=2"; "" if the option is not there.
std::string word_of(const std::vector<PlannedOption>& options, std::string_view name) {
  for (const PlannedOption& option : options) {
    if (option.option == name) return option.word();
  }
  return "";
}

/// Returns the value of a flag in the command line of the ranks' program; "" if it has no such
/// flag.
std::string program_flag_value(const LaunchPlan& plan, std::string_view flag) {
  const auto argv = plan.program_argv();
  const auto found = std::find(argv.begin(), argv.end(), flag);
  return found == argv.end() || found + 1 == argv.end() ? "" : *(found + 1);
}

constexpr const char* kTrainer =
    "resources: {nodes: 2, tasks_per_node: 2, time: 1m}\ntrain: {data: {dataset: digits}}\n";

TEST_CASE("a plan uses the trainer if the ranks run it, or if a preflight check runs collectives") {
  CHECK(planned(kTrainer).uses_trainer());
  const auto with = [](std::string_view checks) {
    return planned("resources: {nodes: 2, tasks_per_node: 1, time: 1m}\nlaunch: {command: [x]}\n" +
                   std::string(checks));
  };
  CHECK_FALSE(with("").uses_trainer());
  CHECK_FALSE(with("health: {preflight: [disk, clock]}\n").uses_trainer());
  CHECK(with("health: {preflight: [disk, gloo]}\n").uses_trainer());
  CHECK(planned("resources: {nodes: 2, tasks_per_node: 1, gpus_per_node: 1, time: 1m}\n"
                "launch: {command: [x]}\nhealth: {preflight: [rccl]}\n")
            .uses_trainer());
}

TEST_CASE("the requested resources are counted, and numbers that Slurm decides have no value") {
  const auto requested_by = [](std::string_view resources) {
    return planned("resources: {time: 1h, " + std::string(resources) + "}\nlaunch: {command: [x]}")
        .requested;
  };
  const Requested full = requested_by("nodes: 2, gpus_per_node: 4, cpus_per_task: 10");
  CHECK(full.nodes == 2);
  CHECK(full.tasks == 8);
  CHECK(full.gpus == 8);
  CHECK(full.cpus == 80);
  CHECK(full.time_seconds == 3600);
  CHECK(requested_by("ntasks: 8, gres: 'gpu:8'").tasks == 8);
  CHECK_FALSE(requested_by("ntasks: 8, gres: 'gpu:8'").gpus.has_value());
  CHECK(requested_by("ntasks: 8, gpus_per_task: 2").gpus == 16);
  CHECK_FALSE(requested_by("nodes: '2-4', gpus_per_node: 1").gpus.has_value());
  CHECK(requested_by("nodes: '2-4'").gpus == 0);
}

TEST_CASE(
    "tasks per node default to the number of GPUs, and nodes to one, but with ntasks Slurm decides "
    "both") {
  const auto plan = planned("resources: {gpus_per_node: 4, time: 1m}\nlaunch: {command: [x]}");
  CHECK(word_of(plan.directives, "--ntasks-per-node") == "--ntasks-per-node=4");
  CHECK(word_of(plan.directives, "--nodes") == "--nodes=1");
  const auto by_tasks = planned("resources: {ntasks: 8, time: 1m}\nlaunch: {command: [x]}");
  CHECK(word_of(by_tasks.directives, "--nodes").empty());
  CHECK(word_of(by_tasks.directives, "--ntasks-per-node").empty());
}

TEST_CASE("no GPUs means no GPU directive") {
  const auto plan = planned("resources: {gpus_per_node: 0, time: 1m}\nlaunch: {command: [x]}");
  CHECK(word_of(plan.directives, "--gpus-per-node").empty());
  CHECK(word_of(plan.directives, "--gres").empty());
}

TEST_CASE("at a site with the GPU style gres, gpus_per_node becomes --gres") {
  LoadedSpec spec =
      loaded("resources: {gpus_per_node: 'a100:2', time: 1m}\nlaunch: {command: [x]}");
  spec.site.gpu_style = "gres";
  const auto plan = make_plan(spec, inputs());
  REQUIRE(plan.has_value());
  CHECK(word_of(plan->directives, "--gres") == "--gres=gpu:a100:2");
  CHECK(word_of(plan->directives, "--gpus-per-node").empty());
}

TEST_CASE(
    "a site's MPI replaces pmix, `default` means no --mpi, and launch.mpi of the spec takes "
    "precedence") {
  LoadedSpec spec = loaded("resources: {time: 1m}\nlaunch: {preset: mpi, command: [x]}");
  for (const auto& [site_mpi, option] :
       {std::pair("", "--mpi=pmix"), {"pmi2", "--mpi=pmi2"}, {"default", ""}}) {
    spec.site.mpi = site_mpi;
    CHECK(word_of(make_plan(spec, inputs())->step, "--mpi") == option);
  }
  spec.spec.launch.mpi = "pmix";
  CHECK(word_of(make_plan(spec, inputs())->step, "--mpi") == "--mpi=pmix");
}

TEST_CASE("every step has --export=ALL, --kill-on-bad-exit=1 and its CPUs, and no --wait") {
  for (const char* cpus : {"cpus_per_task: 3, ", "cpus_per_gpu: 2, gpus: 4, ", ""}) {
    const auto plan =
        planned("resources: {" + std::string(cpus) + "time: 1m}\nlaunch: {command: [x]}");
    CHECK(word_of(plan.step, "--export") == "--export=ALL");
    CHECK(word_of(plan.step, "--kill-on-bad-exit") == "--kill-on-bad-exit=1");
    CHECK(word_of(plan.step, "--wait").empty());
    CHECK(has(*render_script(plan), "\n  --cpus-per-"));
  }
}

TEST_CASE(
    "the trainer's default backend is auto on one node, mpi or gloo on several, and shm or single "
    "without Slurm") {
  const auto backend = [](std::string_view more, Target target = Target::kSlurm) {
    return program_flag_value(planned(std::string(kTrainer) + std::string(more), inputs(target)),
                              "--backend");
  };
  CHECK(backend("") == "mpi");
  CHECK(backend("launch: {mpi: none}") == "gloo");
  CHECK(backend("container: {runtime: pyxis, image: i}") == "gloo");
  CHECK(backend("", Target::kLocal) == "shm");
  const auto backend_for = [](std::string_view resources, std::string_view more = "") {
    return program_flag_value(
        planned(fmt::format("resources: {{{}, time: 1m}}\ntrain: {{data: {{dataset: digits}}}}\n{}",
                            resources, more)),
        "--backend");
  };
  CHECK(backend_for("nodes: 1, tasks_per_node: 4") == "auto");
  CHECK(backend_for("nodes: 1, tasks_per_node: 4", "container: {runtime: pyxis, image: i}") ==
        "auto");
  CHECK(backend_for("nodes: 1-2, tasks_per_node: 4") == "mpi");  // Slurm may give two nodes
  CHECK(backend_for("ntasks: 4") == "mpi");  // on as many nodes as Slurm chooses
  CHECK(program_flag_value(planned("resources: {time: 1m}\ntrain: {data: {dataset: digits}}",
                                   inputs(Target::kLocal)),
                           "--backend") == "single");
}

TEST_CASE(
    "srun gets --mpi for a trainer that may use MPI, also on one node, because an edited "
    "script may have more nodes") {
  CHECK(word_of(planned(kTrainer).step, "--mpi") == "--mpi=pmix");
  CHECK(word_of(planned("resources: {nodes: 1, time: 1m}\ntrain: {data: {dataset: digits}}").step,
                "--mpi") == "--mpi=pmix");
  CHECK(word_of(
            planned("resources: {time: 1m}\ntrain: {backend: gloo, data: {dataset: digits}}").step,
            "--mpi")
            .empty());
}

TEST_CASE("only the trainer counts as a bundled program, and may therefore use the store") {
  CHECK(planned(kTrainer).program_is_bundled);
  CHECK_FALSE(
      planned("resources: {time: 1m}\nlaunch: {preset: torch, command: [x]}").program_is_bundled);
}

TEST_CASE(
    "a local run has the ranks of one node, and refuses containers and MPI programs of several "
    "ranks") {
  CHECK(planned(kTrainer, inputs(Target::kLocal)).local_ranks == 2);
  CHECK(has(
      refused(
          "resources: {time: 1m}\nlaunch: {command: [x]}\ncontainer: {runtime: pyxis, image: i}",
          inputs(Target::kLocal)),
      "give --set container=null to run without a container"));
  auto without_container = request(
      "resources: {time: 1m}\nlaunch: {command: [x]}\ncontainer: {runtime: pyxis, image: i}");
  without_container.set_arguments = {"container=null"};
  const auto spec = load_spec(without_container);
  REQUIRE(spec.has_value());
  CHECK(make_plan(*spec, inputs(Target::kLocal)).has_value());
  CHECK(has(refused("resources: {time: 1m, ntasks: 4}\nlaunch: {command: [x], preset: mpi}",
                    inputs(Target::kLocal)),
            "a world of one rank"));
}

TEST_CASE("a runs folder that srun's or sbatch's options cannot express is refused") {
  PlanInputs odd = inputs();
  odd.runs_dir = "/a,b";
  CHECK(has(
      refused(
          "resources: {time: 1m}\nlaunch: {command: [x]}\ncontainer: {runtime: pyxis, image: i}",
          odd),
      "cannot be mounted"));
  odd.runs_dir = "/a\\b";
  CHECK(has(refused("resources: {time: 1m}\nlaunch: {command: [x]}", odd), "cannot express"));
}

TEST_CASE(
    "a percent sign in the path of the runs folder does not start a file name pattern of sbatch") {
  PlanInputs odd = inputs();
  odd.runs_dir = "/100%j";
  CHECK(word_of(planned("name: n\nresources: {time: 1m}\nlaunch: {command: [x]}", odd).directives,
                "--output") == "--output=/100%%j/n-%j.out");
}

TEST_CASE("a folder for data or checkpoints that pyxis cannot mount is refused at its key") {
  const std::string text = refused(
      "resources: {time: 1m}\ncontainer: {runtime: pyxis, image: i}\n"
      "train: {data: {dataset: mnist, path: '/my data'}}\ncheckpoint: {dir: '/c,d'}\n",
      inputs());
  CHECK(has(text, "train.data.path: the folder '/my data' holds ' ' and cannot be mounted"));
  CHECK(has(text, "checkpoint.dir: the folder '/c,d' holds ',' and cannot be mounted"));
}

TEST_CASE(
    "pmi2 is refused with enroot, because its file descriptor does not reach into the container") {
  const auto text = [](std::string_view runtime) {
    return "resources: {time: 1m}\ncontainer: {runtime: " + std::string(runtime) +
           ", image: /a.sqsh}\nlaunch: {command: [x], mpi: pmi2}";
  };
  CHECK(has(refused(text("enroot"), inputs()), "pmi2 does not reach into a container"));
  CHECK(make_plan(loaded(text("pyxis")), inputs()).has_value());
}

TEST_CASE("the user's variable takes precedence over the preset's") {
  const auto plan = planned(
      "resources: {time: 1m}\nlaunch: {command: [x], preset: mpi}\nenvironment: {vars: "
      "{PMIX_MCA_gds: mine}}");
  REQUIRE(plan.prologue.vars.size() == 1);
  CHECK(plan.prologue.vars[0].value == "mine");
}

TEST_CASE(
    "list options of containers are rendered once, with the values of dlrun and of the user") {
  const auto plan = planned(
      "resources: {time: 1m}\nenvironment: {vars: {A: 1}}\n"
      "container: {runtime: pyxis, image: i, mounts: ['/data:/data']}\n"
      "launch: {command: [x], srun: {container-env: [B, A], container-mounts: '/x:/x'}}");
  const auto count = [&](std::string_view name) {
    return std::count_if(plan.step.begin(), plan.step.end(),
                         [&](const PlannedOption& option) { return option.option == name; });
  };
  CHECK(count("--container-env") == 1);
  CHECK(count("--container-mounts") == 1);
  CHECK(word_of(plan.step, "--container-mounts") ==
        "--container-mounts=/data:/data,/x:/x,/runs:/runs");
  CHECK(word_of(plan.step, "--container-env") ==
        "--container-env=A,DLRUN_RUN,DLRUN_JOB,DLRUN_ATTEMPT,DLRUN_LEAD,DLRUN_SECRET,B");
}

TEST_CASE("a user's mount over the runs folder is kept, and dlrun adds none") {
  const auto plan = planned(
      "resources: {time: 1m}\ncontainer: {runtime: pyxis, image: i, mounts: "
      "['/fast/runs:/runs']}\nlaunch: {command: "
      "[x]}");
  CHECK(word_of(plan.step, "--container-mounts") == "--container-mounts=/fast/runs:/runs");
}

TEST_CASE(
    "with pyxis, the options for home, root, entry point and writability are always rendered") {
  const auto plan = planned(
      "resources: {time: 1m}\ncontainer: {runtime: pyxis, image: i}\nlaunch: {command: [x]}");
  for (const char* option : {"--no-container-mount-home", "--no-container-remap-root",
                             "--no-container-entrypoint", "--container-readonly"}) {
    CHECK(word_of(plan.step, option) == option);
  }
}

TEST_CASE("a job without retry is not queued again, and lead gets no retry options") {
  for (const char* spec : {"", "retry: {max: 0, on: [hang]}\n"}) {
    const auto plan = planned(std::string(kTrainer) + spec);
    CHECK(word_of(plan.directives, "--no-requeue") == "--no-requeue");
    CHECK(word_of(plan.directives, "--requeue").empty());
    CHECK(plan.lead_options.empty());
  }
  // Lead must still know that USR1 announces the time limit, because a program that exits on
  // USR1 may not be finished.
  const auto plan =
      planned("resources: {time: 1h}\nlaunch: {command: [x]}\ncheckpoint: {signal_before: 2m}\n");
  REQUIRE(plan.lead_options.size() == 1);
  CHECK(word_of(plan.lead_options, "--signal-before") == "--signal-before=120");
}

TEST_CASE(
    "the requested TMPDIR is passed to the ranks as --tmpdir, because slurmstepd may replace the "
    "variable") {
  const auto plan = planned(std::string(kTrainer) + "environment: {vars: {TMPDIR: /local/x y}}\n");
  CHECK(word_of(plan.rank_options, "--tmpdir") == "--tmpdir=/local/x y");
  CHECK(word_of(planned(kTrainer).rank_options, "--tmpdir").empty());
}

TEST_CASE("a chain of jobs allows at least the restarts that it needs, and lead knows its length") {
  auto plan = planned(std::string(kTrainer) + "retry: {chain: 6}\n");
  CHECK(word_of(plan.lead_options, "--retry") == "--retry=5");
  CHECK(word_of(plan.lead_options, "--chain") == "--chain=6");
  plan = planned(std::string(kTrainer) + "retry: {chain: 2}\n");
  CHECK(word_of(plan.lead_options, "--retry") == "--retry=3");
}

TEST_CASE(
    "any key of retry enables three restarts for every cause, and the time limit is a cause only "
    "with signal_before") {
  auto plan = planned(std::string(kTrainer) + "retry: {no_progress: 2}\n");
  CHECK(word_of(plan.lead_options, "--retry") == "--retry=3");
  CHECK(word_of(plan.lead_options, "--retry-on") ==
        "--retry-on=preemption,node_failure,hang,oom,failure");
  CHECK(word_of(plan.lead_options, "--no-progress") == "--no-progress=2");
  CHECK(word_of(plan.lead_options, "--signal-before").empty());
  CHECK(word_of(plan.directives, "--requeue") == "--requeue");
  CHECK(word_of(plan.directives, "--no-requeue").empty());
  plan = planned(
      "resources: {time: 1h}\ntrain: {data: {dataset: digits}}\nretry: {max: 1}\ncheckpoint: "
      "{signal_before: 2m}\n");
  CHECK(word_of(plan.lead_options, "--retry-on") ==
        "--retry-on=timeout,preemption,node_failure,hang,oom,failure");
  CHECK(word_of(plan.lead_options, "--signal-before") == "--signal-before=120");
}

TEST_CASE(
    "a job survives a lost node only if the spec has a node range and retries node failures") {
  const auto survives_lost_node = [](const char* nodes, const char* causes) {
    const auto plan =
        planned(fmt::format("resources: {{nodes: {}, time: 1h}}\ntrain: {{data: {{dataset: "
                            "digits}}}}\nretry: {{on: [{}]}}\n",
                            nodes, causes));
    const bool survives = !word_of(plan.directives, "--no-kill").empty();
    CHECK(survives == !word_of(plan.step, "--no-kill").empty());
    CHECK(word_of(plan.lead_options, "--min-nodes") == (survives ? "--min-nodes=2" : ""));
    return survives;
  };
  CHECK(survives_lost_node("\"2-4\"", "node_failure"));
  CHECK_FALSE(survives_lost_node("2", "node_failure"));
  CHECK_FALSE(survives_lost_node("\"2-4\"", "hang"));
}

TEST_CASE(
    "spare nodes are allocated in addition to the step's nodes, and count as requested resources") {
  const LaunchPlan plan = planned(
      "resources: {nodes: 2, spare_nodes: 1, tasks_per_node: 2, gpus_per_node: 4, cpus_per_task: "
      "3}\n"
      "launch: {preset: plain, command: [x]}\nretry: {on: [node_failure]}\n");
  CHECK(word_of(plan.directives, "--nodes") == "--nodes=3");
  CHECK(word_of(plan.step, "--nodes") == "--nodes=2");
  CHECK(word_of(plan.step, "--ntasks") == "--ntasks=4");
  CHECK(word_of(plan.lead_options, "--step-nodes") == "--step-nodes=2");
  CHECK(word_of(plan.lead_options, "--min-nodes") == "--min-nodes=2");
  CHECK(plan.requested.nodes == 3);
  CHECK(plan.requested.gpus == 12);
  CHECK(plan.requested.cpus == 18);
}

TEST_CASE(
    "health.known_bad remembers bad nodes for a week in the runs folder, unless it sets another "
    "time or file") {
  const std::string spec = "launch: {preset: plain, command: [x]}\n";
  CHECK_FALSE(planned(spec).known_bad);
  const LaunchPlan plan = planned(spec + "health: {known_bad: 2d}\n");
  REQUIRE(plan.known_bad);
  CHECK(plan.known_bad->file == plan.runs_dir + "/known-bad.jsonl");
  CHECK(plan.known_bad->seconds == 2 * 24 * 3600);
  CHECK(word_of(plan.lead_options, "--known-bad") == "--known-bad=" + plan.known_bad->file);
  const LaunchPlan shared = planned(spec + "health: {known_bad: {file: /shared/bad}}\n");
  CHECK(shared.known_bad->file == "/shared/bad");
  CHECK(shared.known_bad->seconds == 7 * 24 * 3600);
}

TEST_CASE(
    "bad nodes that may be of this cluster are added to the script's --exclude, unless its "
    "--nodelist names them") {
  const auto bad = [](std::string node, std::string cluster) {
    return BadNode{std::move(node), std::move(cluster), "lost", "run", "1", {}, {}};
  };
  const std::vector<BadNode> remembered{bad("n1", "here"), bad("n2", "elsewhere"), bad("n3", ""),
                                        bad("n4", "here")};
  const auto exclusion = exclude_bad_nodes(
      remembered, "here", "#!/bin/bash\n#SBATCH --exclude=n[7-8]\n#SBATCH -w n4\nsrun true\n");
  REQUIRE(exclusion);
  CHECK(exclusion->value == "n[1,3,7-8]");
  REQUIRE(exclusion->wanted.size() == 1);
  CHECK(exclusion->wanted[0].node == "n4");
  CHECK(exclude_bad_nodes({}, "here", "#SBATCH --exclude=n7\n")->value.empty());
  CHECK_FALSE(exclude_bad_nodes(remembered, "here", "#SBATCH --exclude=n[1-\n"));
}

TEST_CASE("a local run has the retry options, except those that need Slurm") {
  const auto plan = planned(
      std::string(kTrainer) +
          "retry: {max: 2, on: [failure], exclude_bad_nodes: true}\nhealth: {hang_after: 1m}\n",
      inputs(Target::kLocal));
  CHECK(word_of(plan.lead_options, "--retry") == "--retry=2");
  CHECK(word_of(plan.lead_options, "--hang-after") == "--hang-after=60");
  CHECK(word_of(plan.lead_options, "--exclude-bad-nodes").empty());
}

TEST_CASE(
    "job ids in `after` become --dependency in the script, and names of runs become a comment") {
  const auto directive = [](const LaunchPlan& plan) {
    return word_of(plan.directives, "--dependency");
  };
  const std::string spec = "launch: {command: [x]}\nafter: ";
  CHECK(directive(planned(spec + "{ok: ['12', first], any: 13_4}")) ==
        "--dependency=afterok:12,afterany:13_4");
  CHECK(directive(planned(spec + "{ok: [first]}")).empty());
  CHECK(has(*render_script(planned(spec + "{ok: ['12', first], notok: other}")),
            "# after.ok first, after.notok other: `dlrun submit` of this script finds the jobs of "
            "these runs"));
  CHECK_FALSE(has(*render_script(planned(spec + "{ok: ['12']}")), "finds the jobs"));
}

TEST_CASE(
    "the resources of a hand-written script are read from its #SBATCH lines, and the last value "
    "of an option counts") {
  const auto requested_by = [](const std::string& lines) {
    return requested_of_script("#!/bin/bash\n" + lines + "\nsrun x\n");
  };
  const Requested plain = requested_by("");
  CHECK((plain.nodes == 1 && plain.tasks == 1 && plain.gpus == 0 && !plain.cpus &&
         !plain.time_seconds));
  const Requested some =
      requested_by("#SBATCH -N 4 -t 1:30:00\n#SBATCH --gres=gpu:a100:2,shard:1 -c8 --nodes=3");
  CHECK((some.nodes == 3 && some.tasks == 3 && some.gpus == 6 && some.cpus == 24 &&
         some.time_seconds == 5400));
  CHECK(requested_by("#SBATCH -n 6 --gpus-per-task=2").gpus == 12);
  CHECK(requested_by("#SBATCH -N 2 --gpus-per-node=a100:2,v100:1").gpus == 6);
  CHECK_FALSE(requested_by("#SBATCH -N 2 --gpus=all --gres=gpu:1").gpus.has_value());
  CHECK_FALSE(requested_by("#SBATCH -n 6 --gpus-per-node=2").gpus.has_value());
  CHECK_FALSE(requested_by("#SBATCH -N 2-4 --gpus-per-node=2").gpus.has_value());
  CHECK_FALSE(requested_by("#SBATCH --array=0-9 -G 1 -t 1").gpus.has_value());
  const Requested hetjob = requested_by(
      "#SBATCH -G 1 -t 1 -c2\n#SBATCH hetjob\n#SBATCH -G 2 -N 3 -c 4\nsrun y\n#SBATCH -N 9");
  CHECK((hetjob.gpus == 3 && hetjob.nodes == 4 && hetjob.cpus == 14 && hetjob.time_seconds == 60));
  CHECK_FALSE(requested_by("#SBATCH -N 99999999999999 -c 99999999999999").cpus.has_value());
}

TEST_CASE(
    "in an allocation that the user already has, the step has each option that a step can have, "
    "once") {
  PlanInputs in_existing_allocation = inputs();
  in_existing_allocation.uses_existing_allocation = true;
  std::size_t planned_key_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSbatch || row.option.name.empty()) continue;
    CAPTURE(row.path);
    LoadRequest with_key = request("resources: {nodes: 3}\nlaunch: {command: [x]}\n");
    with_key.set_arguments = {fmt::format("{}={}", row.path, row.example)};
    const auto spec = load_spec(with_key);
    if (!spec) continue;  // the key needs another key
    const auto plan = make_plan(*spec, in_existing_allocation);
    if (!plan) FAIL(format_diagnostics(plan.error()));
    const auto found = std::count_if(
        plan->step.begin(), plan->step.end(),
        [&](const PlannedOption& option) { return option.option == row.option.name; });
    const bool is_of_step = row.option.scope == SbatchScope::kNodeChoice ||
                            row.option.scope == SbatchScope::kRankRequest;
    CHECK_MESSAGE(found == (is_of_step ? 1 : 0), row.option.name,
                  ": see SbatchScope in spec_keys.h");
    ++planned_key_count;
  }
  CHECK(planned_key_count >= 25);
}

TEST_CASE("salloc gets the directives, except those for batch jobs only") {
  const auto words =
      salloc_arguments(planned("resources: {time: 1m}\nlaunch: {command: [x]}\ncheckpoint: "
                               "{signal_before: 30s}\nslurm: {propagate: ALL}"));
  for (const char* batch_option :
       {"--output", "--open-mode", "--no-requeue", "--signal", "--propagate"}) {
    CHECK(std::none_of(words.begin(), words.end(),
                       [&](const std::string& word) { return word.starts_with(batch_option); }));
  }
  CHECK(std::find(words.begin(), words.end(), "--time=00:01:00") != words.end());
}

TEST_CASE("options that no slurmrestd can express are refused together, each with its key") {
  const std::string refusal = refused(
      "resources: {hint: nomultithread, clusters: other, time: 10m}\n"
      "slurm: {no-such-option: true}\n"
      "launch: {command: [x]}\nsubmit: {via: slurmrestd, url: unix:/run/s}\n",
      inputs());
  for (const char* word :
       {"exp.yaml:1:19: error: resources.hint: ", "resources.clusters: ", "--no-such-option"})
    CHECK_MESSAGE(refusal.find(word) != std::string::npos, word, " in ", refusal);
  // Some versions of the API can express these options. dlrun asks the server for its versions
  // later.
  CHECK(planned("resources: {distribution: cyclic, time: 10m}\ncheckpoint: {signal_before: 2m}\n"
                "slurm: {contiguous: true, profile: task}\n"
                "launch: {command: [x]}\nsubmit: {via: slurmrestd, url: unix:/run/s}\n")
            .server->url == "unix:/run/s");
  CHECK(planned("launch: {command: [x]}\nsubmit: {via: slurmrestd, url: unix:/run/s}\n")
            .server->url == "unix:/run/s");
  CHECK_FALSE(planned("launch: {command: [x]}\nsubmit: {via: sbatch, url: unix:/run/s}\n").server);
}

TEST_CASE("the runs folder is --runs, else $DLRUN_RUNS, else the site's, else ./runs") {
  Env env;
  SiteProfile site;
  CHECK(runs_directory(std::nullopt, env, site, "/exp") == "/exp/runs");
  site.runs_dir = "${SCRATCH}/runs";
  CHECK(runs_directory(std::nullopt, env, site, "/exp") == "/exp/runs");
  env.set("SCRATCH", "/scratch/u");
  CHECK(runs_directory(std::nullopt, env, site, "/exp") == "/scratch/u/runs");
  env.set("DLRUN_RUNS", "/r");
  CHECK(runs_directory(std::nullopt, env, site, "/exp") == "/r");
  CHECK(runs_directory("x/../y/", env, site, "/exp") == "/exp/y");
}

}  // namespace
}  // namespace dlrun
