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

TEST_CASE("for a variable that is set but empty, get_or() returns the fallback and has() is true") {
  Env env;
  env.set("A", "");
  CHECK(env.get_or("A", "b") == "b");
  CHECK(env.has("A"));
  CHECK_FALSE(env.has("B"));
}

TEST_CASE("a copy of an Env and its original can be changed independently") {
  Env original({{"A", "1"}, {"B", "2"}});
  Env changed = original, reduced = original, emptied = original;
  changed.set("A", "3");
  reduced.unset("B");
  emptied.remove_matching({"*"}, {});
  CHECK(original.entries() == std::vector<std::string>{"A=1", "B=2"});
  CHECK(changed.entries() == std::vector<std::string>{"A=3", "B=2"});
  CHECK(reduced.entries() == std::vector<std::string>{"A=1"});
  CHECK(emptied.entries().empty());
  const Env copy = original;
  original.set("C", "4");
  CHECK_FALSE(copy.has("C"));
}

}  // namespace dlrun
