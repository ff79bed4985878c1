// Tests how the user's code goes to a host with -H: the list of its files, the checks of paths, and
// the mirror, which is the copy on the host.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/subprocess.h"
#include "launcher/remote/code_copy.h"
#include "launcher/remote/code_rsync.h"
#include "launcher/remote/code_state.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/host_side.h"
#include "launcher/remote/mirror_lock.h"
#include "tests/temporary_directory.h"
#include "tests/unit/remote_helpers.h"

namespace dlrun {
namespace {

/// A repository with one file.
struct Repository {
  TemporaryDirectory folder;
  Env env = Env::of_process();
  std::filesystem::path top = std::filesystem::canonical(folder.path()) / "code";
  HostFile host;
  Repository() {
    env.set("HOME", folder.path().string());
    env.set("XDG_STATE_HOME", (folder.path() / "state").string());
    write(top / "exp.yaml", "launch: {command: [true]}\n");
    git({"init", "-q"});
    host.name = "far";
    host.source = "far.yaml";
  }
  void git(std::vector<std::string> words) {
    Command command;
    command.argv = {"git",
                    "-C",
                    top.string(),
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@b",
                    "-c",
                    "protocol.file.allow=always"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.env = env;
    const auto ended = run_command(command);
    REQUIRE(ended);
    CAPTURE(ended->err);
    REQUIRE(ended->exit_code == 0);
  }
  Result<CodeToCopy> prepare(const std::string& spec = "exp.yaml") {
    return prepare_code(host, top, spec, env);
  }
};

}  // namespace

TEST_CASE(
    "a mirror's lock has one holder, and a mirror's name cannot be empty, start with '.' or have a "
    "'/'") {
  TemporaryDirectory folder;
  {
    const auto lock = MirrorLock::take(folder.path(), "code-1");
    REQUIRE(lock);
    CHECK(std::filesystem::is_directory(folder.path() / "code-1"));
    const auto second = MirrorLock::take(folder.path(), "code-1", std::chrono::seconds(0));
    CHECK(error_text(second).find("another command of dlrun") != std::string::npos);
    CHECK(error_text(second).find("this command did not start") != std::string::npos);
  }
  CHECK(MirrorLock::take(folder.path(), "code-1"));
  for (const char* name : {"", "..", ".", "a/b", "../a", ".hidden"}) {
    CAPTURE(name);
    CHECK_FALSE(MirrorLock::take(folder.path(), name));
  }
}

TEST_CASE("a mirror that others can write, or that is a link, is refused") {
  TemporaryDirectory folder;
  const auto open_to_all = folder.path() / "code-2";
  std::filesystem::create_directory(open_to_all);
  std::filesystem::permissions(open_to_all, std::filesystem::perms::all);
  CHECK(error_text(MirrorLock::take(folder.path(), "code-2")).find("others may write it") !=
        std::string::npos);
  std::filesystem::create_directory(folder.path() / "elsewhere");
  std::filesystem::create_directory_symlink(folder.path() / "elsewhere", folder.path() / "code-3");
  CHECK_FALSE(MirrorLock::take(folder.path(), "code-3"));
}

TEST_CASE("a host's answer about its mirror is read, and a malformed one is refused") {
  CHECK(parse_mirror_answer(mirror_answer("/a", {"/", "/no/such"}, false))->missing ==
        std::vector<std::string>{"/no/such"});
  CHECK_FALSE(parse_mirror_answer(mirror_answer("/a", {}, false))->is_current);
  CHECK(parse_mirror_answer(mirror_answer("/a", {}, true))->is_current);
  for (const char* line : {"", "{", "[]", "{}", R"({"mirror": 3})", R"({"mirror": "rel"})"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_mirror_answer(line));
  }
}

TEST_CASE(
    "a mirror is not current if rsync would notice a changed file, or if a deleted file is there "
    "again") {
  TemporaryDirectory folder;
  const auto here = folder.path() / "here", there = folder.path() / "code-1";
  const std::vector<std::string> names{"gone", "link", "src/deep/a.py", "src/run.sh"};
  for (const auto& top : {here, there}) {
    write(top / "src/deep/a.py", "print()");
    write(top / "src/run.sh", "true");
    std::filesystem::create_symlink("src/run.sh", top / "link");
    for (const char* one : {"src/deep/a.py", "src/run.sh"})
      std::filesystem::last_write_time(top / one, std::filesystem::file_time_type());
    for (const char* one : {"src", "src/deep"}) REQUIRE(::chmod((top / one).c_str(), 0755) == 0);
  }
  const std::string state = state_of_files(here, names);
  CHECK_FALSE(
      is_mirror_current(folder.path(), "code-1", state));  // the host has no list of files yet
  REQUIRE(write_file_list(folder.path(), "code-1", joined_names(names)));
  CHECK(is_mirror_current(folder.path(), "code-1", state));
  CHECK_FALSE(is_mirror_current(folder.path(), "code-1", ""));
  write(there / "result.txt", "a file that the job has made");
  CHECK(is_mirror_current(folder.path(), "code-1", state));

  const auto differs_until_undone = [&](const auto& change, const auto& undo) {
    change();
    const bool differs = !is_mirror_current(folder.path(), "code-1", state);
    undo();
    return differs && is_mirror_current(folder.path(), "code-1", state);
  };
  const auto file = there / "src/run.sh", deep = there / "src/deep", link = there / "link";
  const auto reset_time = [&] {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type());
  };
  const auto rewriting = [&](std::string_view text) {
    return [&, text] {
      write(file, text);
      reset_time();
    };
  };
  const auto setting_mode = [](const std::filesystem::path& path, mode_t wanted) {
    return [path, wanted] { REQUIRE(::chmod(path.c_str(), wanted) == 0); };
  };
  CHECK(differs_until_undone(rewriting("false"), rewriting("true")));
  CHECK(differs_until_undone([&] { write(file, "eurt"); },
                             rewriting("true")));  // a new modification time
  CHECK(differs_until_undone(setting_mode(file, 0755), setting_mode(file, 0600)));
  CHECK(differs_until_undone(setting_mode(deep, 0700), setting_mode(deep, 0755)));
  CHECK(differs_until_undone([&] { write(there / "gone", ""); },
                             [&] { std::filesystem::remove(there / "gone"); }));
  CHECK(differs_until_undone(
      [&] {
        std::filesystem::remove(link);
        std::filesystem::create_symlink("src/deep", link);
      },
      [&] {
        std::filesystem::remove(link);
        std::filesystem::create_symlink("src/run.sh", link);
      }));
  REQUIRE(write_file_list(folder.path(), "code-1", joined_names({"link"})));
  CHECK_FALSE(is_mirror_current(folder.path(), "code-1", state));
}

TEST_CASE(
    "the files to copy are those of git's list, of submodules and of `also`, without those of "
    "`exclude`") {
  Repository code;
  write(code.top / ".gitignore", "*.log\ndata/\n");
  write(code.top / "new file\nof two lines", "x");
  write(code.top / "a.log", "x");
  write(code.top / "data/big", "x");
  write(code.top / "sub/notes.md", "x");
  Repository submodule;
  submodule.git({"add", "."});
  submodule.git({"commit", "-qm", "one"});
  code.git({"submodule", "add", "-q", submodule.top.string(), "lib"});
  std::filesystem::create_directories(code.top / "other/.git");
  code.host.sync_also = {"data"};
  code.host.sync_exclude = {"*.md"};
  const auto prepared = code.prepare();
  REQUIRE(prepared);
  CHECK(prepared->list.files == std::vector<std::string>{".gitignore", ".gitmodules", "data/big",
                                                         "exp.yaml", "lib/exp.yaml",
                                                         "new file\nof two lines"});
}

TEST_CASE(
    "a command starts in the copy of the current folder, or of the spec's folder if the user is "
    "outside the code") {
  Repository code;
  write(code.top / "runs/deep/b.yaml", "name: b\n");
  const auto from_top = prepare_code(code.host, code.top, "runs/deep/b.yaml", code.env);
  REQUIRE(from_top);
  CHECK(from_top->subfolder == ".");
  CHECK(from_top->spec == "runs/deep/b.yaml");
  const auto absolute =
      prepare_code(code.host, code.top / "runs", (code.top / "exp.yaml").string(), code.env);
  REQUIRE(absolute);
  CHECK(absolute->subfolder == "runs");
  CHECK(absolute->spec == "../exp.yaml");
  const auto outside =
      prepare_code(code.host, code.top.parent_path(), "code/runs/deep/b.yaml", code.env);
  REQUIRE(outside);
  CHECK(outside->subfolder == "runs/deep");
  CHECK(outside->spec == "b.yaml");
  const auto nowhere = prepare_code(code.host, code.top.parent_path(), "exp.yaml", code.env);
  CHECK(error_text(nowhere).find("not in a git repository") != std::string::npos);
}

TEST_CASE("code larger than sync.max is refused with its largest files") {
  Repository code;
  write(code.top / "weights.bin", std::string(2U << 20U, 'x'));
  code.host.sync_max_bytes = 1 << 20;
  const auto text = error_text(code.prepare());
  CHECK(text.find("weights.bin") != std::string::npos);
  CHECK(text.find("sync.max") != std::string::npos);
  CHECK(text.find("into .gitignore, if git does not track them") != std::string::npos);
}

TEST_CASE(
    "the error of a failed copy says that the command did not start, and has what rsync printed") {
  const auto error_of_copy = [](const char* stderr_format, int exit_code) {
    Repository code;
    const auto rsync = code.folder.path() / "bin/rsync";
    write(rsync, fmt::format("#!/bin/sh\ncat >/dev/null\nprintf '{}' >&2\nexit {}\n", stderr_format,
                             exit_code));
    std::filesystem::permissions(rsync, std::filesystem::perms::owner_all);
    code.env.set("PATH", (code.folder.path() / "bin").string() + ":/usr/bin:/bin");
    const auto prepared = code.prepare();
    REQUIRE(prepared);
    const auto copied =
        copy_code(prepared->tree, prepared->list, code.host, "/mirror", "/usr/bin/dlrun", code.env);
    REQUIRE_FALSE(copied);
    return copied.error();
  };
  const Error full = error_of_copy("no space left\\n", 11);
  CHECK(full.code == Errc::kIo);
  CHECK(full.message ==
        "far: the command did not start, because the code could not be copied to /mirror (exit "
        "code of rsync: 11): no space left\nCheck on far whether you may write there, and whether "
        "the disk or your quota is full (`df -h /mirror`, `quota`); to use another folder, "
        "set `root` in far.yaml");
  // ssh ends its lines with "\r\n".
  const Error lost = error_of_copy("timeout\\r\\nunexplained error\\n", 255);
  CHECK(lost.code == Errc::kUnavailable);
  CHECK(lost.message ==
        "far: the command did not start, because the code could not be copied to /mirror (exit "
        "code of rsync: 255): timeout\nunexplained error");
}

TEST_CASE("paths of a spec that are wrong on a host are refused, with key, line and column") {
  Repository code;
  write(code.top / "exp.yaml", fmt::format("base: ../common.yaml\n"
                                           "environment: {{venv: {0}/venv, pixi: {0}/pixi}}\n"
                                           "container: {{image: ../image.sqsh}}\n"
                                           "stage: [{{from: {0}/data, to: $TMPDIR/data}}]\n",
                                           code.top.string()));
  const auto text = error_text(code.prepare());
  CHECK(text.find("[1:7] base: '../common.yaml' leaves the repository") != std::string::npos);
  for (const char* key : {"environment.venv", "environment.pixi", "stage.from"}) {
    CAPTURE(key);
    CHECK(text.find(fmt::format("{}: '{}/", key, code.top.string())) != std::string::npos);
  }
  CHECK(text.find("is a path on this machine") != std::string::npos);
  CHECK(text.find("[3:20] container.image") != std::string::npos);
}

TEST_CASE("paths are checked in the spec and in all of its bases, up to the limit of 32 files") {
  Repository code;
  write(code.top / "exp.yaml", "base: 1.yaml\n");
  for (int i = 1; i < 31; ++i)
    write(code.top / fmt::format("{}.yaml", i), fmt::format("base: {}.yaml\n", i + 1));
  write(code.top / "31.yaml", "container: {image: ../image.sqsh}\n");
  CHECK(error_text(code.prepare()).find("[1:20] container.image") != std::string::npos);
}

TEST_CASE("an absolute path that exists on this machine is refused if the host lacks it") {
  Repository code;
  const auto venv = code.folder.path() / "venv";
  std::filesystem::create_directories(venv);
  write(code.top / "common.yaml", fmt::format("environment: {{venv: {}}}\n", venv.string()));
  write(code.top / "exp.yaml", "base: common.yaml\ncontainer: {image: /no/such.sqsh}\n");
  const auto prepared = code.prepare();
  REQUIRE(prepared);
  REQUIRE(prepared->paths.size() == 1);
  CHECK(prepared->paths[0].path == venv.string());
  CHECK(refuse_missing(prepared->paths, {}, "far"));
  CHECK(error_text(refuse_missing(prepared->paths, {venv.string()}, "far")).find("not on far") !=
        std::string::npos);
}

}  // namespace dlrun
