#include "common/hostlist.h"

#include <doctest/doctest.h>

namespace dlrun {
namespace {

using Hosts = std::vector<std::string>;

}  // namespace

TEST_CASE("node lists expand in Slurm's order, with at most eight pairs of brackets in a name") {
  CHECK(*expand_hostlist("") == Hosts{});
  CHECK(*expand_hostlist("n1") == Hosts{"n1"});
  CHECK(*expand_hostlist("n[1-3,7],login") == Hosts{"n1", "n2", "n3", "n7", "login"});
  CHECK(*expand_hostlist("gpu[08-11]-ib") == Hosts{"gpu08-ib", "gpu09-ib", "gpu10-ib", "gpu11-ib"});
  CHECK(*expand_hostlist("r[0-1]n[1-2]") == Hosts{"r0n1", "r0n2", "r1n1", "r1n2"});
  CHECK(*expand_hostlist("n2,n1,n2") == Hosts{"n2", "n1", "n2"});
  CHECK(*expand_hostlist("a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]-ib") == Hosts{"a1b1c1d1e1f1g1h1-ib"});
  CHECK_FALSE(expand_hostlist("a[1][1][1][1][1][1][1][1][1]").has_value());
}

TEST_CASE("a huge node list is refused before it is expanded") {
  for (const char* list :
       {"n[0-999999999]", "n[0-9999][0-9999][0-9999][0-9999][0-9999]", "a,n[1-100000]"}) {
    const auto hosts = expand_hostlist(list);
    REQUIRE_FALSE(hosts.has_value());
    CHECK(hosts.error().message.find("more than 100000 nodes") != std::string::npos);
  }
}

TEST_CASE("malformed node lists are refused, and the error quotes the list") {
  for (const char* list : {"n[1-", "n]1", "n[3-1]", "n[a]", "n[]", "n[1,]", ",", "n1,",
                           "n[12345678901234567890]", "n[-1]"}) {
    CAPTURE(list);
    const auto hosts = expand_hostlist(list);
    REQUIRE_FALSE(hosts.has_value());
    CHECK(hosts.error().message.find("node list '") == 0);
  }
}

TEST_CASE(
    "a node list from a user is checked against Slurm's grammar, and the error shows where the "
    "first wrong character is") {
  for (const char* list :
       {"n1", "n[1-3,7],login", "gpu[08-11]", "r[0-1]n[1-2]", "a-b_c.d", "N1,n1"}) {
    CAPTURE(list);
    CHECK(check_hostlist(list).has_value());
  }
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "the node list is empty"},
      {"n1,\\n2",
       "names have only letters, digits, '.', '_', '-' and brackets; found '\\' at character 4"},
      {"n1, n2", "only commas separate names; found a space at character 4"},
      {"./nodes", "write node names, not the path of a file; found '/' at character 2"},
      {"n{2}", "found '{' at character 2"},
      {"n\xc3\xa9"
       "1",
       "found '\xc3\xa9' at character 2"},
      {"n1;id", "found ';' at character 3"},
      {"n[1-3", "'[' is not closed at character 2"},
      {"n1,n]2", "']' without '[' at character 5"},
      {"n[3-1]", "the range 3-1 runs backwards at character 3"},
      {"n[1,a]", "'a' is not a number of at most 18 digits at character 5"},
      {"n1,,n2", "a node name is missing at character 4"},
      {"n[0-99999]", "has more than 65536 nodes"},
  };
  for (const auto& [list, why] : cases) {
    CAPTURE(list);
    const auto checked = check_hostlist(list);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().message.find(why) != std::string::npos);
  }
}

TEST_CASE("compressed lists expand to the same nodes") {
  const std::vector<std::pair<Hosts, std::string>> cases{
      {{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n2", "n3", "n7"}, "n[1-3,7]"},
      {{"n8", "n9", "n10"}, "n[8-9,10]"},
      {{"g08", "g09", "g10"}, "g[08-10]"},
      {{"n2", "n1"}, "n[2,1]"},
      {{"login", "n1-ib", "n2-ib"}, "login,n[1-2]-ib"},
  };
  for (const auto& [hosts, list] : cases) {
    CHECK(compress_hostlist(hosts) == list);
    CHECK(*expand_hostlist(list) == hosts);
  }
}

}  // namespace dlrun
