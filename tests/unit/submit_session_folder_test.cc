#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "launcher/submit/session_folder.h"
#include "tests/temporary_directory.h"
#include "tests/unit/cli_fixture.h"

namespace dlrun {
namespace {

std::filesystem::path sessions_in(const std::filesystem::path& runs) {
  return runs / fmt::format(".interactive-{}", ::geteuid());
}

}  // namespace

TEST_CASE(
    "the folder of a killed session is removed by the next session, and the folder of a running "
    "session is kept") {
  const TemporaryDirectory runs;
  const auto leftover = sessions_in(runs.path()) / "0011223344556677";
  std::filesystem::create_directories(leftover);
  REQUIRE(write_file_atomic(leftover / "session.sh", "#!/bin/bash\n").has_value());
  std::filesystem::path first_path;
  {
    const auto first = SessionFolder::make(runs.path());
    REQUIRE(first.has_value());
    first_path = first->path();
    CHECK_FALSE(std::filesystem::exists(leftover));
    const auto second = SessionFolder::make(runs.path());
    REQUIRE(second.has_value());
    CHECK(std::filesystem::exists(first_path));
    CHECK(second->path() != first_path);
    CHECK_FALSE(has_begun(*first));
    CHECK(with_begun_mark("#!/bin/bash\nls\n", *first) ==
          "#!/bin/bash\n: > " + first_path.string() + "/begun\nls\n");
  }
  CHECK_FALSE(std::filesystem::exists(first_path));
}

TEST_CASE(
    "each user of a runs folder has a separate folder for sessions, which is refused if others may "
    "write it") {
  const TemporaryDirectory runs;
  // Earlier versions used this folder for the sessions of all users.
  const auto writable_by_all = runs.path() / ".interactive";
  std::filesystem::create_directory(writable_by_all);
  REQUIRE(::chmod(writable_by_all.c_str(), 0777) == 0);
  const auto sessions = sessions_in(runs.path());
  {
    const auto session = SessionFolder::make(runs.path());
    REQUIRE(session.has_value());
    CHECK(session->path().parent_path() == sessions);
  }
  REQUIRE(::chmod(sessions.c_str(), 0777) == 0);
  CHECK(SessionFolder::make(runs.path()).error().code == Errc::kInvalid);
  CHECK(std::filesystem::is_empty(sessions));
  std::filesystem::remove(sessions);
  std::filesystem::create_directory_symlink(writable_by_all, sessions);
  CHECK(SessionFolder::make(runs.path()).error().code == Errc::kInvalid);
  CHECK(std::filesystem::is_empty(writable_by_all));
  std::filesystem::remove(sessions);
  if (::geteuid() != 0) {
    MESSAGE("the rest is skipped: only root can give a folder to another user");
    return;
  }
  std::filesystem::create_directory(sessions);
  REQUIRE(::chown(sessions.c_str(), 65534, 65534) == 0);
  CHECK(SessionFolder::make(runs.path()).error().code == Errc::kInvalid);
  CHECK(std::filesystem::is_empty(sessions));
}

TEST_CASE_FIXTURE(CliFixture,
                  "interactive warns about a runs folder in which others may replace the script") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "launch: {command: [echo]}\n").has_value());
  const auto runs = folder.path() / "runs";
  std::filesystem::create_directory(runs);
  const std::vector<const char*> words = {"interactive", "x.yaml", "--", "true"};
  CHECK(code_and_stderr(words).find("others may rename") == std::string::npos);
  REQUIRE(::chmod(runs.c_str(), 0777) == 0);
  CHECK(code_and_stderr(words).find(runs.string() + ": others may rename or replace") !=
        std::string::npos);
}

}  // namespace dlrun
