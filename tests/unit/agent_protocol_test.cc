// Tests the handshake between lead and a rank, which proves that both know the secret, and the
// authenticated frames that carry their messages.

#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/protocol.h"

namespace dlrun::agent {
namespace {

/// Both sides after a finished handshake.
struct BothSides {
  Channel lead;
  Channel rank;
  std::string rank_answer;  ///< the rank's message that has its proof
};

const RankIdentity kIdentity{"4711_3", "0", 2, 5};

BothSides shake_hands(const Key& secret) {
  REQUIRE(init_crypto());
  const LeadHandshake lead;
  RankHandshake rank(secret, kIdentity);
  std::string to_rank = lead.greeting();
  auto answer = rank.answer(to_rank);
  REQUIRE(answer);
  REQUIRE(*answer);
  std::string to_lead = **answer;
  auto authenticated = lead.advance(to_lead, {{"", secret}});
  REQUIRE(authenticated);
  REQUIRE(*authenticated);
  CHECK((*authenticated)->identity == kIdentity);
  CHECK(to_lead.empty());
  to_rank += (*authenticated)->answer;
  auto channel = rank.finish(to_rank);
  REQUIRE(channel);
  REQUIRE(*channel);
  CHECK(to_rank.empty());
  return {(*authenticated)->channel, **channel, **answer};
}

TEST_CASE("two sides that know the secret complete the handshake, and messages pass both ways") {
  auto [lead, rank, rank_answer] = shake_hands(random_key());
  std::string bytes = rank.make_frame("one");
  bytes += rank.make_frame("");
  bytes += rank.make_frame("three");
  CHECK(*lead.take_payload(bytes) == "one");
  CHECK(*lead.take_payload(bytes) == "");
  CHECK(*lead.take_payload(bytes) == "three");
  CHECK(*lead.take_payload(bytes) == std::nullopt);
  bytes = lead.make_frame(std::string(kPayloadLimitBytes, 'x'));
  CHECK((*rank.take_payload(bytes))->size() == kPayloadLimitBytes);
}

TEST_CASE("a handshake that arrives byte by byte succeeds") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  const LeadHandshake lead;
  RankHandshake rank(secret, kIdentity);
  std::string buffer;
  std::optional<std::string> answer;
  for (const char byte : lead.greeting()) {
    CHECK_FALSE(answer);
    buffer += byte;
    answer = *rank.answer(buffer);
  }
  REQUIRE(answer);
  buffer.clear();
  for (std::size_t i = 0; i < answer->size(); ++i) {
    buffer += (*answer)[i];
    const auto authenticated = lead.advance(buffer, {{"", secret}});
    REQUIRE(authenticated);
    CHECK(authenticated->has_value() == (i + 1 == answer->size()));
  }
}

TEST_CASE("a rank with another secret is refused") {
  REQUIRE(init_crypto());
  const LeadHandshake lead;
  const auto secret = random_key();
  RankHandshake rank(random_key(), kIdentity);
  std::string bytes = lead.greeting();
  std::string answer = **rank.answer(bytes);
  const auto authenticated = lead.advance(answer, {{"", secret}});
  REQUIRE_FALSE(authenticated);
  CHECK(authenticated.error().message.find("secret") != std::string::npos);
}

TEST_CASE("a rank refuses a forged proof of lead") {
  REQUIRE(init_crypto());
  RankHandshake rank(random_key(), kIdentity);
  std::string greeting = LeadHandshake().greeting();
  REQUIRE(*rank.answer(greeting));
  std::string forged(kMacBytes, '\x5a');
  CHECK_FALSE(rank.finish(forged));
}

TEST_CASE("a rank refuses its own proof if its peer sends it back as the proof of lead") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  RankHandshake rank(secret, kIdentity);
  std::string greeting = LeadHandshake().greeting();
  const std::string answer = **rank.answer(greeting);
  std::string reflected = answer.substr(answer.size() - kMacBytes);
  CHECK_FALSE(rank.finish(reflected));
}

TEST_CASE("a proof that was captured on one connection is refused on another") {
  const auto secret = random_key();
  std::string recorded = shake_hands(secret).rank_answer;
  const LeadHandshake lead;
  CHECK_FALSE(lead.advance(recorded, {{"", secret}}));
}

TEST_CASE(
    "a changed identity is refused, and an identity that is too long is refused as soon as its "
    "length arrives") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  const LeadHandshake lead;
  RankHandshake rank(secret, kIdentity);
  std::string bytes = lead.greeting();
  std::string answer = **rank.answer(bytes);
  const auto rank_digit = answer.find("4711_3 0 2 5") + 11;
  answer[rank_digit] = '6';
  CHECK_FALSE(lead.advance(answer, {{"", secret}}));
  std::string too_long(kNonceBytes, 'n');
  too_long += "\x01\x01";  // 257, little-endian
  CHECK_FALSE(lead.advance(too_long, {{"", secret}}));
}

TEST_CASE("a frame that is changed, repeated, left out or reordered is refused") {
  const auto secret = random_key();
  const auto refuses = [&](auto spoil) {
    auto [lead, rank, rank_answer] = shake_hands(secret);
    const std::string first = rank.make_frame("first");
    const std::string second = rank.make_frame("second");
    std::string bytes = spoil(first, second);
    for (int i = 0; i < 3; ++i) {
      if (const auto opened = lead.take_payload(bytes); !opened) return true;
    }
    return false;
  };
  using Text = const std::string&;
  CHECK_FALSE(refuses([](Text first, Text second) { return first + second; }));
  CHECK(refuses(
      [](Text first, Text second) { return first.substr(0, first.size() - 1) + "T" + second; }));
  CHECK(refuses([](Text first, Text) { return first + first; }));
  CHECK(refuses([](Text, Text second) { return second; }));
  CHECK(refuses([](Text first, Text second) { return second + first; }));
}

TEST_CASE(
    "a frame of another connection, and a frame that is sent back to its sender, are refused") {
  const auto secret = random_key();
  auto one = shake_hands(secret);
  auto other = shake_hands(secret);
  std::string bytes = one.rank.make_frame("hello");
  CHECK_FALSE(other.lead.take_payload(bytes));
  bytes = one.lead.make_frame("hello");
  CHECK_FALSE(one.lead.take_payload(bytes));
}

TEST_CASE("a frame length above the limit is refused before the rest of the frame has arrived") {
  auto [lead, rank, rank_answer] = shake_hands(random_key());
  std::string bytes("\x01\x00\x10\x00", 4);  // 1 MiB + 1
  CHECK_FALSE(lead.take_payload(bytes));
}

TEST_CASE("a peer that is not lead is reported as such") {
  REQUIRE(init_crypto());
  RankHandshake rank(random_key(), kIdentity);
  std::string bytes = "SSH-2";
  const auto answer = rank.answer(bytes);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message.find("not a dlrun-agent lead") != std::string::npos);
}

TEST_CASE("an identity is parsed back from its text, and a malformed identity is refused") {
  CHECK(*RankIdentity::parse(kIdentity.text()) == kIdentity);
  for (const auto* text : {"", "1 2 3", "1 2 3 4 5", "1 0 -1 0", "1 0 0 x", " 0 0 0", "1  0 0",
                           "1 0 01 0", "1 0 0 99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(RankIdentity::parse(text));
  }
}

TEST_CASE("a secret is parsed back from its text, and other text is refused") {
  REQUIRE(init_crypto());
  const auto key = random_key();
  CHECK(key_of_text(to_text(key)) == key);
  CHECK_FALSE(key_of_text(""));
  CHECK_FALSE(key_of_text(to_text(key) + "00"));
  CHECK_FALSE(key_of_text(std::string(64, 'g')));
}

}  // namespace
}  // namespace dlrun::agent
