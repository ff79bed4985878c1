// Tests the parts of `dlrun forward` and `dlrun ssh-config` that run on a node of the job: the
// dialer, which connects to a port of the node for the relay, and the configuration of sshd.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/address.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/relay_dialer.h"
#include "runtime/agent/sshd_config.h"

namespace dlrun::agent {
namespace {

using State = RelayDialer::State;

const std::vector<std::string> kLoopback{"127.0.0.1", "::1"};

/// Calls advance() until the kernel has answered the connection attempts. Returns the state then.
State answered_state(RelayDialer& dialer, RelayDialer::Clock::time_point now) {
  State state = dialer.advance(now);
  while (state == State::kConnecting) {
    constexpr int kLimitMs = 10'000;
    pollfd waits{dialer.fd(), POLLOUT, 0};
    REQUIRE(::poll(&waits, 1, kLimitMs) == 1);
    state = dialer.advance(now);
  }
  return state;
}

TEST_CASE("if nothing listens on a port, a dialer tries again, and gives up after a minute") {
  const auto held = hold_free_port();  // bound, so that the kernel gives the port to nobody else
  REQUIRE(held);
  const auto start = RelayDialer::Clock::now();
  RelayDialer dialer(held->port, kLoopback, start);
  CHECK(answered_state(dialer, start) == State::kWaiting);
  CHECK(dialer.fd() < 0);
  CHECK(dialer.next_deadline() == start + RelayDialer::kPause);
  CHECK(answered_state(dialer, start + RelayDialer::kPause) == State::kWaiting);
  CHECK(answered_state(dialer, start + RelayDialer::kLimit) == State::kGivenUp);
}

TEST_CASE("a dialer connects at its next try to a program that has begun to listen") {
  auto held = hold_free_port();
  REQUIRE(held);
  const auto start = RelayDialer::Clock::now();
  RelayDialer dialer(held->port, kLoopback, start);
  CHECK(answered_state(dialer, start) == State::kWaiting);
  REQUIRE(::listen(held->socket.get(), 1) == 0);
  CHECK(answered_state(dialer, start + RelayDialer::kPause / 2) == State::kWaiting);  // too early
  CHECK(answered_state(dialer, start + RelayDialer::kPause) == State::kConnected);
  CHECK(dialer.take().is_open());
}

TEST_CASE("a dialer finds a program that listens only on IPv6") {
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  socklen_t length = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (!socket.is_open() || ::bind(socket.get(), raw, length) != 0) return;  // no IPv6 here
  REQUIRE(::getsockname(socket.get(), raw, &length) == 0);
  REQUIRE(::listen(socket.get(), 1) == 0);
  const auto now = RelayDialer::Clock::now();
  RelayDialer dialer(ntohs(address.sin6_port), kLoopback, now);
  CHECK(answered_state(dialer, now) == State::kConnected);
}

TEST_CASE(
    "a dialer connects only to programs of its own user and of root, unless it accepts any user or "
    "the owner is unknown") {
  auto held = hold_free_port();
  REQUIRE(held);
  REQUIRE(::listen(held->socket.get(), 8) == 0);
  const auto now = RelayDialer::Clock::now();
  const auto owned_by_stranger = [](int) { return std::optional<uid_t>(::geteuid() + 1); };
  RelayDialer strict(held->port, {"127.0.0.1"}, now, owned_by_stranger);
  CHECK(answered_state(strict, now) == State::kForeign);
  CHECK(strict.other_user() == ::geteuid() + 1);
  CHECK(strict.fd() < 0);
  RelayDialer any(held->port, {"127.0.0.1"}, now, nullptr);
  CHECK(answered_state(any, now) == State::kConnected);
  const auto owned_by_root = [](int) { return std::optional<uid_t>(0); };
  RelayDialer root(held->port, {"127.0.0.1"}, now, owned_by_root);
  CHECK(answered_state(root, now) == State::kConnected);
  const auto unknown_owner = [](int) { return std::optional<uid_t>(); };
  RelayDialer unknown(held->port, {"127.0.0.1"}, now, unknown_owner);
  CHECK(answered_state(unknown, now) == State::kConnected);
}

TEST_CASE("the agent's command line accepts relay and sshd only with their own options") {
  CHECK(std::holds_alternative<RelayOptions>(parse_arguments({"relay"}).value()));
  CHECK_FALSE(parse_arguments({"relay", "8888"}));
  CHECK(std::get<RelayOptions>(parse_arguments({"relay", "--any-user"}).value())
            .connects_to_any_user);
  const auto sshd = parse_arguments({"sshd", "--folder", "/runs/a/ssh"});
  REQUIRE(sshd);
  CHECK(std::get<SshdOptions>(*sshd).folder == "/runs/a/ssh");
  CHECK(std::get<SshdOptions>(parse_arguments({"sshd", "--check"}).value()).only_finds_sshd);
  using Arguments = std::vector<std::string>;
  for (const Arguments& wrong :
       {Arguments{"sshd"}, Arguments{"sshd", "--folder"}, Arguments{"sshd", "--folder", "ssh"},
        Arguments{"sshd", "--port", "22"}})
    CHECK_FALSE(parse_arguments(wrong));
}

bool has_text(const SshdConfig& config, std::string_view text) {
  return config.text.find(text) != std::string::npos;
}

TEST_CASE("sshd's configuration has the job's variables in one line, each as one word") {
  Env env;
  env.set("GREETING", "it's \"here\" \\ # $HOME");
  env.set("PATH", "/opt/cuda bin:/usr/bin");
  env.set("SLURM_JOB_ID", "42");
  env.set("HOME", "/home/me");
  env.set("SSH_AUTH_SOCK", "/tmp/agent");
  env.set("BASH_FUNC_module%%", "() { :; }");
  env.set("LINES_OF_TEXT", "a\nHostKey /etc/shadow");
  const auto config = sshd_config("/runs/50%/ssh", env, false);
  CHECK(has_text(config, "HostKey \"/runs/50%%/ssh/host_key\"\n"));
  CHECK(has_text(config,
                 "AuthorizedKeysFile \"/runs/50%%/ssh/user_key.pub\" .ssh/authorized_keys\n"));
  CHECK(has_text(config, "\nSetEnv \"GREETING=it's \\\"here\\\" \\\\ # $HOME\""));
  CHECK(has_text(config, " \"PATH=/opt/cuda bin:/usr/bin\" \"SLURM_JOB_ID=42\"\n"));
  for (const char* word : {"/home/me", "SSH_AUTH_SOCK", "BASH_FUNC", "/etc/shadow"})
    CHECK_FALSE(has_text(config, word));
  CHECK(config.left_out == std::vector<std::string>{"LINES_OF_TEXT"});
  const auto for_old_sshd = sshd_config("/runs/50%/ssh", env, true);
  CHECK_FALSE(has_text(for_old_sshd, "GREETING"));
  CHECK(has_text(for_old_sshd, "SLURM_JOB_ID"));
  CHECK(for_old_sshd.left_out.size() == 2);
}

}  // namespace
}  // namespace dlrun::agent
