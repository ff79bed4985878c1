// Tests dlrun's command line as a whole: exit codes, errors, `render -o`, the log, and the
// generated files in the source tree (completions, manual page, key reference and schema).

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/help/completion.h"
#include "launcher/help/man_page.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/spec/key_reference.h"
#include "launcher/spec/schema.h"
#include "tests/contains.h"
#include "tests/unit/cli_fixture.h"

using namespace dlrun;

TEST_CASE_FIXTURE(CliFixture, "a wrong command line is exit code 2") {
  CHECK(call({}) == 2);
  CHECK(call({"frobnicate"}) == 2);
  CHECK(call({"submit"}) == 2);
  CHECK(call({"submit", "x.yaml", "--frobnicate"}) == 2);
  CHECK(call({"submit", "x.yaml", "--dry-run", "--test-only"}) == 2);
  CHECK(call({"logs", "last", "--rank", "-1"}) == 2);
  CHECK(call({"logs", "last", "--attempt", "1"}) == 2);
  CHECK(call({"completion", "tcsh"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture,
                  "the errors about a job script and about the key `mail` say what works instead") {
  REQUIRE(write_file_atomic(folder.path() / "old.sbatch",
                            "#!/bin/bash\n#SBATCH --nodes=1\nsrun ./train\n")
              .has_value());
  const auto check_usage_error = [&](std::vector<const char*> words, const char* expected) {
    const std::string result = code_and_stderr(std::move(words));
    CAPTURE(result);
    CHECK(result.starts_with("2\n"));
    CHECK(result.find(expected) != std::string::npos);
  };
  check_usage_error({"check", "old.sbatch"}, "`dlrun submit` accepts job scripts");
  check_usage_error({"init", "--yes", "--", "old.sbatch"},
                    "`dlrun submit old.sbatch` submits it as it is");
  check_usage_error({"explain", "mail"}, "slurm: {mail-type: ALL");
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "name: x\nmail: ALL\n").has_value());
  check_usage_error({"check", "x.yaml"}, "slurm: {mail-type: ALL");
}

TEST_CASE_FIXTURE(CliFixture,
                  "wrong options of rm, prune, ls, logs and submit are exit code 2, and a missing "
                  "run is 6") {
  CHECK(call({"rm"}) == 2);
  CHECK(call({"rm", "no-such-run", "--yes"}) == 6);
  CHECK(call({"prune", "--yes"}) == 2);
  CHECK(call({"prune", "--older-than", "30", "--yes"}) == 2);
  CHECK(call({"prune", "--older-than", "30d", "--yes"}) == 0);
  CHECK(call({"prune", "--older-than", "30d", "--runs", "", "--yes"}) == 2);
  CHECK(call({"du"}) == 0);
  CHECK(call({"du", "no-such-run"}) == 6);
  CHECK(call({"ls", "--state", "dead"}) == 2);
  CHECK(call({"ls", "--newer-than", "7"}) == 2);
  CHECK(call({"ls", "--name", "mnist*", "--state", "failed,timeout", "--newer-than", "7d"}) == 0);
  CHECK(call({"logs", "last", "--rank", "a"}) == 2);
  CHECK(call({"submit", "a.yaml", "b.yaml"}) == 2);
  CHECK(call({"submit", "a.yaml", "b.yaml", "--chain", "--dry-run"}) == 2);
  // Without RUN these commands mean the newest run, and there is none.
  for (const char* command : {"status", "top", "logs", "report", "wait"})
    CHECK(call({command}) == 6);
}

TEST_CASE_FIXTURE(CliFixture,
                  "diff and du report what they have left out, and sweep's advice repeats the path "
                  "of the run") {
  const auto run = folder / "r";
  std::filesystem::create_directory(run);
  for (const char* file : {"claim", "resolved.yaml"}) std::ofstream(run / file) << "{}";
  std::ofstream(run / "job.sh") << "#!/bin/bash\necho edited\n";
  CHECK(code_and_stderr({"diff", "./r"}).starts_with("0\ndlrun: nothing was compared: "));
  const auto sweep = code_and_stderr({"sweep", "./r"});
  CHECK(sweep.find("r: is not a sweep; use `dlrun status ./r`") != std::string::npos);
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a link to another user");
    return;
  }
  std::filesystem::create_directory_symlink(run, folder / "link");
  REQUIRE(::lchown((folder / "link").c_str(), 65534, 65534) == 0);
  const auto measured = code_and_stderr({"du", "./link"});
  CHECK(measured.find("/link: is a symbolic link, and is not counted") != std::string::npos);
  CHECK(measured.find("no runs") == std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "container list refuses --refresh, and completion a wrong --list") {
  CHECK(code_and_stderr({"container", "list", "--refresh"}) ==
        "2\ndlrun: error: --refresh fetches an image; it cannot be combined with `container "
        "list`\n");
  CHECK(code_and_stderr({"completion", "--list", "runs"}) ==
        "2\ndlrun: error: --list runs: expected hosts, sites or presets\n");
}

TEST_CASE_FIXTURE(CliFixture, "a number that is too large is refused with the allowed range") {
  const auto refused = code_and_stderr({"ls", "-n", "99999999999999999999"});
  CHECK(refused.starts_with("2\n"));
  CHECK(refused.find("is not a whole number from 0 to 9223372036854775807") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "ls --runs says which folder has no runs") {
  std::filesystem::create_directory(folder / "empty");
  CHECK(code_and_stderr({"ls", "--runs", "empty"}).find("no runs in empty\n") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "a missing spec or run is exit code 6") {
  CHECK(call({"submit", "no-such.yaml"}) == 6);
  std::ofstream(folder / "exp.yaml") << "name: a\n";
  CHECK(code_and_stderr({"submit", "exp.yml"}) ==
        "6\ndlrun: error: exp.yml: no such file; did you mean 'exp.yaml'?\n");
  CHECK(call({"status", "no-such-run"}) == 6);
  CHECK(call({"wait", "last"}) == 6);
  CHECK(call({"cancel", "4711"}) == 6);
}

TEST_CASE_FIXTURE(CliFixture, "commands that need a spec say what to do with a job script") {
  REQUIRE(write_file_atomic(folder.path() / "job.sh", "#!/bin/bash\nsrun hostname\n").has_value());
  for (const char* command : {"check", "render", "run", "explain"}) {
    CAPTURE(command);
    const auto said = code_and_stderr({command, "job.sh"});
    CHECK(said.starts_with("2\n"));
    CHECK(said.find("job.sh:1: this is a script, not a spec: `dlrun submit` accepts job scripts") !=
          std::string::npos);
    CHECK(said.find("`dlrun init --from job.sh`") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(CliFixture, "the version, help and an empty list of runs end with exit code 0") {
  CHECK(call({"--version"}) == 0);
  CHECK(call({"submit", "--help"}) == 0);
  CHECK(call({"ls"}) == 0);
}

TEST_CASE_FIXTURE(CliFixture,
                  "sites are listed and shown, an unknown site is exit code 6, and a site file "
                  "with an error is exit code 2") {
  CHECK(call({"site", "list"}) == 0);
  CHECK(call({"site", "list", "--json"}) == 0);
  CHECK(call({"site", "show"}) == 0);
  CHECK(call({"site", "show", "juwels", "--json"}) == 0);
  CHECK(call({"site", "show", "no-such-site"}) == 6);
  CHECK(call({"site", "show", "./no-such-file.yaml"}) == 6);
  CHECK(call({"site", "list", "juwels"}) == 2);
  CHECK(call({"site", "frobnicate"}) == 2);
  REQUIRE(write_file_atomic(folder.path() / "mine.yaml", "help: fine\n").has_value());
  CHECK(call({"site", "show", "mine.yaml"}) == 0);
  REQUIRE(write_file_atomic(folder.path() / "mine.yaml", "gpu_stile: gres\n").has_value());
  CHECK(call({"site", "show", "mine.yaml"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "--version shows the commit if the build knew it") {
  const auto printed = (folder.path() / "printed").string();
  const auto version = [&](std::vector<const char*> words) {
    REQUIRE(write_file_atomic(printed, ""));
    CHECK(code_and_stderr(std::move(words), printed.c_str()) == "0\n");
    return read("printed");
  };
  CHECK(version({"--version"}) == "dlrun " DLRUN_VERSION "\n");
  cli.commit = "0123456789ab-dirty";
  const std::string full = "dlrun " DLRUN_VERSION " (commit 0123456789ab-dirty)\n";
  CHECK(version({"--version"}) == full);
  CHECK(version({"-v", "--version"}) == full);
}

TEST_CASE_FIXTURE(CliFixture, "an invalid spec is exit code 2 and leaves no files") {
  REQUIRE(write_file_atomic(folder.path() / "bad.yaml", "name: x\nresources: {nodez: 2}\n")
              .has_value());
  CHECK(call({"submit", "bad.yaml"}) == 2);
  CHECK(call({"run", "bad.yaml"}) == 2);
  CHECK(call({"render", "bad.yaml"}) == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "runs"));
}

TEST_CASE_FIXTURE(CliFixture,
                  "render -o writes through a link and into a pipe, and replaces neither") {
  namespace fs = std::filesystem;
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "launch: {command: [echo]}\n").has_value());
  REQUIRE(write_file_atomic(folder.path() / "target.sh", "before").has_value());
  fs::create_symlink("target.sh", folder.path() / "link.sh");
  CHECK(call({"render", "x.yaml", "-o", "link.sh", "--force"}) == 0);
  CHECK(fs::is_symlink(folder.path() / "link.sh"));
  CHECK(read_file(folder.path() / "target.sh", 1U << 20U)->starts_with("#!/bin/bash"));

  const auto pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(call({"render", "x.yaml", "-o", "pipe"}) == 0);
  CHECK(fs::is_fifo(pipe));
  std::string head(11, ' ');
  CHECK(::read(reader.get(), head.data(), head.size()) == 11);
  CHECK(head == "#!/bin/bash");
  CHECK(call({"render", "x.yaml", "-o", "."}) == 1);
}

TEST_CASE_FIXTURE(
    CliFixture,
    "render -o overwrites its own script, but overwrites an edited script only with --force") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "launch: {command: [echo]}\n").has_value());
  // An empty file, as mktemp creates it.
  REQUIRE(write_file_atomic(folder.path() / "job.sh", "").has_value());
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  const std::string first = read("job.sh");
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  CHECK(read("job.sh") == first);
  CHECK(call({"render", "x.yaml", "-o", "job.sh", "--set", "resources.nodes=2"}) == 0);
  CHECK(read("job.sh") != first);
  std::string edited = first;
  edited.insert(edited.find('\n') + 1, "#SBATCH --qos=mine\n");
  REQUIRE(write_file_atomic(folder.path() / "job.sh", edited).has_value());
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 2);
  CHECK(read("job.sh") == edited);
  CHECK(call({"render", "x.yaml", "-o", "job.sh", "--force"}) == 0);
  CHECK(read("job.sh") == first);
  // The file is larger than any script, so dlrun does not read it.
  REQUIRE(write_file_atomic(folder.path() / "job.sh", std::string(5U << 20U, '#')).has_value());
  const std::string unreadable = code_and_stderr({"render", "x.yaml", "-o", "job.sh"});
  CHECK(unreadable.starts_with("2\n"));
  CHECK(unreadable.find("dlrun cannot read it to find out whether") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture,
                  "render -o overwrites the script of a sweep's array unless it was edited") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml",
                            "launch: {command: [echo]}\nresources: {time: 1h}\n"
                            "sweep: {parameters: {environment.vars.A: [a, b]}}\n"));
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  const std::string first = read("job.sh");
  CHECK(first.find("#SBATCH --array=0-1") != std::string::npos);
  CHECK(call({"render", "x.yaml", "-o", "job.sh", "--set", "resources.time=2h"}) == 0);
  CHECK(read("job.sh") != first);
  std::string edited = first;
  edited.insert(edited.find('\n') + 1, "#SBATCH --qos=mine\n");
  REQUIRE(write_file_atomic(folder.path() / "job.sh", edited));
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 2);
  CHECK(read("job.sh") == edited);
}

TEST_CASE_FIXTURE(CliFixture,
                  "the script of a sweep's array cannot be submitted without its sweep") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml",
                            "launch: {command: [echo]}\nresources: {time: 1h}\n"
                            "sweep: {parameters: {environment.vars.A: [a, b]}}\n"));
  REQUIRE(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  CHECK(code_and_stderr({"submit", "job.sh"})
            .starts_with("2\ndlrun: error: job.sh: is the array of a sweep; "));
}

TEST_CASE_FIXTURE(CliFixture,
                  "a script with an option that dlrun refuses, or with a damaged spec, is refused "
                  "with the line number") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml",
                            "launch: {command: [echo]}\nresources: {time: 1h}\n"));
  REQUIRE(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  const std::string rendered = read("job.sh");
  CHECK(call({"submit", "job.sh", "--dry-run"}) == 0);
  const auto result_of = [&](const std::string& script) {
    REQUIRE(write_file_atomic(folder.path() / "job.sh", script));
    return code_and_stderr({"submit", "job.sh", "--dry-run"});
  };
  std::string edited = rendered;
  edited.insert(edited.find('\n') + 1, "#SBATCH -a 0-2\n");
  CHECK(result_of(edited).starts_with("2\ndlrun: error: job.sh:2: --array=0-2 makes several jobs"));
  edited = rendered;
  edited.insert(edited.find('\n') + 1, "#SBATCH --export=NONE\n#SBATCH -W\n");
  const auto both = result_of(edited);
  CHECK(both.starts_with("2\ndlrun: error: job.sh:2: --export=NONE cannot be given: "));
  CHECK(both.find("\njob.sh:3: --wait cannot be given: use dlrun submit --watch") !=
        std::string::npos);
  CHECK(result_of(without_carried_spec(edited)).find("job.sh:2: --export=NONE cannot be given: ") !=
        std::string::npos);
  edited = rendered;
  const auto carried = edited.find("\n#: ") + 1;
  edited.replace(carried, 3, "#: {{");
  const auto line =
      std::count(edited.begin(), edited.begin() + static_cast<std::ptrdiff_t>(carried), '\n') + 1;
  CHECK(result_of(edited).starts_with(fmt::format(
      "2\ndlrun: error: job.sh:{}: the spec that the script carries cannot be read: ", line)));
  CHECK(result_of("#!/bin/sh\n#: a note\necho hello\n").starts_with("0\n"));  // not a spec of dlrun
}

TEST_CASE_FIXTURE(CliFixture,
                  "an empty file, and a script without its first line, are reported as such") {
  const auto result_of = [&](const char* name, const std::string& text) {
    REQUIRE(write_file_atomic(folder.path() / name, text));
    return code_and_stderr({"submit", name, "--dry-run"});
  };
  for (const char* text : {"", "\n", "# nothing yet\n"})
    CHECK(
        result_of("e.yaml", text).starts_with("2\ndlrun: error: e.yaml: is empty; `dlrun init` "));
  CHECK(code_and_stderr({"check", "e.yaml"})
            .starts_with("2\ndlrun: error: e.yaml: is empty; `dlrun init` "));
  CHECK(code_and_stderr({"submit", "e.yaml", "--dry-run", "--set", "launch.command=[true]"})
            .starts_with("0\n"));
  CHECK(
      result_of("e.sh", "")
          .starts_with("2\ndlrun: error: e.sh:1: is empty: the first line of a job script names"));
  const std::string script = "#SBATCH --time=1\nexport A=1: 2\n";
  CHECK(result_of("x.sh", script)
            .starts_with("2\ndlrun: error: x.sh:1: the line with '#!' is missing: "));
  CHECK(result_of("x.job", script)
            .starts_with("2\ndlrun: error: x.job:1: the line with '#!' is missing: "));
  CHECK(result_of("x.sh", "\xEF\xBB\xBF#!/bin/sh\n" + script)
            .starts_with("2\ndlrun: error: x.sh:1: a byte order mark"));
  CHECK(result_of("x.sh", "#!/bin/sh\n" + script).starts_with("0\n"));
}

TEST_CASE_FIXTURE(
    CliFixture,
    "a runs folder that cannot exist is reported once by check and submit, with a remedy") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml",
                            "launch: {command: [/bin/echo]}\nresources: {time: 1h}\n"));
  const std::string expected = fmt::format(
      "1\ndlrun: error: the runs folder {}: Not a directory (ENOTDIR); choose another with "
      "--runs or DLRUN_RUNS\n",
      (folder.path() / "x.yaml").string());
  CHECK(code_and_stderr({"check", "x.yaml", "--runs", "x.yaml"}) == expected);
  CHECK(code_and_stderr({"submit", "x.yaml", "--runs", "x.yaml"}) == expected);
}

TEST_CASE_FIXTURE(
    CliFixture,
    "standard output that cannot be written is an error, also for --help and --version") {
  for (const char* word : {"--help", "--version", "schema"}) {
    CAPTURE(word);
    CHECK(code_and_stderr({word}, "/dev/full") ==
          "1\ndlrun: error: standard output could not be written whole\n");
  }
}

TEST_CASE_FIXTURE(CliFixture, "a job whose script sets no name gets the run's name") {
  REQUIRE(write_file_atomic(folder.path() / "fit.sh", "#!/bin/sh\n#SBATCH -o %x.txt\ntrue\n"));
  CHECK(code_and_stderr({"submit", "fit.sh", "--dry-run"}).find(" --job-name=fit ") !=
        std::string::npos);
  REQUIRE(write_file_atomic(folder.path() / "fit.sh", "#!/bin/sh\n#SBATCH -J own\ntrue\n"));
  CHECK(code_and_stderr({"submit", "fit.sh", "--dry-run"}).find("--job-name") == std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture,
                  "the error for an unknown option suggests the nearest one, and words after -- "
                  "are not checked") {
  CHECK(code_and_stderr({"init", "--modul", "x", "--", "python", "train.py"}) ==
        "2\ndlrun: error: `dlrun init` has no option '--modul'; did you mean '--module'?\nSee "
        "`dlrun init --help`.\n");
  CHECK(code_and_stderr({"init", "--contaner=x", "--nodes", "-1", "--", "python", "--lr"})
            .starts_with("2\ndlrun: error: `dlrun init` has no option '--contaner'\n"));
  CHECK(code_and_stderr({"site", "list", "--jsn"})
            .starts_with(
                "2\ndlrun: error: `dlrun site` has no option '--jsn'; did you mean '--json'?\n"));
  CHECK(code_and_stderr({"--versio"})
            .starts_with(
                "2\ndlrun: error: `dlrun` has no option '--versio'; did you mean '--version'?\n"));
  // This message is CLI11's.
  CHECK(code_and_stderr({"render", "a.yaml", "b.yaml"}).find("b.yaml") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "submit takes several specs only with --chain") {
  const auto refused = code_and_stderr({"submit", "a.yaml", "b.yaml"});
  CHECK(refused.starts_with("2\n"));
  CHECK(refused.find("submit takes one spec; --chain submits several") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "a run is found by its path if there is no folder for the index") {
  const auto run = folder.path() / "runs" / "x-1";
  REQUIRE(make_private_directories(run).has_value());
  REQUIRE(write_file_atomic(run / "submission.json",
                            R"({"token":"t","state":"refused","message":"no"})")
              .has_value());
  cli.env = {};
  cli.env.set("PATH", "/nowhere");
  CHECK(call({"status", "runs/x-1"}) == 0);
  CHECK(call({"status", "x-1"}) == 6);
}

TEST_CASE_FIXTURE(
    CliFixture,
    "the log's options may come before or after the command, and each -v raises the level") {
  CHECK_FALSE(has(code_and_stderr({"ls"}), "dlrun starts"));
  for (const std::string& result : {code_and_stderr({"-v", "ls"}), code_and_stderr({"ls", "-v"}),
                                    code_and_stderr({"--verbose", "ls"})}) {
    CAPTURE(result);
    CHECK(result.starts_with("0\n"));
    CHECK(has(result, " info dlrun["));
    CHECK(has(result, ": dlrun starts version="));
    CHECK(has(result, ": dlrun ends code=0 seconds="));
    CHECK_FALSE(has(result, " debug dlrun["));
  }
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "name: x\n").has_value());
  CHECK(has(code_and_stderr({"-vv", "explain", "x.yaml"}), " debug dlrun["));
  CHECK(has(code_and_stderr({"-v", "explain", "x.yaml", "-v"}), " debug dlrun["));
  CHECK(has(code_and_stderr({"kill", "x"}),
            "'kill' is not a command of dlrun; did you mean 'cancel'?"));
  CHECK(has(code_and_stderr({"-v", "lss"}), "'lss' is not a command of dlrun; did you mean 'ls'?"));
  CHECK_FALSE(is_logged(LogLevel::kInfo));  // a later command starts without a log
}

TEST_CASE_FIXTURE(CliFixture,
                  "--log-file and DLRUN_LOG set the log's file, and the option takes precedence") {
  const std::string own = (folder.path() / "own.log").string();
  const std::string other = (folder.path() / "other.log").string();
  CHECK(code_and_stderr({"--log-file", own.c_str(), "ls"}) == code_and_stderr({"ls"}));
  CHECK(read("own.log").find("dlrun ends code=0") != std::string::npos);
  CHECK(read("own.log").find(" debug ") == std::string::npos);
  cli.env.set("DLRUN_LOG", "debug:" + other);
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "name: x\n").has_value());
  code_and_stderr({"explain", "x.yaml"});
  CHECK(read("other.log").find(" debug dlrun[") != std::string::npos);
  const std::string before = read("other.log");
  CHECK(call({"ls", "-v", "--log-file", own.c_str()}) == 0);
  CHECK(read("other.log") == before);
  cli.env.set("DLRUN_LOG", "loud");
  CHECK(code_and_stderr({"ls"}).starts_with(
      "2\ndlrun: error: DLRUN_LOG: 'loud' is not a setting of the log"));
  cli.env.unset("DLRUN_LOG");
  CHECK(call({"ls", "--log-file", "/nowhere/a.log"}) == 1);
  CHECK(call({"ls", "--log-file", ""}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "container list accepts images whose names have no scheme") {
  const auto images = folder / ".cache/dlrun/images";
  std::filesystem::create_directories(images);
  const std::string digest(64, 'a');
  std::ofstream(images / (digest + ".sqsh")) << "image";
  std::ofstream(images / "x.json") << R"({"image": "x", "digest": ")" << digest << "\"}";
  const auto out = folder / "out";
  std::ofstream(out).close();
  CHECK(code_and_stderr({"container", "list"}, out.c_str()) == "0\n");
}

TEST_CASE_FIXTURE(CliFixture,
                  "bench scaling ends with 130 after each of SIGINT, SIGTERM and SIGHUP") {
  REQUIRE(write_file_atomic(folder / "x.yaml",
                            "resources: {time: 1m}\nlaunch: {command: [\"true\"]}\n"));
  std::filesystem::create_directory(cli.bin_dir);
  cli.env.set("PATH", "/usr/bin:/bin");
  for (const auto* signal : {"INT", "TERM", "HUP"}) {
    CAPTURE(signal);
    REQUIRE(write_file_atomic(cli.bin_dir / "dlrun",
                              fmt::format("#!/bin/sh\nkill -{} {}\n", signal, ::getpid()), 0700));
    CHECK(code_and_stderr({"bench", "scaling", "x.yaml", "--nodes", "1"}).starts_with("130\n"));
  }
}

TEST_CASE_FIXTURE(CliFixture,
                  "if the trainer is missing, bench collectives says which package to install") {
  const auto said = code_and_stderr({"bench", "collectives", "--ranks", "2"});
  CHECK(said.starts_with("6\n"));
  CHECK(has(said,
            "dlrun-trainer is not installed, and this command needs it; install the package "
            "dlrun-trainer of the same version"));
}

TEST_CASE("errors have their documented exit codes") {
  CHECK(exit_code_of(Errc::kInvalid) == 2);
  CHECK(exit_code_of(Errc::kRefused) == 3);
  CHECK(exit_code_of(Errc::kUnavailable) == 4);
  CHECK(exit_code_of(Errc::kTimeout) == 4);
  CHECK(exit_code_of(Errc::kNotFound) == 6);
  CHECK(exit_code_of(Errc::kInterrupted) == 130);
  CHECK(exit_code_of(Errc::kIo) == 1);
}

TEST_CASE("the columns of a table without colours are aligned by visible width") {
  CHECK(table({{"A", "B"}, {"long", "x"}, {"ü", "y"}}).plain() == "A     B\nlong  x\nü     y\n");
}

namespace {

/// Checks that a file of the source tree equals `text`. With DLRUN_UPDATE_GOLDEN, writes the file
/// first.
void check_or_update_source_file(const std::filesystem::path& file, const std::string& text) {
  CAPTURE(file.string());
  const auto path = std::filesystem::path(DLRUN_SOURCE_DIR) / file;
  if (std::getenv("DLRUN_UPDATE_GOLDEN") != nullptr)
    REQUIRE(write_file_atomic(path, text, 0644).has_value());
  const auto kept = read_file(path, 1U << 20U);
  REQUIRE(kept.has_value());
  CHECK_MESSAGE(*kept == text, "refresh with DLRUN_UPDATE_GOLDEN=1");
}

}  // namespace

TEST_CASE(
    "completions, manual page, key reference and schema in the source tree equal dlrun's output") {
  Action action;
  const auto app = make_app(action);
  const CommandTable commands = command_table(*app);
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto script = completion_script(commands, shell);
    REQUIRE(script.has_value());
    check_or_update_source_file(
        shell == "zsh" ? "completions/_dlrun" : "completions/dlrun." + shell, *script);
  }
  check_or_update_source_file("docs/dlrun.1", man_page(commands));
  CHECK(man_page(commands).find(fmt::format(".B {}\n", int{kExitReaderLeft})) != std::string::npos);
  check_or_update_source_file("docs/keys.md", key_reference_markdown());
  check_or_update_source_file("docs/exp.schema.json", spec_schema());
}

TEST_CASE(
    "the tree of commands has only the command that is called, except that man and completion need "
    "all commands") {
  Action action;
  const auto all = make_app(action);
  for (const CLI::App* command : all->get_subcommands(nullptr)) {
    const auto app = make_app(action, command->get_name());
    const auto made = app->get_subcommands(nullptr);
    CAPTURE(command->get_name());
    if (command->get_name() == "man" || command->get_name() == "completion") {
      CHECK(made.size() == all->get_subcommands(nullptr).size());
      continue;
    }
    REQUIRE(made.size() == 1);
    CHECK(made.front()->get_name() == command->get_name());
  }
  CHECK(make_app(action, "frobnicate")->get_subcommands(nullptr).size() ==
        all->get_subcommands(nullptr).size());
}

TEST_CASE(
    "in the tree for a command line without options, a command still has its positionals and "
    "required options") {
  Action action;
  const auto all = make_app(action);
  for (const CLI::App* command : all->get_subcommands(nullptr)) {
    CAPTURE(command->get_name());
    const auto app = make_app(action, command->get_name(), false);
    const CLI::App* made = app->get_subcommand(command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() || option->get_required())
        CHECK(made->get_option_no_throw(option->get_name()) != nullptr);
    }
  }
}

TEST_CASE_FIXTURE(CliFixture, "a command line without options is checked like any other") {
  CHECK(code_and_stderr({"prune"}).find("--older-than is required") != std::string::npos);
  CHECK(code_and_stderr({"status", "a", "b", "c"}).find("not expected") != std::string::npos);
  CHECK(call({"render"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "a second spec is refused by the commands that take one spec") {
  for (const char* command : {"run", "check", "render"}) {
    const std::string name = command;
    CHECK(code_and_stderr({command, "a.yaml", "b.yaml"}) ==
          "2\ndlrun: error: `dlrun " + name +
              "` takes one spec, so 'b.yaml' is not expected; call `dlrun " + name +
              "` once for each spec\nSee `dlrun " + name + " --help`.\n");
  }
  const auto with_option = code_and_stderr({"run", "--dry-run", "a.yaml", "b.yaml"});
  CHECK(with_option.find("so 'b.yaml' is not expected") != std::string::npos);
  const auto unknown = code_and_stderr({"run", "a.yaml", "b.yaml", "--gpus", "2"});
  CHECK(unknown.find("has no option '--gpus'") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture,
                  "the error about an unknown host says where the file of a host must be") {
  const auto text = code_and_stderr({"-H", "nera", "ls"});
  CHECK(text.starts_with("6\n"));
  CHECK(text.find("there is no host 'nera'") != std::string::npos);
  CHECK(text.find("hosts/NAME.yaml") != std::string::npos);
  CHECK(call({"host", "dance", "near"}) == 2);
  for (const char* verb : {"check", "login", "forget"})
    CHECK(call({"host", verb, "near", "--json"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "pull without a host is a wrong command line") {
  const auto text = code_and_stderr({"pull", "last"});
  CHECK(text.starts_with("2\n"));
  CHECK(text.find("dlrun -H HOST pull last") != std::string::npos);
}
