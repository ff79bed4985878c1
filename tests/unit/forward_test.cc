// Tests `dlrun forward` and `dlrun ssh-config` on the user's machine: ports, sockets, the processes
// that they start, and the files for ssh.

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "common/env.h"
#include "common/files.h"
#include "launcher/forward/forwarded_port.h"
#include "launcher/forward/forwarding.h"
#include "launcher/forward/local_listener.h"
#include "launcher/forward/piped_process.h"
#include "launcher/forward/ssh_config.h"
#include "launcher/forward/ssh_keys.h"
#include "tests/temporary_directory.h"

namespace fs = std::filesystem;

namespace dlrun {
namespace {

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

TEST_CASE("a forwarded port is PORT or PORT:LOCAL, and other texts are refused as wrong usage") {
  CHECK(parse_forwarded_port("8888")->node_port == 8888);
  CHECK_FALSE(parse_forwarded_port("8888")->local_port);
  CHECK(parse_forwarded_port("8888:9000")->local_port == 9000);
  CHECK(parse_forwarded_port("65535:0")->local_port == 0);
  for (const char* wrong : {"", ":", "0", "65536", "-1", "+80", "80:", ":80", "80:x", "80:65536",
                            "80:-1", "a:80", "80:80:80", "8888 ", "0x50"}) {
    CAPTURE(wrong);
    const auto port = parse_forwarded_port(wrong);
    REQUIRE_FALSE(port);
    CHECK(port.error().code == Errc::kUsage);
  }
}

TEST_CASE("a port that is given twice is refused") {
  CHECK(parse_forwarded_ports({"8888", "9999"})->size() == 2);
  CHECK(parse_forwarded_ports({"8888", "8888:0"}));
  const auto twice = parse_forwarded_ports({"8888", "9999", "8888"});
  REQUIRE_FALSE(twice);
  CHECK(twice.error().code == Errc::kUsage);
  CHECK(twice.error().message == "port 8888 is given twice");
}

TEST_CASE(
    "over ssh a port gets a unix socket, and a port with LOCAL gets a TCP port and a warning, or "
    "an error") {
  const TemporaryDirectory folder;
  Env env;
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  const std::vector<ForwardedPort> ports{{8888, std::nullopt}, {9999, 0}};
  const auto without_ssh = listen_for(env, {ports[0]}, false, warn);
  REQUIRE(without_ssh);
  CHECK(without_ssh->all.front().path.empty());
  CHECK_FALSE(without_ssh->folder);
  CHECK(warnings.empty());
  env.set("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22");
  const auto over_ssh = listen_for(env, ports, false, warn);
  REQUIRE(over_ssh);
  CHECK_FALSE(over_ssh->all[0].path.empty());
  CHECK(over_ssh->all[1].path.empty());
  CHECK(warnings.size() == 1);
  const auto refused = listen_for(env, ports, true, warn);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::kUsage);
}

TEST_CASE("a local port that is in use is refused, and the error suggests a free one") {
  const auto first = listen_on_loopback({8888, 0});
  REQUIRE(first);
  CHECK(first->local_port > 0);
  CHECK(first->node_port == 8888);
  const auto second = listen_on_loopback({8888, first->local_port});
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Errc::kUsage);
  const std::string& message = second.error().message;
  const auto advice_start = message.rfind("give 8888:");
  REQUIRE(advice_start != std::string::npos);
  const auto advice = parse_forwarded_port(std::string_view(message).substr(advice_start + 5));
  REQUIRE(advice);
  CHECK(listen_on_loopback(*advice));
}

TEST_CASE("unix sockets are in a folder that only the user can enter, and are removed with it") {
  TemporaryDirectory parent;
  Env env;
  env.set("XDG_RUNTIME_DIR", parent.path().string());
  fs::path path;
  {
    const auto folder = SocketFolder::make(env);
    REQUIRE(folder);
    path = folder->path();
    CHECK(path.parent_path() == parent.path());
    CHECK(mode_of(path) == 0700);
    const auto listener = listen_in(*folder, 6006);
    REQUIRE(listener);
    CHECK(listener->path == path / "6006");
    CHECK(fs::is_socket(listener->path));
  }
  CHECK_FALSE(fs::exists(path));
  env.set("XDG_RUNTIME_DIR", "/no/such/place");
  env.set("TMPDIR", parent.path().string());
  CHECK(SocketFolder::make(env)->path().parent_path() == parent.path());
  env.set("TMPDIR", "/" + std::string(200, 'x'));  // too long for the path of a socket
  CHECK(SocketFolder::make(env)->path().parent_path() == "/tmp");
}

TEST_CASE("PipedProcess::end() closes the child's input, and a child that continues gets SIGTERM") {
  std::string messages;
  auto reader = PipedProcess::start({"sh", "-c", "cat; echo over >&2; exit 3"}, Env::of_process(),
                                    Streams::kPiped);
  REQUIRE(reader);
  CHECK(reader->end(false, messages) == 3);
  CHECK(messages == "over\n");
  auto sleeper = PipedProcess::start({"sleep", "1000"}, Env::of_process(), Streams::kPiped);
  REQUIRE(sleeper);
  CHECK(sleeper->end(true, messages) == 128 + SIGTERM);
  CHECK_FALSE(PipedProcess::start({"no-such-program"}, Env::of_process(), Streams::kPiped));
}

TEST_CASE(
    "a command with this process's input and output is waited for, and its messages are passed "
    "on") {
  std::vector<std::string> lines;
  const auto end = run_with_inherited_input_and_output(
      {"sh", "-c", "echo one >&2; echo two >&2; exit 4"}, Env::of_process(),
      [&lines](std::string_view line) { lines.emplace_back(line); });
  REQUIRE(end);
  CHECK(end->exit_code == 4);
  CHECK(end->signal == 0);
  CHECK(end->messages == "one\ntwo\n");
  CHECK(lines == std::vector<std::string>{"one", "two"});
}

class RecordingEvents final : public ForwardEvents {
 public:
  void on_ready() override { is_ready = true; }
  void on_slurm_message(std::string_view line) override { lines.emplace_back(line); }
  void on_waiting(std::uint16_t) override {}
  void on_answered(std::uint16_t) override {}
  void on_shortage(int) override {}
  void on_given_up(std::uint16_t, std::string_view) override {}
  bool is_ready = false;
  std::vector<std::string> lines;
};

TEST_CASE(
    "a relay that does not start is reported with its messages, and a program that is no relay is "
    "refused") {
  RecordingEvents events;
  const auto env = Env::of_process();
  const auto failed =
      forward_ports({"sh", "-c", "echo 'srun: error: no' >&2; exit 1"}, env, {}, events);
  REQUIRE(failed);
  CHECK_FALSE(failed->was_ready);
  CHECK(failed->exit_code == 1);
  CHECK(failed->messages == "srun: error: no\n");
  CHECK_FALSE(forward_ports({"sh", "-c", "yes"}, env, {}, events));
  CHECK_FALSE(events.is_ready);
  CHECK_FALSE(forward_ports({"no-such-program"}, env, {}, events));
}

TEST_CASE(
    "the forwarding ends if the relay no longer reads, and restores SIGPIPE's handler and the "
    "signal mask") {
  struct sigaction before {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &before) == 0);
  RecordingEvents events;
  const auto end =
      forward_ports({"sh", "-c", "exec <&-; printf '\\0dlrun relay 1\\n'; exec sleep 1"},
                    Env::of_process(), {}, events);
  REQUIRE(end);
  CHECK(end->was_ready);
  CHECK(events.is_ready);
  CHECK(end->signal == 0);
  CHECK(end->exit_code == 0);
  struct sigaction after {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &after) == 0);
  const bool is_unchanged = after.sa_handler == before.sa_handler;
  CHECK(is_unchanged);
  sigset_t blocked;
  REQUIRE(::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP})
    CHECK(sigismember(&blocked, signal) == 0);
}

/// Leaves this process without a free descriptor from on_ready() to on_shortage().
class NoFreeDescriptors final : public ForwardEvents {
 public:
  void on_ready() override {
    const UniqueFd lowest(::dup(0));
    REQUIRE(lowest.is_open());
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{static_cast<rlim_t>(lowest.get()), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  void on_slurm_message(std::string_view) override {}
  void on_waiting(std::uint16_t) override {}
  void on_answered(std::uint16_t) override {}
  void on_given_up(std::uint16_t, std::string_view) override {}
  void on_shortage(int error) override {
    CHECK(error == EMFILE);
    ++shortage_count;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before_) == 0);
  }
  int shortage_count = 0;

 private:
  rlimit before_{};
};

TEST_CASE(
    "without free descriptors a forwarding reports the shortage once, and accepts the client "
    "later") {
  TemporaryDirectory parent;
  Env env;
  env.set("XDG_RUNTIME_DIR", parent.path().string());
  const auto folder = SocketFolder::make(env);
  REQUIRE(folder);
  std::vector<LocalListener> listeners;
  listeners.push_back(listen_in(*folder, 6006).value());
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  listeners[0].path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0);
  NoFreeDescriptors events;
  // The simulated relay ends when dlrun has asked it to open a connection (8 bytes and the port).
  const auto end = forward_ports({"bash", "-c",
                                  "printf '\\0dlrun relay 1\\n'; while read -rN1 -d '' kind; do "
                                  "[[ $kind == $'\\1' ]] && exit 0; done; exit 1"},
                                 Env::of_process(), listeners, events);
  REQUIRE(end);
  CHECK(end->exit_code == 0);
  CHECK(events.shortage_count == 1);
}

TEST_CASE("a host's name for ssh has no character that ssh treats specially") {
  CHECK(ssh_host_name("mnist-4711", "") == "dlrun-mnist-4711");
  CHECK(ssh_host_name("sweep-1a/3", "n2") == "dlrun-sweep-1a-3-n2");
  CHECK(ssh_host_name("a*? !b\n", "") == "dlrun-a----b-");
}

TEST_CASE(
    "the block of ssh's configuration has the keys, the host and the command, with '%' doubled") {
  const SshHost host{"dlrun-a-n2", "dlrun-a", "n2", "me", {"/opt/dl run/dlrun", "x%h"}};
  const auto text = ssh_config_text(host, SshKeys{"/runs/my runs/50%/ssh"});
  REQUIRE(text);
  CHECK(*text ==
        "Host dlrun-a-n2\n"
        "  HostName n2\n"
        "  HostKeyAlias dlrun-a\n"
        "  User me\n"
        "  IdentityFile \"/runs/my runs/50%%/ssh/user_key\"\n"
        "  IdentitiesOnly yes\n"
        "  UserKnownHostsFile \"/runs/my runs/50%%/ssh/known_hosts\"\n"
        "  StrictHostKeyChecking yes\n"
        "  ProxyCommand '/opt/dl run/dlrun' x%%h\n");
}

TEST_CASE("a path that ssh's configuration cannot express is refused") {
  const SshHost host{"dlrun-a", "dlrun-a", "n2", "me", {"dlrun"}};
  for (const char* folder : {"/a\"b", "/a\nHost *", "/a/${HOME}", "/a\\b"}) {
    CAPTURE(folder);
    const auto text = ssh_config_text(host, SshKeys{folder});
    REQUIRE_FALSE(text);
    CHECK(text.error().code == Errc::kInvalid);
  }
  SshHost with_newline = host;
  with_newline.proxy = {"dlrun", "a\nHost *"};
  CHECK_FALSE(ssh_config_text(with_newline, SshKeys{"/a"}));
}

TEST_CASE(
    "a run's ssh keys are made once and private, and a key folder that others can write is "
    "refused") {
  TemporaryDirectory run;
  const auto env = Env::of_process();
  const auto made = ensure_ssh_keys(env, run.path(), "dlrun-a");
  REQUIRE(made);
  CHECK(mode_of(made->folder) == 0700);
  CHECK(mode_of(made->user_key()) == 0600);
  CHECK(mode_of(made->folder / "host_key") == 0600);
  const auto hosts = read_file(made->known_hosts(), 4096);
  REQUIRE(hosts);
  CHECK(hosts->starts_with("dlrun-a ssh-ed25519 "));
  const auto key = read_file(made->user_key(), 4096);
  REQUIRE(key);
  CHECK(ensure_ssh_keys(env, run.path(), "dlrun-a"));
  CHECK(read_file(made->user_key(), 4096).value() == *key);
  CHECK(std::distance(fs::directory_iterator(run.path()), fs::directory_iterator()) == 1);
  fs::permissions(made->folder, fs::perms::others_write, fs::perm_options::add);
  CHECK_FALSE(ensure_ssh_keys(env, run.path(), "dlrun-a"));
}

TEST_CASE("without ssh-keygen the message names the package that provides it") {
  TemporaryDirectory run;
  Env env;
  env.set("PATH", run.path().string());
  const auto made = ensure_ssh_keys(env, run.path(), "dlrun-a");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == Errc::kNotFound);
  CHECK(made.error().message.find("openssh-client") != std::string::npos);
  CHECK(fs::is_empty(run.path()));
}

}  // namespace
}  // namespace dlrun
