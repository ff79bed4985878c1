// Tests lead's table of keys and values, which ranks share. put() returns one answer for each rank
// that waits for the key, and one answer for the rank that puts the key.

#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/store_table.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;
const StoreTable::Clock::time_point kNow{std::chrono::hours(1)};

TEST_CASE("the request for a key that has a value is answered immediately") {
  StoreTable store;
  REQUIRE(store.put(0, 1, "address", "beef").size() == 1);
  const auto answers = store.get(3, 9, "address", milliseconds(0), kNow);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].rank == 3);
  CHECK(answers[0].id == 9);
  CHECK(*answers[0].value == "beef");
}

TEST_CASE(
    "putting a key answers the ranks that wait for it and the rank that puts it, and no others") {
  StoreTable store;
  CHECK(store.get(1, 10, "address", milliseconds(500), kNow).empty());
  CHECK(store.get(2, 20, "address", milliseconds(500), kNow).empty());
  CHECK(store.get(2, 21, "other", milliseconds(500), kNow).empty());
  const auto answers = store.put(0, 1, "address", "01");
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].rank == 1);
  CHECK(answers[1].id == 20);
  CHECK(answers[2].rank == 0);
  CHECK(store.put(0, 2, "other", "02").size() == 2);
  CHECK_FALSE(store.next_deadline());
}

TEST_CASE(
    "putting the same value again succeeds, and putting another value is refused and changes "
    "nothing") {
  StoreTable store;
  CHECK(store.put(0, 1, "k", "aa").back().value);
  CHECK(store.put(1, 1, "k", "aa").back().value);
  const auto refused = store.put(1, 2, "k", "bb");
  REQUIRE_FALSE(refused.back().value);
  CHECK(refused.back().value.error().message.find("'k' exists already") != std::string::npos);
  CHECK(*store.get(0, 2, "k", milliseconds(0), kNow).back().value == "aa");
}

TEST_CASE(
    "a rank that waits for a missing key gets a timeout error exactly when its time is over") {
  StoreTable store;
  CHECK(store.get(1, 10, "late", milliseconds(500), kNow).empty());
  CHECK(store.next_deadline() == kNow + milliseconds(500));
  CHECK(store.expire(kNow + milliseconds(499)).empty());
  const auto answers = store.expire(kNow + milliseconds(500));
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].value.error().code == Errc::kTimeout);
  CHECK(answers[0].value.error().message.find("'late' within 500 ms") != std::string::npos);
  CHECK(store.put(0, 1, "late", "00").size() == 1);
}

TEST_CASE("the waits of a lost rank are dropped") {
  StoreTable store;
  CHECK(store.get(1, 10, "k", milliseconds(500), kNow).empty());
  CHECK(store.get(2, 11, "k", milliseconds(500), kNow).empty());
  store.drop_requests_of(1);
  CHECK(store.put(0, 1, "k", "00").size() == 2);
}

TEST_CASE("put and get immediately refuse a key that is empty or too long") {
  StoreTable store;
  for (const std::string& key : {std::string(), std::string(StoreTable::kKeyLimitBytes + 1, 'k')}) {
    for (const auto& answers :
         {store.put(0, 1, key, "00"), store.get(1, 2, key, milliseconds(500), kNow),
          store.get(1, 3, key, milliseconds(0), kNow)}) {
      REQUIRE(answers.size() == 1);
      REQUIRE_FALSE(answers[0].value);
      CHECK(answers[0].value.error().code == Errc::kInvalid);
    }
  }
}

TEST_CASE("the length of keys and the size of the whole table are limited") {
  StoreTable store;
  CHECK_FALSE(store.put(0, 1, "", "00").back().value);
  CHECK_FALSE(store.put(0, 1, std::string(StoreTable::kKeyLimitBytes + 1, 'k'), "00").back().value);
  const std::string big(1U << 20U, '0');
  int stored_count = 0;
  while (stored_count < 1000 &&
         store.put(0, 1, "k" + std::to_string(stored_count), big).back().value)
    ++stored_count;
  CHECK(stored_count == 255);  // 256 MiB, minus the keys
}

}  // namespace
}  // namespace dlrun::agent
