// Passes strings with a meaning in YAML, bash or sbatch through load, plan and render, and then
// through bash itself. The agent must receive the exact bytes of the spec, and no part of them may
// be executed.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <variant>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A private folder that the destructor removes.
struct Folder {
  fs::path path =
      fs::temp_directory_path() / fmt::format("dlrun-hostile-{}-{}", getpid(), random_hex(4));
  Folder() { REQUIRE(make_private_directories(path).has_value()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
};

/// Returns strings with a meaning in YAML, bash or sbatch. If bash executes a command in one of
/// them, the command creates the file `canary`.
std::vector<std::string> hostile_strings(const std::string& canary) {
  const std::string touch = "touch " + canary;
  std::vector<std::string> strings{"'",
                                   "\"",
                                   "\\",
                                   "`",
                                   "$",
                                   "#",
                                   ";",
                                   "&",
                                   "|",
                                   "<",
                                   ">",
                                   "(",
                                   ")",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   "*",
                                   "?",
                                   "~",
                                   "!",
                                   "^",
                                   "%",
                                   "=",
                                   ",",
                                   ":",
                                   "''",
                                   "\"\"",
                                   "\\\\",
                                   "\\'",
                                   "\\\"",
                                   "'\"'\"'",
                                   "\\n",
                                   "$'\\n'",
                                   "-",
                                   "--",
                                   "-n",
                                   "-e",
                                   "--help",
                                   "-- x",
                                   " ",
                                   "  ",
                                   "\t",
                                   " a",
                                   "a ",
                                   "a b",
                                   "a\tb",
                                   "\n",
                                   "a\nb",
                                   "a\n",
                                   "\na",
                                   "a\r\nb",
                                   "\r",
                                   "$HOME",
                                   "$PATH",
                                   "${HOME",
                                   "$(",
                                   "`a",
                                   "$((1+1))",
                                   "$$",
                                   "$!",
                                   "$?",
                                   "$@",
                                   "$*",
                                   "!!",
                                   "!$",
                                   "{a,b}",
                                   "{1..3}",
                                   "/*",
                                   "~root",
                                   "a#b",
                                   "#SBATCH --nodes=9",
                                   "\n#SBATCH --nodes=9\n",
                                   "a=b",
                                   "=a",
                                   "%j",
                                   "%%",
                                   "%s%n",
                                   "$(" + touch + ")",
                                   "`" + touch + "`",
                                   ";" + touch,
                                   "&&" + touch + "&&",
                                   "|" + touch,
                                   "\n" + touch + "\n",
                                   "';" + touch + ";'",
                                   "\";" + touch + ";\"",
                                   "\\';" + touch + ";\\'",
                                   "'$(" + touch + ")'",
                                   "\"$(" + touch + ")\"",
                                   "\\'\"\n" + touch + "\n",
                                   ")\n" + touch + "\n(",
                                   "EOF\n" + touch,
                                   "${IFS}" + touch,
                                   "<(" + touch + ")",
                                   ">" + canary,
                                   "$[1+1]",
                                   "\x01\x02\x1b[31m\x7f",
                                   "\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80",
                                   "\xef\xbb\xbfx",
                                   "\xe2\x80\xae",
                                   "null",
                                   "~",
                                   "true",
                                   "no",
                                   "1e3",
                                   "0x10",
                                   "1_000",
                                   "2026-11-21",
                                   "<<",
                                   "&a",
                                   "*a",
                                   "!tag",
                                   "- a",
                                   "a: b",
                                   "a # b",
                                   "@a",
                                   "%a",
                                   "{rank}",
                                   "{{",
                                   "}}",
                                   "}",
                                   "{nope}",
                                   "\\x41",
                                   "\\u0041",
                                   "$'\\x41'",
                                   std::string(64 * 1024, 'x'),
                                   std::string(300, '\''),
                                   std::string(300, '\\')};
  return strings;
}

/// Returns a double-quoted YAML scalar. Escapes "${", which a spec would expand.
std::string yaml_string(const std::string& text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      result += "$$";
    } else if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (is_control(c)) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Creates a program in place of the agent. The program writes its arguments and its environment to
/// files, with a NUL after each entry.
fs::path recording_agent(const Folder& folder) {
  const fs::path path = folder.path / "agent";
  std::ofstream(path) << "#!/bin/bash\nprintf '%s\\0' \"$@\" > " << (folder.path / "argv").string()
                      << "\nenv -0 > " << (folder.path / "env").string() << "\n";
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

TEST_CASE(
    "hostile strings arrive byte for byte in variables and in the command, and none is executed") {
  const Folder folder;
  const fs::path canary = folder.path / "canary";
  auto strings = hostile_strings(canary.string());
  std::erase(strings, ":");  // refused, because srun uses it as a separator
  CHECK(strings.size() >= 100);

  std::string text =
      "name: hostile\nresources: {time: 1m, nodes: 1}\nlaunch:\n  command:\n    - prog\n";
  for (const std::string& string : strings) text += "    - " + yaml_string(string) + "\n";
  text += "environment:\n  vars:\n";
  // One variable has the string of 64 KiB: Linux allows 128 KiB for each variable.
  for (std::size_t i = 0; i < strings.size(); ++i)
    text += fmt::format("    V{}: {}\n", i, yaml_string(strings[i]));

  LoadRequest request;
  request.file = "hostile.yaml";
  request.text = text;
  request.current_dir = folder.path;
  const auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()));
  PlanInputs inputs;
  inputs.runs_dir = folder.path / "runs 'x'";
  inputs.agent_path = recording_agent(folder);
  const auto plan = make_plan(*loaded, inputs);
  if (!plan) FAIL(format_diagnostics(plan.error()));
  const auto script = render_script(*plan);
  REQUIRE(script.has_value());
  std::ofstream(folder.path / "job.sh", std::ios::binary) << *script;

  Command command;
  command.argv = {"bash", (folder.path / "job.sh").string()};
  command.env = Env::of_process();
  command.env.set("SLURM_TASKS_PER_NODE", "4(x2)");
  command.env.set("SLURM_CPUS_ON_NODE", "8");
  command.env.unset("SLURM_CPUS_PER_TASK");
  command.directory = folder.path.string();
  const auto ran = run_command(command);
  REQUIRE(ran.has_value());
  INFO(ran->err);
  REQUIRE(ran->exit_code == 0);

  const std::string argv_text = slurp(folder.path / "argv"), env_text = slurp(folder.path / "env");
  const auto argv = split(argv_text, '\0');  // the last part is empty
  REQUIRE(argv.size() > strings.size() + 1);
  const std::size_t first_string = argv.size() - 1 - strings.size();
  CHECK(argv[first_string - 1] == "prog");
  const std::string environment = std::string(1, '\0') + env_text;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    INFO(printable(strings[i].substr(0, 80)));
    CHECK(argv[first_string + i] == strings[i]);
    const std::string entry =
        std::string(1, '\0') + "V" + std::to_string(i) + "=" + strings[i] + std::string(1, '\0');
    CHECK(environment.find(entry) != std::string::npos);
  }
  CHECK(std::find(argv.begin(), argv.end(), "--cpus-per-task=2") != argv.end());
  CHECK_FALSE(fs::exists(canary));
}

/// Returns the template that the rank agent expands to `text`.
std::string as_template(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '{' || c == '}' ? std::string(2, c) : std::string(1, c);
  return result;
}

TEST_CASE("hostile strings arrive byte for byte in the command and the variables of a component") {
  const Folder folder;
  const fs::path canary = folder.path / "canary";
  auto strings = hostile_strings(canary.string());
  std::erase(strings, ":");  // refused, because srun uses it as a separator

  std::string text =
      "resources: {time: 1m, cpus_per_task: 1}\ncomponents:\n  - name: first\n    launch:\n"
      "      command:\n        - prog\n";
  for (const std::string& string : strings) text += "        - " + yaml_string(string) + "\n";
  text += "    vars:\n";
  for (std::size_t i = 0; i < strings.size(); ++i)
    text += fmt::format("      V{}: {}\n", i, yaml_string(strings[i]));
  text += "  - {name: second, launch: {command: [last]}}\n";

  LoadRequest request;
  request.file = "hostile.yaml";
  request.text = text;
  request.current_dir = folder.path;
  const auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()));
  PlanInputs inputs;
  inputs.runs_dir = folder.path / "runs 'x'";
  inputs.agent_path = recording_agent(folder);
  const auto plan = make_plan(*loaded, inputs);
  if (!plan) FAIL(format_diagnostics(plan.error()));
  const auto script = render_script(*plan);
  REQUIRE(script.has_value());
  std::ofstream(folder.path / "job.sh", std::ios::binary) << *script;

  Command command;
  command.argv = {"bash", (folder.path / "job.sh").string()};
  command.env = Env::of_process();
  command.directory = folder.path.string();
  const auto ran = run_command(command);
  REQUIRE(ran.has_value());
  INFO(ran->err);
  REQUIRE(ran->exit_code == 0);

  const std::string argv_text = slurp(folder.path / "argv");
  const auto argv = split(argv_text, '\0');  // the last part is empty
  const auto first_component_end = std::find(argv.begin(), argv.end(), "+++");
  REQUIRE(first_component_end != argv.end());
  CHECK(std::find(first_component_end + 1, argv.end(), "+++") == argv.end());
  REQUIRE(static_cast<std::size_t>(first_component_end - argv.begin()) > strings.size() + 1);
  const auto first_string = first_component_end - static_cast<std::ptrdiff_t>(strings.size());
  CHECK(*(first_string - 1) == "prog");
  for (std::size_t i = 0; i < strings.size(); ++i) {
    INFO(printable(strings[i].substr(0, 80)));
    CHECK(first_string[static_cast<std::ptrdiff_t>(i)] == strings[i]);
    const std::string variable = fmt::format("V{}={}", i, as_template(strings[i]));
    CHECK(std::find(argv.begin(), first_component_end, variable) != first_component_end);
  }
  CHECK(argv[argv.size() - 2] == "last");
  CHECK_FALSE(fs::exists(canary));
}

/// Returns true if dlrun parses the values of a key as a size, a time, a word of a list, or a
/// number of nodes or GPUs. Returns false for a key of plain numbers or of any text.
bool is_parsed(const KeyRow& row) {
  constexpr std::array kParsed{Format::kChoice, Format::kTimeLimit, Format::kDuration,
                               Format::kMemory, Format::kInterval};
  return std::find(kParsed.begin(), kParsed.end(), row.format) != kParsed.end() ||
         std::holds_alternative<Access<std::optional<NodeRange>>>(row.field) ||
         std::holds_alternative<Access<std::optional<Gpus>>>(row.field);
}

TEST_CASE(
    "a hostile string in a key other than the variables and the command is refused, or adds no "
    "#SBATCH line") {
  const Folder folder;
  const std::string canary = (folder.path / "canary").string();
  std::vector<std::string> keys{"slurm.mail-user",
                                "hetjob",
                                "components",
                                "launch.mpi",
                                "launch.cpu_bind",
                                "launch.gpu_bind",
                                "launch.srun.network",
                                "track.wandb.project",
                                "environment.venv",
                                "environment.conda.name",
                                "environment.uv.project",
                                "environment.pixi.project",
                                "environment.spack",
                                "environment.eessi",
                                "download.path"};
  for (const KeyRow& row : spec_keys()) {
    const bool is_number = std::holds_alternative<Access<std::optional<std::int64_t>>>(row.field);
    if (row.option.target == KeyTarget::kSbatch && !row.option.name.empty() && !is_parsed(row) &&
        !is_number)
      keys.emplace_back(row.path);
  }
  std::size_t rendered_count = 0;
  for (const std::string& key : keys) {
    for (const std::string& string : hostile_strings(canary)) {
      LoadRequest request;
      request.file = "h.yaml";
      request.text = "resources: {time: 1m}\nlaunch: {command: [x]}\n";
      std::string value;
      for (std::size_t i = 0; i < string.size(); ++i)
        value += string[i] == '$' && i + 1 < string.size() && string[i + 1] == '{'
                     ? "$$"
                     : std::string(1, string[i]);
      request.set_arguments = {key + "=" +
                               (value.find_first_of("[{\"'") == 0 ? yaml_string(string) : value)};
      request.current_dir = folder.path;
      const auto loaded = load_spec(request);
      if (!loaded) continue;
      const auto plan = make_plan(*loaded, {"/runs", "/bin/true", "/bin/true", Target::kSlurm});
      if (!plan) continue;
      const auto script = render_script(*plan);
      if (!script) continue;
      ++rendered_count;
      INFO(key << " " << printable(string.substr(0, 80)));
      // The directives come before all other lines, and a string adds no line.
      std::size_t directive_count = 0;
      bool is_head = true;
      for (std::string_view line : split(*script, '\n')) {
        if (line.starts_with("#SBATCH")) {
          CHECK(is_head);
          ++directive_count;
        } else if (!line.starts_with("#!")) {
          is_head = false;
        }
      }
      CHECK(directive_count == plan->directives.size());
    }
  }
  CHECK(rendered_count > 500);
}

TEST_CASE(
    "tests/e2e/hostile_strings.py has a valid value for each key of an sbatch option that dlrun "
    "parses") {
  const std::string script = slurp(DLRUN_SOURCE_DIR "/tests/e2e/hostile_strings.py");
  const auto begin = script.find("\nPARSED_BY_DLRUN = {");
  REQUIRE(begin != std::string::npos);
  const std::string parsed = script.substr(begin, script.find("}\n", begin) - begin);
  std::size_t checked_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSbatch || !is_parsed(row)) continue;
    CHECK_MESSAGE(parsed.find(fmt::format("\"{}\": ", row.path)) != std::string::npos,
                  "add a valid value of ", row.path,
                  " to PARSED_BY_DLRUN of tests/e2e/hostile_strings.py, so that the test can show "
                  "that the key does not refuse everything");
    ++checked_count;
  }
  CHECK(checked_count >= 9);
}

}  // namespace
}  // namespace dlrun
