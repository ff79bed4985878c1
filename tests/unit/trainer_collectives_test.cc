// Tests the command line of `dlrun-trainer collectives` and its measurements with a single rank.
// tests/ranks has the tests with several ranks.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/comm/make_communicator.h"
#include "runtime/trainer/measure/collective_times.h"

namespace dlrun::trainer {

TEST_CASE(
    "collectives: sizes are lists and ranges in binary units, and wrong options are refused") {
  const std::vector<std::string> words{"--sizes", "8,64K,1M..16M", "--backend",
                                       "shm",     "--ranks",       "4"};
  const auto options = parse_collectives_options(words);
  REQUIRE(options);
  CHECK(options->sizes == std::vector<std::size_t>{8, 65'536, 1'048'576, 4'194'304, 16'777'216});
  CHECK(options->backend == "shm");
  CHECK(options->ranks == 4);
  for (const char* wrong :
       {"", "x", "0", "-8", "8k", "5G", "64..8", "8,,16", "99999999999999999999G"}) {
    CAPTURE(wrong);
    const auto refused = parse_collectives_options(std::vector<std::string>{"--sizes", wrong});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::kUsage);
  }
  CHECK_FALSE(parse_collectives_options(std::vector<std::string>{"--operation", "all_shuffle"}));
  CHECK_FALSE(parse_collectives_options(std::vector<std::string>{"--backend", "pigeon"}));
  CHECK_FALSE(parse_collectives_options(std::vector<std::string>{"--ranks", "0"}));
  CHECK_FALSE(parse_collectives_options(std::vector<std::string>{"--ranks"}));
  CHECK_FALSE(parse_collectives_options(std::vector<std::string>{"--frob", "1"}));
}

TEST_CASE("collectives: bus bandwidth is defined as in nccl-tests") {
  // doc/PERFORMANCE.md of nccl-tests: the bus bandwidth is S/t times 2(n-1)/n for AllReduce,
  // (n-1)/n for AllGather and ReduceScatter, and 1 for Broadcast.
  CHECK(bus_factor(Collective::kAllReduce, 2) == doctest::Approx(1));
  CHECK(bus_factor(Collective::kAllReduce, 8) == doctest::Approx(1.75));
  CHECK(bus_factor(Collective::kAllGather, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kReduceScatter, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kBroadcast, 8) == doctest::Approx(1));
  CHECK(CollectiveTime{1'000'000, 100}.algorithm_gb_s() == doctest::Approx(10));
}

TEST_CASE(
    "collectives: every operation can be timed with one rank, and a size is at least one element") {
  const auto communicator = make_communicator("single", {});
  REQUIRE(communicator);
  const auto kernels = make_cpu_kernels<float>(1);
  const std::vector<std::size_t> sizes{1, 4096};
  for (const char* word : {"all_reduce", "broadcast", "all_gather", "reduce_scatter"}) {
    const auto collective = parse_collective(word);
    REQUIRE(collective);
    CHECK(to_string(*collective) == word);
    const auto times = time_collective(**communicator, *kernels, *collective, sizes);
    REQUIRE(times);
    REQUIRE(times->size() == 2);
    CHECK((*times)[0].bytes == 4);  // one float
    CHECK((*times)[1].bytes == 4096);
    CHECK((*times)[1].microseconds >= 0);
  }
}

}  // namespace dlrun::trainer
