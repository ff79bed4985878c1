#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/relay_mux.h"

namespace dlrun {
namespace {

using std::chrono::milliseconds;

TEST_CASE("relay frames that arrive in pieces of any size are read as they were written") {
  std::string bytes;
  append_open(bytes, 1, 8888);
  append_frame(bytes, FrameKind::kData, 1, std::string("\0\n\xFF", 3));
  append_frame(bytes, FrameKind::kData, 0xFFFFFFFF, std::string(kFramePayloadLimit, 'x'));
  append_credit(bytes, 7, 65536);
  append_frame(bytes, FrameKind::kReset, 1, "why");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, bytes.size()}) {
    FrameBuffer buffer;
    std::string again;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      buffer.append(std::string_view(bytes).substr(at, piece));
      for (;;) {
        const auto frame = buffer.next();
        REQUIRE(frame);
        if (!*frame) break;
        if ((*frame)->kind == FrameKind::kOpen) CHECK((*frame)->port_or_credit == 8888);
        if ((*frame)->kind == FrameKind::kCredit) CHECK((*frame)->port_or_credit == 65536);
        append_frame(again, (*frame)->kind, (*frame)->channel, (*frame)->payload);
      }
    }
    CHECK(again == bytes);
  }
}

TEST_CASE("a frame that the relay's protocol does not allow is refused") {
  const std::vector<std::string> wrong{
      std::string("\0\0\0\0\0\0\0\1", 8),           // kind 0
      std::string("\x09\0\0\0\0\0\0\1", 8),         // kind 9
      std::string("\x01\0\0\3\0\0\0\1\0\0\0", 11),  // a port of three bytes
      std::string("\x03\0\0\1\0\0\0\1x", 9),        // a payload, although the kind has none
      std::string("\x04\0\0\0\0\0\0\1", 8),         // no data
      std::string("\x04\xFF\xFF\xFF\0\0\0\1", 8),   // 16 MiB
      "HTTP/1.1 200 OK"};
  for (const auto& bytes : wrong) {
    FrameBuffer buffer;
    buffer.append(bytes);
    CAPTURE(bytes);
    CHECK_FALSE(buffer.next());
  }
}

TEST_CASE(
    "noise before the relay's greeting is skipped, and more than 64 KiB of noise is refused") {
  FrameBuffer buffer;
  buffer.append("Loading CUDA/12\n");
  CHECK(buffer.skip_greeting().value() == false);
  buffer.append(kRelayGreeting.substr(0, 4));
  CHECK(buffer.skip_greeting().value() == false);
  buffer.append(kRelayGreeting.substr(4));
  std::string frame;
  append_frame(frame, FrameKind::kEnd, 3);
  buffer.append(frame);
  CHECK(buffer.skip_greeting().value() == true);
  CHECK(buffer.next().value()->channel == 3);
  FrameBuffer endless;
  bool is_refused = false;
  for (int i = 0; i < 70 && !is_refused; ++i) {
    endless.append(std::string(1024, 'n'));
    is_refused = !endless.skip_greeting();
  }
  CHECK(is_refused);
}

TEST_CASE(
    "a relay's connection sends one window of bytes, and more only after it has received credit") {
  RelayChannel channel;
  CHECK(channel.sendable_bytes() == kRelayWindow);
  channel.record_sent(kRelayWindow);
  CHECK(channel.sendable_bytes() == 0);
  CHECK_FALSE(channel.receive_credit(kRelayWindow + 1));
  CHECK(channel.receive_credit(100));
  CHECK(channel.sendable_bytes() == 100);
  channel.record_sent_end();
  CHECK(channel.sendable_bytes() == 0);
}

TEST_CASE("a relay's connection holds at most one window of received bytes") {
  RelayChannel channel;
  CHECK(channel.receive(std::string(kRelayWindow, 'a')));
  CHECK_FALSE(channel.receive("b"));
  RelayChannel other;
  CHECK(other.receive(std::string(kRelayWindow, 'a')));
  CHECK(other.record_written(1) == 0);
  CHECK_FALSE(other.receive("b"));  // no credit was given for that byte yet
  const std::size_t credit = other.record_written(kRelayWindow / 2);
  CHECK(credit == kRelayWindow / 2 + 1);
  CHECK(other.receive(std::string(credit, 'b')));
  CHECK(other.unwritten().size() == kRelayWindow);
}

TEST_CASE("a relay's connection is done when both directions have ended") {
  RelayChannel channel;
  CHECK(channel.receive("ab"));
  CHECK(channel.receive_end());
  CHECK_FALSE(channel.receive_end());
  CHECK_FALSE(channel.receive("c"));
  CHECK_FALSE(channel.is_written_whole());
  CHECK(channel.record_written(2) == 0);
  CHECK(channel.is_written_whole());
  CHECK_FALSE(channel.is_done());
  channel.record_sent_end();
  CHECK(channel.is_done());
}

/// Two connected sockets.
struct SocketPair {
  UniqueFd ours, theirs;
  SocketPair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  }
};

/// A relay with both ends in this process. It handles the events of both ends. has_programs: the
/// far end connects each client to a program; otherwise it only reports that the client waits.
class Relay : public RelayHandler {
 public:
  explicit Relay(bool has_programs = true)
      : has_programs_(has_programs),
        near(RelayMux::Role::kOpens, trunk_.ours.get(), trunk_.ours.get(), *this),
        far(RelayMux::Role::kAccepts, trunk_.theirs.get(), trunk_.theirs.get(), *this) {}

  void on_greeting() override { is_greeted = true; }
  void on_open(std::uint32_t channel, std::uint16_t port) override {
    ports.push_back(port);
    if (has_programs_) {
      programs.emplace_back();
      far.attach(channel, std::move(programs.back().theirs));
    } else {
      far.tell_waiting(channel);
    }
  }
  void on_opened(std::uint32_t) override { ++opened_count; }
  void on_waiting(std::uint32_t) override { ++waiting_count; }
  void on_reset(std::uint32_t, std::string_view reason) override { resets.emplace_back(reason); }

  SocketPair add_client(std::uint16_t port = 80) {
    SocketPair pair;
    near.open(std::move(pair.theirs), port);
    return pair;
  }
  /// Lets both ends move bytes for this number of rounds.
  void settle(int rounds = 60) {
    for (int i = 0; i < rounds; ++i) {
      REQUIRE(near.run_once({}, milliseconds(0)).value_or(true));
      REQUIRE(far.run_once({}, milliseconds(0)).value_or(true));
    }
  }

 private:
  bool has_programs_;
  SocketPair trunk_;

 public:
  RelayMux near, far;
  std::vector<SocketPair> programs;
  std::vector<std::uint16_t> ports;
  std::vector<std::string> resets;
  int opened_count = 0, waiting_count = 0;
  bool is_greeted = false;
};

std::string received(const UniqueFd& fd) {
  std::string text;
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

/// Sends as much as the socket takes; returns the number of bytes.
std::size_t pour(const UniqueFd& fd, std::string_view bytes) {
  const ssize_t done = ::send(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return done < 0 ? 0 : static_cast<std::size_t>(done);
}

TEST_CASE("a relay carries the bytes of both directions, and the end of each direction") {
  Relay relay;
  auto client = relay.add_client(8888);
  CHECK(pour(client.ours, "question") == 8);
  ::shutdown(client.ours.get(), SHUT_WR);
  relay.settle();
  CHECK(relay.is_greeted);
  CHECK(relay.opened_count == 1);
  CHECK(relay.ports == std::vector<std::uint16_t>{8888});
  const auto& program = relay.programs.front().ours;
  CHECK(received(program) == "question");
  char byte = 0;
  // The client has shut its writing side.
  CHECK(::recv(program.get(), &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(pour(program, "answer") == 6);
  ::shutdown(program.get(), SHUT_WR);
  relay.settle();
  CHECK(received(client.ours) == "answer");
  CHECK(relay.near.connection_count() == 0);
  CHECK(relay.far.connection_count() == 0);
}

TEST_CASE("a reader that reads nothing costs a relay one window, and other connections continue") {
  Relay relay;
  auto slow = relay.add_client();
  auto quick = relay.add_client();
  relay.settle();
  std::size_t poured = 0;
  const std::string block(65536, 's');
  for (int i = 0; i < 100; ++i) {
    poured += pour(relay.programs[0].ours, block);
    relay.settle(8);
  }
  // The near end holds one window. The sockets hold the rest.
  CHECK(poured >= kRelayWindow);
  CHECK(poured <= 2 * kRelayWindow + (2U << 20U));
  const std::size_t before = poured;
  poured += pour(relay.programs[0].ours, block);
  CHECK(poured == before);
  CHECK(pour(relay.programs[1].ours, "still here") == 10);
  relay.settle();
  CHECK(received(quick.ours) == "still here");
  std::string all;
  for (int i = 0; i < 200 && all.size() < poured; ++i) {
    all += received(slow.ours);
    relay.settle(8);
  }
  CHECK(all == std::string(poured, 's'));
}

TEST_CASE(
    "a client waits for a program, and a reset by the far end closes the client's connection") {
  Relay relay(false);
  {
    auto client = relay.add_client();
    relay.settle();
    CHECK(relay.waiting_count == 1);
    CHECK(relay.opened_count == 0);
    CHECK(relay.far.connection_count() == 1);
    relay.far.reset(1, "nothing listens");
    relay.settle();
    CHECK(relay.resets == std::vector<std::string>{"nothing listens"});
    char byte = 0;
    CHECK(::recv(client.ours.get(), &byte, 1, MSG_DONTWAIT) == 0);
  }
  CHECK(relay.near.connection_count() == 0);
}

TEST_CASE("a connection that breaks at one end of a relay breaks at the other") {
  Relay relay;
  auto client = relay.add_client();
  relay.settle();
  client.ours.reset();  // closes both directions, so that the program's bytes cannot be delivered
  CHECK(pour(relay.programs[0].ours, "too late") == 8);
  relay.settle();
  CHECK(pour(relay.programs[0].ours, "x") == 0);
  CHECK(relay.near.connection_count() == 0);
  CHECK(relay.far.connection_count() == 0);
}

TEST_CASE(
    "a relay ends when the connection between its ends closes, and a channel that is opened twice "
    "is an error") {
  Relay relay;
  relay.settle();
  SocketPair trunk;
  RelayMux far(RelayMux::Role::kAccepts, trunk.ours.get(), trunk.ours.get(), relay);
  std::string bytes;
  append_open(bytes, 5, 80);
  append_open(bytes, 5, 80);
  CHECK(pour(trunk.theirs, bytes) == bytes.size());
  const auto refused = far.run_once({}, milliseconds(0));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "dlrun asked for channel 5, which is open already");
  SocketPair other;
  RelayMux near(RelayMux::Role::kOpens, other.ours.get(), other.ours.get(), relay);
  other.theirs.reset();
  CHECK(near.run_once({}, milliseconds(0)).value() == false);
}

TEST_CASE("a relay that has no room for a connection refuses only this connection") {
  Relay relay(false);
  SocketPair trunk;
  RelayMux far(RelayMux::Role::kAccepts, trunk.ours.get(), trunk.ours.get(), relay);
  constexpr auto kTooMany = static_cast<std::uint32_t>(kMostRelayConnections + 1);
  std::string bytes;
  for (std::uint32_t channel = 1; channel <= kTooMany; ++channel) append_open(bytes, channel, 80);
  CHECK(pour(trunk.theirs, bytes) == bytes.size());
  CHECK(far.run_once({}, milliseconds(0)).value_or(false));
  CHECK(far.connection_count() == kMostRelayConnections);
  CHECK_FALSE(far.has_channel(kTooMany));
  FrameBuffer replies;
  replies.append(received(trunk.theirs));
  REQUIRE(replies.skip_greeting().value_or(false));
  const auto frame = replies.next();
  REQUIRE(frame);
  REQUIRE(frame->has_value());
  CHECK((*frame)->kind == FrameKind::kReset);
  CHECK((*frame)->channel == kTooMany);
}

}  // namespace
}  // namespace dlrun
