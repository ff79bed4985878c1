#include <doctest/doctest.h>

#include "cli/session_folder.h"
#include "tests/temporary_directory.h"

namespace dlrun {

TEST_CASE(
    "what a killed session left is removed by the next one, and a session that goes on keeps its "
    "folder") {
  const TemporaryDirectory runs;
  const auto left = runs.path() / ".interactive" / "0011223344556677";
  std::filesystem::create_directories(left);
  REQUIRE(write_file_atomic(left / "session.sh", "#!/bin/bash\n").has_value());
  std::filesystem::path path;
  {
    const auto first = SessionFolder::make(runs.path());
    REQUIRE(first.has_value());
    path = first->path();
    CHECK_FALSE(std::filesystem::exists(left));
    const auto second = SessionFolder::make(runs.path());
    REQUIRE(second.has_value());
    CHECK(std::filesystem::exists(path));
    CHECK(second->path() != path);
    CHECK_FALSE(has_begun(*first));
    CHECK(with_begun_mark("#!/bin/bash\nls\n", *first) ==
          "#!/bin/bash\n: > " + path.string() + "/begun\nls\n");
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace dlrun
