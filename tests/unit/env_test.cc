#include "common/env.h"

#include <doctest/doctest.h>

namespace dlrun {

TEST_CASE("removing variables by pattern keeps the listed exceptions") {
  Env env({{"SLURM_JOB_ID", "7"},
           {"SLURM_CONF", "/etc/slurm.conf"},
           {"RANK", "1"},
           {"RANKING", "x"},
           {"HOME", "/h"}});
  env.remove_matching({"SLURM_*", "RANK"}, {"SLURM_CONF"});
  CHECK(env.entries() ==
        std::vector<std::string>{"HOME=/h", "RANKING=x", "SLURM_CONF=/etc/slurm.conf"});
}

TEST_CASE("get_or() returns the fallback for an empty variable, which is still set") {
  Env env;
  env.set("A", "");
  CHECK(env.get_or("A", "b") == "b");
  CHECK(env.has("A"));
  CHECK_FALSE(env.has("B"));
}

}  // namespace dlrun
