// Runs the environment part of a job's script in bash, with fakes of the tools of a cluster: a
// module system's start file, conda, Spack, pixi, virtual environments. The fakes print their
// calls, or set variables that the fake agent prints.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// The fakes of one machine, in a private folder.
class FakeMachine {
 public:
  FakeMachine() {
    REQUIRE(make_private_directories(root_ / "lmod" / "init").has_value());
    REQUIRE(make_private_directories(root_ / "bin").has_value());
    REQUIRE(make_private_directories(root_ / "venv" / "bin").has_value());
    write("lmod/init/bash", "module() { echo \"module $*\"; [[ $2 != absent ]]; }\n");
    // Like the real conda: its hook defines a function, and only the function can activate.
    write("bin/conda",
          "#!/bin/bash\n[[ $1 == shell.bash ]] || exit 9\n"
          "echo 'conda() { echo \"conda $*\"; export CONDA_PREFIX=$2; }'\n");
    write("venv/bin/activate", "export VIRTUAL_ENV=yes\n");
    write("agent",
          "#!/bin/bash\nif [[ $6 == --never-started ]]; then echo \"never started: $7 at ${!#}\" "
          ">&2; exit $(($7 == 0 "
          "? 1 : $7)); fi\n"
          "echo \"lead prefix=$CONDA_PREFIX venv=$VIRTUAL_ENV x=$X y=$Y\"\n");
    for (const char* program : {"bin/conda", "agent"})
      fs::permissions(root_ / program, fs::perms::owner_all);
  }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
  ~FakeMachine() { fs::remove_all(root_); }

  [[nodiscard]] std::string path(std::string_view name) const { return (root_ / name).string(); }

  void write(std::string_view name, std::string_view text) const {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }

  /// Runs the spec's script as Slurm does: in a non-interactive bash without a module function.
  [[nodiscard]] FinishedCommand run(const std::string& environment_yaml) const {
    LoadRequest request;
    request.file = "exp.yaml";
    request.text =
        "resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [x]}\nenvironment:\n" +
        environment_yaml;
    request.current_dir = root_;
    const auto loaded = load_spec(request);
    if (!loaded) FAIL(format_diagnostics(loaded.error()));
    const auto plan =
        make_plan(*loaded, {path("runs"), path("agent"), path("trainer"), Target::kSlurm});
    if (!plan) FAIL(format_diagnostics(plan.error()));
    const auto script = render_script(*plan);
    REQUIRE(script.has_value());
    write("job.sh", *script);
    Command command;
    command.argv = {"bash", path("job.sh")};
    command.env.set("PATH", path("bin") + ":/usr/bin:/bin");
    command.env.set("HOME", path("home"));
    command.env.set("LMOD_PKG", path("lmod"));
    auto ran = run_command(command);
    REQUIRE(ran.has_value());
    return std::move(*ran);
  }

 private:
  fs::path root_ =
      fs::temp_directory_path() / fmt::format("dlrun-prologue-{}-{}", getpid(), random_hex(4));
};

TEST_CASE(
    "the script finds the module system by itself, and calls module purge, use and load in this "
    "order") {
  const FakeMachine machine;
  const auto ran = machine.run("  modules: {purge: true, use: [/m], load: [A/1, 'B C']}\n");
  CHECK(
      ran.out ==
      "module purge\nmodule use /m\nmodule load A/1\nmodule load B C\nlead prefix= venv= x= y=\n");
  CHECK(ran.exit_code == 0);
}

TEST_CASE("a module that does not load ends the job before the ranks start, with a message") {
  const FakeMachine machine;
  const auto ran = machine.run("  modules: [absent]\n");
  CHECK(ran.exit_code == 1);
  CHECK_FALSE(has(ran.out, "lead"));
  CHECK(has(ran.err, "never started: 1 at "));
}

TEST_CASE(
    "conda activates an environment by name in a shell that is not interactive, after conda's "
    "module is loaded") {
  const FakeMachine machine;
  const auto ran = machine.run("  conda: {module: anaconda3, name: my-env}\n");
  CHECK(ran.out ==
        "module load anaconda3\nconda activate my-env\nlead prefix=my-env venv= x= y=\n");
}

TEST_CASE(
    "without conda the job ends, and the advice depends on whether the spec names the module of "
    "conda") {
  const FakeMachine machine;
  fs::remove(machine.path("bin/conda"));
  const auto ran = machine.run("  conda: my-env\n");
  CHECK(ran.exit_code != 0);
  CHECK_FALSE(has(ran.out, "lead"));
  CHECK(has(ran.err, "has no conda on the PATH, in $CONDA_EXE or in a usual folder"));
  CHECK(has(ran.err, "name its module in environment.conda.module"));
  CHECK_FALSE(has(ran.err, "/opt/conda"));  // the last folder that the script tries
  const auto with_module = machine.run("  conda: {module: anaconda3, name: my-env}\n");
  CHECK(has(with_module.err, "the module of environment.conda.module does not provide it"));
}

TEST_CASE(
    "the script activates the newest environment of a uv project, and `uv run` does not change "
    "it") {
  const FakeMachine machine;
  REQUIRE(make_private_directories(machine.path(".dlrun/uv/v1/bin")).has_value());
  machine.write(".dlrun/uv/v1/bin/activate", "export VIRTUAL_ENV=v1\n");
  fs::create_directory_symlink("v1", machine.path(".dlrun/uv/current"));
  const auto ran =
      machine.run("  uv: .\n  setup: export X=$UV_NO_SYNC Y=$${UV_PROJECT_ENVIRONMENT##*/}\n");
  CHECK(ran.out == "lead prefix= venv=v1 x=1 y=v1\n");
}

TEST_CASE("a uv project without an environment ends the job before the ranks start") {
  const FakeMachine machine;
  const auto ran = machine.run("  uv: .\n");
  CHECK(ran.exit_code == 1);
  CHECK_FALSE(has(ran.out, "lead"));
  CHECK(has(ran.err, machine.path(".dlrun/uv/current") + "; 'dlrun submit' builds it"));
}

TEST_CASE(
    "pixi is activated by its hook, and Spack is activated before uv, which may use Spack's "
    "Python") {
  const FakeMachine machine;
  REQUIRE(make_private_directories(machine.path(".dlrun/uv/v1/bin")).has_value());
  machine.write(".dlrun/uv/v1/bin/activate", "echo uv; export VIRTUAL_ENV=v1\n");
  fs::create_directory_symlink("v1", machine.path(".dlrun/uv/current"));
  machine.write("bin/spack", "#!/bin/bash\necho \"echo spack $*; export X=stack;\"\n");
  machine.write("bin/pixi", "#!/bin/bash\necho \"echo pixi $*; export CONDA_PREFIX=$PWD/p\"\n");
  for (const char* program : {"bin/spack", "bin/pixi"})
    fs::permissions(machine.path(program), fs::perms::owner_all);
  CHECK(machine.run("  spack: training\n  uv: .\n").out ==
        "spack env activate --sh training\nuv\nlead prefix= venv=v1 x=stack y=\n");
  CHECK(machine.run("  spack: ./stack\n").out == "spack env activate --sh --dir " +
                                                     machine.path("stack") +
                                                     "\nlead prefix= venv= x=stack y=\n");
  CHECK(machine.run("  pixi: {project: bin, environment: cuda}\n").out ==
        "pixi shell-hook --frozen --no-install --shell bash --environment cuda\nlead prefix=" +
            machine.path("bin/p") + " venv= x= y=\n");
}

TEST_CASE("a tool that fails to activate its environment ends the job before the ranks start") {
  const FakeMachine machine;
  machine.write("bin/pixi", "#!/bin/bash\necho 'not installed' >&2; exit 3\n");
  fs::permissions(machine.path("bin/pixi"), fs::perms::owner_all);
  const auto ran = machine.run("  pixi: bin\n");
  CHECK(ran.exit_code == 3);
  CHECK(has(ran.err, "not installed"));
  CHECK_FALSE(has(ran.out, "lead"));
}

TEST_CASE(
    "the spec's variables take precedence over the virtual environment's, and setup lines see "
    "both") {
  const FakeMachine machine;
  machine.write("venv/bin/activate", "export VIRTUAL_ENV=yes X=from-venv\n");
  const auto ran =
      machine.run("  venv: venv\n  vars: {X: mine}\n  setup: |\n    export Y=$VIRTUAL_ENV-$X\n");
  CHECK(ran.out == "lead prefix= venv=yes x=mine y=yes-mine\n");
}

TEST_CASE("a setup line that fails ends the job, and its exit code is the job's") {
  const FakeMachine machine;
  const auto ran = machine.run("  setup: |\n    echo first\n    (exit 7)\n    echo never\n");
  CHECK(ran.out == "first\n");
  CHECK(ran.exit_code == 7);
}

TEST_CASE(
    "a setup line that exits with 0 before the ranks start makes the job fail, with a message") {
  const FakeMachine machine;
  const auto ran = machine.run("  setup: exit 0\n");
  CHECK(ran.exit_code == 1);
  CHECK(has(ran.err, "never started: 0 at exit 0"));
}

TEST_CASE("a script that starts the ranks writes nothing to standard error") {
  const FakeMachine machine;
  CHECK(machine.run("  setup: 'true'\n").err.empty());
}

TEST_CASE(
    "setup lines may contain here-documents, and may end without a newline or with a backslash") {
  const FakeMachine machine;
  CHECK(
      has(machine.run("  setup: |-\n    cat <<END\n    a $((1 + 1))\n    END\n").out, "a 2\nlead"));
  CHECK(has(machine.run("  setup: \"echo one\"\n").out, "one\nlead"));
  CHECK(has(machine.run("  setup: \"echo one \\\\\"\n").out, "one\nlead"));
}

}  // namespace
}  // namespace dlrun
