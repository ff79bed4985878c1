// Tests notices to people: their texts, the messages to webhooks, and the queue of a run.

#include "common/notice.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/bounded_json.h"
#include "common/curl_process.h"
#include "common/files.h"
#include "common/notice_queue.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

Notice notice_of_failure() {
  Notice notice;
  notice.occasion = "failed";
  notice.run = "mnist-4711";
  notice.job = "4711";
  notice.cluster = "alpha";
  notice.time = "2026-11-21T12:30:00.123Z";
  notice.attempt = 1;
  notice.message = "rank 3 on n2 was killed by SIGKILL";
  notice.rank = 3;
  notice.node = "n2";
  notice.progress = "step 120 of 5000, loss 0.5";
  notice.last_words = {"CUDA error: out of memory"};
  return notice;
}

nlohmann::ordered_json body_for(std::string_view url, const Notice& notice = notice_of_failure()) {
  return parse_json(webhook_body(url, notice));
}

/// A run, and a folder of programs with a stand-in for curl. The stand-in adds its input to the
/// file `requests` and a line to the file `calls`, and prints the file `reply`: the body of a
/// reply, and then a line with the HTTP status (000: none) and the number of bytes that were sent.
struct QueueOfRun {
  TemporaryDirectory folder;
  fs::path run = folder / "run";
  NoticeQueue queue{run};
  Env env;

  QueueOfRun() {
    fs::create_directory(run);
    fs::create_directory(folder / "bin");
    write("bin/curl",
          "#!/bin/sh\n/bin/cat >>\"$FOLDER/requests\"\necho x >>\"$FOLDER/calls\"\n"
          "/bin/cat \"$FOLDER/reply\"\n");
    fs::permissions(folder / "bin/curl", fs::perms::owner_all);
    set_reply("ok\n200 10");
    env.set("PATH", (folder / "bin").string());
    env.set("FOLDER", folder.path().string());
  }
  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder / name) << text;
  }
  void set_reply(std::string_view text) { write("reply", text); }
  std::string read(const std::string& name) const {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t call_count() const { return count(read("calls"), "x"); }
  void put() {
    REQUIRE(queue.put(notice_of_failure(), {.webhook = "https://hooks.example.org/T0/secret"})
                .has_value());
  }
  SendReport send() {
    const auto always_start = [] { return true; };
    return queue.send(env, SendBy::kWebhooksAndCommands, always_start);
  }
};

mode_t permissions_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777U;
}

}  // namespace

TEST_CASE("a notice shows run, job, cause, rank, node, last words, progress and what to do next") {
  CHECK(notice_of_failure().subject() == "mnist-4711 failed");
  CHECK(notice_of_failure().text() ==
        "dlrun: run mnist-4711 failed (job 4711 on alpha)\n"
        "rank 3 on n2 was killed by SIGKILL\n"
        "Rank 3 on n2 printed last:\n"
        "  CUDA error: out of memory\n"
        "Progress: step 120 of 5000, loss 0.5\n"
        "More: dlrun status mnist-4711\n");
}

TEST_CASE("a notice names the component of the failed rank if the job has components") {
  CHECK_FALSE(notice_of_failure().to_json().contains("component"));
  auto notice = notice_of_failure();
  notice.component = "trainer";
  CHECK(has(notice.text(), "Rank 3 of component trainer on n2 printed last:\n"));
  CHECK(notice.to_json()["component"] == "trainer");
  CHECK(Notice::of_json(notice.to_json()).component == "trainer");
}

TEST_CASE("docs/stability.md lists the fields of a message to a webhook") {
  Notice full = notice_of_failure();
  full.component = "server";
  const auto page =
      read_file(std::filesystem::path(DLRUN_SOURCE_DIR) / "docs" / "stability.md", 1U << 20U);
  REQUIRE(page.has_value());
  const auto begin = page->find("- message: ", page->find("## Messages to a webhook"));
  REQUIRE(begin != std::string::npos);
  const std::string list = page->substr(begin, page->find("\n\n", begin) - begin);
  const auto fields = body_for("https://example.org/hook", full);
  for (const auto& [field, value] : fields.items())
    CHECK_MESSAGE(has(list, "`" + field + "`"), field);
  CHECK(static_cast<std::size_t>(std::count(list.begin(), list.end(), '`')) == 2 * fields.size());
}

TEST_CASE(
    "if a server's reply is too large, send_by_curl() returns the status and a problem, but no "
    "body") {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(server.get(), 1) == 0);
  REQUIRE(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  std::thread answering([&] {
    const UniqueFd client(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 4096> request{};
    static_cast<void>(::read(client.get(), request.data(), request.size()));
    constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n{}";
    static_cast<void>(::write(client.get(), kReply.data(), kReply.size()));
  });
  const std::string url = fmt::format("http://127.0.0.1:{}/", ntohs(address.sin_port));
  const auto reply = send_by_curl(Env::of_process(), {.url = url}, std::chrono::seconds(10));
  answering.join();
  REQUIRE(reply);
  CHECK(reply->status == 200);  // proves that a webhook has accepted the message
  CHECK(has(reply->problem, "the reply has more than"));
}

TEST_CASE("a notice can be read back from its JSON, and damaged JSON gives empty fields") {
  const auto again = Notice::of_json(notice_of_failure().to_json());
  CHECK(again.text() == notice_of_failure().text());
  CHECK(again.to_json() == notice_of_failure().to_json());
  for (const char* text : {"[]", "4", "{\"rank\":\"x\",\"last_words\":{\"a\":1},\"run\":[]}"}) {
    CAPTURE(text);
    const auto damaged = Notice::of_json(parse_json(text));
    CHECK(damaged.run.empty());
    CHECK_FALSE(damaged.rank);
    CHECK(damaged.last_words.empty());
  }
}

TEST_CASE(
    "control characters that a program printed are escaped in a notice, and long texts are cut") {
  auto notice = notice_of_failure();
  notice.last_words = {"\x1b[2J", std::string(1000, 'x')};
  notice.message = std::string(100'000, 'y');
  CHECK_FALSE(has(notice.text(), "\x1b"));
  CHECK(notice.text().size() < 2000);
}

TEST_CASE("each kind of webhook gets messages in the form that it accepts") {
  for (const char* url :
       {"https://hooks.slack.com/services/T0/B0/x", "https://chat.example.org/hooks/abc",
        "https://a.webhook.office.com/b", "https://discord.com/api/webhooks/1/x/slack"}) {
    CAPTURE(url);
    const auto body = body_for(url);
    CHECK(body.size() == 1);
    CHECK(has(body.value("text", ""), "run mnist-4711 failed"));
  }
  const auto discord = body_for("https://discord.com/api/webhooks/1/x");
  CHECK(has(discord.value("content", ""), "run mnist-4711 failed"));
  CHECK(discord["allowed_mentions"]["parse"].empty());
  const auto other = body_for("https://ntfy.example.org/runs");
  CHECK(other.value("event", "") == "failed");
  CHECK(other.value("rank", 0) == 3);
  CHECK(other.value("subject", "") == "mnist-4711 failed");
  CHECK(other["last_words"][0] == "CUDA error: out of memory");
  // A host whose name only begins with Slack's is not Slack.
  CHECK(body_for("https://hooks.slack.com.example.org/x").contains("event"));
}

TEST_CASE("the output of a program cannot mention people in a chat") {
  auto notice = notice_of_failure();
  notice.last_words = {"<!channel> & <@U1> ``` @all"};
  const auto slack = body_for("https://hooks.slack.com/x", notice).value("text", "");
  CHECK_FALSE(has(slack, "<!channel>"));
  CHECK(has(slack, "&lt;!channel&gt; &amp; &lt;@U1&gt;"));
  const auto mattermost = body_for("https://chat.example.org/hooks/x", notice).value("text", "");
  CHECK(count(mattermost, "```") == 2);  // the beginning and the end of the block of code
  CHECK(mattermost.ends_with("```"));
}

TEST_CASE("a placeholder inside a field of the notice is not replaced in a command") {
  auto notice = notice_of_failure();
  notice.run = "{job}";
  CHECK(notice_command({"mail", "-s", "{subject}!", "{event}", "{other}", "{"}, notice) ==
        std::vector<std::string>{"mail", "-s", "{job} failed!", "failed", "{other}", "{"});
}

TEST_CASE("an invalid or forbidden address is refused, and the reason does not quote it") {
  for (const char* url : {"https://hooks.slack.com/services/T/B/x", "http://127.0.0.1:8080/a?b=c"})
    CHECK(address_problem(url).empty());
  for (const char* url :
       {"", "ftp://h/secret", "file:///etc/secret", "hooks.slack.com/secret", "https:///secret",
        "https://:80/secret", "https://me:secret@h/", "https://h/secret \"x",
        "https://h/secret\n-o", "http://169.254.169.254/secret", "http://[fe80::1]/secret",
        "http://[FE80::1]/secret", "http://[::ffff:169.254.169.254]/secret",
        "http://Metadata.Google.internal/secret", "https://h/secret\xc3\xa4"}) {
    CAPTURE(url);
    const auto why = address_problem(url);
    CHECK_FALSE(why.empty());
    CHECK_FALSE(has(why, "secret"));
  }
  CHECK_FALSE(address_problem("https://h/" + std::string(3000, 'x')).empty());
}

TEST_CASE(
    "the reason why an address is refused names the characters that an address must not have") {
  for (const char* url : {"https://h/\"", "https://h/\\", "https://h/<", "https://h/>"}) {
    CAPTURE(url);
    CHECK(has(address_problem(url), R"(one of " \ < >)"));
  }
  CHECK(has(address_problem("https://h/\n"), "a control character"));
}

TEST_CASE("the settings of curl quote all that is sent, follow no redirect and allow only HTTP") {
  CurlRequest request{.url = "https://h/x"};
  request.body = "{\"a\":\"b\\\\c\"}\nurl = \"https://evil\"";
  request.headers = {"Authorization: Bearer x"};
  const auto text = curl_config(request, std::chrono::seconds(5));
  CHECK(has(text, "\nproto = \"=http,https\"\n"));
  CHECK(has(text, "\nmax-time = 5\n"));
  CHECK(has(text, "\nheader = \"Authorization: Bearer x\"\n"));
  CHECK(has(text, R"(data-raw = "{\"a\":\"b\\\\c\"}\nurl = \"https://evil\"")"));
  CHECK_FALSE(has(text, "location"));
  CHECK_FALSE(has(text, "\nurl = \"https://evil\""));
}

TEST_CASE_FIXTURE(QueueOfRun,
                  "only the owner can read a waiting notice, and sending the notice removes its "
                  "file and the file of the address") {
  put();
  CHECK(permissions_of(run / "notify") == 0700);
  for (const auto& entry : fs::directory_iterator(run / "notify"))
    CHECK(permissions_of(entry.path()) == 0600);
  CHECK(queue.has_waiting());
  REQUIRE(queue.list().size() == 1);
  CHECK(queue.list()[0].state == "waiting");
  const auto report = send();
  CHECK(report.sent == 1);
  CHECK(report.waiting == 0);
  CHECK(has(read("requests"), "https://hooks.example.org/T0/secret"));
  CHECK(has(read("requests"), "mnist-4711 failed"));
  CHECK(fs::is_empty(run / "notify"));
  CHECK(send().sent == 0);
  CHECK(call_count() == 1);
}

TEST_CASE_FIXTURE(QueueOfRun, "a notice that did not arrive waits, and is sent later") {
  put();
  for (const char* failing : {"\n000 0", "busy\n503 10", "slow down\n429 10"}) {
    CAPTURE(failing);
    set_reply(failing);
    const auto report = send();
    CHECK(report.sent == 0);
    CHECK(report.waiting == 1);
    CHECK_FALSE(report.problem.empty());
    CHECK_FALSE(has(report.problem, "secret"));
  }
  set_reply("ok\n204 10");
  CHECK(send().sent == 1);
}

TEST_CASE_FIXTURE(QueueOfRun,
                  "a notice's command runs in the folder in which the notice was queued") {
  write("tell", "#!/bin/sh\necho \"$1\" >told\n");
  fs::permissions(folder / "tell", fs::perms::owner_all);
  const fs::path here = fs::current_path();
  fs::current_path(folder.path());
  const auto queued = queue.put(notice_of_failure(), {"", {"./tell", "{event}"}});
  fs::current_path(here);
  REQUIRE(queued.has_value());
  CHECK(queue.send(env, SendBy::kWebhooksAndCommands, [] { return true; }).sent == 1);
  CHECK(read("told") == "failed\n");
}

TEST_CASE_FIXTURE(QueueOfRun, "without curl the notice waits, and the reason says so") {
  put();
  fs::remove(folder / "bin/curl");
  const auto report = send();
  CHECK(report.waiting == 1);
  CHECK(has(report.problem, "no curl"));
}

TEST_CASE_FIXTURE(QueueOfRun,
                  "a notice that may have arrived or was refused stays in the list, and is never "
                  "sent again") {
  put();
  set_reply("\n000 1234");
  CHECK(send().unconfirmed == 1);
  put();
  set_reply("moved\n307 10");
  auto report = send();
  CHECK(report.refused == 1);
  CHECK(has(report.problem, "redirect"));
  set_reply("ok\n200 10");
  CHECK(send().sent == 0);
  CHECK(call_count() == 2);
  REQUIRE(queue.list().size() == 2);
  CHECK(queue.list()[0].state == "unconfirmed");
  CHECK(queue.list()[1].state == "refused");
}

TEST_CASE_FIXTURE(QueueOfRun, "many senders at the same time send each notice once") {
  constexpr std::size_t kNoticeCount = 20, kSenderCount = 6;
  for (std::size_t i = 0; i < kNoticeCount; ++i) put();
  std::vector<std::thread> senders;
  std::vector<std::size_t> sent(kSenderCount);
  for (std::size_t i = 0; i < kSenderCount; ++i)
    senders.emplace_back([&, i] { sent[i] = send().sent; });
  for (auto& sender : senders) sender.join();
  std::size_t total_sent = 0;
  for (const std::size_t sent_by_one : sent) total_sent += sent_by_one;
  CHECK(total_sent == kNoticeCount);
  CHECK(call_count() == kNoticeCount);
}

TEST_CASE_FIXTURE(
    QueueOfRun, "send() keeps the file of the address while another sender has claimed a notice") {
  put();
  const auto queue_folder = run / "notify";
  for (const auto& entry : fs::directory_iterator(queue_folder)) {
    if (entry.path().extension() != ".webhook") continue;
    fs::rename(entry.path(), entry.path().string() + ".claimed");
    break;
  }
  CHECK(send().sent == 0);
  CHECK(fs::exists(queue_folder / "address"));
}

TEST_CASE_FIXTURE(
    QueueOfRun,
    "a sender keeps the file of the address if a notice was queued while it sent another one") {
  put();
  fs::remove(run / "notify" / "address");
  // put() writes the address again after send() has begun.
  CHECK(queue
            .send(env, SendBy::kWebhooks,
                  [this] {
                    put();
                    return true;
                  })
            .sent == 1);
  std::atomic<bool> is_done = false;
  std::thread sender([&] {
    while (!is_done) std::ignore = send();
  });
  constexpr int kNoticeCount = 30;
  for (int i = 0; i < kNoticeCount; ++i) put();
  is_done = true;
  sender.join();
  CHECK(send().waiting == 0);
  CHECK(call_count() == kNoticeCount + 2);
}

TEST_CASE_FIXTURE(QueueOfRun, "a queue refuses more notices than its limit") {
  for (std::size_t i = 0; i < NoticeQueue::kMostWaiting; ++i) put();
  const auto full = queue.put(notice_of_failure(), {.webhook = "https://h/x"});
  REQUIRE_FALSE(full.has_value());
  CHECK(full.error().code == Errc::kRefused);
}

TEST_CASE_FIXTURE(
    QueueOfRun,
    "a queue folder on which others have a permission, or that is a link, is neither read nor "
    "written") {
  put();
  fs::permissions(run / "notify", fs::perms::owner_all | fs::perms::others_read);
  CHECK_FALSE(queue.has_waiting());
  CHECK(send().sent == 0);
  CHECK_FALSE(queue.put(notice_of_failure(), {.webhook = "https://h/x"}).has_value());
  fs::permissions(run / "notify", fs::perms::owner_all);
  fs::rename(run / "notify", folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", run / "notify");
  CHECK_FALSE(queue.has_waiting());
  CHECK(send().sent == 0);
  CHECK(call_count() == 0);
}

TEST_CASE_FIXTURE(QueueOfRun, "a damaged notice is refused and sends nothing") {
  put();
  for (const auto& entry : fs::directory_iterator(run / "notify")) {
    if (entry.path().extension() == ".webhook") std::ofstream(entry.path()) << "{";
  }
  CHECK(send().refused == 1);
  CHECK(call_count() == 0);
}

TEST_CASE_FIXTURE(
    QueueOfRun,
    "notify.command gets the text on its standard input, and is tried again if it fails") {
  write("bin/tell",
        "#!/bin/sh\necho \"$@\" >>\"$FOLDER/told\"\n/bin/cat >>\"$FOLDER/told\"\n"
        "exit $(/bin/cat \"$FOLDER/exit_code\")\n");
  fs::permissions(folder / "bin/tell", fs::perms::owner_all);
  write("exit_code", "1");
  REQUIRE(queue.put(notice_of_failure(), {.command = {"tell", "{subject}"}}).has_value());
  const auto failed = send();
  CHECK(failed.waiting == 1);
  CHECK(has(failed.problem, "tell ended with code 1"));
  write("exit_code", "0");
  // A sender that only sends to webhooks runs no command.
  CHECK_FALSE(queue.has_waiting(SendBy::kWebhooks));
  CHECK(queue.send(env, SendBy::kWebhooks, [] { return true; }).sent == 0);
  CHECK(send().sent == 1);
  CHECK(has(read("told"), "mnist-4711 failed\ndlrun: run mnist-4711 failed"));
  CHECK_FALSE(queue.has_waiting());
}

TEST_CASE_FIXTURE(QueueOfRun, "a notice that waited for more than three days is not sent") {
  put();
  for (const auto& entry : fs::directory_iterator(run / "notify")) {
    if (entry.path().extension() == ".webhook")
      fs::rename(entry.path(), run / "notify/1000000000000-00000000.webhook");
  }
  CHECK(send().refused == 1);
  CHECK(call_count() == 0);
}

}  // namespace dlrun
