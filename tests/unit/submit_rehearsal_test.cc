// Tests how a spec is changed for its rehearsal, and how the rehearsal and the run are submitted,
// with a simulated cluster.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/runs/rehearsal.h"
#include "launcher/submit/rehearsal_submission.h"
#include "launcher/submit/user_settings.h"
#include "tests/contains.h"
#include "tests/unit/submit_cluster.h"

using namespace dlrun;

namespace {

using Changes = std::vector<std::string>;

/// A simulated cluster whose sbatch gives the ids 7, 8, ..., and whose job 7 is pending.
struct RehearsalCluster : Cluster {
  RehearsalCluster() {
    const std::string calls = (folder / "called").string();
    write_program("sbatch", "case \"$*\" in *--help*) exit 1;; esac\necho \"$*\" >>" + calls +
                                "\necho $((6 + $(wc -l <" + calls + ")))");
    write_program("squeue", "case \"$*\" in *'-j 7'*) echo '7|PENDING|None||||';; esac");
  }
  /// Writes the spec to x.yaml. Returns the options of its submission.
  SpecOptions options_of(const std::string& spec) {
    std::ofstream(folder / "x.yaml") << spec;
    return {"x.yaml", {}, {}};
  }
  /// Returns the changes of the spec for `--rehearse VALUE`, in the form of --set. Returns the
  /// error message if the spec is refused.
  Changes changes(const std::string& spec, const std::string& value = "2m") {
    const auto job = job_of_spec_file(context, reporter, options_of(spec));
    REQUIRE_MESSAGE(job.has_value(), (job ? std::string() : job.error().message));
    const auto found =
        changes_for_rehearsal(job->experiment->loaded, job->name, *parse_rehearsal(value));
    return found ? *found : Changes{found.error().message};
  }
};

SiteProfile site_with_partitions() {
  SiteProfile site;
  site.default_partition = "main";
  const auto add = [&](const char* name, std::int64_t hours, std::optional<std::int64_t> gpus) {
    PartitionProfile& partition = site.partitions[name];
    partition.max_time_seconds = hours * 3600;
    partition.gpus_per_node = gpus;
  };
  add("main", 48, 4);
  add("devel", 2, 4);
  add("medium", 12, 4);
  add("cpu-devel", 1, std::nullopt);
  add("old-gpus", 1, 2);
  site.partitions["main"].gpu_types = {"a100"};
  site.partitions["devel"].gpu_types = {"a100"};
  site.partitions["old-gpus"].gpu_types = {"v100"};
  return site;
}

}  // namespace

TEST_CASE("the value of --rehearse has a time and may have a partition") {
  CHECK(parse_rehearsal("2m")->seconds == 120);
  CHECK_FALSE(parse_rehearsal("2m")->partition);
  CHECK(parse_rehearsal("90s@devel")->seconds == 90);
  CHECK(parse_rehearsal("90s@devel")->partition == "devel");
  for (const char* wrong : {"", "soon", "5s", "25h", "2m@", "2m@a b", "2m@a,b", "@devel"}) {
    CAPTURE(wrong);
    REQUIRE_FALSE(parse_rehearsal(wrong));
    CHECK(parse_rehearsal(wrong).error().code == Errc::kUsage);
  }
}

TEST_CASE(
    "among partitions with GPUs like the job's, a rehearsal uses the one with the shortest "
    "sufficient time limit") {
  const SiteProfile site = site_with_partitions();
  JobSpec spec;
  spec.resources.gpus_per_node = Gpus{"", 4};
  CHECK(short_partition(site, spec, 120, 2) == "devel");
  CHECK(short_partition(site, spec, 3 * 3600, 2) == "medium");
  CHECK_FALSE(short_partition(site, spec, 20 * 3600, 2));
  spec.resources.partition = "devel";
  // No partition with such GPUs has a shorter limit than the job's partition.
  CHECK_FALSE(short_partition(site, spec, 120, 2));
  JobSpec counted;
  counted.resources.gpus = Gpus{"", 16};
  counted.resources.nodes = NodeRange{4, 4};
  counted.resources.tasks_per_node = 4;
  CHECK(short_partition(site, counted, 120, 2) == "devel");
  JobSpec without_gpus;
  CHECK(short_partition(site, without_gpus, 120, 2) == "cpu-devel");
  // For a job on whole nodes, the site file says whether the job's partition has GPUs.
  SiteProfile main_without_gpus = site;
  main_without_gpus.partitions["main"].gpus_per_node = 0;
  JobSpec whole_nodes;
  whole_nodes.resources.exclusive = "true";
  whole_nodes.resources.gres = "nvme";
  whole_nodes.resources.partition = "main";
  CHECK(short_partition(main_without_gpus, whole_nodes, 120, 2) == "cpu-devel");
  CHECK(short_partition(site, whole_nodes, 120, 2) == "devel");
  CHECK_FALSE(short_partition(SiteProfile{}, spec, 120, 2));
}

TEST_CASE_FIXTURE(RehearsalCluster, "a rehearsal has two ranks with their share of the GPUs") {
  CHECK(changes("name: big\nresources: {nodes: 4, gpus_per_node: a100:4, time: 24h}\n"
                "launch: {command: [x]}\n") ==
        Changes{"name=big-rehearsal", "resources.nodes=1", "resources.tasks_per_node=2",
                "resources.time=420s", "resources.gpus_per_node=a100:2"});
  // One task on each node starts all processes of the node.
  CHECK(changes("name: big\nresources: {nodes: 4, tasks_per_node: 1, gpus_per_node: 4, time: 24h}\n"
                "launch: {command: [x]}\n",
                "2m@devel") == Changes{"name=big-rehearsal", "resources.nodes=2",
                                       "resources.tasks_per_node=1", "resources.time=420s",
                                       "resources.partition=devel", "resources.gpus_per_node=4"});
  // The rehearsal of a job of one rank has one rank.
  CHECK(changes("name: one\nresources: {nodes: 1, time: 24h}\nlaunch: {command: [x]}\n") ==
        Changes{"name=one-rehearsal", "resources.nodes=1", "resources.tasks_per_node=1",
                "resources.time=420s"});
}

TEST_CASE_FIXTURE(RehearsalCluster,
                  "a run can be rehearsed even if its name has the maximum length") {
  const std::string name(64, 'n');
  const auto found = changes("name: " + name + "\nresources: {time: 1h}\nlaunch: {command: [x]}\n");
  REQUIRE_FALSE(found.empty());
  CHECK(found.front() == "name=" + name.substr(0, 54) + "-rehearsal");
  SpecOptions renamed = options_of("resources: {time: 1h}\nlaunch: {command: [x]}\n");
  renamed.set_arguments = {found.front()};
  CHECK(job_of_spec_file(context, reporter, renamed).has_value());
}

TEST_CASE_FIXTURE(
    RehearsalCluster,
    "a rehearsal leaves out the keys that would delay it or let it change the results of the run") {
  const auto found = changes(
      "name: x\nresources: {nodes: 2, ntasks: 8, begin: now+1hour, time: 24h}\n"
      "launch: {command: [x]}\ncheckpoint: {signal_before: 5m, dir: /scratch/ckpt}\n"
      "retry: {on: [timeout]}\n"
      "outputs: [{from: $TMPDIR/out, to: out}]\n");
  for (const char* one : {"resources.ntasks=null", "resources.begin=null", "retry.on=null",
                          "checkpoint.signal_before=null", "checkpoint.dir=null", "outputs=null"}) {
    CAPTURE(one);
    CHECK(std::find(found.begin(), found.end(), one) != found.end());
  }
}

TEST_CASE_FIXTURE(RehearsalCluster, "a rehearsal of a spec with a sweep or components is refused") {
  CHECK(has(changes("resources: {time: 1h}\nlaunch: {command: [x]}\n"
                    "sweep: {parameters: {environment.vars.LR: [a, b]}}\n")[0],
            "has a sweep"));
  CHECK(has(changes("resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [x]}\n"
                    "components: [{name: a, partition: p}, {name: b, partition: q}]\n")[0],
            "has components"));
}

TEST_CASE_FIXTURE(
    RehearsalCluster,
    "the run waits for its rehearsal, and the rehearsal's agent gets the time from --rehearse") {
  RunInspector inspector(context.env, known_servers(context));
  const auto sequence = submit_run_and_rehearsal(
      context, reporter, inspector,
      options_of("name: big\nresources: {nodes: 2, tasks_per_node: 4, mem: 8G, time: 2h}\n"
                 "launch: {command: [x]}\nretry: {max: 2}\n"),
      *parse_rehearsal("2m"));
  REQUIRE_MESSAGE(sequence.has_value(), (sequence ? std::string() : sequence.error().message));
  REQUIRE(sequence->submitted.size() == 2);
  const Submitted &rehearsal = sequence->submitted[0], &run = sequence->submitted[1];
  CHECK(rehearsal.run.name == "big-rehearsal");
  CHECK(run.run.name == "big");
  CHECK(has(rehearsal.job.script, "--rehearse 120"));
  CHECK_FALSE(has(rehearsal.job.script, "--retry"));
  CHECK(has(rehearsal.job.script, "--no-requeue"));
  CHECK_FALSE(has(run.job.script, "--rehearse"));
  CHECK(run.job.settings.dependency == "afterok:7");
  const auto note = read_rehearsal_note(run.run.path);
  REQUIRE(note.has_value());
  REQUIRE(*note);
  CHECK((*note)->id == rehearsal.run.id);
  CHECK((*note)->ranks_per_node == 4);
  CHECK((*note)->mem_mib == 8192);
  CHECK((*note)->time_s == 7200);
  const auto found = read_rehearsal(run.run.path);
  REQUIRE(found.has_value());
  REQUIRE(*found);
  CHECK((*found)->figures.state == RehearsalState::kNotStarted);
  CHECK_FALSE(*read_rehearsal(rehearsal.run.path));
}

TEST_CASE_FIXTURE(
    RehearsalCluster,
    "command_that_submits_run() returns a command with all options and dependencies of the run") {
  SpecOptions options =
      options_of("resources: {time: 1h}\nlaunch: {command: [x]}\nafter: {ok: [5, 6]}\n");
  options.set_arguments = {"name=my run"};
  options.runs_dir = "/scratch/runs";
  Submitted rehearsal;
  rehearsal.run.id = "x-rehearsal-1";
  CHECK(command_that_submits_run(options, rehearsal) ==
        "dlrun submit x.yaml --set 'name=my run' --set 'after.ok=[x-rehearsal-1]' --runs "
        "/scratch/runs");
  options.set_arguments.clear();
  auto job = job_of_spec_file(context, reporter, {"x.yaml", {}, {}});
  REQUIRE_MESSAGE(job.has_value(), (job ? std::string() : job.error().message));
  rehearsal.job = std::move(*job);
  CHECK(
      has(command_that_submits_run(options, rehearsal), "--set 'after.ok=[5, 6, x-rehearsal-1]'"));
}
