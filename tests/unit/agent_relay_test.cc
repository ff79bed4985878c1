#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
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

TEST_CASE("a port that nothing listens on is waited for, and given up after a minute") {
  const auto held = hold_free_port();  // bound, so that nobody else can listen on it
  REQUIRE(held);
  const auto start = RelayDialer::Clock::now();
  RelayDialer dialer(held->port, kLoopback, start);
  CHECK(dialer.try_now(start) == State::kWaiting);
  CHECK(dialer.fd() < 0);
  CHECK(dialer.next_try() == start + RelayDialer::kPause);
  CHECK(dialer.try_now(start + RelayDialer::kPause) == State::kWaiting);
  CHECK(dialer.try_now(start + RelayDialer::kLimit) == State::kGivenUp);
}

TEST_CASE("a program that begins to listen is found at the next try") {
  auto held = hold_free_port();
  REQUIRE(held);
  const auto start = RelayDialer::Clock::now();
  RelayDialer dialer(held->port, kLoopback, start);
  CHECK(dialer.try_now(start) == State::kWaiting);
  REQUIRE(::listen(held->socket.get(), 1) == 0);
  CHECK(dialer.try_now(start + RelayDialer::kPause / 2) == State::kWaiting);  // too early
  CHECK(dialer.try_now(start + RelayDialer::kPause) == State::kConnected);
  CHECK(dialer.take().is_open());
}

TEST_CASE("a program that listens on IPv6 alone is found, too") {
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
  CHECK(dialer.try_now(now) == State::kConnected);
}

TEST_CASE("relay and sshd of the agent's command line") {
  CHECK(std::holds_alternative<RelayOptions>(parse_arguments({"relay"}).value()));
  CHECK_FALSE(parse_arguments({"relay", "8888"}));
  const auto sshd = parse_arguments({"sshd", "--folder", "/runs/a/ssh"});
  REQUIRE(sshd);
  CHECK(std::get<SshdOptions>(*sshd).folder == "/runs/a/ssh");
  CHECK(std::get<SshdOptions>(parse_arguments({"sshd", "--check"}).value()).only_checks);
  using Words = std::vector<std::string>;
  for (const Words& wrong : {Words{"sshd"}, Words{"sshd", "--folder"},
                             Words{"sshd", "--folder", "ssh"}, Words{"sshd", "--port", "22"}})
    CHECK_FALSE(parse_arguments(wrong));
}

bool has(const SshdConfig& config, std::string_view text) {
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
  CHECK(has(config, "HostKey \"/runs/50%%/ssh/host_key\"\n"));
  CHECK(has(config, "AuthorizedKeysFile \"/runs/50%%/ssh/user_key.pub\" .ssh/authorized_keys\n"));
  CHECK(has(config, "\nSetEnv \"GREETING=it's \\\"here\\\" \\\\ # $HOME\""));
  CHECK(has(config, " \"PATH=/opt/cuda bin:/usr/bin\" \"SLURM_JOB_ID=42\"\n"));
  for (const char* word : {"/home/me", "SSH_AUTH_SOCK", "BASH_FUNC", "/etc/shadow"})
    CHECK_FALSE(has(config, word));
  CHECK(config.left_out == std::vector<std::string>{"LINES_OF_TEXT"});
  const auto plain = sshd_config("/runs/50%/ssh", env, true);
  CHECK_FALSE(has(plain, "GREETING"));
  CHECK(has(plain, "SLURM_JOB_ID"));
  CHECK(plain.left_out.size() == 2);
}

}  // namespace
}  // namespace dlrun::agent
