// Tests `profile` in a spec.

#include <doctest/doctest.h>

#include "launcher/spec/load.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest with_profile(const std::string& profile, const std::string& more = "") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text =
      "resources: {time: 1m, nodes: 2, tasks_per_node: 4}\nlaunch: {command: [x]}\n"
      "profile: " +
      profile + "\n" + more;
  request.current_dir = "/exp";
  return request;
}

TEST_CASE("a profile has a tool, ranks and times, and its short form is the tool") {
  const auto profile =
      loaded(with_profile("{tool: nsys, ranks: [0, 7], delay: 2m, for: 30s}")).spec.profile;
  CHECK(profile.tool == "nsys");
  CHECK(profile.ranks == std::vector<std::string>{"0", "7"});
  CHECK(profile.delay == "120");
  CHECK(profile.length == "30");
  CHECK(loaded(with_profile("perf")).spec.profile.tool == "perf");
}

TEST_CASE("a profile that cannot work is refused with the line of the key") {
  for (const auto& [profile, words] :
       {std::pair("{tool: gdb}", "'gdb' is not one of: nsys py-spy perf"),
        std::pair("{ranks: [0]}", "profile.ranks needs profile.tool"),
        std::pair("{tool: perf, ranks: [8]}", "there is no rank 8; the job has the ranks 0 to 7"),
        std::pair("{tool: perf, ranks: [all]}", "'all' is not the number of a rank"),
        std::pair("{tool: perf, ranks: [-1]}", "'-1' is not the number of a rank"),
        std::pair("{tool: perf, for: 0}", "profile.for is 0 s")}) {
    CAPTURE(profile);
    const auto message = refused(with_profile(profile));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, words));
  }
}

TEST_CASE(
    "nsys is refused together with checkpoint.signal_before, because nsys would get the signal") {
  CHECK(has(refused(with_profile("nsys", "checkpoint: {signal_before: 10s}\n")),
            "profile.tool: nsys starts the program itself"));
  CHECK(load_spec(with_profile("perf", "checkpoint: {signal_before: 10s}\n")).has_value());
}

}  // namespace
}  // namespace dlrun
