// Tests how environments are built, with stand-ins for uv, pixi and spack (tests/stand_ins).
// tests/e2e/environments.bats uses the real uv if it is on the PATH.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "launcher/submit/built_environments.h"
#include "launcher/submit/environments.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

/// Stores the notes that it receives.
class NotesReporter final : public Reporter {
 public:
  std::vector<std::string> notes;
  void diagnostics(const std::vector<Diagnostic>&) override {}
  void warning(std::string_view) override {}
  void note(std::string_view message) override { notes.emplace_back(message); }
  void progress(const fs::path&, const std::string&, const DownloadProgress&) override {}
  void progress_ended() override {}
  void downloaded(const fs::path&, std::size_t, std::int64_t) override {}
};

/// A project, and a PATH with the stand-ins for uv, pixi and spack.
struct Project {
  TemporaryDirectory folder;
  Context context;
  NotesReporter reporter;

  Project() {
    const std::string tools = std::string(DLRUN_SOURCE_DIR) + "/tests/stand_ins";
    context.env.set("HOME", (folder / "home").string());
    context.env.set("PATH", tools + ":/usr/bin:/bin");
    context.current_dir = folder.path();
    context.bin_dir = folder / "bin";
    context.tools = {"hash", {}};
    write("pyproject.toml", "[project]\nname = \"x\"\nversion = \"1\"\n");
    write("pixi.toml", "[workspace]\nname = \"x\"\n");
    write("spack.yaml", "spack: {specs: []}\n");
  }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder / name) << text;
  }
  /// Writes the spec x.yaml with this environment, and prepares its experiment.
  [[nodiscard]] Experiment experiment(const std::string& environment) {
    write("x.yaml",
          "name: x\nresources: {time: 1m}\nlaunch: {command: [\"true\"]}\nenvironment: {" +
              environment + "}\n");
    auto made = prepare_experiment(context, reporter, {"x.yaml", {}, {}}, Target::kSlurm);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    return std::move(*made);
  }
  Result<> build(const std::string& environment) {
    return build_environments(context, reporter, experiment(environment));
  }
  /// Returns the name of the folder to which .dlrun/uv/current links.
  [[nodiscard]] std::string current_version() const {
    return fs::read_symlink(folder / ".dlrun/uv/current").string();
  }
  [[nodiscard]] std::size_t version_count() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder / ".dlrun/uv"))
      count += entry.is_directory() && !entry.is_symlink() ? 1 : 0;
    return count;
  }
  /// Returns the diagnostics of the error, or its message if it has none; empty after a success.
  static std::string message(const Result<>& result) {
    if (result) return "";
    const auto all = result.error().diagnostics.all();
    return all.empty() ? result.error().message : format_diagnostics(all);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Project,
                  "uv makes the lock file of a project that has none, and the project's "
                  "environment is built once") {
  REQUIRE(message(build("uv: .")).empty());
  CHECK(fs::exists(folder / "uv.lock"));
  CHECK(fs::exists(folder / ".dlrun/uv/current/bin/activate"));
  CHECK(fs::exists(folder / ".dlrun/.gitignore"));
  CHECK(reporter.notes.size() == 2);
  const std::string first = current_version();
  REQUIRE(message(build("uv: .")).empty());
  CHECK(current_version() == first);
  CHECK(version_count() == 1);
  CHECK(reporter.notes.size() == 2);
}

TEST_CASE_FIXTURE(Project,
                  "a changed uv.lock gets a new environment, and if it is changed back, the old "
                  "environment is used again") {
  REQUIRE(message(build("uv: .")).empty());
  const std::string first = current_version();
  const std::string lock = read_file(folder / "uv.lock", 1U << 20U).value_or("");
  write("uv.lock", lock + "# changed\n");
  REQUIRE(message(build("uv: .")).empty());
  CHECK(current_version() != first);
  CHECK(fs::exists(folder / ".dlrun/uv" / first / "bin/activate"));
  write("uv.lock", lock);
  REQUIRE(message(build("uv: .")).empty());
  CHECK(current_version() == first);
  CHECK(version_count() == 2);
}

TEST_CASE_FIXTURE(Project,
                  "an outdated uv.lock is refused with uv's message and the line of the key, and "
                  "leaves no environment") {
  write("uv.lock", "version = 1\n");
  const auto problem = message(build("uv: ."));
  CHECK(has(problem, "x.yaml:4:"));
  CHECK(has(problem, "environment.uv.project: the environment could not be built (code 2)"));
  CHECK(has(problem, "To update the lockfile, run `uv lock`."));
  CHECK(has(problem, ".dlrun/uv.log"));
  CHECK(version_count() == 0);
  CHECK_FALSE(fs::exists(folder / ".dlrun/uv/current"));
}

TEST_CASE_FIXTURE(Project, "an environment that a killed dlrun left unfinished is built again") {
  REQUIRE(message(build("uv: .")).empty());
  const std::string first = current_version();
  fs::remove(folder / ".dlrun/uv" / first / ".dlrun-finished");
  REQUIRE(message(build("uv: .")).empty());
  CHECK(current_version() != first);
  CHECK(version_count() == 1);
}

TEST_CASE_FIXTURE(Project,
                  "build_environments() makes the lock files of pixi and spack, and installs their "
                  "environments") {
  REQUIRE(message(build("pixi: {project: ., environment: cuda}")).empty());
  CHECK(fs::exists(folder / "pixi.lock"));
  CHECK(fs::exists(folder / ".pixi/envs/cuda/bin"));
  REQUIRE(message(build("spack: ./.")).empty());
  CHECK(fs::exists(folder / "spack.lock"));
  CHECK(fs::exists(folder / ".spack-env/view/bin"));
}

TEST_CASE_FIXTURE(
    Project,
    "the tools that build environments see the variables of the spec, but not its secrets") {
  fs::create_directory(folder / "tools");
  write("tools/uv", "#!/bin/bash\necho \"token=$TOKEN index=$UV_INDEX_URL\"\nexit 1\n");
  fs::permissions(folder / "tools/uv", fs::perms::owner_all);
  context.env.set("PATH", (folder / "tools").string() + ":/usr/bin:/bin");
  context.env.set("TOKEN", "s3cret");
  const auto problem = message(build("uv: ., secrets: [TOKEN], vars: {UV_INDEX_URL: https://i}"));
  CHECK(has(problem, "token= index=https://i"));
}

TEST_CASE_FIXTURE(Project,
                  "the error for a build that is killed at its time limit has the tool's last "
                  "output and the line of the key") {
  fs::create_directory(folder / "tools");
  write("tools/uv", "#!/bin/bash\necho 'building wheel 7'\nexec sleep 1000\n");
  fs::permissions(folder / "tools/uv", fs::perms::owner_all);
  context.env.set("PATH", (folder / "tools").string() + ":/usr/bin:/bin");
  const auto made = experiment("uv: .");
  const auto result = build_environments(context, reporter, made, std::chrono::seconds(2));
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Errc::kInvalid);
  CHECK(has(message(result), "x.yaml:4:"));
  CHECK(has(message(result),
            "environment.uv.project: the environment could not be built (killed at its limit of "
            "2.0 s): building wheel 7; all output: "));
  CHECK(has(message(result), ".dlrun/uv.log"));
}

TEST_CASE_FIXTURE(Project,
                  "an environment whose build fails is refused with the last lines of its log, "
                  "however long the log is") {
  fs::create_directory(folder / "tools");
  write(
      "tools/uv",
      "#!/bin/bash\ndd bs=1M seek=65 count=0 2>/dev/null\nprintf '\\n%s' one two three\nexit 1\n");
  fs::permissions(folder / "tools/uv", fs::perms::owner_all);
  context.env.set("PATH", (folder / "tools").string() + ":/usr/bin:/bin");
  CHECK(has(message(build("uv: .")), "(code 1): one | two | three; all output: "));
  CHECK(fs::file_size(folder / ".dlrun/uv.log") > (65U << 20U));
}

TEST_CASE_FIXTURE(
    Project, "an environment whose tool or file is missing is refused with the line of the key") {
  context.env.set("PATH", "/usr/bin:/bin");
  const auto problems = [&](const std::string& environment) {
    return message(check_environments(context, experiment(environment), ModuleLoading::kAllowed));
  };
  CHECK(has(problems("pixi: ."), "x.yaml:4:"));
  CHECK(has(problems("pixi: ."), "environment.pixi.project: the program pixi is not on the PATH"));
  const auto both = problems("uenv: [a], spack: ./.");
  CHECK(has(both, "environment.spack: the program spack is not on the PATH"));
  CHECK(has(both, "environment.uenv.images: the program uenv is not on the PATH"));
  CHECK(has(problems("eessi: \"1999.01\""),
            "/cvmfs/software.eessi.io/versions/1999.01/init/bash does not exist here"));
  fs::remove(folder / "pyproject.toml");
  CHECK(has(problems("uv: ."), "has no pyproject.toml; `uv init` makes one"));
  CHECK(problems("venv: ./venv").empty());
}

TEST_CASE_FIXTURE(Project, "environment.uenv is refused if sbatch has no option --uenv") {
  fs::create_directory(folder / "slurm");
  for (const char* program : {"uenv", "sbatch"}) {
    write(std::string("slurm/") + program, "#!/bin/sh\necho '  --account=name'\n");
    fs::permissions(folder / "slurm" / program, fs::perms::owner_all);
  }
  context.env.set("PATH", (folder / "slurm").string() + ":/usr/bin:/bin");
  const auto made = experiment("uenv: [a]");
  CHECK(has(message(check_environments(context, made, ModuleLoading::kAllowed)),
            "the sbatch here has no option --uenv"));
  write("slurm/sbatch", "#!/bin/sh\necho '  --account=name'\necho '  --uenv=images'\n");
  CHECK(message(check_environments(context, made, ModuleLoading::kAllowed)).empty());
}

TEST_CASE_FIXTURE(Project, "missing uenv images are pulled, and present ones are not") {
  fs::create_directory(folder / "slurm");
  write("slurm/uenv",
        "#!/bin/sh\n[ \"$2 $3\" != 'inspect present' ] && [ \"$2\" = inspect ] && exit 1\n"
        "echo \"$*\" >>" +
            (folder / "calls").string() + "\n");
  fs::permissions(folder / "slurm/uenv", fs::perms::owner_all);
  context.env.set("PATH", (folder / "slurm").string() + ":/usr/bin:/bin");
  REQUIRE(message(build("uenv: [present, missing]")).empty());
  CHECK(read_file(folder / "calls", 1000).value_or("") ==
        "image inspect present\nimage pull missing\n");
}

TEST_CASE_FIXTURE(
    Project,
    "if a module cannot be loaded, the error is about the module, not about missing tools") {
  fs::create_directories(folder / "lmod/init");
  write("lmod/init/bash", "module() { echo \"no module $2\" >&2; return 1; }\n");
  context.env.set("LMOD_PKG", (folder / "lmod").string());
  const auto made = experiment("uv: ., modules: [m]");
  const auto problem = message(check_environments(context, made, ModuleLoading::kAllowed));
  CHECK(has(problem, "the modules of the spec (or EESSI) cannot be loaded here"));
  CHECK(has(problem, "no module m"));
}

TEST_CASE_FIXTURE(
    Project, "check_environments() loads the modules of the spec only if the caller allows it") {
  fs::create_directories(folder / "lmod/init");
  write("lmod/init/bash",
        "module() { touch " + (folder / "was-loaded").string() + "; return 1; }\n");
  context.env.set("LMOD_PKG", (folder / "lmod").string());
  const auto made = experiment("uv: ., modules: [m]");
  CHECK(message(check_environments(context, made, ModuleLoading::kForbidden)).empty());
  CHECK_FALSE(fs::exists(folder / "was-loaded"));
  CHECK_FALSE(message(check_environments(context, made, ModuleLoading::kAllowed)).empty());
  CHECK(fs::exists(folder / "was-loaded"));
}

TEST_CASE(
    "BuildLock::take() waits for another holder, calls on_wait once, and fails after an "
    "interruption") {
  const TemporaryDirectory folder;
  std::atomic<int> wait_count = 0;
  const auto take = [&](const std::function<bool()>& is_interrupted) {
    return BuildLock::take(
        folder / "flock", [&] { ++wait_count; }, is_interrupted);
  };
  auto first = std::make_optional(take([] { return false; }));
  REQUIRE(first->has_value());
  REQUIRE((*first)->is_exclusive());
  std::atomic<bool> has_lock = false;
  std::thread second([&] {
    const auto lock = take([] { return false; });
    has_lock = lock.has_value();
  });
  while (wait_count == 0) std::this_thread::yield();
  CHECK_FALSE(has_lock);
  first.reset();
  second.join();
  CHECK(has_lock);
  CHECK(wait_count == 1);
  const auto held = take([] { return false; });
  REQUIRE(held.has_value());
  const auto interrupted = take([] { return true; });
  REQUIRE_FALSE(interrupted.has_value());
  CHECK(interrupted.error().code == Errc::kInterrupted);
}

TEST_CASE("a folder for environments is refused if others can write it") {
  const TemporaryDirectory folder;
  REQUIRE(make_environments_folder(folder / "mine").has_value());
  fs::permissions(folder / "mine", fs::perms::all);
  const auto made = make_environments_folder(folder / "mine");
  REQUIRE_FALSE(made.has_value());
  CHECK(has(made.error().message, "others may write it"));
}
