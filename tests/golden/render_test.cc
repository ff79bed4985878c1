// Renders every spec of configs/examples and of the folder `specs` with fixed paths, and compares
// the scripts with golden files. Also compares the diagnostics of the specs in `refused`.

#include "launcher/plan/render.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/subprocess.h"
#include "common/text.h"
#include "golden.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/script_resources.h"
#include "launcher/plan/sweep_plan.h"
#include "launcher/spec/load.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

LoadRequest request_for(const fs::path& file) {
  LoadRequest request;
  request.file = file.filename().string();
  request.text = golden::content_of(file);
  // The folder need not exist: rendering reads nothing from this machine. Its name has a blank, to
  // test the quoting, except for pyxis, which cannot mount a path with white space.
  request.current_dir = request.text->find("runtime: pyxis") == std::string::npos
                            ? "/home/user/exp 1"
                            : "/home/user/exp-1";
  request.env.set("HOME", "/home/user");
  if (file.filename() == "mnist-mlp.yaml") request.set_arguments = {"train.data.path=/data/mnist"};
  return request;
}

PlanInputs inputs(Target target) {
  return {"/scratch/runs", "/scratch/runs/.agents/3f2a/dlrun-agent",
          "/scratch/runs/.agents/3f2a/dlrun-trainer", target};
}

std::vector<fs::path> specs_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  return files;
}

std::vector<fs::path> all_specs() {
  auto files = specs_in(fs::path(DLRUN_SOURCE_DIR) / "configs" / "examples");
  for (const auto& file : specs_in(golden::folder() / "specs")) files.push_back(file);
  return files;
}

LoadedSpec load(const fs::path& file) {
  auto loaded = load_spec(request_for(file));
  if (!loaded) FAIL(file.string() << "\n" << format_diagnostics(loaded.error()));
  return std::move(*loaded);
}

LaunchPlan plan_of(const LoadedSpec& loaded, Target target) {
  auto plan = make_plan(loaded, inputs(target));
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return std::move(*plan);
}

fs::path golden_path(const fs::path& spec, const char* suffix) {
  return golden::folder() / "scripts" / (spec.stem().string() + suffix);
}

TEST_CASE("every example and spec renders to its golden script") {
  std::set<std::string> stems;  // two files of one name would share a golden script
  for (const auto& file : all_specs()) {
    CHECK_MESSAGE(stems.insert(file.stem().string()).second, file.string());
    const auto script = render_script(plan_of(load(file), Target::kSlurm));
    REQUIRE(script.has_value());
    golden::check(golden_path(file, ".sh"), *script);
  }
}

TEST_CASE("the resources read back from a rendered script are those of its plan") {
  for (const auto& file : all_specs()) {
    CAPTURE(file.string());
    const LaunchPlan plan = plan_of(load(file), Target::kSlurm);
    const auto script = render_script(plan);
    REQUIRE(script.has_value());
    const Requested asked = requested_of_script(*script);
    CHECK(asked.nodes == plan.requested.nodes);
    CHECK(asked.tasks == plan.requested.tasks);
    CHECK(asked.gpus == plan.requested.gpus);
    CHECK(asked.cpus == plan.requested.cpus);
    CHECK(asked.time_seconds == plan.requested.time_seconds);
  }
}

/// Returns the srun commands of a script, each with its continuation lines, or with all lines of
/// the array that contains its words.
std::vector<std::string> steps_of(const std::string& script) {
  std::vector<std::string> steps;
  bool is_continued = false;
  for (const auto line : split(script, '\n')) {
    const auto text = trim(line);
    const bool starts = text == "srun" || text.starts_with("srun ") ||
                        text.find("exec srun ") != std::string_view::npos;
    if (starts) steps.emplace_back();
    if (starts || is_continued) steps.back() += std::string(text) + "\n";
    is_continued = (starts || is_continued) &&
                   (text.ends_with('\\') || (steps.back().starts_with("srun\n") && text != ")"));
  }
  return steps;
}

TEST_CASE(
    "every srun in every script and session sets its CPUs, because since Slurm 22.05 a step "
    "does not inherit --cpus-per-task from its job") {
  std::size_t step_count = 0;
  for (const auto& file : all_specs()) {
    const LaunchPlan plan = plan_of(load(file), Target::kSlurm);
    const auto session = render_interactive(plan, {}, "/s.sh");
    for (const std::string& text :
         {*render_script(plan), session.script, join(session.argv, " ") + "\n"}) {
      for (const std::string& step : steps_of(text)) {
        INFO(file.string() << "\n" << step);
        CHECK(step.find("--cpus-per-") != std::string::npos);
        ++step_count;
      }
    }
  }
  CHECK(step_count > 2 * all_specs().size());
}

TEST_CASE("the scripts and resolved specs of a sweep and of one point match their goldens") {
  const auto file = golden::folder() / "specs" / "sweep.yaml";
  const auto sweep = plan_sweep(request_for(file), load(file), inputs(Target::kSlurm), {});
  REQUIRE(sweep.has_value());
  REQUIRE(sweep->arrays.size() == 1);
  golden::check(golden_path(file, ".array.sh"), sweep->arrays[0].script);
  golden::check(golden_path(file, ".3.sh"), sweep->points.at(3).script);
  golden::check(golden_path(file, ".3.resolved.yaml"), sweep->points.at(3).resolved);
  golden::check(golden_path(file, ".resolved.yaml"), resolved_yaml(load(file)));
}

TEST_CASE(
    "the resolved specs and the script of a sweep over program parameters match their "
    "goldens") {
  const auto file = golden::folder() / "specs" / "sweep-own.yaml";
  const auto sweep = plan_sweep(request_for(file), load(file), inputs(Target::kSlurm), {});
  REQUIRE(sweep.has_value());
  golden::check(golden_path(file, ".3.sh"), sweep->points.at(3).script);
  golden::check(golden_path(file, ".3.resolved.yaml"), sweep->points.at(3).resolved);
  golden::check(golden_path(file, ".resolved.yaml"), resolved_yaml(load(file)));
}

TEST_CASE(
    "the scripts of a packed array and of its last point, and the resolved spec of that point, "
    "match their goldens") {
  const auto file = golden::folder() / "specs" / "sweep-pack.yaml";
  const auto sweep = plan_sweep(request_for(file), load(file), inputs(Target::kSlurm), {});
  REQUIRE(sweep.has_value());
  REQUIRE(sweep->arrays.size() == 1);
  golden::check(golden_path(file, ".array.sh"), sweep->arrays[0].script);
  golden::check(golden_path(file, ".5.sh"), sweep->points.at(5).script);
  golden::check(golden_path(file, ".5.resolved.yaml"), sweep->points.at(5).resolved);
}

TEST_CASE("rendering a spec twice gives the same bytes") {
  for (const auto& file : all_specs()) {
    CHECK(*render_script(plan_of(load(file), Target::kSlurm)) ==
          *render_script(plan_of(load(file), Target::kSlurm)));
  }
}

TEST_CASE("plans, resolved specs and warnings match their goldens") {
  for (const char* name : {"everything.yaml", "trainer-all.yaml", "components-hetjob.yaml"}) {
    const auto file = golden::folder() / "specs" / name;
    const LoadedSpec loaded = load(file);
    golden::check(golden_path(file, ".plan.json"), plan_json(plan_of(loaded, Target::kSlurm)));
    golden::check(golden_path(file, ".resolved.yaml"), resolved_yaml(loaded));
    golden::check(golden_path(file, ".warnings.txt"), format_diagnostics(loaded.warnings));
  }
}

/// Returns the script without the comments of --chdir and --ntasks-per-node: they name the key from
/// which the option comes, and a resolved spec has another key.
std::string script_without_origin(const LoadedSpec& loaded) {
  auto plan = plan_of(loaded, Target::kSlurm);
  for (auto& directive : plan.directives) {
    if (directive.option == "--chdir" || directive.option == "--ntasks-per-node")
      directive.comment.clear();
  }
  return *render_script(plan);
}

TEST_CASE("a resolved spec renders to the same script in any folder") {
  for (const auto& file : all_specs()) {
    INFO(file.string());
    const LoadedSpec first = load(file);
    LoadRequest again = request_for(file);
    again.set_arguments.clear();
    again.current_dir = "/elsewhere";
    again.text = resolved_yaml(first);
    const auto second = load_spec(again);
    if (!second) FAIL(format_diagnostics(second.error()) << *again.text);
    CHECK(script_without_origin(first) == script_without_origin(*second));
    CHECK(resolved_yaml(*second).find("/elsewhere") == std::string::npos);
  }
}

TEST_CASE("the scripts for an allocation that the user already has match their goldens") {
  PlanInputs borrowed = inputs(Target::kSlurm);
  borrowed.uses_existing_allocation = true;
  for (const char* name : {"known-bad-spare.yaml", "retry.yaml"}) {
    const auto file = golden::folder() / "specs" / name;
    const auto plan = make_plan(load(file), borrowed);
    if (!plan) FAIL(format_diagnostics(plan.error()));
    const auto script = render_script(*plan);
    REQUIRE(script.has_value());
    golden::check(golden_path(file, ".borrowed.sh"), *script);
    CHECK(script->find("#SBATCH --requeue") == std::string::npos);
  }
}

TEST_CASE("local scripts and interactive sessions match their goldens") {
  const auto examples = fs::path(DLRUN_SOURCE_DIR) / "configs" / "examples";
  for (const char* name : {"digits.yaml", "mnist-mlp.yaml", "plain.yaml"}) {
    golden::check(golden_path(name, ".local.sh"),
                  render_local_script(plan_of(load(examples / name), Target::kLocal)));
  }
  const auto specs = golden::folder() / "specs";
  for (const auto& file :
       {examples / "grete-conda.yaml", examples / "lrz-enroot.yaml", examples / "lrz-horovod.yaml",
        examples / "torch-ddp.yaml", specs / "enroot.yaml", specs / "enroot-named.yaml",
        specs / "apptainer.yaml", specs / "charliecloud.yaml"}) {
    const auto shell =
        render_interactive(plan_of(load(file), Target::kSlurm), {}, "/scratch/runs/s.sh");
    std::string text = shell.script + "# called by:\n";
    for (const std::string& word : shell.argv) text += "# " + word + "\n";
    golden::check(golden_path(file, ".interactive.sh"), text);
  }
}

TEST_CASE(
    "a shell beside a job's ranks enters the named container, or a new one from the image, or "
    "stays on the node") {
  const auto attach = [](const fs::path& spec) {
    const auto shell = render_attach(plan_of(load(spec), Target::kSlurm), {"42", "n2", "", 6},
                                     {"nvidia-smi"}, "/s.sh");
    return join(shell.argv, " ") + "\n" + shell.script;
  };
  const auto examples = fs::path(DLRUN_SOURCE_DIR) / "configs" / "examples";
  const std::string image_shell = attach(examples / "torch-ddp.yaml");
  CHECK(image_shell.starts_with("srun --jobid=42 --nodelist=n2 --overlap "));
  CHECK(image_shell.find(" --cpus-per-task=6 ") != std::string::npos);
  CHECK(image_shell.find("--container-image=") != std::string::npos);
  const std::string named_shell = attach(golden::folder() / "specs" / "everything.yaml");
  CHECK(named_shell.find(":exec") != std::string::npos);
  CHECK(named_shell.find("--container-image=") == std::string::npos);
  const std::string enroot_shell = attach(golden::folder() / "specs" / "enroot.yaml");
  CHECK(enroot_shell.find("enter=(") != std::string::npos);
  CHECK(enroot_shell.find("enroot create") == std::string::npos);
  CHECK(enroot_shell.find("trap") == std::string::npos);
  CHECK(attach(examples / "plain.yaml").ends_with("exec nvidia-smi\n"));
}

TEST_CASE("a relay's step shares the resources of the ranks, and srun does not buffer its bytes") {
  CHECK(join(relay_command({"42", "n2", "", 6}, "/a/dlrun-agent"), " ") ==
        "srun --unbuffered --jobid=42 --nodelist=n2 --overlap --nodes=1 --ntasks=1 --mpi=none "
        "--cpus-per-task=1 --mem=0 --quit-on-interrupt /a/dlrun-agent relay");
  CHECK(relay_command({"42", "n2", "east", {}}, "/a")[2] == "--clusters=east");
  CHECK(relay_command({"42", "n2", "", {}}, "/a", true).back() == "--any-user");
  CHECK(relay_command({"42", "n2", "", {}, 1}, "/a")[4] == "--het-group=1");
}

TEST_CASE(
    "a command that speaks a protocol beside the ranks runs outside their container, and the "
    "script's lines before it cannot use its standard input and output") {
  const auto plan = plan_of(load(golden::folder() / "specs" / "everything.yaml"), Target::kSlurm);
  const auto beside =
      render_piped_command(plan, {"42", "n2", "", 6}, {"/a/dlrun-agent", "sshd"}, "/s.sh");
  CHECK(join(beside.argv, " ") ==
        "srun --unbuffered --jobid=42 --nodelist=n2 --overlap --nodes=1 --ntasks=1 --export=ALL "
        "--mpi=none --quit-on-interrupt --cpus-per-task=6 bash /s.sh");
  CHECK(beside.script.find("\nexec 3<&0 4>&1 </dev/null >/dev/null\n") <
        beside.script.find("module load"));
  CHECK(beside.script.ends_with(" /a/dlrun-agent sshd <&3 >&4 3<&- 4>&-\n"));
  CHECK(beside.script.find("--container") == std::string::npos);
}

TEST_CASE("every refused spec gives exactly its golden diagnostics") {
  for (const auto& file : specs_in(golden::folder() / "refused")) {
    const auto loaded = load_spec(request_for(file));
    INFO(file.string());
    REQUIRE_FALSE(loaded.has_value());
    golden::check(golden::folder() / "refused" / (file.stem().string() + ".txt"),
                  format_diagnostics(loaded.error()));
  }
}

TEST_CASE("no script uses set -x, lists variables in --export, or passes --wait to srun") {
  for (const auto& file : all_specs()) {
    const std::string script = *render_script(plan_of(load(file), Target::kSlurm));
    INFO(file.string());
    for (const auto line : split(script, '\n')) {
      const std::string_view words = trim(line);
      if (words.starts_with("#") && !words.starts_with("#SBATCH")) continue;
      INFO(line);
      CHECK_FALSE((words.starts_with("set -") &&
                   words.substr(0, words.find(' ', 5)).find('x') != std::string_view::npos));
      CHECK_FALSE(words.starts_with("--wait"));
      const auto exported = words.find("--export");
      if (exported != std::string_view::npos)
        CHECK(words.substr(exported).starts_with("--export=ALL"));
    }
  }
}

TEST_CASE(
    "a script's own variables start with dlrun_, so that they never replace a variable of the "
    "user") {
  // Matches an assignment, a loop variable, or a variable set by printf, read or coproc. A `local`
  // variable counts, too, because bash exports it if the user's variable of that name is exported.
  const std::regex sets_variable(
      R"(^ *(?:(?:local )?([A-Za-z_]\w*)=.*|)"
      R"((?:for|for \(\(|coproc|printf -v|read -r -d ''|read -r -u "[^"]*") ?([A-Za-z_]\w*) .*)$)");
  for (const auto& file : all_specs()) {
    const LaunchPlan plan = plan_of(load(file), Target::kSlurm);
    std::string text = *render_script(plan);
    text += render_interactive(plan, {}, "/s.sh").script;
    bool is_in_holder = false;  // hold_container() runs beside the program
    for (const auto line : split(text, '\n')) {
      if (line.starts_with("hold_container()")) is_in_holder = true;
      if (line == "}") is_in_holder = false;
      std::match_results<std::string_view::const_iterator> match;
      if (is_in_holder || !std::regex_match(line.begin(), line.end(), match, sets_variable))
        continue;
      INFO(file.string() << "\n" << line);
      CHECK((match.str(1) + match.str(2)).starts_with("dlrun_"));
    }
  }
}

#if DLRUN_HAS_SHELLCHECK
TEST_CASE("shellcheck reports nothing for any golden script") {
  const Env env = Env::of_process();
  for (const auto& entry : fs::directory_iterator(golden::folder() / "scripts")) {
    if (entry.path().extension() != ".sh") continue;
    Command command;
    command.argv = {"shellcheck", "--shell=bash", entry.path().string()};
    command.env = env;
    const auto checked = run_command(command);
    REQUIRE(checked.has_value());
    INFO(entry.path().string() << "\n" << checked->out);
    CHECK(checked->exit_code == 0);
  }
}
#endif

}  // namespace
}  // namespace dlrun
