#include <algorithm>

#include <doctest/doctest.h>

#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/load.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

constexpr std::string_view kMinimal = "resources: {time: 1m}\nlaunch: {command: [x]}\n";

LoadRequest spec_request(std::string_view text, std::vector<std::string> sets = {}) {
  LoadRequest request;
  request.file = "dir/exp.yaml";
  request.text = std::string(text);
  request.set_arguments = std::move(sets);
  request.current_dir = "/exp";
  request.env.set("HOME", "/home/u");
  request.env.set("USER", "u");
  return request;
}

LoadedSpec loaded_with(std::string_view more, std::vector<std::string> sets = {}) {
  return loaded(spec_request(std::string(kMinimal) + std::string(more), std::move(sets)));
}

std::string refused_with(std::string_view more, std::vector<std::string> sets = {}) {
  return refused(spec_request(std::string(kMinimal) + std::string(more), std::move(sets)));
}

TEST_CASE("every key has a help text, exactly one row, and a name that suggestions can find") {
  for (const KeyRow& row : spec_keys()) {
    INFO(row.path);
    CHECK_FALSE(row.help.empty());
    CHECK(row.is_supported() != row.example.empty());
    CHECK(std::count_if(spec_keys().begin(), spec_keys().end(),
                        [&](const KeyRow& other) { return other.path == row.path; }) == 1);
    const auto dot = row.path.rfind('.');
    const auto names =
        names_in_section(dot == std::string_view::npos ? "" : row.path.substr(0, dot));
    CHECK(std::find(names.begin(), names.end(),
                    row.path.substr(dot == std::string_view::npos ? 0 : dot + 1)) != names.end());
    CHECK_FALSE(is_section(row.path));
    if (row.format == Format::kChoice) CHECK_FALSE(row.choices.empty());
  }
}

TEST_CASE(
    "the error for an unknown key suggests a synonym, a key that is spelt alike, or one in another "
    "section") {
  CHECK(has(refused_with("environment: {varz: {}}"),
            "unknown key 'varz' in environment; did you mean 'vars'?"));
  CHECK(has(refused_with("partition: x"), "did you mean 'resources.partition'?"));
  CHECK(
      has(refused_with("walltime: 1h"), "unknown key 'walltime'; did you mean 'resources.time'?"));
  CHECK(has(refused_with("cmd: x"), "did you mean 'launch.command'?"));
  CHECK(has(refused_with("zzzzzzzz: x"), "unknown key 'zzzzzzzz'\n"));
  CHECK(has(refused_with("resources.nodes: 2"), "unknown key 'resources.nodes'"));
  CHECK(has(refused_with("", {"after.OK=prep"}), "unknown key 'OK' in after; did you mean 'ok'?"));
  CHECK(has(refused_with("after: {okay: prep}"), "in after; did you mean 'after.ok'?"));
  CHECK(has(refused_with("afterany: 12"), "unknown key 'afterany'; did you mean 'after.any'?"));
}

TEST_CASE("the origin of a value is the file, --set or the environment") {
  auto request = spec_request("resources: {time: 1m, nodes: 2}\nlaunch: {command: [x]}\n",
                              {"resources.time=2m"});
  request.env.set("SBATCH_ACCOUNT", "proj");
  const auto spec = loaded(request).spec;
  CHECK(describe(spec.origins.at("resources.nodes")) == "dir/exp.yaml:1:30");
  CHECK(describe(spec.origins.at("resources.time")) == "--set resources.time=2m");
  CHECK(describe(spec.origins.at("resources.account")) == "env SBATCH_ACCOUNT");
  CHECK(spec.resources.account == "proj");
  CHECK_FALSE(spec.origins.contains("resources.qos"));
}

TEST_CASE(
    "sbatch's variables for account, partition and QOS are defaults, and the spec takes "
    "precedence") {
  struct Default {
    const char* variable;
    const char* key;
    std::optional<std::string> Resources::*member;
  };
  for (const auto& [variable, key, member] :
       {Default{"SBATCH_ACCOUNT", "account", &Resources::account},
        Default{"SBATCH_PARTITION", "partition", &Resources::partition},
        Default{"SBATCH_QOS", "qos", &Resources::qos}}) {
    CAPTURE(variable);
    auto request = spec_request(kMinimal);
    request.env.set(variable, "outer");
    const auto spec = loaded(request).spec;
    CHECK(spec.resources.*member == "outer");
    CHECK(describe(spec.origins.at(fmt::format("resources.{}", key))) ==
          fmt::format("env {}", variable));
    request = spec_request(kMinimal, {fmt::format("resources.{}=own", key)});
    request.env.set(variable, "outer");
    CHECK(loaded(request).spec.resources.*member == "own");
  }
}

TEST_CASE("inside a job the SBATCH_* variables are ignored, because they belong to the outer job") {
  auto request = spec_request(kMinimal);
  request.env.set("SBATCH_ACCOUNT", "outer");
  request.env.set("SLURM_JOB_ID", "7");
  CHECK_FALSE(loaded(request).spec.resources.account.has_value());
}

TEST_CASE(
    "--set takes precedence over the file, the last --set over the first, and null removes a "
    "value") {
  const std::string_view text =
      "resources: {time: 1m, nodes: 2, mem: 1G}\nlaunch: {command: [x]}\n";
  const auto spec =
      loaded(spec_request(text, {"resources.nodes=3", "resources.nodes=4", "resources.mem=null"}))
          .spec;
  CHECK(spec.resources.nodes->min == 4);
  CHECK_FALSE(spec.resources.mem.has_value());
}

TEST_CASE("a plain --set value is the text itself, and quotes, lists and maps are YAML") {
  const auto spec =
      loaded_with("", {"environment.vars.A=a: b #c \\n 'x", "environment.vars.B=\"line\\n\"",
                       "slurm={nice: 5}", "launch.command=[a, 'b c']"})
          .spec;
  const auto value = [&](std::string_view name) {
    for (const auto& [key, text] : spec.environment.vars) {
      if (key == name) return text;
    }
    return std::string("(absent)");
  };
  CHECK(value("A") == "a: b #c \\n 'x");
  CHECK(value("B") == "line\n");
  REQUIRE(spec.slurm.size() == 1);
  CHECK(spec.slurm[0].value == "5");
  CHECK(spec.launch.command == std::vector<std::string>{"a", "b c"});
}

TEST_CASE("--set of one variable keeps the file's other variables") {
  const auto vars = loaded_with("environment: {vars: {A: 1, B: 2}}",
                                {"environment.vars.B=3", "environment.vars.C=4"})
                        .spec.environment.vars;
  const NamedValues expected{{"A", "1"}, {"B", "3"}, {"C", "4"}};
  NamedValues sorted = vars;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == expected);
}

TEST_CASE(
    "the error for a wrong --set shows the argument with a caret under the key or the value") {
  const std::string text = refused_with(
      "", {"resources.nodes=four", "resources.nodez=4", "resources", "launch.command=[a"});
  CHECK(has(text,
            "--set resources.nodes=four: error: resources.nodes: 'four' is not a number of nodes"));
  CHECK(has(text, "    1 | resources.nodes=four\n      |                 ^\n"));
  CHECK(has(text, "    1 | resources.nodez=4\n      | ^\n"));
  CHECK(has(text, "did you mean 'nodes'?"));
  CHECK(has(text, "--set resources: error: expected KEY=VALUE"));
  CHECK(has(text, "--set launch.command=[a"));
}

TEST_CASE("--set refuses a key below a single value or a list, and a wrong name in a map") {
  CHECK(has(refused_with("", {"resources.nodes.min=1"}),
            "resources.nodes has no keys below it that --set can set; give resources.nodes=VALUE"));
  CHECK(has(refused_with("", {"container.mounts.x=/a"}), "give container.mounts=VALUE"));
  CHECK(has(refused_with("", {"environment.vars.1X=a"}), "is not a variable's name"));
  CHECK(has(refused_with("", {"slurm.array=1-3"}), "use sweep"));
}

TEST_CASE("${VAR} is replaced from the submitter's environment, and $${ stays as ${") {
  const Env env = spec_request("").env;
  CHECK(substitute_variables("a ${USER}$${USER} $USER ${HOME}/x $", env).value() ==
        "a u${USER} $USER /home/u/x $");
  CHECK_FALSE(substitute_variables("${NOPE}", env).has_value());
  CHECK_FALSE(substitute_variables("${USER:-x}", env).has_value());
  CHECK_FALSE(substitute_variables("${USER", env).has_value());
  CHECK_FALSE(substitute_variables("${}", env).has_value());
}

TEST_CASE("variables inside a variable's value are not replaced") {
  Env env;
  env.set("A", "${B} $${C}");
  CHECK(substitute_variables("${A}", env).value() == "${B} $${C}");
}

TEST_CASE(
    "relative paths start at the spec's folder, paths of --set at the current folder, and ~ is the "
    "home folder") {
  const auto spec = loaded_with("environment: {venv: ./env/../venv}\ntrain: {data: ~/mnist}\n",
                                {"resources.output=out-%j.txt"})
                        .spec;
  CHECK(spec.environment.venv == "/exp/dir/venv");
  CHECK(spec.train.data_path == "/home/u/mnist");
  CHECK(spec.resources.output == "/exp/out-%j.txt");
}

TEST_CASE("a percent sign in the folder's name does not start a pattern") {
  auto request = spec_request(std::string(kMinimal) + "environment: {venv: v}\n", {});
  request.file = "100%j/exp.yaml";
  request.text = "resources: {time: 1m, output: o-%j}\nlaunch: {command: [x]}\n";
  CHECK(loaded(request).spec.resources.output == "/exp/100%%j/o-%j");
}

TEST_CASE("a dollar in a path causes a warning, because nothing expands it") {
  const auto warnings = loaded_with("environment: {venv: $HOME/venv}").warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0].message, "write ${NAME}"));
}

TEST_CASE("a boolean is true or false, and a word such as yes is refused") {
  CHECK(loaded_with("environment: {modules: {purge: True}}").spec.environment.modules_purge ==
        true);
  CHECK(has(refused_with("environment: {modules: {purge: yes}}"),
            "expected true or false, not 'yes'"));
}

TEST_CASE("short forms are accepted: modules as a list, conda as a name, an optimizer as a name") {
  const auto spec =
      loaded_with("environment: {modules: [a, b], conda: env}\ntrain: {optimizer: sgd}").spec;
  CHECK(spec.environment.modules_load == std::vector<std::string>{"a", "b"});
  CHECK(spec.environment.conda_name == "env");
  CHECK(spec.train.optimizer == "sgd");
}

TEST_CASE("GPUs are a number, TYPE:N, or a map, and MIG slices are types") {
  const auto gpus = [](std::string_view value) {
    return *loaded(spec_request("resources: {time: 1m, gpus_per_node: " + std::string(value) +
                                "}\nlaunch: {command: [x]}"))
                .spec.resources.gpus_per_node;
  };
  CHECK(gpus("4").count == 4);
  CHECK(gpus("a100:4").type == "a100");
  CHECK(gpus("{type: 1g.5gb, count: 2}").type == "1g.5gb");
  CHECK(
      has(refused(spec_request("resources: {gpus_per_node: {type: a100}}\nlaunch: {command: [x]}")),
          "count is missing"));
  const std::string list =
      refused(spec_request("resources: {gpus_per_node: {count: [4]}}\nlaunch: {command: [x]}"));
  CHECK(has(list, "expected a single value, not a list"));
  CHECK_FALSE(has(list, "count is missing"));
}

TEST_CASE("the error for an image at a site without a container runtime lists the runtimes") {
  const std::string text =
      refused(spec_request("container: {image: ./x.sqsh}\nlaunch: {command: [x]}"));
  CHECK(has(text,
            "names no container runtime; set container.runtime to pyxis, enroot, apptainer "
            "or charliecloud (`dlrun doctor` lists those that are installed)"));
}

TEST_CASE("an empty image causes one error") {
  const std::string text =
      refused(spec_request("container: {runtime: pyxis, image: ''}\nlaunch: {command: [x]}"));
  CHECK(has(text, "container.image: is empty"));
  CHECK_FALSE(has(text, "is missing"));
}

TEST_CASE(
    "a mount is text or a map, may have flags, and an absolute path without a target has itself as "
    "target") {
  const auto mounts = loaded_with(
                          "container: {runtime: pyxis, image: i, mounts: [./a:/a:ro+rprivate, /b, "
                          "{source: c, target: "
                          "/c, flags: [ro]}]}")
                          .spec.container.mounts;
  REQUIRE(mounts.size() == 3);
  CHECK(mounts[0].source == "/exp/dir/a");
  CHECK(mounts[0].flags == std::vector<std::string>{"ro", "rprivate"});
  CHECK(mounts[1].target == "/b");
  CHECK(mounts[2].source == "/exp/dir/c");
}

TEST_CASE("a mount flag that enroot does not know is refused, because enroot would ignore it") {
  for (const char* flag : {"readonly", "RO", "r", "ro+x-crate=dir", "remount"}) {
    CAPTURE(flag);
    const std::string text = refused_with(
        std::string("container: {runtime: pyxis, image: i, mounts: ['/a:/a:") + flag + "']}");
    CHECK(has(text, "is not a mount flag; expected one of ro rw nosuid"));
  }
}

TEST_CASE("a comma or colon in a mount's path, and contradicting mount flags, are refused") {
  CHECK(has(refused_with("container: {runtime: pyxis, image: i, mounts: ['/a,b:/c']}"),
            "cannot express"));
  for (const char* mount : {"'/a:/a:ro+rw'", "{source: /a, flags: [rw, rprivate, ro]}"}) {
    CHECK(has(
        refused_with(std::string("container: {runtime: pyxis, image: i, mounts: [") + mount + "]}"),
        "the mount flags 'ro' and 'rw' exclude each other"));
  }
  CHECK(has(
      refused_with("container: {runtime: pyxis, image: i, mounts: [{source: '/a:b', target: /c}]}"),
      "cannot express"));
}

TEST_CASE(
    "a mount's path with spaces or characters that bash expands is refused, because pyxis "
    "writes it into a script") {
  for (const std::string path : {"/a$(id)", "/a`id`", "/a\"b", "/a b"}) {
    CAPTURE(path);
    CHECK(has(refused_with("container: {runtime: pyxis, image: i, mounts: [{source: '" + path +
                           "', target: /b}]}"),
              "which pyxis cannot express"));
  }
}

TEST_CASE(
    "a relative image file causes a warning, because pyxis reads it as the name of an image in a "
    "registry") {
  const auto warnings = loaded_with("container: {runtime: pyxis, image: images/x.sqsh}").warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0].message, "reads 'images/x.sqsh' as the name of an image in a registry"));
  CHECK(loaded_with("container: {runtime: pyxis, image: ./images/x.sqsh}").spec.container.image ==
        "/exp/dir/images/x.sqsh");
}

TEST_CASE("a missing or unlimited time limit, and tasks that do not fit the GPUs, cause warnings") {
  const auto warnings =
      loaded(
          spec_request("resources: {gpus_per_node: 4, tasks_per_node: 3}\nlaunch: {command: [x]}"))
          .warnings;
  REQUIRE(warnings.size() == 2);
  CHECK(has(warnings[0].message, "3 tasks on 4 GPUs"));
  CHECK(has(warnings[1].message, "resources.time is not given"));
  const auto unlimited =
      loaded(spec_request("resources: {time: UNLIMITED}\nlaunch: {command: [x]}")).warnings;
  REQUIRE(unlimited.size() == 1);
  CHECK(has(unlimited[0].message, "cannot start if a maintenance is planned"));
}

TEST_CASE("a small memory size without a unit causes a warning, because it is in MiB") {
  const auto warnings_of = [](const std::string& keys, std::vector<std::string> sets = {}) {
    return loaded(spec_request("resources: {time: 1m, " + keys + "}\nlaunch: {command: [x]}\n",
                               std::move(sets)))
        .warnings;
  };
  for (const char* key : {"mem", "mem_per_cpu", "mem_per_gpu"}) {
    INFO(key);
    const auto warnings = warnings_of(std::string(key) + ": 4");
    REQUIRE(warnings.size() == 1);
    CHECK(has(warnings[0].message,
              std::string(key) + ": 4 without a unit means 4 MiB; write 4G for 4 GiB"));
    CHECK(warnings[0].where.line == 1);
  }
  for (const char* fine : {"4M", "4G", "0", "256", "4000"}) {
    INFO(fine);
    CHECK(warnings_of(std::string("mem: ") + fine).empty());
  }
  CHECK(warnings_of("mem: 4", {"resources.mem=8G"}).empty());
}

TEST_CASE("the run's name defaults to the file's name, and a given or a default name is checked") {
  CHECK(loaded_with("").spec.name == "exp");
  auto request = spec_request(kMinimal);
  request.file = "dir/two words.yaml";
  CHECK(has(refused(request), "name is missing"));
  CHECK(has(refused_with("name: " + std::string(65, 'x')), "at most 64"));
  CHECK(has(refused_with("name: -x"), "is not a name"));
  CHECK(has(refused_with("name: a/b"), "is not a name"));
}

TEST_CASE("the site is the spec's, else $DLRUN_SITE, else the cluster's, else generic") {
  auto request = spec_request(kMinimal);
  CHECK(loaded(request).site.name == "generic");
  request.cluster_name = "testbed";
  CHECK(loaded(request).site.name == "testbed");
  request.env.set("DLRUN_SITE", "generic");
  CHECK(loaded(request).site.name == "generic");
  request.set_arguments = {"site=testbed"};
  CHECK(loaded(request).site.name == "testbed");
  request.env.set("DLRUN_SITE", "../../etc/passwd");
  request.set_arguments.clear();
  CHECK(has(refused(request), "there is no site"));
}

TEST_CASE(
    "a key that needs restarts is refused if retry.max is 0, or if retry.on lacks the cause of "
    "these restarts") {
  CHECK(has(refused_with("retry: {max: 0, chain: 4}\n"),
            "retry.chain: another job continues the run only after timeout or preemption, but "
            "retry.max is 0, so the run never restarts; raise retry.max"));
  const std::string grow = refused_with("retry: {max: 0, grow: {mem: 2, max: 4G}}\n",
                                        {"resources.mem=0", "resources.spare_nodes=1"});
  CHECK(has(grow, "only a restart after oom gets more memory, but retry.max is 0"));
  CHECK(has(grow, "resources.mem is 0, which is not a size that can grow"));
  CHECK(has(grow, "only a restarted attempt uses a spare node, but retry.max is 0"));
  CHECK(has(refused_with("retry: {on: [hang]}\n", {"resources.spare_nodes=1"}),
            "uses a spare node; add node_failure to retry.on"));
}

TEST_CASE(
    "train.lr_decay: step needs train.lr_steps, and the value 'none' of train.augment stands "
    "alone") {
  CHECK(
      has(refused_with("train: {lr_decay: step}\n"), "train.lr_decay: step needs train.lr_steps"));
  CHECK(has(refused_with("train: {augment: [none, flip]}\n"),
            "train.augment: 'none' cannot be combined with other changes"));
}

TEST_CASE("with the trainer, retries without checkpoints cause a warning") {
  const std::string text = "resources: {time: 1m}\ntrain: {epochs: 2}\ncheckpoint: {keep: 0}\n";
  CHECK(loaded(spec_request(text)).warnings.empty());
  CHECK(loaded(spec_request(text + "retry: {max: 0}\n")).warnings.empty());
  const auto warned = loaded(spec_request(text + "retry: {max: 1}\n")).warnings;
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].message.find("checkpoint.keep is 0") == 0);
  CHECK(warned[0].where.line == 3);
}

TEST_CASE(
    "with retry.max: 0, the error for a key that only a restart uses advises to raise retry.max") {
  const std::string advice = ", but retry.max is 0, so the run never restarts; raise retry.max";
  const auto message = [](const std::string& resources, const std::string& retry) {
    return refused(spec_request("resources: {time: 1m, " + resources + "}\nretry: {max: 0" + retry +
                                "}\nlaunch: {command: [x]}\n"));
  };
  CHECK(has(message("nodes: 2, spare_nodes: 1", ""), "uses a spare node" + advice + "\n"));
  CHECK(has(message("nodes: 2, spare_nodes: 1", ", on: [failure]"),
            "uses a spare node" + advice + ", and add node_failure to retry.on\n"));
  CHECK(has(message("mem: 1G", ", grow: {mem: 2, max: 8G}"), "gets more memory" + advice + "\n"));
  CHECK(has(message("nodes: 1", ", chain: 2"), "after timeout or preemption" + advice + "\n"));
}

TEST_CASE("resources.nodelist may contain as many nodes as the job has with its spare nodes") {
  const auto request = [](const std::string& nodelist) {
    return spec_request("resources: {time: 1m, nodes: 2, spare_nodes: 1, nodelist: '" + nodelist +
                        "'}\nretry: {max: 1}\nlaunch: {command: [x]}\n");
  };
  CHECK(loaded(request("n[1-3]")).spec.resources.nodelist == "n[1-3]");
  CHECK(has(refused(request("n[1-4]")),
            "resources.nodelist has 4 nodes, but resources.nodes is 2 and resources.spare_nodes is "
            "1; the job must have every node of the list"));
}

TEST_CASE("a missing file and a folder in place of the spec are refused with their names") {
  LoadRequest request;
  request.file = "absent.yaml";
  request.current_dir = "/nonexistent";
  CHECK(has(refused(request), "absent.yaml: error: "));
  request.file = ".";
  request.current_dir = "/";
  CHECK(has(refused(request), ".: error: "));
}

TEST_CASE(
    "diagnostics are sorted by position, errors and warnings together, and those without a line "
    "come last") {
  const auto result = load_spec(
      spec_request("resources:\n  mem:\n  nodes: x\nenvironment: {modules: {load: []}}\nzzz: 1\n",
                   {"resources.nodez=2"}));
  REQUIRE_FALSE(result.has_value());
  auto all = result.error();
  const auto has_no_line = [](const Diagnostic& d) { return d.where.line == 0; };
  const auto first_without_line = std::find_if(all.begin(), all.end(), has_no_line);
  REQUIRE(first_without_line != all.end());
  CHECK(std::all_of(first_without_line, all.end(), has_no_line));
  std::erase_if(all, [](const Diagnostic& d) { return d.where.kind != Origin::Kind::kFile; });
  CHECK(std::is_sorted(all.begin(), std::find_if(all.begin(), all.end(), has_no_line),
                       [](const Diagnostic& a, const Diagnostic& b) {
                         return std::pair(a.where.line, a.where.column) <
                                std::pair(b.where.line, b.where.column);
                       }));
}

TEST_CASE("a key of the top level that is indented below a section is recognized") {
  const auto errors =
      refused(spec_request("resources:\n  time: 5m\n  launch:\n    command: [x]\n"));
  CHECK(has(errors,
            "exp.yaml:3:3: error: unknown key 'launch' in resources; launch is a key of the top "
            "level: write it at the start of a line"));
  CHECK(has(refused_with("environment: {name: x}"), "name is a key of the top level"));
  CHECK_FALSE(has(refused_with("", {"resources.name=x"}), "start of a line"));
}

TEST_CASE("a missing space after a key causes one error, which names the key") {
  for (const char* keys : {" {time:5m}", "\n  time:5m"}) {
    INFO(keys);
    const auto errors =
        refused(spec_request("resources:" + std::string(keys) + "\nlaunch: {command: [x]}\n"));
    CHECK(has(errors, "; a space is missing after 'time:'\n"));
    CHECK_FALSE(has(errors, "resources.time is not given"));
  }
  CHECK(has(refused_with("components: [{name: a, nodes:2}]"), "is missing after 'nodes:'"));
}

TEST_CASE("a misspelt key or section is not also reported as missing") {
  const auto errors =
      refused(spec_request("resource:\n  time: 5m\nlaunch:\n  preset: torch\n  comand: [x]\n"));
  CHECK(has(errors, "unknown key 'resource'; did you mean 'resources'?"));
  CHECK(has(errors, "unknown key 'comand' in launch; did you mean 'command'?"));
  CHECK_FALSE(has(errors, "resources.time is not given"));
  CHECK_FALSE(has(errors, "launch.command is missing"));
  CHECK_FALSE(has(refused(spec_request("walltime: 1h\n")), "resources.time is not given"));
  auto unnamed = spec_request("nam: x\nlaunch: {command: [x]}\n");
  unnamed.file = "two words.yaml";
  CHECK_FALSE(has(refused(unnamed), "name is missing"));
  CHECK(has(refused_with("resource: {mem: 1G}\nlanch: {}\nsweep: {pack: 2}\n"),
            "sweep.pack: sweep.parameters is missing"));
}

TEST_CASE(
    "a diagnostic shows only the part of a long line around the caret, and escapes control "
    "characters") {
  Diagnostic diagnostic;
  diagnostic.where = {Origin::Kind::kFile, "x.yaml", 3, 1001};
  diagnostic.message = "wrong \x1b[31m";
  diagnostic.line.text = std::string(1000, 'a') + "\x07" + std::string(1000, 'b');
  const std::string text = format_diagnostic(diagnostic);
  CHECK(text.size() < 600);
  CHECK(has(text, "wrong \\x1b[31m"));
  CHECK(has(text, "\\x07bbb"));
  const auto lines = split(text, '\n');
  CHECK(lines[1].find("\\x07") == lines[2].find('^'));
}

TEST_CASE("the caret is under its character, also after tabs and letters of several bytes") {
  Diagnostic diagnostic;
  diagnostic.where = {Origin::Kind::kFile, "x.yaml", 1, 8};
  diagnostic.message = "here";
  diagnostic.line.text = "\tn\xc3\xa4me: x";
  CHECK(format_diagnostic(diagnostic) ==
        "x.yaml:1:8: error: here\n    1 | \tn\xc3\xa4me: x\n      | \t      ^\n");
}

TEST_CASE(
    "checkpoint.signal_before causes a warning if the signal may come at the start of the job") {
  const auto is_warned = [](const char* time) {
    std::string messages;
    for (const Diagnostic& one :
         loaded_with("checkpoint: {signal_before: 50s}\n", {fmt::format("resources.time={}", time)})
             .warnings)
      messages += one.message + "\n";
    return has(messages, "Slurm may send the signal up to 60 s earlier");
  };
  CHECK(is_warned("1m"));
  CHECK_FALSE(is_warned("2m"));
}

TEST_CASE("keys of checkpoint that only the trainer uses cause a warning with another program") {
  const auto warnings_with = [](const std::string& program) {
    return format_diagnostics(
        loaded(spec_request("resources: {time: 1m}\n" + program +
                            "\ncheckpoint: {dir: /scratch/me, every: 1 epoch, keep: 1}\n"))
            .warnings);
  };
  const std::string warnings = warnings_with("launch: {preset: torch, command: [a]}");
  for (const char* key : {"checkpoint.dir", "checkpoint.every", "checkpoint.keep"})
    CHECK(has(warnings, std::string(key) +
                            " has no effect: the key is for the preset 'trainer', but the preset "
                            "is 'torch'"));
  CHECK_FALSE(has(warnings_with("train: {data: {dataset: digits}}"), "has no effect"));
}

}  // namespace
}  // namespace dlrun
