// Tests how the answers of a cluster are read, the findings about a cluster, and the drafts of site
// files.

#include <algorithm>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/doctor/findings.h"
#include "launcher/spec/sites.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig =
    "Configuration data as of 2026-11-21T16:09:47\n"
    "AccountingStorageType   = accounting_storage/slurmdbd\n"
    "AccountingStorageEnforce = associations\n"
    "AuthAltTypes            = auth/jwt\n"
    "ClusterName             = alpine\n"
    "JobRequeue              = 1\n"
    "MaxArraySize            = 1001\n"
    "ProctrackType           = proctrack/cgroup\n"
    "Prolog                  = (null)\n"
    "SelectType              = select/cons_tres\n"
    "SLURM_VERSION           = 22.05.8\n"
    "TaskPlugin              = task/affinity,task/cgroup\n"
    "\n"
    "Slurmctld(primary) at ctl1 is UP\n";

constexpr std::string_view kPartitions =
    "PartitionName=batch AllowGroups=ALL Default=YES DefaultTime=00:10:00 MaxNodes=UNLIMITED "
    "MaxTime=1-00:00:00 "
    "State=UP TotalCPUs=256 TotalNodes=4\n"
    "PartitionName=gpu:mig AllowGroups=ALL Default=NO DefaultTime=NONE MaxNodes=2 "
    "MaxTime=UNLIMITED State=UP "
    "TotalCPUs=256 TotalNodes=3\n"
    "PartitionName=old Default=NO MaxNodes=1 MaxTime=30 State=DOWN TotalNodes=1\n";

constexpr std::string_view kSinfo =
    "batch|3|64|256000|(null)|idle\n"
    "batch|1|96|512000|(null)|drained\n"
    "gpu:mig|2|128+|1031000+|gpu:a100:4(S:0-1),shard:2|mixed\n"
    "gpu:mig|1|128|1031000|gpu:1g.5gb:7,gpu:2g.10gb:2|down*\n"
    "unheard|1|1|1|gpu:1|idle\n"
    "a line that does not fit\n";

ClusterFacts alpine() {
  ClusterFacts facts;
  facts.config = parse_config(kConfig);
  facts.partitions = parse_partitions(kPartitions);
  add_node_facts(facts.partitions, kSinfo);
  add_mpi_plugins(facts,
                  "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific pmix "
                  "plugin versions "
                  "available: pmix_v4,pmix_v5\n");
  return facts;
}

/// Returns the site that the draft for a cluster describes.
Site read_draft(const ClusterFacts& facts) {
  return parse_site_file("sites/" + site_draft_name(facts) + ".yaml", site_draft(facts));
}

/// Returns the kind of the first finding about `what`; empty if there is no such finding.
std::string kind_of(const ClusterFacts& facts, std::string_view what) {
  for (const Finding& finding : findings(facts)) {
    if (finding.what == what)
      return finding.kind == Finding::Kind::kFine   ? "fine"
             : finding.kind == Finding::Kind::kNote ? "note"
                                                    : "missing";
  }
  return "";
}

TEST_CASE("Slurm's configuration is read line by line, and (null) means empty") {
  const auto facts = alpine();
  CHECK(facts.cluster_name() == "alpine");
  CHECK(facts.setting("Prolog").empty());
  CHECK(facts.setting("NoSuch").empty());
  CHECK(facts.has_accounting());
}

TEST_CASE("a partition has its limits, and the largest value of each resource among its nodes") {
  const auto facts = alpine();
  REQUIRE(facts.partitions.size() == 3);
  const auto& batch = facts.partitions[0];
  CHECK(batch.is_default);
  CHECK(batch.max_time_seconds == 86400);
  CHECK(batch.default_time_seconds == 600);
  CHECK_FALSE(batch.max_nodes.has_value());
  CHECK(batch.cpus_per_node == 96);
  CHECK(batch.mem_per_node_mib == 512000);
  CHECK(batch.gpus_per_node == 0);
  CHECK(batch.nodes == 4);
  CHECK(batch.usable_nodes == 3);
  const auto& mig = facts.partitions[1];
  CHECK(mig.gpus_per_node == 9);
  CHECK(mig.gpu_types == std::vector<std::string>{"a100", "1g.5gb", "2g.10gb"});
  CHECK(mig.max_nodes == 2);
  CHECK_FALSE(mig.max_time_seconds.has_value());
  CHECK_FALSE(mig.default_time_seconds.has_value());
  CHECK(mig.usable_nodes == 2);
  CHECK(mig.cpus_per_node == 128);
  CHECK_FALSE(facts.partitions[2].is_up);
  CHECK(facts.partitions[2].max_time_seconds == 1800);
}

TEST_CASE("MPI plugins are read from new and old versions of srun") {
  const auto facts = alpine();
  CHECK(facts.mpi_plugins == std::vector<std::string>{"pmix", "none", "cray_shasta", "pmi2"});
  CHECK(facts.pmix_versions == std::vector<std::string>{"pmix_v4", "pmix_v5"});
  ClusterFacts old;
  add_mpi_plugins(old, "srun: MPI types are...\nsrun: none\nsrun: openmpi\nsrun: pmi2\n");
  CHECK(old.mpi_plugins == std::vector<std::string>{"none", "openmpi", "pmi2"});
  CHECK(kind_of(old, "MPI") == "missing");
}

TEST_CASE("a draft is a valid site file with the cluster's values, and matches only this cluster") {
  const auto facts = alpine();
  const Site site = read_draft(facts);
  CHECK(format_diagnostics(site.problems) == "");
  const SiteProfile& profile = site.profile;
  CHECK(profile.name == "alpine");
  CHECK(profile.cluster_patterns == std::vector<std::string>{"alpine"});
  CHECK(profile.gpu_style == "gpus");
  CHECK(profile.mpi == "pmix");
  CHECK(profile.container_runtime == "none");
  CHECK(profile.default_partition == "batch");
  CHECK(profile.max_gpus_per_node == 9);
  CHECK(profile.partitions.at("batch").max_time_seconds == 86400);
  CHECK(profile.partitions.at("batch").mem_per_node_mib == 512000);
  CHECK(profile.partitions.at("gpu:mig").gpu_types.size() == 3);
  CHECK(profile.partitions.at("gpu:mig").max_nodes == 2);
  CHECK(profile.partitions.at("old").max_time_seconds == 1800);
}

TEST_CASE(
    "a draft follows the cluster's container tools, SelectType, MPI plugins and scratch folder") {
  auto facts = alpine();
  facts.config["SelectType"] = "select/linear";
  facts.mpi_plugins = {"none", "pmi2"};
  facts.container_tools = {{"apptainer", "1.3.0"}};
  facts.scratch_variable = "SCRATCH";
  auto profile = read_draft(facts).profile;
  CHECK(profile.gpu_style == "gres");
  CHECK(profile.mpi == "default");
  CHECK(profile.container_runtime == "apptainer");
  CHECK(profile.runs_dir == "${SCRATCH}/dlrun");
  facts.container_tools = {{"enroot", "3.5.0"}, {"apptainer", "1.3.0"}};
  CHECK(read_draft(facts).profile.container_runtime == "enroot");
  facts.has_pyxis = true;
  CHECK(read_draft(facts).profile.container_runtime == "pyxis");
}

TEST_CASE("a draft is a valid site file without warnings, whatever names the cluster reports") {
  ClusterFacts no_facts;
  CHECK(format_diagnostics(read_draft(no_facts).problems) == "");
  CHECK(site_draft_name(no_facts) == "mine");
  for (const char* name :
       {"a.b", "we(ird)", "-x", "two words", "Höhe", "[", "a\\b", "a: b", "null", "#", "'\""}) {
    INFO(name);
    auto facts = alpine();
    facts.config["ClusterName"] = name;
    facts.partitions[0].name = name;
    facts.partitions[0].gpu_types = {name, "fine"};
    const Site site = read_draft(facts);
    CHECK(format_diagnostics(site.problems) == "");
    CHECK(site.profile.partitions.contains(name));
    CHECK(site.profile.default_partition == name);
    TemporaryDirectory folder;
    fs::create_directories(folder.path() / "sites");
    REQUIRE(write_file_atomic(folder.path() / "sites" / (site_draft_name(facts) + ".yaml"),
                              site_draft(facts))
                .has_value());
    std::vector<Diagnostic> problems;
    CHECK(site_name_of_cluster(name, {folder.path()}, problems) == site_draft_name(facts));
    CHECK_FALSE(
        site_name_of_cluster(std::string(name) + "x", {folder.path()}, problems).has_value());
  }
}

TEST_CASE("doctor lists the API versions that a configured slurmrestd and dlrun share") {
  auto facts = alpine();
  const auto rest_finding = [&](std::vector<std::string> served, std::string problem = {},
                                std::string version = {}) {
    facts.rest_servers = {
        {"unix:/run/rest", std::move(served), std::move(problem), std::move(version)}};
    const auto all = findings(facts);
    const auto found =
        std::find_if(all.begin(), all.end(), [](const Finding& at) { return at.what == "REST"; });
    REQUIRE(found != all.end());
    return *found;
  };
  auto found = rest_finding({"v0.0.42", "v0.0.45", "v0.0.46"});
  CHECK(found.kind == Finding::Kind::kFine);
  CHECK(found.is == "slurmrestd at unix:/run/rest serves v0.0.42, v0.0.45, v0.0.46");
  CHECK(found.means == "dlrun and this server share v0.0.42, v0.0.45; dlrun uses v0.0.45");
  CHECK(rest_finding({"v0.0.42", "v0.0.45"}, "", "v0.0.42").means ==
        "dlrun and this server share v0.0.42, v0.0.45; dlrun uses v0.0.42");
  found = rest_finding({"v0.0.42", "v0.0.45"}, "", "v0.0.40");
  CHECK(found.kind == Finding::Kind::kMissing);
  CHECK(found.means ==
        "dlrun and this server share v0.0.42, v0.0.45, but not the configured version v0.0.40");
  found = rest_finding({"v0.0.39", "v0.0.46"});
  CHECK(found.kind == Finding::Kind::kMissing);
  CHECK(has(found.means, "dlrun speaks v0.0.38"));
  found = rest_finding({}, "slurmrestd at unix:/run/rest: no such socket");
  CHECK(found.kind == Finding::Kind::kMissing);
  CHECK(has(found.is, "no such socket"));
}

TEST_CASE("each finding is rated as fine, as a note or as missing") {
  auto facts = alpine();
  CHECK(kind_of(facts, "MPI") == "fine");
  CHECK(kind_of(facts, "GPUs") == "fine");
  CHECK(kind_of(facts, "pyxis") == "missing");
  CHECK(kind_of(facts, "accounting") == "fine");
  CHECK(kind_of(facts, "accounts") == "note");
  CHECK(kind_of(facts, "REST") == "fine");
  CHECK(kind_of(facts, "unanswered") == "");
  // This release of Slurm is newer than all releases in dlrun's table.
  facts.config["SLURM_VERSION"] = "99.11.0";
  CHECK(kind_of(facts, "REST") == "note");
  facts.config["SLURM_VERSION"] = "26.05.3";
  CHECK(kind_of(facts, "REST") == "fine");
  facts.has_pyxis = true;
  facts.config["AccountingStorageType"] = "accounting_storage/none";
  facts.config["ProctrackType"] = "proctrack/linuxproc";
  facts.config["TaskPlugin"] = "task/none";
  facts.config["AuthAltTypes"] = "";
  facts.query_errors = {"sinfo: no"};
  facts.partitions.clear();
  CHECK(kind_of(facts, "pyxis") == "fine");
  CHECK(kind_of(facts, "accounting") == "note");
  CHECK(kind_of(facts, "processes") == "note");
  CHECK(kind_of(facts, "binding") == "note");
  facts.config["TaskPlugin"] = "";  // printed as "(null)" since 24.05
  const auto all = findings(facts);
  const auto binding =
      std::find_if(all.begin(), all.end(), [](const Finding& at) { return at.what == "binding"; });
  REQUIRE(binding != all.end());
  CHECK(binding->is == "no TaskPlugin");
  CHECK(kind_of(facts, "REST") == "note");
  CHECK(kind_of(facts, "GPUs") == "missing");
  CHECK(kind_of(facts, "unanswered") == "missing");
}

TEST_CASE(
    "doctor refuses a host without Slurm or with an unreachable controller, and reports a failed "
    "query") {
  Env env;
  env.set("PATH", "/nowhere");
  const auto none = ask_cluster(env);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == Errc::kNotFound);
  CHECK(has(none.error().message, "there is no Slurm here"));

  TemporaryDirectory bin;
  const auto add_program = [&](const char* name, const std::string& body) {
    REQUIRE(write_file_atomic(bin.path() / name, "#!/bin/sh\n" + body + "\n", 0755).has_value());
  };
  add_program(
      "scontrol",
      "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' "
      ">&2; exit 1");
  add_program("sinfo", "exit 1");
  env.set("PATH", bin.path().string() + ":/usr/bin:/bin");
  const auto unreachable = ask_cluster(env);
  REQUIRE_FALSE(unreachable.has_value());
  CHECK(unreachable.error().code == Errc::kUnavailable);
  CHECK(has(unreachable.error().message, "Unable to contact slurm controller"));

  // If the controller answers but another query fails, ask_cluster() succeeds, and `query_errors`
  // has the error of this query.
  add_program("scontrol",
              "if [ $2 = config ]; then echo 'ClusterName = alpine'; else echo 'PartitionName=a "
              "Default=YES'; fi");
  add_program("srun",
              "[ $1 = --mpi=list ] && echo pmix >&2 || echo '  --container-image=[USER@]...'");
  const auto facts = ask_cluster(env);
  REQUIRE(facts.has_value());
  CHECK(facts->cluster_name() == "alpine");
  CHECK(facts->has_pyxis);
  CHECK(facts->has_mpi("pmix"));
  REQUIRE(facts->query_errors.size() == 1);
  CHECK(has(facts->query_errors[0], "sinfo"));
  CHECK(format_diagnostics(read_draft(*facts).problems) == "");
}

}  // namespace
}  // namespace dlrun
