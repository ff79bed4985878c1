// Tests the table of all ranks' addresses, which lead sends to ranks page by page.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/attempt.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/rank_table.h"

namespace dlrun::agent {
namespace {

std::vector<Endpoint> addresses(int ranks, int per_node, std::string_view prefix) {
  std::vector<Endpoint> table;
  for (int rank = 0; rank < ranks; ++rank) {
    table.push_back({fmt::format("{}{:x}", prefix, rank / per_node),
                     static_cast<std::uint16_t>(32768 + rank % 28000)});
  }
  return table;
}

TEST_CASE(
    "the table of 10,000 ranks is rebuilt from its pages, and each page is small even with the "
    "longest addresses") {
  // The longest possible addresses, one node for each rank: no two ranks of a page share an
  // address.
  const auto table = addresses(10'000, 1, "2001:0db8:aaaa:bbbb:cccc:dddd:eeee:");
  const auto pages = table_pages(table);
  CHECK(pages.size() == 40);
  TableReader reader(10'000);
  for (const auto& page : pages) {
    CHECK(page.size() < 16'384);
    CHECK_FALSE(reader.is_whole());
    REQUIRE(reader.add(Json::parse(page)));
  }
  REQUIRE(reader.is_whole());
  CHECK(reader.table() == table);
}

TEST_CASE(
    "a page of the table is refused if it is repeated, out of order, malformed, or for another "
    "number of ranks") {
  const auto pages = table_pages(addresses(300, 2, "10.0.0."));
  REQUIRE(pages.size() == 2);
  TableReader reader(300);
  CHECK_FALSE(reader.add(Json::parse(pages[1])));
  REQUIRE(reader.add(Json::parse(pages[0])));
  CHECK_FALSE(reader.add(Json::parse(pages[0])));
  CHECK_FALSE(TableReader(299).add(Json::parse(pages[0])));
  CHECK(reader.next_rank() == 256);
  for (const auto* wrong :
       {R"({"type":"table"})", R"({"from":0,"size":1,"ips":[],"ranks":[[0,1]]})",
        R"({"from":0,"size":1,"ips":["10.0.0.1"],"ranks":[[0,65536]]})",
        R"({"from":0,"size":1,"ips":["10.0.0.1"],"ranks":[[0,-1]]})",
        R"({"from":0,"size":1,"ips":[7],"ranks":[[0,1]]})",
        R"({"from":0,"size":1,"ips":["10.0.0.1"],"ranks":[]})",
        R"({"from":0,"size":1,"ips":["10.0.0.1"],"ranks":[[0]]})",
        R"({"from":0,"size":1,"ips":["10.0.0.1"],"ranks":[[0,1],[0,2]]})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(TableReader(1).add(Json::parse(wrong)));
  }
}

/// Counts the texts that an attempt sends, and keeps the last text and the length of the longest.
struct TextCounter final : AttemptOutlet {
  std::size_t text_count = 0, longest_bytes = 0;
  std::string last_text;
  void send(int, const MessageToRank&) override {}
  void send_text(int, std::string_view payload) override {
    ++text_count;
    longest_bytes = std::max(longest_bytes, payload.size());
    last_text = payload;
  }
  void broadcast(const MessageToRank&) override {}
  void record(const RunEvent&) override {}
  void say(std::string_view) override {}
  void stop_step(bool) override {}
};

TEST_CASE(
    "an attempt of 10,000 ranks sends the table page by page, and only after all ranks have "
    "joined") {
  constexpr int kRanks = 10'000;
  TextCounter counter;
  const Attempt::Clock::time_point now{std::chrono::hours(1)};
  Attempt attempt({}, counter, now);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kRanks - 1) attempt.on_table_request(0, 0);
    Hello hello{{rank, kRanks, rank % 8, 8, rank / 8, kRanks / 8, WorldSource::kSlurm}};
    hello.host = "n";
    hello.addr = fmt::format("10.{}.{}.1", rank / 8 / 250, rank / 8 % 250);
    hello.port = 40000 + rank % 8;
    attempt.on_hello(rank, hello, now);
  }
  CHECK(counter.text_count == 0);
  TableReader reader(kRanks);
  while (!reader.is_whole()) {
    attempt.on_table_request(7, static_cast<std::int64_t>(reader.next_rank()));
    REQUIRE(reader.add(Json::parse(counter.last_text)));
  }
  CHECK(counter.text_count == 40);
  CHECK(counter.longest_bytes < kPayloadLimitBytes / 64);
  CHECK(reader.table()[9'999].text() == "10.4.249.1:40007");
  for (const std::int64_t wrong_from : {-1L, 1L, 10'240L, 1L << 40})
    attempt.on_table_request(7, wrong_from);
  CHECK(counter.text_count == 40);
}

}  // namespace
}  // namespace dlrun::agent
