#include "common/env.h"

#include <doctest/doctest.h>

namespace dlrun {

TEST_CASE("removing by pattern spares what is to be kept") {
  Env env({{"SLURM_JOB_ID", "7"},
           {"SLURM_CONF", "/etc/slurm.conf"},
           {"RANK", "1"},
           {"RANKING", "x"},
           {"HOME", "/h"}});
  env.remove_matching({"SLURM_*", "RANK"}, {"SLURM_CONF"});
  CHECK(env.entries() ==
        std::vector<std::string>{"HOME=/h", "RANKING=x", "SLURM_CONF=/etc/slurm.conf"});
}

TEST_CASE("an empty variable takes the fallback and is still set") {
  Env env;
  env.set("A", "");
  CHECK(env.get_or("A", "b") == "b");
  CHECK(env.has("A"));
  CHECK_FALSE(env.has("B"));
}

}  // namespace dlrun
