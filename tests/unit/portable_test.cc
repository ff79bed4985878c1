// Tests how the portable dlrun looks up accounts, downloads files and calls slurmrestd (decision
// 46). It starts the programs getent, id and curl, because a static program cannot load the
// libraries for these tasks.

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <tuple>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/unix_accounts.h"
#include "launcher/download/downloader.h"
#include "launcher/executors/curl_child.h"
#include "launcher/executors/http_client.h"
#include "tests/contains.h"
#include "tests/python_server.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A folder of scripts in place of real programs. It stands first in PATH while this object exists.
/// is_only: PATH has no other folder.
class FakePrograms {
 public:
  explicit FakePrograms(bool is_only = false) : before_(std::getenv("PATH")) {
    const std::string path = folder_.path().string() + (is_only ? "" : ":" + before_);
    ::setenv("PATH", path.c_str(), 1);
  }
  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;
  ~FakePrograms() { ::setenv("PATH", before_.c_str(), 1); }

  void add(const std::string& name, const std::string& script) const {
    REQUIRE(write_file_atomic(folder_ / name, "#!/bin/sh\n" + script, 0755).has_value());
  }

 private:
  TemporaryDirectory folder_;
  std::string before_;
};

// No file of accounts has these numbers. Each test of unix_account_of() has numbers of its own,
// because the process remembers the answers.
constexpr uid_t kOnlyInDirectoryService = 3'999'999'998, kKnownOnlyToIdCommand = 3'999'999'990,
                kWithCountedLookUps = 3'999'999'980;

/// A server with one file, and a folder into which it is downloaded.
struct DownloadScene {
  PythonServer server;
  TemporaryDirectory folder;
  const std::string text = "some bytes that a model is trained on\n";

  DownloadScene() { server.serve("f", text); }

  [[nodiscard]] Result<std::int64_t> fetch(const std::string& path,
                                           DownloadOptions options = {}) const {
    auto downloader = Downloader::in(folder.path(), std::move(options));
    REQUIRE(downloader.has_value());
    return downloader->fetch({server.url(path), sha256_of_text(text), "f", {}});
  }

  [[nodiscard]] std::string content() const {
    std::ifstream file(folder / "f", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

/// Waits at most ten seconds for the end of the process; returns true if it has ended. A zombie
/// counts as ended, because its parent may collect it late.
bool ends_in_time(pid_t pid) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const std::string file = "/proc/" + std::to_string(pid) + "/stat";
  while (std::chrono::steady_clock::now() < limit) {
    const auto stat = read_file(file, 4096);
    if (!stat || has(*stat, ") Z ")) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Returns the server's address for an HttpClient.
RestAddress address_of(const PythonServer& server) {
  std::string base = server.url("");
  base.pop_back();
  return {base, ""};
}

}  // namespace

TEST_CASE("portable: the account of root comes from /etc/passwd, without any program") {
  const FakePrograms none(true);
  const auto root = unix_account_of(0);
  REQUIRE(root.has_value());
  CHECK(root->name == "root");
  CHECK(root->group == 0);
  CHECK(unix_group_of(0)->name == "root");
}

TEST_CASE("portable: getent gives the account that only a directory service knows") {
  const FakePrograms programs;
  programs.add(
      "getent",
      "echo \"other:x:17:17::/:\"\n[ $1 = passwd ] && echo \"ann:x:$2:513:Ann:/home:/sh\"\n"
      "[ $1 = group ] && echo \"team:x:$2:ann,bob\"\nexit 0\n");
  const auto account = unix_account_of(kOnlyInDirectoryService);
  REQUIRE(account.has_value());
  CHECK(account->name == "ann");
  CHECK(account->group == 513);
  const auto group = unix_group_of(kOnlyInDirectoryService);
  REQUIRE(group.has_value());
  CHECK(group->name == "team");
  CHECK(group->members == std::vector<std::string>{"ann", "bob"});
}

TEST_CASE("portable: the program `id` gives a user's account if getent does not") {
  const FakePrograms programs(true);
  CHECK_FALSE(unix_account_of(kKnownOnlyToIdCommand).has_value());
  programs.add("getent", "echo \"wrong:x:12:12::/:\"\n");  // another user
  CHECK_FALSE(unix_account_of(kKnownOnlyToIdCommand + 1).has_value());
  programs.add("id", "[ $1 = -un ] && echo eve || echo 77\n");
  const auto account = unix_account_of(kKnownOnlyToIdCommand + 2);
  REQUIRE(account.has_value());
  CHECK(account->name == "eve");
  CHECK(account->group == 77);
  CHECK_FALSE(unix_group_of(kOnlyInDirectoryService).has_value());
}

TEST_CASE("portable: getent's answer about a group replaces that of /etc/group") {
  const FakePrograms programs(true);
  CHECK(unix_group_of(0)->name == "root");
  programs.add("getent", "echo \"root:x:$2:ann,bob\"\n");
  const auto replaced = unix_group_of(0);
  REQUIRE(replaced.has_value());
  CHECK(replaced->members == std::vector<std::string>{"ann", "bob"});
  programs.add("getent", "exit 2\n");  // no such group
  CHECK_FALSE(unix_group_of(0).has_value());
}

TEST_CASE("portable: the answers about a user are remembered, even if no program knows a name") {
  const TemporaryDirectory folder;
  const FakePrograms programs;
  const std::string log_call =
      "echo \"$0 $1\" | sed 's|.*/||' >>" + (folder / "calls").string() + "\n";
  programs.add("getent", log_call + "[ $2 = " + std::to_string(kWithCountedLookUps) +
                             " ] && echo a:x:$2:5::/:\n");
  programs.add("id", log_call + "exit 1\n");
  for (int i = 0; i < 3; ++i) {
    CHECK(unix_account_of(kWithCountedLookUps)->name == "a");
    CHECK_FALSE(unix_account_of(kWithCountedLookUps + 1).has_value());
  }
  CHECK(*read_file(folder / "calls", 4096) == "getent passwd\ngetent passwd\nid -un\n");
}

TEST_CASE("portable: a download arrives whole, and a lost connection is resumed") {
  const DownloadScene scene;
  const auto fetched = scene.fetch("f");
  REQUIRE_MESSAGE(fetched.has_value(), fetched.error().message);
  CHECK(*fetched == 38);
  CHECK(scene.content() == scene.text);
  fs::remove(scene.folder / "f");
  const auto resumed = scene.fetch("cut/f");
  REQUIRE_MESSAGE(resumed.has_value(), resumed.error().message);
  CHECK(scene.content() == scene.text);
  CHECK(scene.server.requests().back() == "/cut/f from 19");
}

TEST_CASE(
    "portable: a failed download leaves no file, and its error tells of the HTTP status or the "
    "redirection") {
  const DownloadScene scene;
  const auto missing = scene.fetch("nothing");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == Errc::kNotFound);
  CHECK(has(missing.error().message, "the server answers 404 (not found)"));
  const auto redirected = scene.fetch("to-file/f");
  REQUIRE_FALSE(redirected.has_value());
  CHECK(has(redirected.error().message, "dlrun does not follow it"));
  CHECK_FALSE(fs::exists(scene.folder / "f"));
}

TEST_CASE("portable: a download stops when on_progress returns false") {
  const DownloadScene scene;
  DownloadOptions options;
  options.on_progress = [](const DownloadProgress&) { return false; };
  const auto stopped = scene.fetch("stall/f", options);
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code == Errc::kInterrupted);
}

TEST_CASE(
    "portable: a download without the program curl fails, and the error says that curl is "
    "missing") {
  const DownloadScene scene;
  const FakePrograms none(true);
  const auto fetched = scene.fetch("f");
  REQUIRE_FALSE(fetched.has_value());
  CHECK(fetched.error().code == Errc::kNotFound);
  CHECK(
      has(fetched.error().message, "downloads go through the program curl, which is not in PATH"));
}

TEST_CASE("portable: a request's body of a megabyte arrives unchanged, and so does the response") {
  const PythonServer server;
  auto client = HttpClient::to(address_of(server));
  REQUIRE(client.has_value());
  HttpRequest request;
  request.method = "POST";
  request.path = "/job";
  request.headers = {"X-SLURM-USER-TOKEN: quoted \"and\" \\ back"};
  for (int i = 0; i < 100'000; ++i) request.body += "{\"line\":\n\t" + std::to_string(i) + "}\r\n";
  const auto response = client->send(request);
  REQUIRE_MESSAGE(response.has_value(), response.error().message);
  CHECK(response->status == 201);
  CHECK(response->body == request.body);
}

TEST_CASE(
    "portable: a server gets no request if the check of its connection fails, as for another "
    "user's server") {
  const PythonServer server;
  server.serve("f", "secret");
  int check_count = 0;
  auto client = HttpClient::to(address_of(server), [&](int socket) -> Result<> {
    ++check_count;
    struct stat info {};
    CHECK(::fstat(socket, &info) == 0);
    CHECK(S_ISSOCK(info.st_mode));
    return fail(Errc::kRefused, "somebody else listens there");
  });
  REQUIRE(client.has_value());
  HttpRequest request;
  request.path = "/f";
  const auto refused = client->send(request);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::kRefused);
  CHECK(refused.error().message == "somebody else listens there");
  CHECK(check_count == 1);
  CHECK(server.requests().empty());
}

TEST_CASE("portable: a response beyond the limit ends the request") {
  const PythonServer server;
  server.serve("f", std::string(300'000, 'y'));
  auto client = HttpClient::to(address_of(server));
  REQUIRE(client.has_value());
  HttpRequest request;
  request.path = "/f";
  request.max_response_bytes = 100'000;
  const auto response = client->send(request);
  REQUIRE_FALSE(response.has_value());
  CHECK(has(response.error().message, "dlrun has stopped reading"));
}

TEST_CASE("portable: no argument of curl shows the address or the token") {
  const TemporaryDirectory folder;
  const FakePrograms programs;
  programs.add("curl", "echo \"$@\" >" + (folder / "arguments").string() + "\ncat >" +
                           (folder / "settings").string() + "\nprintf '200 0 000'\n");
  auto client = HttpClient::to({"http://127.0.0.1:9", ""});
  REQUIRE(client.has_value());
  HttpRequest request;
  request.path = "/slurm";
  request.headers = {"X-SLURM-USER-TOKEN: s3cret"};
  CHECK(client->send(request)->status == 200);
  CHECK(*read_file(folder / "arguments", 4096) == "-q --config -\n");
  const auto settings = *read_file(folder / "settings", 4096);
  CHECK(has(settings, "header = \"X-SLURM-USER-TOKEN: s3cret\"\n"));
  CHECK(has(settings, "noproxy = \"*\"\n"));
  CHECK_FALSE(has(settings, "\nlocation\n"));  // a redirect would carry the token elsewhere
}

TEST_CASE("portable: the destructor of a CurlChild kills a curl that hangs") {
  const FakePrograms programs;
  programs.add("curl", "exec sleep 600\n");
  CurlChild child;
  REQUIRE(child.start("", ""));
  const auto end = child.read_to_end([](char*, std::size_t) { return true; }, [] { return false; });
  CHECK(end == CurlChild::Outcome::kStopped);
}  // the destructor returns, although the program would run for ten minutes

TEST_CASE(
    "portable: if SIGCHLD is ignored, the exit code of curl is unknown and does not count as 0") {
  const FakePrograms programs;
  programs.add("curl", "exit 7\n");
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  CurlChild child;
  const bool is_started = child.start("", "");
  const auto end = child.read_to_end([](char*, std::size_t) { return true; }, [] { return true; });
  const auto code = child.wait();
  ::signal(SIGCHLD, before);
  CHECK(is_started);
  CHECK(end == CurlChild::Outcome::kReadToEnd);
  CHECK_FALSE(code.has_value());
}

TEST_CASE("portable: curl has a process group of its own, so Ctrl-C reaches only dlrun") {
  const FakePrograms programs;
  programs.add("curl",
               "read -r pid name state parent group rest </proc/$$/stat\n"
               "echo \"$pid $group\"\n");
  CurlChild child;
  REQUIRE(child.start("", ""));
  const auto end = child.read_to_end([](char*, std::size_t) { return true; }, [] { return true; });
  CHECK(end == CurlChild::Outcome::kReadToEnd);
  CHECK(child.wait() == 0);
  const auto numbers = split(trim(child.output()), ' ');
  REQUIRE(numbers.size() == 2);
  CHECK(numbers[0] == numbers[1]);
  CHECK(parse_int(numbers[1]) != static_cast<std::int64_t>(::getpgrp()));
}

TEST_CASE("portable: the destructor of a CurlChild also ends the processes that curl has started") {
  const FakePrograms programs;
  programs.add("curl", "sleep 600 &\necho $!\nwait\n");
  pid_t sleep_pid = 0;
  {
    CurlChild child;
    REQUIRE(child.start("", ""));
    const auto end =
        child.read_to_end([](char*, std::size_t) { return true; },
                          [&] { return child.output().find('\n') == std::string::npos; });
    CHECK(end == CurlChild::Outcome::kStopped);
    sleep_pid = static_cast<pid_t>(parse_int(trim(child.output())).value_or(0));
  }
  REQUIRE(sleep_pid > 0);
  CHECK(ends_in_time(sleep_pid));
}

TEST_CASE("portable: curl ends at its next write after the process that started it was killed") {
  const TemporaryDirectory folder;
  const FakePrograms programs;
  programs.add("curl", "echo $$ >" + (folder / "pid").string() + "\nexec yes >/proc/self/fd/" +
                           std::to_string(kCurlResponseFd) + "\n");
  const pid_t starter = ::fork();
  REQUIRE(starter >= 0);
  if (starter == 0) {
    CurlChild child;
    if (child.start("", ""))
      std::ignore =
          child.read_to_end([](char*, std::size_t) { return false; }, [] { return true; });
    ::_exit(0);  // no destructor runs, as after SIGKILL
  }
  REQUIRE(::waitpid(starter, nullptr, 0) == starter);
  const auto pid = read_file(folder / "pid", 64);
  REQUIRE(pid.has_value());
  CHECK(ends_in_time(static_cast<pid_t>(parse_int(trim(*pid)).value_or(0))));
}

}  // namespace dlrun
