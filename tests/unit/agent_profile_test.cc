// Tests how a rank's program is started under a profiler. The profilers are the stand-ins of
// tests/stand_ins.

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/spec/spec_keys.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/profile.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using Strings = std::vector<std::string>;

Env env_with_stand_ins() {
  Env env;
  env.set("PATH", std::string(DLRUN_SOURCE_DIR) + "/tests/stand_ins:/usr/bin:/bin");
  return env;
}

TEST_CASE(
    "rank 0 is profiled unless other ranks are chosen, and a wrong list of ranks is refused") {
  ProfileOptions options;
  CHECK_FALSE(options.includes(0));
  options.tool = "nsys";
  CHECK((options.includes(0) && !options.includes(1)));
  REQUIRE(options.set_ranks("1,8").has_value());
  CHECK((options.includes(8) && !options.includes(0)));
  for (const char* wrong : {"", "a", "1,", "-1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(options.set_ranks(wrong).has_value());
  }
}

TEST_CASE("the agent knows every tool that profile.tool offers") {
  const KeyRow* const row = find_key("profile.tool");
  REQUIRE(row != nullptr);
  for (const auto word : split(row->choices, ' ')) {
    CAPTURE(word);
    CHECK(parse_arguments({"rank", "--profile", std::string(word), "--", "x"}).has_value());
  }
  CHECK_FALSE(parse_arguments({"rank", "--profile", "gdb", "--", "x"}).has_value());
}

TEST_CASE(
    "nsys gets the delay and the length of the profile, and does not end the program after the "
    "profile") {
  ProfileOptions options{.tool = "nsys", .delay_s = 120, .length_s = 30};
  CHECK(argv_under_profiler(options, "/opt/nsys", "/run/p/rank-0000", {"python", "train.py"}) ==
        Strings{"/opt/nsys", "profile", "--output=/run/p/rank-0000", "--force-overwrite=true",
                "--wait=all", "--delay=120", "--duration=30", "--kill=none", "python", "train.py"});
  options.delay_s = options.length_s = 0;
  CHECK(argv_under_profiler(options, "/opt/nsys", "/o", {"x"}).size() == 6);
}

TEST_CASE("py-spy and perf attach to the process that becomes the program") {
  ProfileOptions options{.tool = "py-spy", .delay_s = 5, .length_s = 30};
  const auto words = argv_under_profiler(options, "/opt/py-spy", "/r/it's", {"python", "a b"});
  REQUIRE(words.size() == 6);
  CHECK(words[2] ==
        "( { sleep 5; exec /opt/py-spy record --format speedscope --subprocesses --output "
        "'/r/it'\\''s.speedscope.json' --pid \"$$\" --duration 30; } >'/r/it'\\''s.log' 2>&1 "
        "</dev/null & )\nexec \"$@\"");
  CHECK(words[5] == "a b");
  options = {.tool = "perf"};
  CHECK(has(argv_under_profiler(options, "/usr/bin/perf", "/o", {"x"})[2],
            "sleep 1; exec /usr/bin/perf record -g --output /o.perf.data --pid \"$$\"; }"));
}

TEST_CASE(
    "a program under a profiler keeps its arguments and exit code, and the profiler writes its "
    "files") {
  TemporaryDirectory folder;
  Command command;
  command.env = env_with_stand_ins();
  const Strings program{"sh", "-c", "echo \"$$ $1\"; sleep 3; exit 7", "sh", "a  b"};
  const auto run = [&](const ProfileOptions& options) {
    auto words = prepare_profiling(options, command.env, folder.path() / "profile" / "attempt-2", 3,
                                   program);
    REQUIRE(words.has_value());
    command.argv = std::move(*words);
    const auto done = run_command(command);
    REQUIRE(done.has_value());
    CHECK(done->exit_code == 7);
    CHECK(has(done->out, " a  b\n"));
  };
  const auto result = [&](const char* ending) {
    return read_file(folder / (std::string("profile/attempt-2/rank-0003") + ending), 1U << 20U)
        .value_or("");
  };
  run({.tool = "nsys"});
  CHECK(has(result(".nsys-rep"), "profile of sh -c echo"));
  run({.tool = "py-spy", .length_s = 1});
  CHECK(has(result(".log"), "sampling sh -c echo"));
  CHECK(has(result(".speedscope.json"), "profile of sh -c echo"));
}

TEST_CASE(
    "a rank without the profiler on its PATH is refused with a message that names the profiler") {
  TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string());
  const auto words = prepare_profiling({.tool = "nsys"}, env, folder.path(), 0, {"x"});
  REQUIRE_FALSE(words.has_value());
  CHECK(words.error().code == Errc::kNotFound);
  CHECK(has(words.error().message, "profile.tool: nsys is not on the PATH of this rank"));
  CHECK_FALSE(std::filesystem::exists(folder / "profile"));
}

}  // namespace
}  // namespace dlrun::agent
