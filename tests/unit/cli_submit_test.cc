// Tests submit, check, interactive, resubmit, logs and diff with a simulated cluster.

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "launcher/submit/log_folders.h"
#include "tests/contains.h"
#include "tests/unit/cli_fixture.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

/// A simulated cluster that accepts every job, but lists no jobs.
struct ClusterFixture : CliFixture {
  ClusterFixture() {
    fs::create_directory(folder / "slurm");
    write_program(
        "sbatch",
        "case \"$*\" in *--help*) exit 1;; *--test-only*) echo fine >&2;; *) echo 7;; esac");
    write_program("squeue", "exit 0");
    write_program("sacct", "exit 0");
    cli.env.set("PATH", (folder / "slurm").string() + ":/usr/bin:/bin");
  }
  void write_program(const std::string& name, const std::string& body) {
    const auto file = folder / "slurm" / name;
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  void write_spec(const std::string& resources) {
    std::ofstream(folder / "x.yaml") << "resources: {time: 1m, " << resources
                                     << "}\nlaunch: {agent: false, command: [\"true\"]}\n";
  }
  [[nodiscard]] bool has_path(const std::string& path) const {
    return fs::exists(folder.path() / path);
  }
};

std::string user() {
  return ::getpwuid(::getuid())->pw_name;
}

}  // namespace

TEST_CASE_FIXTURE(ClusterFixture,
                  "submit creates the folders of the job's logs, because Slurm does not, and check "
                  "creates none") {
  write_spec("output: logs/%x/%j.out, error: errors/%u/%j.err");
  CHECK(code_and_stderr({"check", "x.yaml"}) == "0\n");
  CHECK(call({"submit", "x.yaml", "--dry-run"}) == 0);
  CHECK(code_and_stderr({"submit", "x.yaml", "--test-only"}) == "0\n");
  CHECK_FALSE(has_path("logs"));
  CHECK_FALSE(has_path("errors"));
  CHECK(call({"submit", "x.yaml"}) == 0);
  CHECK(has_path("logs/x"));
  CHECK(has_path("errors/" + user()));
}

TEST_CASE_FIXTURE(
    ClusterFixture,
    "a heterogeneous job that Slurm cannot start is refused, and nothing is recorded") {
  std::ofstream(folder / "x.yaml")
      << "resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [\"true\"]}\n"
         "components: [{name: a, partition: p}, {name: b, partition: q}]\n";
  write_program("sbatch",
                "case \"$*\" in *--help*) exit 1;; *--test-only*) ! grep -q 'partition=q' && exit; "
                "echo 'sbatch: error: Batch job submission failed: Requested node configuration is "
                "not available' >&2; exit 1;; *) echo 7;; esac");
  const auto result = code_and_stderr({"submit", "x.yaml"});
  CHECK(result.starts_with("3\n"));
  CHECK(has(result, "x.yaml:3:39: error: component 'b': Slurm refuses its part of the job"));
  CHECK_FALSE(has(result, "component 'a'"));
  CHECK(has(result, "nothing was submitted: "));
  CHECK(has(result, "Requested node configuration is not available"));
  CHECK_FALSE(has_path("runs"));
}

TEST_CASE_FIXTURE(ClusterFixture, "interactive refuses components that make a heterogeneous job") {
  std::ofstream(folder / "x.yaml")
      << "resources: {time: 1m, cpus_per_task: 1}\nlaunch: {command: [\"true\"]}\n"
         "components: [{name: a, partition: p}, {name: b, partition: q}]\n";
  const auto result = code_and_stderr({"interactive", "x.yaml", "--dry-run"});
  CHECK(result.starts_with("2\n"));
  CHECK(has(result, "x.yaml: the components make a heterogeneous job"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "the log folder in a script's #SBATCH line is created relative to the folder "
                  "where the job starts") {
  fs::create_directory(folder / "there");
  std::ofstream(folder / "job.sh")
      << "#!/bin/bash\n#SBATCH -J some\n#SBATCH --chdir=" << (folder / "there").string()
      << "\n#SBATCH --output=nodir/x\n#SBATCH -e %x/100%%/e\ntrue\n";
  CHECK(call({"submit", "job.sh"}) == 0);
  CHECK(has_path("there/nodir"));
  CHECK(has_path("there/some/100%"));
  // A job without a name in its script gets the run's name.
  std::ofstream(folder / "mine.sh") << "#!/bin/bash\n#SBATCH --output=%x-logs/x\ntrue\n";
  CHECK(call({"submit", "mine.sh"}) == 0);
  CHECK(has_path("mine-logs"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "a log folder that cannot be created is refused with its line and column in the "
                  "spec, and nothing is recorded") {
  std::ofstream(folder / "file") << "in the way\n";
  write_spec("output: file/logs/%j.out");
  for (const char* command : {"check", "submit"}) {
    CAPTURE(command);
    const auto result = code_and_stderr({command, "x.yaml"});
    CHECK(has(result, "2\nx.yaml:1:31: error: resources.output: the folder '" +
                          (folder / "file/logs").string() + "' cannot be made: " +
                          (folder / "file/logs").string() + ": Not a directory"));
  }
  CHECK_FALSE(has_path("runs"));
  std::ofstream(folder / "job.sh") << "#!/bin/bash\n#SBATCH --error=file/x\ntrue\n";
  CHECK(has(code_and_stderr({"submit", "job.sh"}), "2\njob.sh:2:1: error: --error: the folder '"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "a log folder with %j in its name is refused, and one with %N causes a warning") {
  write_spec("output: logs/%4j/out");
  CHECK(has(code_and_stderr({"check", "x.yaml"}),
            "2\nx.yaml:1:31: error: resources.output: only Slurm can fill in the %j of"));
  write_spec("error: logs/%N/out");
  CHECK(has(code_and_stderr({"check", "x.yaml"}),
            "0\nx.yaml:1:30: warning: resources.error: only Slurm can fill in the %N of"));
  write_spec("output: 100%%j/out");
  CHECK(code_and_stderr({"check", "x.yaml"}) == "0\n");
}

TEST_CASE_FIXTURE(
    ClusterFixture,
    "a dependency on a job that Slurm does not know causes a warning, because it has no effect") {
  write_program(
      "squeue",
      "case \"$*\" in *-j\\ 7*) echo '7_1|RUNNING|None|n1|N/A|(null)|(null)';; *-j\\ 13*) echo "
      "'slurm_load_jobs error: "
      "Invalid job id specified' >&2; exit 1;; esac");
  write_spec("output: o");
  for (const char* command : {"check", "submit"}) {
    CAPTURE(command);
    const auto result = code_and_stderr({command, "x.yaml", "--set", "after.ok=[7, 13, 999999]"});
    CHECK(result.starts_with("0\n"));
    CHECK(has(result, "after.ok: Slurm does not know job 13; the dependency would have no effect"));
    CHECK(has(result,
              "after.ok: Slurm does not know job 999999; the dependency would have no effect"));
    CHECK_FALSE(has(result, "job 7 "));
  }
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "check warns about an MPI plugin that srun does not have, unless the job goes to "
                  "another cluster") {
  write_program(
      "srun",
      "case $1 in --mpi=list) printf 'MPI plugin types are...\\n\\tpmix\\n\\tnone\\nspecific "
      "pmix plugin versions "
      "available: pmix_v4\\n';; *) exit 1;; esac");
  write_spec("output: o");
  const auto result = code_and_stderr({"check", "x.yaml", "--set", "launch.mpi=foo"});
  CHECK(result.starts_with("0\n--set launch.mpi=foo"));
  CHECK(has(result,
            "warning: launch.mpi: the srun here has no MPI plugin 'foo'; it has pmix, none\n"));
  for (const char* setting : {"launch.mpi=pmix", "launch.mpi=pmix_v4", "launch.mpi=none"})
    CHECK(code_and_stderr({"check", "x.yaml", "--set", setting}) == "0\n");
  CHECK(code_and_stderr({"check", "x.yaml", "--set", "launch.mpi=foo", "--set",
                         "resources.clusters=other"}) == "0\n");
}

TEST_CASE(
    "an existing log folder need not be writable, and a new one below a missing or read-only "
    "folder is reported") {
  const auto problems_of = [](const std::string& pattern) {
    const std::string text = "#!/bin/sh\n#SBATCH -o " + pattern + "\n";
    const auto folders = check_log_folders({text, "/nowhere", "job.sh", nullptr, true});
    return format_diagnostics(folders.problems);
  };
  CHECK(problems_of("/dev/null").empty());
  if (::getuid() != 0) {
    CHECK(has(problems_of("/no-such-file-system/me/%j.out"),
              "job.sh:2:1: warning: --output: the folder"));
    CHECK(has(problems_of("/etc/mine/%j.out"),
              "job.sh:2:1: error: --output: the folder '/etc/mine' cannot be made: /etc: "));
  }
}

TEST_CASE_FIXTURE(
    ClusterFixture,
    "a run is resubmitted only with --force while it is unknown whether Slurm accepted its job") {
  const auto run = folder.path() / "runs" / "x-20261123-120000-00aa";
  fs::create_directories(run);
  std::ofstream(run / "job.sh") << "#!/bin/bash\n#SBATCH --time=1\ntrue\n";
  std::ofstream(run / "submission.json")
      << R"({"token":"0123456789abcdef0123456789abcdef","state":"intent","cluster":"","job":""})";
  write_program("sbatch", "echo called >>" + (folder / "sent").string() + "; echo 7");
  write_program("squeue",
                "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  const auto result = code_and_stderr({"resubmit", run.c_str()});
  CHECK(has(result, "dlrun does not know whether Slurm has its job"));
  CHECK(has(result, "or give --force"));
  CHECK_FALSE(has_path("sent"));
  CHECK(call({"resubmit", run.c_str(), "--force"}) == 0);
  CHECK(has_path("sent"));
}

TEST_CASE_FIXTURE(ClusterFixture, "newlines in the log name of a run's claim are escaped") {
  const auto run = folder.path() / "runs" / "x-20261123-120000-00aa";
  fs::create_directories(run);
  std::ofstream(run / "claim") << R"({"job":"1","log":"/x\nYour password expired"})";
  const auto result = code_and_stderr({"logs", run.c_str()});
  CHECK(has(result, R"(/x\x0aYour password expired: there is no log yet)"));
  std::ofstream(run / "claim") << R"({"job":"1","log":")" << folder.path().string()
                               << R"(/x\nYour password expired"})";
  fs::create_directory(folder / "x\nYour password expired");
  CHECK(has(code_and_stderr({"logs", run.c_str()}),
            R"(x\x0aYour password expired: is not a regular file)"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "if the output is empty, logs prints the file that has the errors of the job") {
  std::ofstream(folder / "job.sh")
      << "#!/bin/bash\n#SBATCH --time=1 -o o-%j.txt\n#SBATCH -e %x-%j.err\ntrue\n";
  const std::string errors = (folder / "job-7.err").string();
  REQUIRE(call({"submit", "job.sh"}) == 0);
  std::ofstream(folder / "o-7.txt").close();
  std::ofstream(folder / "job-7.err").close();
  CHECK(code_and_stderr({"logs", "last"}) == "0\n");
  std::ofstream(folder / "job-7.err") << "no such module\n";
  const auto result = code_and_stderr({"logs", "last"});
  CHECK(result.starts_with("0\n"));
  CHECK(has(result, ": the output is empty; the errors of the job are in " + errors + "\n"));
  const auto shown = folder / "shown";
  std::ofstream(shown).close();
  CHECK(code_and_stderr({"logs", "last"}, shown.c_str()).starts_with("0\n"));
  CHECK(read("shown") == "no such module\n");
  CHECK(code_and_stderr({"logs", "last", "--tail", "0"}) == "0\n");
  std::ofstream(folder / "o-7.txt") << "some output\n";
  CHECK(code_and_stderr({"logs", "last"}) == "0\n");
}

TEST_CASE_FIXTURE(ClusterFixture, "logs says that a run which has not ended has no output yet") {
  write_spec("output: o-%j.txt");
  REQUIRE(call({"submit", "x.yaml"}) == 0);
  std::ofstream(folder / "o-7.txt").close();
  write_program("squeue", "echo '7|RUNNING|None|n1|||'");
  const auto result = code_and_stderr({"logs", "last"});
  CHECK(result.starts_with("0\n"));
  CHECK(has(result, ": no output yet; the run is running\n"));
  std::ofstream(folder / "o-7.txt") << "some output\n";
  CHECK(code_and_stderr({"logs", "last"}) == "0\n");
}

TEST_CASE_FIXTURE(
    ClusterFixture,
    "the error about a missing log of an ended run does not say that the log may still come") {
  const auto run = folder.path() / "runs" / "x-20261123-120000-00aa";
  fs::create_directories(run);
  std::ofstream(run / "submission.json") << R"({"state":"refused","message":"no"})";
  CHECK(has(code_and_stderr({"logs", run.c_str(), "--rank", "3"}),
            "there is no log of this rank; the state of the run is refused"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "diff and resubmit do not follow a link in place of a run's script") {
  const auto run = folder.path() / "runs" / "x-20261123-120000-00aa";
  fs::create_directories(run);
  std::ofstream(folder / "private.sh") << "#!/bin/bash\nPRIVATE\n";
  fs::create_symlink(folder / "private.sh", run / "job.sh");
  std::ofstream(run / "submission.json") << R"({"state":"refused","message":"no"})";
  write_program("sbatch", "echo called >>" + (folder / "sent").string() + "; echo 7");
  for (const char* command : {"diff", "resubmit"}) {
    CAPTURE(command);
    CHECK(has(code_and_stderr({command, run.c_str()}), "job.sh: is a symbolic link"));
  }
  CHECK_FALSE(has_path("sent"));
}

TEST_CASE_FIXTURE(CliFixture, "submit --dry-run of a job script names the site's runs folder") {
  create_and_select_site();
  REQUIRE(write_file_atomic(folder / "job.sh", "#!/bin/sh\n#SBATCH -J own\ntrue\n"));
  CHECK(has(code_and_stderr({"submit", "job.sh", "--dry-run"}), "/of-the-site/"));
}

TEST_CASE_FIXTURE(ClusterFixture,
                  "a secret's file causes a warning only if all users can read the file") {
  fs::permissions(folder.path(), fs::perms::others_exec, fs::perm_options::add);
  for (auto above = folder.path().parent_path(); above != above.root_path();
       above = above.parent_path()) {
    if ((fs::status(above).permissions() & fs::perms::others_exec) == fs::perms::none) {
      MESSAGE("skipped: other users cannot enter ", above.string());
      return;
    }
  }
  fs::create_directory(folder / "private");
  fs::permissions(folder / "private", fs::perms::owner_all);
  for (const char* name : {"open", "closed", "private/open"}) {
    std::ofstream(folder / name) << "SEKRIT\n";
    fs::permissions(folder / name, std::string_view(name) == "closed"
                                       ? fs::perms::owner_read
                                       : fs::perms::owner_read | fs::perms::others_read);
  }
  std::ofstream(folder / "x.yaml")
      << "resources: {time: 1m}\nlaunch: {command: [\"true\"]}\nenvironment:\n  secrets:\n"
         "    - {name: A, file: private/open}\n    - {name: B, file: closed}\n"
         "    - {name: C, file: open}\n";
  for (const char* command : {"check", "submit"}) {
    CAPTURE(command);
    const auto result = code_and_stderr({command, "x.yaml"});
    CHECK(result.starts_with("0\n"));
    CHECK(has(result,
              "x.yaml:7:7: warning: environment.secrets: all users of this machine can "
              "read "));
    CHECK(has(result, "/open, which holds C; run `chmod go-rwx "));
    CHECK_FALSE(has(result, "which holds A"));
    CHECK_FALSE(has(result, "which holds B"));
    CHECK_FALSE(has(result, "SEKRIT"));
  }
}
