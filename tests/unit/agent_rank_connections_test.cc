// Tests that RankConnections admits ranks but no strangers, with real sockets on the loopback
// interface. Also tests addresses and ports.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/address.h"
#include "runtime/agent/link.h"
#include "runtime/agent/rank_connections.h"
#include "tests/time_bounds.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A lead on a separate thread, which sends every message back to its sender.
class EchoingLead final : public RankConnectionsHandler {
 public:
  explicit EchoingLead(const Key& secret) : loop_(*EventLoop::create()) {
    REQUIRE(init_crypto());
    connections_ = std::make_unique<RankConnections>(
        loop_, *this, std::move(*listen_on_free_port(true)), Secrets{{"", secret}});
    port = connections_->port();
    thread_ = std::thread([this] {
      while (!should_stop_) {
        loop_.run_once(milliseconds(5));
        connections_->tick(Clock::now());
        buffer_bytes = connections_->buffer_bytes();
      }
    });
  }
  ~EchoingLead() override {
    should_stop_ = true;
    thread_.join();
  }

  bool on_peer(PeerId, const RankIdentity& claimed) override {
    if (claimed.job != "job") return false;
    ++admitted_count;
    return true;
  }
  void on_message(PeerId peer, std::string_view payload) override {
    connections_->send(peer, payload);
  }
  void on_lost(PeerId, std::string_view) override { ++lost_count; }

  std::uint16_t port = 0;
  std::atomic<int> admitted_count = 0;
  std::atomic<int> lost_count = 0;
  std::atomic<std::size_t> buffer_bytes = 0;

 private:
  EventLoop loop_;
  std::unique_ptr<RankConnections> connections_;
  std::atomic<bool> should_stop_ = false;
  std::thread thread_;
};

Result<Link> connect_rank(std::uint16_t port, const Key& secret, const std::string& job = "job",
                          milliseconds limit = seconds(10)) {
  return Link::connect({{"127.0.0.1", port}}, secret, {job, "0", 0, 1}, limit,
                       [] { return false; });
}

/// Sends a message and returns true if its echo arrives within 10 s.
bool echoes(Link& link, const std::string& text) {
  link.send(text);
  bool has_arrived = false;
  for (const auto until = Clock::now() + seconds(10); !has_arrived && Clock::now() < until;) {
    link.flush();
    pollfd readable{.fd = link.socket(), .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, 20);
    if (!link.receive([&](std::string_view payload) { has_arrived = payload == text; }))
      return false;
  }
  return has_arrived;
}

/// Opens a connection that sends no handshake.
UniqueFd connect_stranger(std::uint16_t port) {
  auto socket = begin_connect({"127.0.0.1", port});
  return socket ? std::move(*socket) : UniqueFd();
}

/// Returns true if the peer closes the connection within `limit`.
bool closes_within(const UniqueFd& socket, milliseconds limit) {
  for (const auto until = Clock::now() + limit; Clock::now() < until;) {
    pollfd readable{.fd = socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, 20);
    std::array<char, 4096> buffer;
    const auto got = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

/// Lead, and a rank that it has admitted.
struct JoinedRank {
  JoinedRank() {
    REQUIRE(crypto);
    REQUIRE(rank);
  }
  Result<> crypto = init_crypto();
  Key secret = random_key();
  EchoingLead lead{secret};
  Result<Link> rank = connect_rank(lead.port, secret);
};

TEST_CASE("a rank that reaches no lead stops trying as soon as should_stop() returns true") {
  const auto held = hold_port(0);  // nothing listens on this port, so it refuses connections
  REQUIRE(held);
  int call_count = 0;
  const auto began = Clock::now();
  const auto link = Link::connect({{"127.0.0.1", held->port}}, Key{}, {"job", "0", 0, 1},
                                  seconds(30), [&] { return ++call_count > 3; });
  REQUIRE_FALSE(link);
  CHECK(link.error().code == Errc::kInterrupted);
  CHECK(Clock::now() - began < seconds(5));
}

TEST_CASE("a rank is admitted, and messages of any size pass both ways") {
  JoinedRank joined;
  CHECK(joined.rank->own_address() == "127.0.0.1");
  CHECK(echoes(*joined.rank, "hello"));
  CHECK(echoes(*joined.rank, std::string(kPayloadLimitBytes, 'x')));
  CHECK(echoes(*joined.rank, ""));
}

TEST_CASE("a large message leaves no large buffers behind at lead") {
  JoinedRank joined;
  CHECK(echoes(*joined.rank, std::string(kPayloadLimitBytes, 'x')));
  // Lead's thread measures its buffers after each round of its loop.
  for (const auto until = Clock::now() + seconds(10);
       joined.lead.buffer_bytes > 2 * RankConnections::kBufferKeptBytes && Clock::now() < until;)
    ::poll(nullptr, 0, 5);
  CHECK(joined.lead.buffer_bytes <= 2 * RankConnections::kBufferKeptBytes);
  CHECK(echoes(*joined.rank, "hello"));
}

/// Advances a try to reach lead until it succeeds, fails or reaches its time limit.
Result<Link> finish_try(LinkTry link_try) {
  for (;;) {
    pollfd ready{.fd = link_try.socket(),
                 .events = static_cast<short>(link_try.is_connecting() ? POLLOUT : POLLIN),
                 .revents = 0};
    ::poll(&ready, 1, 20);
    if (Clock::now() >= link_try.until()) return fail(Errc::kTimeout, "no answer in time");
    if (ready.revents == 0) continue;
    auto link = link_try.advance();
    if (!link) return tl::unexpected<Error>(std::move(link.error()));
    if (*link) return std::move(**link);
  }
}

TEST_CASE("a try to reach lead connects from the address that is asked for") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  EchoingLead lead(secret);
  const Endpoint endpoint{"127.0.0.1", lead.port};
  const RankIdentity identity{"job", "0", 0, 1};
  auto link_try = LinkTry::begin(endpoint, secret, identity, seconds(10), "127.0.0.9");
  REQUIRE(link_try);
  CHECK(link_try->is_connecting());
  auto link = finish_try(std::move(*link_try));
  REQUIRE(link);
  CHECK(link->own_address() == "127.0.0.9");
  CHECK(echoes(*link, "hello"));
  // 192.0.2.1 is an address for documentation, which no machine has.
  const auto foreign = LinkTry::begin(endpoint, secret, identity, seconds(10), "192.0.2.1");
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().message.find("192.0.2.1") != std::string::npos);
}

TEST_CASE("the pauses and the time limits of the tries to reach lead grow up to a limit") {
  LinkPace pace;
  CHECK(pace.try_limit() == seconds(1));
  milliseconds longest{};
  for (int round = 0; round < 20; ++round) longest = std::max(longest, pace.next_pause());
  CHECK(longest >= milliseconds(500));
  CHECK(longest <= seconds(1));
  CHECK(pace.try_limit() == seconds(4));
}

TEST_CASE(
    "connections with garbage, another secret or another job are not admitted, and a rank that "
    "connects after them is admitted") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  EchoingLead lead(secret);
  const auto garbage = connect_stranger(lead.port);
  const std::string http = "GET / HTTP/1.1\r\nHost: lead\r\n\r\n" + std::string(300, 'x');
  ::send(garbage.get(), http.data(), http.size(), MSG_NOSIGNAL);
  CHECK(closes_within(garbage, seconds(5)));
  CHECK_FALSE(connect_rank(lead.port, random_key(), "job", milliseconds(300)));
  CHECK_FALSE(connect_rank(lead.port, secret, "another", milliseconds(300)));
  CHECK(lead.admitted_count == 0);
  CHECK(connect_rank(lead.port, secret));
  CHECK(lead.admitted_count == 1);
}

TEST_CASE(
    "a stranger that sends nothing, or one byte at a time, is disconnected after the time limit") {
  REQUIRE(init_crypto());
  EchoingLead lead(random_key());
  const auto silent = connect_stranger(lead.port);
  const auto dripping = connect_stranger(lead.port);
  std::thread drip([&] {
    for (int i = 0; i < 80 && ::send(dripping.get(), "x", 1, MSG_NOSIGNAL) == 1; ++i)
      ::poll(nullptr, 0, 100);
  });
  CHECK(closes_within(silent, RankConnections::kHandshakeTimeLimit + seconds(2)));
  CHECK(closes_within(dripping, seconds(2)));
  drip.join();
}

TEST_CASE("a stranger that sends more bytes than a handshake has is disconnected") {
  REQUIRE(init_crypto());
  EchoingLead lead(random_key());
  const auto flood = connect_stranger(lead.port);
  // An identity of the largest allowed length, and more bytes than its handshake has.
  const std::string bytes =
      std::string(kNonceBytes, 'n') + std::string("\x00\x01", 2) + std::string(4096, 'c');
  ::send(flood.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  CHECK(closes_within(flood, seconds(2)));
}

TEST_CASE("a flood of silent strangers delays a rank by at most a second") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  EchoingLead lead(secret);
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 500; ++i) flood.push_back(connect_stranger(lead.port));
  std::atomic<bool> should_stop = false;
  std::thread more([&] {
    while (!should_stop) {
      auto socket = connect_stranger(lead.port);
      ::poll(nullptr, 0, 2);
    }
  });
  const auto began = Clock::now();
  auto rank = connect_rank(lead.port, secret);
  const auto took = Clock::now() - began;
  should_stop = true;
  more.join();
  REQUIRE(rank);
  CHECK(took < wall_limit(seconds(1)));
  CHECK(echoes(*rank, "hello"));
  CHECK(lead.admitted_count == 1);
}

/// Connects to the port from the given loopback address.
UniqueFd connect_stranger_from(const char* ip, std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  ::inet_pton(AF_INET, ip, &own.sin_addr);
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
  sockaddr_in lead{.sin_family = AF_INET,
                   .sin_port = htons(port),
                   .sin_addr = {htonl(INADDR_LOOPBACK)},
                   .sin_zero = {}};
  REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&lead), sizeof lead) == 0);
  return socket;
}

TEST_CASE(
    "if lead has as many strangers as it allows, only the host with the most connections loses a "
    "connection") {
  REQUIRE(init_crypto());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto few = before;
  few.rlim_cur = 400;  // half of them, 200, are for unauthenticated connections
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  {
    EchoingLead lead(random_key());
    // This process also opens the other ends of the connections.
    ::setrlimit(RLIMIT_NOFILE, &before);
    const auto from_leads_address = connect_stranger_from("127.0.0.1", lead.port);
    const auto modest = connect_stranger_from("127.0.0.3", lead.port);
    std::vector<UniqueFd> greedy;
    for (int i = 0; i < 190; ++i) greedy.push_back(connect_stranger_from("127.0.0.2", lead.port));
    CHECK_FALSE(closes_within(from_leads_address, milliseconds(200)));
    // Each round closes one connection and opens two. Once 200 are open, lead closes the oldest
    // connection of the host with the most connections for each new one.
    std::vector<UniqueFd> more;
    for (int i = 0; i < 40; ++i) {
      greedy.erase(greedy.begin());
      more.push_back(connect_stranger_from("127.0.0.2", lead.port));
      greedy.push_back(connect_stranger_from("127.0.0.2", lead.port));
    }
    CHECK(closes_within(greedy.front(), seconds(2)));
    CHECK_FALSE(closes_within(from_leads_address, milliseconds(100)));
    CHECK_FALSE(closes_within(modest, milliseconds(100)));
  }
}

TEST_CASE("two hundred ranks that connect at the same time are all admitted") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  EchoingLead lead(secret);
  std::atomic<int> connected_count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    threads.emplace_back(
        [&] { connected_count += connect_rank(lead.port, secret, "job", seconds(20)) ? 1 : 0; });
  }
  for (auto& thread : threads) thread.join();
  CHECK(connected_count == 200);
  CHECK(lead.admitted_count == 200);
}

TEST_CASE("a rank that disconnects is reported as lost once") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  EchoingLead lead(secret);
  {
    auto rank = connect_rank(lead.port, secret);
    REQUIRE(rank);
    CHECK(echoes(*rank, "hello"));
  }
  for (const auto until = Clock::now() + seconds(5); lead.lost_count == 0 && Clock::now() < until;)
    ::poll(nullptr, 0, 5);
  CHECK(lead.lost_count == 1);
}

TEST_CASE(
    "an agent that is silent for 30 s counts as lost, but time in which lead's machine slept is "
    "left out") {
  REQUIRE(init_crypto());
  const auto secret = random_key();
  struct LossRecorder final : RankConnectionsHandler {
    int admitted_count = 0;
    std::vector<std::string> lost;
    bool on_peer(PeerId, const RankIdentity&) override { return ++admitted_count > 0; }
    void on_message(PeerId, std::string_view) override {}
    void on_lost(PeerId, std::string_view why) override { lost.emplace_back(why); }
  } lead;
  auto loop = EventLoop::create();
  REQUIRE(loop);
  RankConnections connections(*loop, lead, std::move(*listen_on_free_port(true)),
                              Secrets{{"", secret}});
  std::atomic<bool> may_leave = false;
  std::thread rank([&] {
    const auto link = connect_rank(connections.port(), secret);
    while (!may_leave) ::poll(nullptr, 0, 5);
  });
  for (const auto until = Clock::now() + seconds(10);
       lead.admitted_count == 0 && Clock::now() < until;) {
    loop->run_once(milliseconds(5));
  }
  CHECK(lead.admitted_count == 1);
  auto now = Clock::now() + std::chrono::hours(1);  // the machine slept for an hour
  connections.tick(now);
  CHECK(lead.lost.empty());
  for (int second = 0; second < 27; ++second) connections.tick(now += seconds(1));
  CHECK(lead.lost.empty());
  for (int second = 0; second < 5; ++second) connections.tick(now += seconds(1));
  CHECK(lead.lost == std::vector<std::string>{"its agent has sent nothing for 30 s"});
  may_leave = true;
  rank.join();
}

TEST_CASE("the error for a lead that cannot be reached has lead's address and the reason") {
  REQUIRE(init_crypto());
  std::uint16_t port = 0;
  {
    const auto free_port = hold_free_port();
    port = free_port->port;
  }
  const auto rank = connect_rank(port, random_key(), "job", milliseconds(200));
  REQUIRE_FALSE(rank);
  CHECK(rank.error().message.find("127.0.0.1:" + std::to_string(port) + ": Connection refused") !=
        std::string::npos);
}

TEST_CASE("endpoints are IP literals with ports, and nothing else") {
  const auto endpoints = parse_endpoints("10.0.0.1:4000,[fd00::1]:65535");
  REQUIRE(endpoints);
  CHECK(*endpoints == std::vector<Endpoint>{{"10.0.0.1", 4000}, {"fd00::1", 65535}});
  CHECK((*endpoints)[1].text() == "[fd00::1]:65535");
  for (const auto* wrong :
       {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "node1:4000", "fd00::1:4000",
        "[10.0.0.1]:4000", "10.0.0.1:4000,", "10.0.0.1:4000 "}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_endpoints(wrong));
  }
}

TEST_CASE(
    "the kernel never chooses a held port as a free port, but a program can bind it by its "
    "number") {
  const auto held = hold_free_port();
  REQUIRE(held);
  for (int i = 0; i < 200; ++i) CHECK(listen_on_free_port(false)->port != held->port);
  const UniqueFd program(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  REQUIRE(::setsockopt(program.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(held->port),
                            .sin_addr = {htonl(INADDR_ANY)},
                            .sin_zero = {}};
  CHECK(::bind(program.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(::listen(program.get(), 1) == 0);
}

}  // namespace
}  // namespace dlrun::agent
