#include <doctest/doctest.h>

#include "launcher/executors/account_use.h"

namespace dlrun {
namespace {

TEST_CASE("an account is found in sshare's lines by its whole name, in capital or small letters") {
  const auto use = parse_sshare(
      "root||||\n proj1||gres/gpu=6000|gres/gpu=600|gres/gpu=60\n proj10||cpu=5||\n", "PROJ1");
  REQUIRE(use);
  CHECK(use->account == "PROJ1");
  REQUIRE(use->limits.size() == 1);
  CHECK(use->limits[0].left_minutes() == 5340);
  CHECK_FALSE(parse_sshare("proj1||cpu=5||\n", "proj"));
}

TEST_CASE("the sizes of partitions are the sums of sinfo's lines, and the default one is marked") {
  const auto sizes = parse_partition_sizes("CLUSTER: a\ncpu*|3\ngpu|2\ncpu*|1\nodd|x\n");
  REQUIRE(sizes.size() == 2);
  CHECK(sizes[0].name == "cpu");
  CHECK(sizes[0].is_default);
  CHECK(sizes[0].nodes == 4);
  CHECK(sizes[1].name == "gpu");
  CHECK_FALSE(sizes[1].is_default);
  CHECK(sizes[1].nodes == 2);
}

}  // namespace
}  // namespace dlrun
