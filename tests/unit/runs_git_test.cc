// Tests how dlrun reads a repository whose configuration tells git to start programs, in every way
// that git has. None of these programs may be started, because the repository around a spec may be
// another person's. A program that is started creates a file canary-*.

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "launcher/runs/git.h"
#include "launcher/runs/provenance.h"
#include "launcher/runs/snapshot.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHostileRepository = R"sh(
set -eu
cd "$1"
canary_command() { printf '%s' "touch '$1/canary-$2'; cat"; }
# Sets everything that makes git start a program, in the repository of the current folder.
hostile() {
  for key in core.fsmonitor core.sshCommand core.pager core.editor core.alternateRefsCommand \
      core.gitProxy diff.external filter.evil.clean filter.evil.smudge filter.evil.process \
      filter.lfs.clean filter.lfs.process diff.evil.command diff.evil.textconv credential.helper \
      gpg.program pager.diff alias.diff alias.ls-files; do
    git config "$key" "$(canary_command "$1" "$2$key")"
  done
  git config filter.evil.required true
  mkdir -p .git/hooks
  for hook in post-index-change fsmonitor-watchman pre-commit post-checkout \
      reference-transaction; do
    printf '#!/bin/sh\ntouch "%s/canary-%s%s"\n' "$1" "$2" "$hook" >.git/hooks/$hook
    chmod +x .git/hooks/$hook
  done
}
new() {
  git init -q "$1" && git -C "$1" config user.email kim@example.org &&
    git -C "$1" config user.name kim
}
new inner
(cd inner && echo one >inside && git add . && git commit -qm inside)
new repo
cd repo
printf '* filter=evil diff=evil\n*.bin filter=lfs\n' >.gitattributes
echo one >train.py; echo two >data.bin; echo gone >old.py
git add .
git -c protocol.file.allow=always submodule --quiet add ../inner inner
git commit -qm first
blob=$(git rev-parse HEAD:old.py)
hostile "$1" repo-
(cd inner && git_dir=$(git rev-parse --git-dir) && mkdir -p "$git_dir/hooks" &&
  git config core.fsmonitor "$(canary_command "$1" inner-fsmonitor)" &&
  git config filter.evil.clean "$(canary_command "$1" inner-clean)" &&
  echo '* filter=evil' >.gitattributes && echo changed >inside)
# A clone that lacks a file's content, and a remote that says how to fetch it.
rm -f ".git/objects/${blob:0:2}/${blob:2}"
git config extensions.partialClone evil
git config core.repositoryformatversion 1
git config remote.evil.promisor true
git config remote.evil.url "ext::sh -c touch% $1/canary-remote"
git config remote.evil.uploadpack "touch $1/canary-uploadpack;"
git config protocol.allow always
git config protocol.ext.allow always
echo changed >>train.py; echo changed >>data.bin; echo changed >>old.py; echo new >new.py
)sh";

struct RepositoryFixture {
  TemporaryDirectory folder;
  fs::path repo = folder.path() / "repo", run = folder.path() / "run";
  Env env = Env::of_process();
  RepositoryFixture() {
    fs::create_directories(run);
    // Git must ignore the configuration of the user who runs the tests.
    env.set("HOME", folder.path().string());
    Command creation;
    creation.argv = {"bash", "-c", kHostileRepository, "-", folder.path().string()};
    creation.env = env;
    const auto made = run_command(creation);
    REQUIRE(made.has_value());
    INFO(made->err);
    REQUIRE(made->exit_code == 0);
    remove_canaries();  // creating the repository has made some
  }
  [[nodiscard]] std::vector<std::string> canaries() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (entry.path().filename().string().starts_with("canary-"))
        found.push_back(entry.path().filename().string());
    }
    return found;
  }
  void remove_canaries() const {
    for (const auto& name : canaries()) fs::remove(folder.path() / name);
  }
};

}  // namespace

TEST_CASE_FIXTURE(
    RepositoryFixture,
    "git starts no program of a repository's configuration when a run's provenance is recorded") {
  REQUIRE(Provenance(repo, env, {"dlrun"}, "").write(run).has_value());
  CHECK(canaries() == std::vector<std::string>{});
  CHECK(read_file(run / "provenance.json", 1U << 20U)->find("\"commit\"") != std::string::npos);
}

TEST_CASE_FIXTURE(
    RepositoryFixture,
    "git starts no program of a repository's configuration when its files are copied") {
  const auto snapshot = take_snapshot(repo, run, folder.path() / "runs", env);
  REQUIRE(snapshot.has_value());
  CHECK(canaries() == std::vector<std::string>{});
  CHECK(read_file(snapshot->folder / "train.py", 1U << 20U).value() == "one\nchanged\n");
  CHECK(fs::exists(snapshot->folder / "new.py"));
}

TEST_CASE(
    "for a copy of the code without .git, the run records the git state that the user's machine "
    "sent") {
  const TemporaryDirectory folder;
  const auto copy = folder.path() / "copy", run = folder.path() / "run";
  fs::create_directories(copy);
  fs::create_directories(run);
  const GitState state{"/home/me/code", "0123abcd", "-a\n+\xff\n", "a note"};
  REQUIRE(write_file_atomic(folder.path() / "state", git_state_bytes(state)));
  REQUIRE(Provenance(copy, Env(), {"dlrun"}, "", folder.path() / "state").write(run).has_value());
  const auto json = read_file(run / "provenance.json", 1U << 20U);
  REQUIRE(json);
  for (const char* part : {"/home/me/code", "0123abcd", "\"dirty\": true", "a note"})
    CHECK(json->find(part) != std::string::npos);
  CHECK(read_file(run / "tree.patch", 1U << 20U).value_or("") == state.patch);
  CHECK_FALSE(parse_git_state("no state"));
}

TEST_CASE_FIXTURE(RepositoryFixture,
                  "the diff of a repository with filters is made without the filters") {
  Command restore;  // writes the missing blob, which `git diff` needs
  restore.argv = {"git", "-C", repo.string(), "hash-object", "--no-filters", "-w", "--stdin"};
  restore.stdin_text = "gone\n";
  restore.env = env;
  REQUIRE(run_command(restore)->exit_code == 0);
  remove_canaries();
  REQUIRE(Provenance(repo, env, {"dlrun"}, "").write(run).has_value());
  const auto patch = read_file(run / "tree.patch", 1U << 20U);
  REQUIRE(patch.has_value());
  CHECK(patch->find("+changed") != std::string::npos);
  CHECK(canaries() == std::vector<std::string>{});
}

TEST_CASE_FIXTURE(
    RepositoryFixture,
    "run_git() fails and starts no program if a filter's name cannot be passed with `-c`") {
  Command add_filter;
  add_filter.argv = {"git",
                     "-C",
                     repo.string(),
                     "config",
                     "filter.a=b.clean",
                     "touch " + (folder.path() / "canary-equals").string()};
  add_filter.env = env;
  REQUIRE(run_command(add_filter)->exit_code == 0);
  const auto refused = run_git(repo, env, {"rev-parse", "HEAD"}, std::chrono::seconds(5));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kInvalid);
  REQUIRE(Provenance(repo, env, {"dlrun"}, "").write(run).has_value());
  CHECK(canaries() == std::vector<std::string>{});
}

}  // namespace dlrun
