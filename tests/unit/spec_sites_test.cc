// Tests sites: the built-in files and the user's, how the site of a job is chosen, and the defaults
// and limits of a site.

#include <algorithm>
#include <fstream>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/spec/load.h"
#include "launcher/spec/sites.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/load_checks.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A config folder with site files.
class Sites {
 public:
  Sites() { fs::create_directories(directory_.path() / "sites"); }
  void write(const std::string& name, std::string_view text) {
    REQUIRE(write_file_atomic(directory_.path() / "sites" / (name + ".yaml"), text).has_value());
  }
  [[nodiscard]] std::vector<fs::path> config_dirs() const { return {directory_.path()}; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (directory_.path() / "sites" / (name + ".yaml")).string();
  }

 private:
  TemporaryDirectory directory_;
};

LoadRequest site_request(std::string_view resources, const Sites& sites,
                         std::string_view more = "") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m, " + std::string(resources) + "}\nlaunch: {command: [x]}\n" +
                 std::string(more);
  request.current_dir = "/exp";
  request.config_dirs = sites.config_dirs();
  request.env.set("HOME", "/home/u");
  return request;
}

std::string warnings(const LoadRequest& request) {
  return format_diagnostics(loaded(request).warnings);
}

TEST_CASE(
    "every built-in site is valid, has a help text and a line in docs/sites.md, and matches a "
    "cluster of its name") {
  const auto names = site_names({});
  CHECK(names.size() > 20);
  const std::string page = read_file(DLRUN_SOURCE_DIR "/docs/sites.md", 1U << 20U).value();
  for (const std::string& name : names) CHECK_MESSAGE(has(page, "`" + name + "`"), name);
  for (const std::string& name : names) {
    INFO(name);
    const auto site = find_site(name, {});
    REQUIRE(site.has_value());
    CHECK(format_diagnostics(site->problems) == "");
    CHECK_FALSE(site->profile.help.empty());
    if (name == "generic") continue;
    CHECK_MESSAGE(!site->profile.cluster_patterns.empty(),
                  "add `clusters`: docs/sites.md says what to write if the cluster's pages do not "
                  "give its ClusterName");
    std::vector<Diagnostic> problems;
    CHECK(site_name_of_cluster(name, {}, problems) == name);
    CHECK(problems.empty());
    for (const auto& [partition, profile] : site->profile.partitions) {
      CHECK(profile.gpus_per_node.value_or(0) <=
            site->profile.max_gpus_per_node.value_or(1'000'000));
    }
    const auto& default_partition = site->profile.default_partition;
    CHECK((default_partition.empty() || site->profile.partitions.contains(default_partition)));
  }
}

TEST_CASE(
    "the sites lrz-ai, juwels, jureca, grete and emmy have the partitions and GPUs of their "
    "clusters") {
  const auto lrz = find_site("lrz-ai", {})->profile;
  CHECK(lrz.partitions.at("dgx").gpus_per_node == 8);
  CHECK(lrz.partitions.at("gpu").gpus_per_node == 2);
  CHECK(lrz.partitions.at("gpu").gpu_types == std::vector<std::string>{"v100"});
  CHECK(lrz.container_runtime == "pyxis");
  for (const char* name : {"juwels", "jureca"}) {
    const auto site = find_site(name, {})->profile;
    CHECK(site.partitions.at("develgpus").gpus_per_node == 4);
    CHECK(site.gpu_style == "gres");
  }
  const auto grete = find_site("grete", {})->profile;
  CHECK(has(grete.runs_dir, "/scratch/"));
  const auto& slices = grete.partitions.at("grete:interactive").gpu_types;
  CHECK(std::find(slices.begin(), slices.end(), "2g.10gb") != slices.end());
  CHECK(find_site("emmy", {})->profile.max_gpus_per_node == 0);
}

TEST_CASE("a site whose users choose a QOS has no partitions and no partition limits") {
  Sites sites;
  for (const char* name : {"marenostrum5", "perlmutter"}) {
    INFO(name);
    const auto site = find_site(name, {})->profile;
    CHECK(site.partitions.empty());
    CHECK(site.default_partition.empty());
    const std::string site_line = "site: " + std::string(name) + "\n";
    CHECK(warnings(site_request("qos: debug, constraint: gpu, gpus_per_node: 4", sites,
                                site_line)) == "");
    CHECK(has(refused(site_request("gpus_per_node: 5", sites, site_line)),
              "has at most 4 GPUs per node"));
  }
}

TEST_CASE("a job that does not fit its site's default partition causes a warning") {
  Sites sites;
  CHECK(has(warnings(site_request("gpus_per_node: 4", sites, "site: leonardo\n")),
            "resources.gpus_per_node is 4, but partition 'lrd_all_serial' of site 'leonardo' has "
            "no GPUs per node"));
  CHECK(warnings(site_request("partition: boost_usr_prod, gpus_per_node: 4", sites,
                              "site: leonardo\n")) == "");
  // Fritz has no default partition: Slurm sends jobs on one node and jobs on several nodes to
  // different partitions.
  CHECK(warnings(site_request("nodes: 4", sites, "site: fritz\n")) == "");
}

TEST_CASE("the sites lumi and alex have the GPU counts and GPU types of Slurm on these clusters") {
  Sites sites;
  const auto lumi = find_site("lumi", {})->profile;
  CHECK(lumi.max_gpus_per_node == 8);
  CHECK(lumi.partitions.at("standard-g").gpus_per_node == 8);
  CHECK(lumi.interface.empty());
  CHECK(lumi.environment.at("NCCL_SOCKET_IFNAME") == "hsn");
  const auto warnings_of = [&](std::string_view resources) {
    return warnings(site_request(resources, sites, "site: alex\n"));
  };
  CHECK(warnings_of("partition: a40, gpus_per_node: 'a40:8'") == "");
  CHECK(has(warnings_of("partition: a40, gpus_per_node: 'a100:8'"),
            "partition 'a40' of site 'alex' has GPUs of type a40"));
}

TEST_CASE(
    "a name, list or regular expression in `clusters` matches only whole cluster names, in any "
    "case") {
  Sites sites;
  sites.write("one", "clusters: alpine\n");
  sites.write("two", "clusters: [birch, 'cedar[0-9]+']\n");
  std::vector<Diagnostic> problems;
  const auto match = [&](std::string_view name) {
    return site_name_of_cluster(name, sites.config_dirs(), problems).value_or("-");
  };
  CHECK(match("alpine") == "one");
  CHECK(match("ALPINE") == "one");
  CHECK(match("alpine2") == "-");
  CHECK(match("my-alpine") == "-");
  CHECK(match("birch") == "two");
  CHECK(match("cedar12") == "two");
  CHECK(match("cedar") == "-");
  CHECK(match("juwelsbooster") == "juwels");
  CHECK(match("") == "-");
  CHECK(problems.empty());
}

TEST_CASE(
    "a user's site file replaces the built-in file of its name, and user's files are matched "
    "first") {
  Sites sites;
  sites.write("juwels", "help: mine\nclusters: juwels\nmax_gpus_per_node: 2\n");
  CHECK(find_site("juwels", sites.config_dirs())->profile.help == "mine");
  std::vector<Diagnostic> problems;
  // The user's file replaces the built-in file completely, including its cluster names.
  CHECK_FALSE(site_name_of_cluster("juwelsbooster", sites.config_dirs(), problems).has_value());
  sites.write("zz", "clusters: testbed\n");
  CHECK(site_name_of_cluster("testbed", sites.config_dirs(), problems) == "zz");
  CHECK(has(refused(site_request("gpus_per_node: 4", sites, "site: juwels\n")),
            "exp.yaml:1:38: error: resources.gpus_per_node is 4, but site 'juwels' has at most 2 "
            "GPUs per node"));
}

TEST_CASE("a job for another cluster uses that cluster's site") {
  Sites sites;
  auto request = site_request("clusters: jureca", sites);
  request.cluster_name = "juwels";
  CHECK(loaded(request).site.name == "jureca");
}

TEST_CASE("errors in a site file are reported with line, column and a caret") {
  Sites sites;
  sites.write("x",
              "clusters: '['\n"
              "gpu_style: gress\n"
              "max_gpus_per_node: many\n"
              "container_runtime: docker\n"
              "partitions:\n"
              "  a: {gpus_per_nod: 4, time: soon, mem_per_node: much, gpu_types: ['a b']}\n"
              "environment: {1A: x}\n"
              "defaults: {resources: {cpus_per_tsk: 4}}\n"
              "zzz: 1\n");
  const std::string all = refused(site_request("", sites, "site: x\n"));
  const std::string file = sites.path("x");
  CHECK(has(all, file + ":1:11: error: '[' is not a cluster's name or an expression for one: "));
  CHECK(has(all, file + ":2:12: error: 'gress' is not one of: gpus gres"));
  CHECK(has(all, file + ":3:20: error: expected a whole number, 0 or more\n    3 | "
                        "max_gpus_per_node: many\n      |      "
                        "              ^\n"));
  CHECK(
      has(all,
          file + ":4:20: error: 'docker' is not one of: pyxis enroot apptainer charliecloud none"));
  CHECK(has(all, file + ":6:7: error: unknown key 'gpus_per_nod'; did you mean 'gpus_per_node'?"));
  CHECK(has(all, ":6:30: error: 'soon' is not a time"));
  CHECK(has(all, "'much' is not a memory size"));
  CHECK(has(all, "'a b' is not a GPU type"));
  CHECK(has(all, "'1A' is not a variable's name"));
  CHECK(has(
      all,
      file +
          ":8:24: error: unknown key 'cpus_per_tsk' in resources; did you mean 'cpus_per_task'?"));
  CHECK(has(all, file + ":9:1: error: unknown key 'zzz'"));
  // find_site(), which needs no job, also finds these problems.
  const auto site = find_site("x", sites.config_dirs());
  REQUIRE(site.has_value());
  CHECK(has(format_diagnostics(site->problems), "cpus_per_tsk"));
}

TEST_CASE("a refused number in a site file counts as unknown") {
  const Site site =
      parse_site_file("x.yaml", "partitions: {gpu: {max_nodes: -3, cpus_per_node: 64}}\n");
  CHECK(has(format_diagnostics(site.problems), "expected a whole number, 0 or more"));
  const PartitionProfile& gpu = site.profile.partitions.at("gpu");
  CHECK_FALSE(gpu.max_nodes.has_value());
  CHECK(gpu.cpus_per_node == 64);
}

TEST_CASE(
    "a user's site file that is not YAML is skipped with a warning, and a file with a wrong key is "
    "not skipped") {
  Sites sites;
  auto request = site_request("", sites);
  request.cluster_name = "testbed";
  const auto warnings_with = [&](const std::string& text) {
    sites.write("a", text);
    const auto spec = loaded(request);
    CHECK(spec.site.name == "testbed");
    return format_diagnostics(spec.warnings);
  };
  const auto not_yaml = warnings_with("clusters: [unclosed\n");
  CHECK(has(not_yaml, "sites/a.yaml"));
  CHECK(has(not_yaml, "the site is skipped"));
  // This file has valid `clusters`, so dlrun can tell that it is for another cluster.
  const auto with_wrong_key = warnings_with("clusters: [elsewhere]\nzzz: 1\n");
  CHECK(has(with_wrong_key, "unknown key 'zzz'"));
  CHECK_FALSE(has(with_wrong_key, "skipped"));
  CHECK_FALSE(has(warnings_with("zzz: 1\n"), "skipped"));
  // If `clusters` is invalid, dlrun cannot tell which cluster the file is for, and skips it. A file
  // without `clusters`, as above, is for no cluster, and is not skipped.
  CHECK(has(warnings_with("clusters: '['\n"), "an expression for one: "));
  CHECK(has(warnings_with("clusters: '['\n"), "; the site is skipped"));
}

TEST_CASE(
    "a folder of sites or presets that cannot be read causes one warning, and the built-in sites "
    "are used") {
  TemporaryDirectory folder;
  std::ofstream(folder / "sites") << "no folder\n";
  std::ofstream(folder / "presets") << "no folder\n";
  for (const char* site_line : {"", "site: juwels\n"}) {
    CAPTURE(site_line);
    Sites sites;
    auto request = site_request("", sites, site_line);
    request.cluster_name = "testbed";
    request.config_dirs.insert(request.config_dirs.begin(), folder.path());
    const auto result = loaded(request);
    CHECK(result.site.name == (*site_line == 0 ? "testbed" : "juwels"));
    const auto shown = format_diagnostics(result.warnings);
    const std::string skipped = (folder / "sites").string();
    REQUIRE(has(shown, skipped));
    CHECK(shown.find(skipped) == shown.rfind(skipped));
    CHECK(has(shown, "Not a directory (ENOTDIR); the folder is skipped"));
    CHECK(has(shown, (folder / "presets").string()));
  }
}

TEST_CASE("the error for an unknown site suggests the nearest name, or lists all names") {
  Sites sites;
  CHECK(has(refused(site_request("", sites, "site: juwel\n")),
            "exp.yaml:3:7: error: there is no site 'juwel'; did you mean 'juwels'?"));
  CHECK(has(refused(site_request("", sites, "site: nowhere-at-all\n")), " generic grete "));
}

TEST_CASE(
    "unset keys get the partition's default, or else the site's, and the origin of the value shows "
    "the site") {
  Sites sites;
  sites.write("x",
              "default_partition: slow\n"
              "partitions:\n"
              "  slow: {defaults: {resources: {cpus_per_task: 2, hint: nomultithread}}}\n"
              "  fast: {defaults: {resources: {cpus_per_task: 8}}}\n"
              "defaults:\n"
              "  resources: {cpus_per_task: 1, account: proj}\n");
  const auto by_default = loaded(site_request("", sites, "site: x\n")).spec;
  CHECK(by_default.resources.cpus_per_task == 2);
  CHECK(by_default.resources.hint == "nomultithread");
  CHECK(by_default.resources.account == "proj");
  CHECK(describe(by_default.origins.at("resources.cpus_per_task")) ==
        "site x (" + sites.path("x") + ":3)");
  CHECK(describe(by_default.origins.at("resources.account")) ==
        "site x (" + sites.path("x") + ":6)");
  const auto fast = loaded(site_request("partition: fast, account: mine", sites, "site: x\n")).spec;
  CHECK(fast.resources.cpus_per_task == 8);
  CHECK_FALSE(fast.resources.hint.has_value());
  CHECK(fast.resources.account == "mine");
  CHECK(loaded(site_request("partition: other", sites, "site: x\n")).spec.resources.cpus_per_task ==
        1);
}

TEST_CASE(
    "the defaults of a partition apply even if the partition comes from the site's defaults") {
  Sites sites;
  sites.write("x",
              "partitions: {fast: {defaults: {resources: {cpus_per_task: 8}}}}\n"
              "defaults: {resources: {partition: fast}}\n");
  const auto spec = loaded(site_request("", sites, "site: x\n")).spec;
  CHECK(spec.resources.partition == "fast");
  CHECK(spec.resources.cpus_per_task == 8);
}

TEST_CASE("a site's default is dropped if the spec sets a key that replaces the default's key") {
  Sites sites;
  sites.write("x",
              "defaults: {resources: {gpus_per_node: 2, mem: 8G, cpus_per_task: 4}, environment: "
              "{venv: /v}}\n");
  const auto spec = loaded(site_request("gres: 'gpu:4', mem_per_cpu: 1G, cpus_per_gpu: 3", sites,
                                        "site: x\nenvironment: {conda: c}\n"))
                        .spec;
  CHECK_FALSE(spec.resources.gpus_per_node.has_value());
  CHECK_FALSE(spec.resources.mem.has_value());
  CHECK_FALSE(spec.resources.cpus_per_task.has_value());
  CHECK_FALSE(spec.environment.venv.has_value());
}

TEST_CASE("a wrong default is reported with its line in the site file") {
  Sites sites;
  sites.write("x", "max_gpus_per_node: 4\ndefaults: {resources: {gpus_per_node: 8}}\n");
  CHECK(has(
      refused(site_request("", sites, "site: x\n")),
      sites.path("x") +
          ":2:39: error: resources.gpus_per_node is 8, but site 'x' has at most 4 GPUs per node\n"
          "    2 | defaults: {resources: {gpus_per_node: 8}}\n"));
}

TEST_CASE("a site file may use variables that are not set, and a malformed variable is an error") {
  const auto problems = [](std::string_view defaults) {
    return format_diagnostics(
        parse_site_file("x.yaml", "defaults: " + std::string(defaults) + "\n").problems);
  };
  CHECK(problems("{environment: {venv: \"${PROJECT}/venv\"}}").empty());
  CHECK(problems("{environment: {venv: ~/venv, vars: {A: \"${PROJECT}\"}}}").empty());
  CHECK(problems("{resources: {nodes: \"${NODES}\"}, slurm: {mail-user: \"${MAIL}\"}}").empty());
  CHECK(problems("{container: {mounts: [\"${PROJECT}:/data\"]}}").empty());
  CHECK(has(problems("{environment: {venv: \"${PROJECT\"}}"), "dlrun replaces only ${NAME}"));
  CHECK(has(problems("{resources: {nodes: \"$${NODES}\"}}"), "${NODES}"));
  CHECK(parse_site_file("x.yaml", "slurmrestd: [{url: \"unix:${SOCKET}\"}]\n").problems.empty());
  CHECK(has(format_diagnostics(
                parse_site_file("x.yaml", "slurmrestd: [{url: \"$${SOCKET}\"}]\n").problems),
            "'${SOCKET}' is not unix:/PATH"));
}

TEST_CASE(
    "a request for more GPUs per node than a node of the site has is refused, whichever key "
    "requests them") {
  Sites sites;
  CHECK(has(refused(site_request("gpus_per_node: 16", sites, "site: juwels\n")),
            "exp.yaml:1:38: error: resources.gpus_per_node is 16, but site 'juwels' has at most 4 "
            "GPUs per node"));
  CHECK(has(refused(site_request("gres: 'gpu:5'", sites, "site: juwels\n")),
            "resources.gres is 5, but site 'juwels' has at most 4 GPUs per node"));
  CHECK(has(refused(site_request("gpus: 9, nodes: 2", sites, "site: juwels\n")),
            "resources.gpus is 9 on 2 nodes, but site 'juwels' has at most 4 GPUs per node"));
  CHECK(has(refused(site_request("gpus_per_node: 1", sites, "site: emmy\n")),
            "site 'emmy' has at most 0 GPUs per node"));
}

TEST_CASE("a request above a partition's limit causes a warning with the limit") {
  Sites sites;
  const auto warnings_of = [&](std::string_view resources) {
    auto request = site_request(resources, sites, "site: juwels\n");
    return warnings(request);
  };
  CHECK(has(warnings_of("partition: batch, gres: 'gpu:1'"),
            "exp.yaml:1:47: warning: resources.gres is 1, but partition 'batch' of site 'juwels' "
            "has no GPUs per node"));
  CHECK(has(warnings_of("partition: develgpus, nodes: 3"),
            "resources.nodes is 3, but partition 'develgpus' of site 'juwels' has at most 2 nodes "
            "for one job"));
  CHECK(has(warnings_of("partition: gpus, tasks_per_node: 4, cpus_per_task: 21"),
            "resources.cpus_per_task is 21 for each of 4 tasks of a node, but partition 'gpus' of "
            "site 'juwels' has 80 "
            "CPUs per node"));
  CHECK(has(warnings_of("partition: develgpu"),
            "site 'juwels' knows no partition 'develgpu'; did you mean 'develgpus'?"));
  auto longer = site_request("partition: develgpus", sites, "site: juwels\n");
  longer.set_arguments = {"resources.time=3h"};
  CHECK(has(warnings(longer),
            "resources.time is 03:00:00, but partition 'develgpus' of site 'juwels' has at most "
            "02:00:00"));
  auto large = site_request("partition: gpu, mem: 1T", sites, "site: lrz-ai\n");
  CHECK(has(warnings(large),
            "resources.mem is 1T, but partition 'gpu' of site 'lrz-ai' has 741376 MiB per node"));
  auto wrong_type = site_request("partition: 'grete:interactive', gpus_per_node: 'a100:1'", sites,
                                 "site: grete\n");
  CHECK(has(warnings(wrong_type),
            "resources.gpus_per_node is a100:1, but partition 'grete:interactive' of site 'grete' "
            "has GPUs of type "
            "2g.10gb, 3g.20gb"));
  CHECK(warnings(site_request("partition: 'grete:interactive', gpus_per_node: '2g.10gb:1'", sites,
                              "site: grete\n")) == "");
  CHECK(
      warnings_of(
          "partition: develgpus, nodes: 2, gres: 'gpu:4', tasks_per_node: 4, cpus_per_task: 20") ==
      "");
}

}  // namespace
}  // namespace dlrun
