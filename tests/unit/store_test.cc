#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "runtime/bootstrap/agent_store.h"
#include "runtime/bootstrap/file_store.h"
#include "runtime/bootstrap/memory_store.h"
#include "tests/temporary_directory.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// An agent, simulated by a thread, and a store that is connected to it. The agent answers each
/// request with the result of `reply_to`. An empty result closes the connection, unless the request
/// is a progress report, which needs no reply.
class SimulatedAgent {
 public:
  using ReplyFunction = std::function<std::string(const nlohmann::json& request)>;

  explicit SimulatedAgent(ReplyFunction reply_to) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    agent_end_.reset(ends[1]);
    auto opened = AgentStore::open(UniqueFd(ends[0]));
    REQUIRE(opened);
    store = std::move(*opened);
    thread_ = std::thread([this, reply_to = std::move(reply_to)] { serve(reply_to); });
  }
  ~SimulatedAgent() { finish(); }
  SimulatedAgent(const SimulatedAgent&) = delete;
  SimulatedAgent& operator=(const SimulatedAgent&) = delete;

  /// Closes the store, and waits until the agent has read everything that the store sent.
  /// Afterwards `requests` holds these requests.
  void finish() {
    store.reset();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<AgentStore> store;
  std::vector<nlohmann::json> requests;

 private:
  void serve(const ReplyFunction& reply_to) {
    std::string buffer;
    char chunk[4096];
    while (true) {
      const ssize_t got = ::read(agent_end_.get(), chunk, sizeof chunk);
      if (got <= 0) return;
      buffer.append(chunk, static_cast<std::size_t>(got));
      for (auto end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
        requests.push_back(nlohmann::json::parse(buffer.substr(0, end)));
        buffer.erase(0, end + 1);
        const std::string reply = reply_to(requests.back());
        if (!reply.empty()) {
          (void)write_all(agent_end_.get(), reply);
        } else if (requests.back()["op"] != "progress") {
          agent_end_.reset();
          return;
        }
      }
    }
  }

  UniqueFd agent_end_;
  std::thread thread_;
};

const std::string kBytes("any\0bytes\n\xff \"'", 14);

void check_is_a_store(Store& store) {
  CHECK(store.put("key", kBytes));
  const auto value = store.get("key", milliseconds(0));
  REQUIRE(value);
  CHECK(*value == kBytes);

  CHECK(store.put("key", kBytes));
  const auto other = store.put("key", "other");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Errc::kRefused);
  CHECK(*store.get("key", milliseconds(0)) == kBytes);

  CHECK(store.put("a/../b c", ""));
  CHECK(*store.get("a/../b c", milliseconds(0)) == "");

  const auto before = steady_clock::now();
  const auto missing = store.get("missing", milliseconds(30));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Errc::kTimeout);
  CHECK(missing.error().message.find("missing") != std::string::npos);
  CHECK(steady_clock::now() - before >= milliseconds(30));

  CHECK(store.put("largest", std::string(kStoreValueLimitBytes, 'x')));
  CHECK(store.get("largest", milliseconds(0))->size() == kStoreValueLimitBytes);
  CHECK(store.put("larger", std::string(kStoreValueLimitBytes + 1, 'x')).error().code ==
        Errc::kInvalid);
  CHECK(store.report_progress(R"({"epoch":1})"));
}

/// Checks that a waiting get() returns when another rank puts the key. The order of the two
/// calls is random.
void check_put_wakes_get(Store& waiting_store, Store& putting_store) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = fmt::format("round-{}", round);
    std::thread putter([&] { CHECK(putting_store.put(key, key)); });
    const auto value = waiting_store.get(key, seconds(30));
    putter.join();
    REQUIRE(value);
    CHECK(*value == key);
  }
}

}  // namespace

TEST_CASE(
    "agent store: if the agent reads nothing, report_progress() times out and a later put() "
    "fails") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const UniqueFd agent_end(ends[1]);
  auto store = AgentStore::open(UniqueFd(ends[0]), milliseconds(100));
  REQUIRE(store);
  // The first reports fit into the buffers of the socket.
  const std::string object = R"({"note": ")" + std::string(1U << 16U, 'x') + "\"}";
  Result<> reported;
  for (int i = 0; i < 100 && reported; ++i) reported = (*store)->report_progress(object);
  REQUIRE_FALSE(reported);
  CHECK(reported.error().code == Errc::kTimeout);
  CHECK(reported.error().message == "store: the agent did not accept the request within 100 ms");
  CHECK((*store)->put("key", "value").error().code == Errc::kUnavailable);
}

TEST_CASE(
    "memory store: a key keeps its first value, bytes arrive unchanged, and get() of a missing key "
    "times out") {
  MemoryStore store;
  check_is_a_store(store);
  check_put_wakes_get(store, store);
}

TEST_CASE(
    "file store: a key keeps its first value, bytes arrive unchanged, and get() of a missing key "
    "times out") {
  const TemporaryDirectory folder;
  auto store = FileStore::open(folder.path() / "store");
  REQUIRE(store);
  check_is_a_store(**store);
  auto other = FileStore::open(folder.path() / "store");
  REQUIRE(other);
  check_put_wakes_get(**store, **other);
}

TEST_CASE(
    "file store: if ranks put different values of a key at the same time, one succeeds and the "
    "others get an error") {
  const TemporaryDirectory folder;
  for (int round = 0; round < 20; ++round) {
    std::vector<Result<>> results(4);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        auto store = FileStore::open(folder.path());
        results[rank] = (*store)->put(fmt::format("key-{}", round), fmt::format("{}", rank));
      });
    }
    for (std::thread& rank : ranks) rank.join();
    const auto value =
        (*FileStore::open(folder.path()))->get(fmt::format("key-{}", round), milliseconds(0));
    REQUIRE(value);
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      CHECK(results[rank].has_value() == (*value == fmt::format("{}", rank)));
  }
}

TEST_CASE(
    "file store: a relative folder is refused, because ranks may have different working "
    "directories") {
  const auto store = FileStore::open("relative");
  REQUIRE_FALSE(store);
  CHECK(store.error().message.find("not an absolute path") != std::string::npos);
}

TEST_CASE("agent store: requests and replies follow the protocol of ENVIRONMENT.md") {
  SimulatedAgent agent([](const nlohmann::json& request) -> std::string {
    if (request["op"] == "put") return "{\"ok\":true}\n";
    if (request["op"] == "get") return "{\"ok\":true,\"value\":\"61000aff\"}\n";
    return "";
  });
  CHECK(agent.store->put("k", kBytes));
  CHECK(agent.store->report_progress(R"({"epoch":3,"loss":0.5})"));
  const auto value = agent.store->get("k", milliseconds(1234));
  REQUIRE(value);
  CHECK(*value == std::string("a\0\n\xff", 4));
  agent.finish();
  REQUIRE(agent.requests.size() == 3);
  CHECK(agent.requests[0]["value"] == "616e790062797465730aff202227");
  CHECK(agent.requests[1] == nlohmann::json{{"op", "progress"}, {"epoch", 3}, {"loss", 0.5}});
  CHECK(agent.requests[2] == nlohmann::json{{"op", "get"}, {"key", "k"}, {"wait_ms", 1234}});
}

TEST_CASE("agent store: the errors for a refusal and a timeout quote the agent") {
  SimulatedAgent agent([](const nlohmann::json& request) -> std::string {
    return request["op"] == "put" ? "{\"ok\":false,\"error\":\"it holds another value\"}\n"
                                  : "{\"ok\":false,\"error\":\"no rank has put it in 5 ms\"}\n";
  });
  const auto put = agent.store->put("k", "v");
  REQUIRE_FALSE(put);
  CHECK(put.error().code == Errc::kRefused);
  CHECK(put.error().message == "store: put 'k': it holds another value");
  const auto got = agent.store->get("k", milliseconds(5));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == Errc::kTimeout);
  CHECK(got.error().message == "store: get 'k': no rank has put it in 5 ms");
}

TEST_CASE("agent store: the error of a refused request has the code that is in the reply") {
  for (const auto& [word, code] :
       {std::pair("timeout", Errc::kTimeout), std::pair("invalid", Errc::kInvalid),
        std::pair("refused", Errc::kRefused)}) {
    CAPTURE(word);
    SimulatedAgent agent([word = word](const nlohmann::json&) {
      return fmt::format("{{\"ok\":false,\"error\":\"why\",\"code\":\"{}\"}}\n", word);
    });
    const auto got = agent.store->get("k", milliseconds(5));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == code);
    CHECK(got.error().message == "store: get 'k': why");
    CHECK(agent.store->put("k", "v").error().code == code);
  }
}

TEST_CASE("agent store: a closed connection is an error, and causes neither a wait nor a SIGPIPE") {
  SimulatedAgent agent([](const nlohmann::json&) { return std::string(); });
  const auto got = agent.store->get("k", seconds(30));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == Errc::kUnavailable);
  CHECK(got.error().message.find("closed the connection") != std::string::npos);
  CHECK(agent.store->put("k", "v").error().code == Errc::kUnavailable);
  CHECK(agent.store->report_progress("{}").error().code == Errc::kUnavailable);
}

TEST_CASE("agent store: a malformed reply is an error") {
  for (const std::string reply :
       {"nonsense\n", "{}\n", "{\"ok\":1}\n", "{\"ok\":true,\"value\":\"6\"}\n",
        "{\"ok\":true,\"value\":\"zz\"}\n"}) {
    CAPTURE(reply);
    SimulatedAgent agent([&](const nlohmann::json&) { return reply; });
    const auto got = agent.store->get("k", milliseconds(5));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == Errc::kInternal);
  }
}

TEST_CASE(
    "open_store() accepts file:DIR, and refuses malformed texts, relative folders and non-socket "
    "descriptors") {
  for (const std::string where :
       {"", "fd", "fd:", "fd:-1", "fd:99999", "fd:x", "tcp://host", "file:relative"}) {
    CAPTURE(where);
    const auto store = open_store(where);
    REQUIRE_FALSE(store);
    CHECK(store.error().code == Errc::kInvalid);
  }
  CHECK(open_store("fd:x").error().message.find("expected fd:N with the number of a descriptor") !=
        std::string::npos);
  CHECK(open_store("fd:99999").error().message.find("no such descriptor is open") !=
        std::string::npos);
  CHECK(open_store("tcp://host").error().message.find("expected fd:N or file:DIR") !=
        std::string::npos);

  const TemporaryDirectory folder;
  CHECK(open_store("file:" + folder.path().string()));

  const int copy_of_stderr = ::dup(STDERR_FILENO);
  const auto not_a_socket = open_store(fmt::format("fd:{}", copy_of_stderr));
  REQUIRE_FALSE(not_a_socket);
  CHECK(not_a_socket.error().message.find("is not a stream socket") != std::string::npos);
}

}  // namespace dlrun
