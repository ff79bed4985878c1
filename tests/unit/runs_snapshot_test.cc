#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "launcher/runs/snapshot.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

/// A project folder, and a run whose directory is inside the project folder.
struct Tree {
  TemporaryDirectory folder;
  Env env = Env::of_process();
  std::filesystem::path source = folder.path() / "project",
                        run = folder.path() / "project" / "runs" / "x";

  Tree() {
    write("sub/train.py", "print(1)");
    write("lib.py", "pass");
    write("runs/x/job.sh", "no");
    write("data.bin", "large");
    REQUIRE(::chmod((source / "lib.py").c_str(), 0755) == 0);
    std::filesystem::create_symlink("lib.py", source / "link.py");
  }
  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((source / name).parent_path());
    REQUIRE(write_file_atomic(source / name, text).has_value());
  }
  void git(std::vector<std::string> words) const {
    Command command;
    command.argv = {"git",         "-C", source.string(),           "-c",
                    "user.name=t", "-c", "user.email=t@example.org"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.env = env;
    const auto result = run_command(command);
    REQUIRE(result.has_value());
    REQUIRE_MESSAGE(result->exit_code == 0, result->err);
  }
  [[nodiscard]] Result<Snapshot> take(const std::string& spec_folder) const {
    return take_snapshot(source / spec_folder, run, source / "runs", env);
  }
  [[nodiscard]] bool snapshot_has(const std::string& name) const {
    return std::filesystem::exists(std::filesystem::symlink_status(run / "code" / name));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Tree,
                  "the snapshot of a repository has untracked files and edits, but no ignored "
                  "files, runs or .git") {
  write(".gitignore", "*.bin\nruns/\n");
  git({"init", "-q"});
  git({"add", "."});
  git({"commit", "-qm", "one"});
  write("lib.py", "edited");
  write("new.py", "untracked");
  REQUIRE(::chmod((source / "lib.py").c_str(), 0755) == 0);
  std::filesystem::remove(source / "link.py");
  const auto snapshot = take("sub");
  REQUIRE_MESSAGE(snapshot.has_value(), snapshot.error().message);
  CHECK(snapshot->folder == run / "code" / "sub");
  CHECK(snapshot->file_count == 4);
  CHECK(read_file(run / "code/lib.py", 100).value() == "edited");
  CHECK(snapshot_has("sub/train.py"));
  CHECK(snapshot_has("new.py"));
  CHECK_FALSE(snapshot_has("data.bin"));
  CHECK_FALSE(snapshot_has("link.py"));
  CHECK_FALSE(snapshot_has(".git"));
  CHECK_FALSE(snapshot_has("runs"));
  struct stat info {};
  REQUIRE(::stat((run / "code/lib.py").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0755);
  REQUIRE(::stat((run / "code").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0700);
}

TEST_CASE_FIXTURE(Tree,
                  "without a repository the snapshot has the spec's folder except the runs, and "
                  "links stay links") {
  const auto snapshot = take("");
  REQUIRE_MESSAGE(snapshot.has_value(), snapshot.error().message);
  CHECK(snapshot->folder == run / "code");
  CHECK(snapshot_has("data.bin"));
  CHECK(std::filesystem::read_symlink(run / "code/link.py") == "lib.py");
  CHECK_FALSE(snapshot_has("runs"));
}

TEST_CASE_FIXTURE(Tree,
                  "a tree that is too large is refused, the error names its largest file, and no "
                  "partial copy is left") {
  std::filesystem::create_directories(source);
  REQUIRE(::truncate((source / "data.bin").c_str(), off_t{300} << 20U) == 0);
  const auto snapshot = take("");
  REQUIRE_FALSE(snapshot.has_value());
  CHECK(snapshot.error().code == Errc::kInvalid);
  CHECK(snapshot.error().message.find("has more than 256 MiB; move data out of the tree") !=
        std::string::npos);
  CHECK(snapshot.error().message.find("data.bin, 300 MiB") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run / "code"));
}

TEST_CASE_FIXTURE(Tree, "a snapshot without git leaves out the environments that dlrun has built") {
  write(".dlrun/uv/0123456789abcdef-01234567/bin/python", "no");
  REQUIRE(take("").has_value());
  CHECK(snapshot_has("lib.py"));
  CHECK_FALSE(snapshot_has(".dlrun"));
}
