// Tests launcher/submit as a library, without the command line: its messages reach a Reporter.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/sha256.h"
#include "common/text.h"
#include "launcher/plan/render.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/attach.h"
#include "launcher/submit/cancellation.h"
#include "launcher/submit/check_report.h"
#include "launcher/submit/refusal.h"
#include "launcher/submit/rendered_script.h"
#include "launcher/submit/submitting.h"
#include "launcher/submit/user_settings.h"
#include "launcher/view/account_text.h"
#include "launcher/view/run_text.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/submit_cluster.h"

using namespace dlrun;
namespace fs = std::filesystem;

TEST_CASE_FIXTURE(Cluster, "a spec, its rendered script and the recorded run give the same job") {
  write_x_yaml("");
  const auto first = submit("x.yaml");
  REQUIRE(first.has_value());
  REQUIRE(first->submissions.size() == 1);
  CHECK(first->submissions.front().job.id == "7");
  CHECK(first->job.source == Job::Source::kSpec);
  CHECK_FALSE(first->is_interrupted);
  for (const char* file : {"spec.yaml", "resolved.yaml", "plan.json", "job.sh", "provenance.json"})
    CHECK(fs::exists(first->run.path / file));
  // The rendered script requests the same job without the spec.
  std::ofstream(folder / "x.sh") << first->job.script;
  const auto second = submit("x.sh");
  REQUIRE(second.has_value());
  CHECK(second->job.source == Job::Source::kScript);
  CHECK(first->job.settings.log_pattern == folder.path().string() + "/o-%j.txt");
  CHECK(second->job.settings.log_pattern == first->job.settings.log_pattern);
  CHECK(second->job.requests.requested.time_seconds == first->job.requests.requested.time_seconds);
  CHECK_FALSE(fs::exists(second->run.path / "spec.yaml"));
  const auto third = submit_again(first->run.id);
  REQUIRE(third.has_value());
  CHECK(third->job.source == Job::Source::kRun);
  CHECK(third->job.settings.log_pattern == first->job.settings.log_pattern);
  CHECK(third->submissions.front().log_pattern == first->submissions.front().log_pattern);
  CHECK(third->run.id != first->run.id);
  CHECK(text(third->run.path / "job.sh") == first->job.script);
  CHECK(text(third->run.path / "spec.yaml") == text(folder / "x.yaml"));
  CHECK(reporter.messages.empty());
}

TEST_CASE_FIXTURE(Cluster, "a run is marked as cancelled before its job is cancelled") {
  write_x_yaml("");
  const auto submitted = submit("x.yaml");
  REQUIRE(submitted.has_value());
  const auto mark = (submitted->run.path / "cancelled").string();
  const IndexEntry run{submitted->run.id, "x", submitted->run.path, ""};
  RunInspector inspector(context.env, known_servers(context));
  write_program("squeue", "echo '7|RUNNING|None|n1|||'");
  write_program("scancel", "echo refused >&2; exit 1");
  CHECK_FALSE(cancel_run(inspector, run).has_value());
  CHECK_FALSE(std::filesystem::exists(mark));
  write_program("scancel", "test -e " + mark);  // fails without the mark
  CHECK(cancel_run(inspector, run).has_value());
  CHECK(std::filesystem::exists(mark));
}

TEST_CASE_FIXTURE(Cluster,
                  "resubmit says that a cancelled run is still ending, and how to wait for it") {
  write_x_yaml("");
  const auto submitted = submit("x.yaml");
  REQUIRE(submitted.has_value());
  const std::string id = submitted->run.id;
  const auto error_of_resubmission = [&] {
    RunInspector inspector(context.env, known_servers(context));
    const auto again = resubmit(context, reporter, inspector, id, false);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == Errc::kUsage);
    return again.error().message;
  };
  write_program("scancel", "exit 0");
  write_program("squeue", "echo '7|RUNNING|None|n1|||'");
  CHECK(has(error_of_resubmission(), "is still running (job 7)"));
  const IndexEntry run{id, "x", submitted->run.path, ""};
  RunInspector inspector(context.env, known_servers(context));
  const auto cancelled = cancel_run(inspector, run);
  REQUIRE(cancelled.has_value());
  REQUIRE(cancelled->jobs.size() == 1);
  CHECK(cancelled->was_running);
  write_program("squeue", "echo '7|COMPLETING|None|n1|||'");
  const auto ending = inspector.inspect(run.path);
  REQUIRE(ending.has_value());
  CHECK(summary_text(*ending) ==
        "it was cancelled with `dlrun cancel`, and its processes are being ended");
  const std::string message = error_of_resubmission();
  CHECK(has(message, id + ": was cancelled"));
  CHECK(has(message, "job 7"));
  CHECK(has(message, "`dlrun wait " + id + "`"));
  CHECK_FALSE(has(message, "Cancel it first"));
  const auto repeated = cancel_run(inspector, run);
  REQUIRE(repeated.has_value());
  CHECK(has(repeated->remark, "was cancelled before"));
}

TEST_CASE_FIXTURE(Cluster,
                  "a dependency that cannot be met is refused, and for after.ok the message says "
                  "how to wait for a new run") {
  write_x_yaml("");
  const auto first = submit("x.yaml");
  REQUIRE(first.has_value());
  const std::string id = first->run.id;
  write_program("squeue", "echo '7|FAILED|None|n1|||'");
  const auto error_of_submission_with = [&](const std::string& after) {
    write_x_yaml("after: {" + after + "}\n");
    const auto second = submit("x.yaml");
    REQUIRE_FALSE(second.has_value());
    const auto problems = second.error().diagnostics.all();
    REQUIRE(problems.size() == 1);
    return problems.front().message;
  };
  CHECK(
      error_of_submission_with("ok: [" + id + "]") ==
      "after.ok: " + id + " is failed: this job would never start. Submit the spec of " + id +
          " again; then `dlrun submit x.yaml --set after.ok=RUN` submits this job after the new "
          "run RUN. If `dlrun submit --chain` submitted both, submit all specs with --chain again");
  write_program("squeue", "echo '7|COMPLETED|None|n1|||'");
  CHECK(error_of_submission_with("notok: [" + id + "]") ==
        "after.notok: " + id + " is completed: this job would never start");
}

TEST_CASE_FIXTURE(Cluster,
                  "the journal of a submission has the absolute path of the job's error file, and "
                  "/dev/null for --error=none") {
  const std::string start_folder = (folder / "sub").string();
  fs::create_directory(start_folder);
  std::ofstream(folder / "x.sh") << "#!/bin/bash\n#SBATCH --time=1 -J some --chdir=" << start_folder
                                 << "\n#SBATCH -e %x-%j.err\ntrue\n";
  const std::string expected = start_folder + "/some-%j.err";
  const auto of_script = submit("x.sh");
  REQUIRE(of_script.has_value());
  const auto recorded = read_submission(of_script->run.path);
  REQUIRE(recorded.has_value());
  REQUIRE(recorded->has_value());
  CHECK((**recorded).error_pattern == expected);
  const auto again = submit_again(of_script->run.id);
  REQUIRE(again.has_value());
  CHECK(again->submissions.front().error_pattern == expected);
  std::ofstream(folder / "x.yaml") << "resources: {time: 1m, error: x-%j.err}\n"
                                   << "launch: {agent: false, command: [\"true\"]}\n";
  const auto of_spec = submit("x.yaml");
  REQUIRE(of_spec.has_value());
  CHECK(of_spec->submissions.front().error_pattern == (folder / "x-%j.err").string());
  std::ofstream(folder / "y.sh") << "#!/bin/bash\n#SBATCH --time=1 --error=none\ntrue\n";
  const auto discarded = submit("y.sh");
  REQUIRE(discarded.has_value());
  CHECK(discarded->submissions.front().error_pattern == "/dev/null");
}

TEST_CASE_FIXTURE(Cluster,
                  "the error for a key of `slurm` that sbatch does not know has the key's line, "
                  "and no files are left") {
  write_program(
      "sbatch",
      "case \"$*\" in *--acount*) echo \"sbatch: unrecognized option '--acount'\" >&2; exit 1;;"
      " *--help*) echo '  --account=name'; exit 0;; *) echo 7;; esac");
  write_x_yaml("slurm: {acount: a}\n");
  const auto submitted = submit("x.yaml");
  REQUIRE_FALSE(submitted.has_value());
  CHECK(reporter.messages.empty());
  REQUIRE(submitted.error().diagnostics.all().size() == 1);
  const Diagnostic problem = submitted.error().diagnostics.all().front();
  CHECK(has(problem.message, "slurm.acount: the sbatch here has no option --acount"));
  CHECK(problem.where.source == "x.yaml");
  CHECK(problem.where.line == 4);
  CHECK_FALSE(fs::exists(folder / "runs"));
}

TEST_CASE_FIXTURE(Cluster,
                  "a recorded spec is planned again only for dependencies, downloads, secrets and "
                  "environments to build or check") {
  const auto is_planned_again = [&](const std::string& yaml, bool has_secrets) {
    std::ofstream(folder / "resolved.yaml") << yaml;
    const auto experiment = recorded_experiment_if_needed(context, folder.path(), has_secrets);
    REQUIRE(experiment.has_value());
    return experiment->has_value();
  };
  const std::string plain = "name: x\nlaunch:\n  command: [\"true\"]\n";
  CHECK_FALSE(is_planned_again(plain, false));
  CHECK(is_planned_again(plain, true));
  CHECK(is_planned_again(plain + "after:\n  ok: [\"12\"]\n", false));
  CHECK(is_planned_again(plain + "after: {ok: [\"12\"]}\n", false));
  CHECK(is_planned_again("after: {ok: [\"12\"]}\n" + plain, false));
  CHECK(is_planned_again(plain +
                             "download: {path: /d, files: [{url: \"https://h.org/a\", sha256: " +
                             std::string(64, 'a') + "}]}\n",
                         false));
  CHECK(is_planned_again(plain + "environment:\n  uv:\n    project: /p\n", false));
  CHECK(is_planned_again(plain + "environment:\n  eessi: \"2023.06\"\n", false));
  CHECK_FALSE(is_planned_again(plain + "environment:\n  venv: /p\n", false));
  // This text only looks like the keys `download` and `after`.
  CHECK_FALSE(
      is_planned_again("name: x\nlaunch:\n  command: [\"true\"]\nenvironment:\n  setup: |\n"
                       "    download: nothing\n    after: nothing\n",
                       false));
  CHECK(reporter.messages.empty());
  fs::remove(folder / "resolved.yaml");
  const auto none = recorded_experiment_if_needed(context, folder.path(), true);
  REQUIRE(none.has_value());
  CHECK_FALSE(none->has_value());
}

TEST_CASE_FIXTURE(Cluster, "a check reports on the job that a submission would queue") {
  write_x_yaml("");
  RunInspector inspector(context.env, known_servers(context));
  const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
  REQUIRE(report.has_value());
  CHECK(report->has_slurm);
  CHECK(report->job.name == "x");
  CHECK(report->checked.to_fetch.empty());
  CHECK(has(text(folder / "called"), "--test-only"));
  CHECK_FALSE(fs::exists(folder / "runs"));
}

TEST_CASE_FIXTURE(Cluster,
                  "the error for a partition that Slurm refuses has the line of the spec, and "
                  "lists the existing partitions") {
  std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m, partition: gpo}\n"
                                   << "launch: {agent: false, command: [\"true\"]}\n";
  write_program("sbatch",
                "case \"$*\" in *--help*) exit 0;; esac\n"
                "echo 'sbatch: error: invalid partition specified: gpo' >&2; exit 1");
  write_program("sinfo", "printf 'cpu*\\ngpu\\ngpu\\n'");
  RunInspector inspector(context.env, known_servers(context));
  const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().code == Errc::kRefused);
  CHECK(has(report.error().message, "invalid partition specified"));
  const auto found = report.error().diagnostics.all();
  REQUIRE(found.size() == 1);
  CHECK(found[0].where.line == 2);
  CHECK(found[0].message ==
        "resources.partition is 'gpo'; the partitions here are cpu, gpu; did you mean 'gpu'?");
  // A submission is also refused with one diagnostic.
  const auto refused = submit("x.yaml");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().diagnostics.all().size() == 1);
}

TEST_CASE_FIXTURE(Cluster,
                  "the error for more nodes than the partition has shows the spec's line and how "
                  "many nodes there are") {
  write_program("sbatch",
                "case \"$*\" in *--help*) exit 0;; esac\n"
                "echo 'sbatch: error: Requested node configuration is not available' >&2; exit 1");
  write_program("sinfo", "printf 'batch*|3\\nbatch*|1\\ngpu|16\\n'");
  RunInspector inspector(context.env, known_servers(context));
  const auto found = [&](const std::string& resources) {
    std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m, " << resources << "}\n"
                                     << "launch: {agent: false, command: [\"true\"]}\n";
    const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
    REQUIRE_FALSE(report.has_value());
    return report.error().diagnostics.all();
  };
  const auto too_many = found("nodes: 9");
  REQUIRE(too_many.size() == 1);
  CHECK(too_many[0].where.line == 2);
  CHECK(too_many[0].message == "resources.nodes is 9, but partition 'batch' has 4 nodes");
  CHECK(found("nodes: 9, partition: gpu").empty());
  CHECK(found("nodes: 4").empty());
}

TEST_CASE_FIXTURE(Cluster,
                  "a check shows no start time for a job that exceeds a limit of its partition") {
  const auto slurm_line = [&](int nodes) {
    std::ofstream(folder / "x.yaml")
        << "name: x\nsite: juwels\nresources: {time: 1m, partition: develgpus, nodes: " << nodes
        << "}\nlaunch: {agent: false, command: [\"true\"]}\n";
    RunInspector inspector(context.env, known_servers(context));
    const auto report =
        check_experiment(context, reporter, inspector, {"x.yaml", {}, (folder / "runs").string()});
    REQUIRE(report.has_value());
    return check_lines(*report).back().value;
  };
  CHECK(has(slurm_line(2), "would accept the job (a test; nothing is queued): "));
  CHECK(slurm_line(3) ==
        "would accept the job (a test; nothing is queued), but may never start it: see the warning "
        "of resources.nodes");
}

TEST_CASE_FIXTURE(Cluster,
                  "the key in the error for a refusal depends on the kind of the refusal, not on "
                  "Slurm's message") {
  std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m, partition: gpu}\n"
                                   << "launch: {agent: false, command: [\"true\"]}\n";
  write_program("sinfo", "exit 0");
  write_program("sacctmgr", "exit 0");
  RunInspector inspector(context.env, known_servers(context));
  const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
  REQUIRE(report.has_value());
  const auto key_for = [&](SlurmRefusal refusal) {
    const auto found =
        explained_refusal(
            context, report->job, inspector.executor_of(report->job.settings.server),
            {.code = Errc::kRefused, .message = "invalid partition specified", .refusal = refusal})
            .diagnostics.all();
    return found.empty() ? "" : found[0].key;
  };
  CHECK(key_for(SlurmRefusal::kOther).empty());
  CHECK(key_for(SlurmRefusal::kNodesUnavailable).empty());
  CHECK(key_for(SlurmRefusal::kPartition) == "resources.partition");
  CHECK(key_for(SlurmRefusal::kAccount) == "resources.account");
  CHECK(key_for(SlurmRefusal::kQos) == "resources.qos");
}

TEST_CASE_FIXTURE(
    Cluster,
    "a check says how many hours of the account are left, and warns if the job may use more") {
  std::ofstream(folder / "x.yaml")
      << "name: x\nresources: {nodes: 2, gpus_per_node: 4, time: 10h, account: proj1}\n"
      << "launch: {agent: false, command: [\"true\"]}\n";
  write_program(
      "sshare",
      "echo \"$*\" >>" + (folder / "asked").string() +
          "; echo ' proj1||cpu=600000,gres/gpu=60000|cpu=60000,gres/gpu=54000|gres/gpu=3000'; "
          "echo ' proj1|kim||cpu=1|'; echo 'root||||'");
  RunInspector inspector(context.env, known_servers(context));
  const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
  REQUIRE(report.has_value());
  REQUIRE(report->account);
  CHECK(has(text(folder / "asked"), "-A proj1"));
  CHECK(account_text(*report->account) ==
        "proj1: 50 of 1000 GPU-hours are left (another 50 are reserved for running jobs); "
        "9000 of 10.0k core-hours are left");
  const auto warnings = join(reporter.messages, "\n");
  CHECK(has(warnings, "the job may use 80 GPU-hours, and the account proj1 has 50 left"));
  CHECK(check_json(*report)["account"]["limits"].size() == 2);
}

TEST_CASE_FIXTURE(Cluster,
                  "a check reports no account if sshare fails, and account_text() says if an "
                  "account has no limits") {
  write_x_yaml("");
  write_program("sshare", "echo 'sshare: error: not a supported priority plugin' >&2; exit 1");
  RunInspector inspector(context.env, known_servers(context));
  const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
  REQUIRE(report.has_value());
  CHECK_FALSE(report->account);
  CHECK(check_json(*report)["account"].is_null());
  CHECK(account_text({"proj1", {}}) == "proj1, without a limit on its hours");
}

TEST_CASE_FIXTURE(Cluster,
                  "a check warns about module, conda, apptainer and pyxis if they are missing") {
  fs::create_directories(folder / ".config" / "dlrun" / "sites");
  std::ofstream(folder / ".config" / "dlrun" / "sites" / "here.yaml")
      << "help: here\nmodule_init: /dev/null\n";
  fs::create_symlink("/bin/bash", folder / "slurm" / "bash");
  context.env.set("PATH", (folder / "slurm").string());
  write_program("srun", "echo '  --mpi=type'");
  const auto warnings_of = [&](const std::string& more) {
    reporter.messages.clear();
    write_x_yaml("site: here\n" + more);
    RunInspector inspector(context.env, known_servers(context));
    const auto report = check_experiment(context, reporter, inspector, {"x.yaml", {}, {}});
    REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
    return join(reporter.messages, "\n");
  };
  CHECK(has(warnings_of("environment: {modules: [CUDA]}\n"),
            "environment.modules.load: the command `module` is not set up here"));
  CHECK(has(warnings_of("environment: {conda: mine}\n"),
            "environment.conda.name: no conda is found here"));
  const auto both = warnings_of("environment: {modules: [Python], conda: mine}\n");
  CHECK(has(both, "environment.modules.load: the command `module` is not set up here"));
  CHECK(has(both, "One of the job's modules must bring it"));
  CHECK_FALSE(has(warnings_of("environment: {modules: [Python], conda: mine, setup: \"./x\"}\n"),
                  "no conda"));
  const auto apptainer = warnings_of("container: {runtime: apptainer, image: /none.sif}\n");
  CHECK(has(apptainer, "container.runtime: the program apptainer is not on the PATH here"));
  CHECK(has(apptainer, "the image '/none.sif' does not exist here"));
  const std::string pyxis = "container: {runtime: pyxis, image: /none.sqsh}\n";
  CHECK(has(warnings_of(pyxis), "the srun here has no --container-image"));
  write_program("srun", "echo '  --container-image=[USER@]'");
  CHECK_FALSE(has(warnings_of(pyxis), "--container-image"));
  // A check loads no modules of a spec. It does not warn about a tool that a module may provide.
  std::ofstream(folder / "module.sh")
      << "module() { echo loaded >>" << (folder / "loaded").string() << "; }\n";
  std::ofstream(folder / ".config" / "dlrun" / "sites" / "here.yaml")
      << "help: here\nmodule_init: " << (folder / "module.sh").string() << "\n";
  CHECK_FALSE(has(warnings_of("environment: {modules: [tools]}\ncontainer: {runtime: apptainer, "
                              "image: /none.sif}\n"),
                  "not on the PATH"));
  CHECK_FALSE(fs::exists(folder / "loaded"));
  write_program("conda", "exit 0");
  CHECK_FALSE(has(warnings_of("environment: {conda: mine}\n"), "no conda"));
  CHECK_FALSE(has(warnings_of(""), "the command `module`"));
}

TEST_CASE_FIXTURE(Cluster,
                  "the secrets of an array that Slurm may have accepted are kept, and those of a "
                  "refused array are removed") {
  context.env.set("TOKEN", "s3cret");
  std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m}\n"
                                   << "launch: {command: [\"true\"]}\n"
                                   << "environment: {secrets: [TOKEN]}\n"
                                   << "sweep: {parameters: {environment.vars.LR: [a, b]}}\n";
  const auto secrets_file_count = [&] {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      count += entry.path().filename() == "secrets" ? 1 : 0;
    return count;
  };
  const std::string other_calls =
      "case \"$*\" in *--help*) echo '  --account=name'; exit 0;; *--test-only*) exit 0;; esac\n";

  write_program("sbatch", other_calls + "echo 'sbatch: error: Invalid account' >&2; exit 1");
  const auto refused = submit("x.yaml");
  REQUIRE_FALSE(refused.has_value());
  INFO(refused.error().message);
  CHECK(has(refused.error().message, "Invalid account"));
  CHECK(secrets_file_count() == 0);

  // Ctrl-C ends sbatch before its answer, and squeue and sacct fail.
  write_program("sbatch", other_calls + "kill -INT $PPID $$; sleep 10");
  write_program("squeue", "exit 1");
  write_program("sacct", "exit 1");
  const auto interrupted = submit("x.yaml");
  REQUIRE_FALSE(interrupted.has_value());
  INFO(interrupted.error().message);
  CHECK(has(interrupted.error().message, "Whether Slurm took the job is not known"));
  CHECK(interrupted.error().code == Errc::kInterrupted);
  CHECK(secrets_file_count() == 2);  // one for each point of the sweep
}

TEST_CASE_FIXTURE(Cluster,
                  "without an installed trainer, submit and resubmit refuse a script whose copy of "
                  "the trainer is missing") {
  fs::create_directory(folder / "bin");
  REQUIRE(write_file_atomic(folder / "bin" / "dlrun-agent", "agent", 0755).has_value());
  context.tools.files = {{"bin/dlrun-agent", sha256_of_text("agent")},
                         {"bin/dlrun-trainer", sha256_of_text("trainer")}};
  const auto earlier = folder / "earlier copy" / "dlrun-trainer";
  const std::string refusal = "dlrun-trainer is not installed, and this job needs it";
  std::ofstream(folder / "x.sh") << "#!/bin/bash\n#SBATCH --time=1\nsrun \\\n  '"
                                 << earlier.string() << "' \\\n  --epochs 1\n";
  const auto refused = submit("x.sh");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kNotFound);
  CHECK(has(refused.error().message, refusal));
  // A comment starts nothing, and only the job knows the value of $D.
  std::ofstream(folder / "y.sh")
      << "#!/bin/bash\n#SBATCH --time=1\n# /x/dlrun-trainer\n$D/dlrun-trainer\n";
  CHECK(submit("y.sh").has_value());
  // A copy that an earlier version has made is enough.
  fs::create_directory(earlier.parent_path());
  REQUIRE(write_file_atomic(earlier, "earlier trainer", 0755).has_value());
  const auto submitted = submit("x.sh");
  REQUIRE_MESSAGE(submitted.has_value(), submitted.error().message);
  fs::remove(earlier);
  const auto again = submit_again(submitted->run.id);
  REQUIRE_FALSE(again.has_value());
  CHECK(has(again.error().message, refusal));
}

TEST_CASE_FIXTURE(Cluster,
                  "the plan of a run or of a sweep's point has the path of the runs folder") {
  const auto runs = folder / "runs";
  for (const char* run : {"x-1", "s-1/array-0/3"}) {
    fs::create_directories(runs / run);
    std::ofstream(runs / run / "resolved.yaml")
        << "name: x\nresources: {time: 1m}\nlaunch: {command: [\"true\"]}\n";
  }
  std::ofstream(runs / "s-1" / "sweep.json") << "{}";
  for (const char* run : {"x-1", "s-1/array-0/3"}) {
    const auto plan = plan_of_run(context, reporter, runs / run);
    REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
    CHECK(plan->runs_dir == runs.string());
    CHECK(has(plan->agent, runs.string() + "/.agents-"));
  }
}

TEST_CASE_FIXTURE(Cluster,
                  "an unedited script needs the trainer if its carried spec does, and an edited "
                  "script if its lines do") {
  fs::create_directory(folder / "bin");
  REQUIRE(write_file_atomic(folder / "bin" / "dlrun-agent", "agent", 0755).has_value());
  context.tools.files = {{"bin/dlrun-agent", sha256_of_text("agent")},
                         {"bin/dlrun-trainer", sha256_of_text("trainer")}};
  std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m}\n"
                                   << "launch: {command: [compare, /gone/dlrun-trainer]}\n";
  const auto prepared = prepare_experiment(context, reporter, {"x.yaml", {}, {}}, Target::kSlurm);
  REQUIRE(prepared.has_value());
  const auto script = render_script(prepared->plan);
  REQUIRE(script.has_value());
  std::string rendered = script_with_spec(*prepared, *script);
  std::ofstream(folder / "x.sh") << rendered;
  const auto submitted = submit("x.sh");
  REQUIRE_MESSAGE(submitted.has_value(), (submitted ? "" : submitted.error().message));
  // An edited script starts what its lines say, not what the carried spec says.
  rendered.insert(rendered.find('\n') + 1, "# mine\n");
  std::ofstream(folder / "y.sh") << rendered;
  const auto edited = submit("y.sh");
  REQUIRE_FALSE(edited.has_value());
  CHECK(has(edited.error().message, "dlrun-trainer is not installed, and this job needs it"));
}
