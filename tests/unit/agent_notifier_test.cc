// Tests which events lead turns into notices (notify), and what its notifier sends to the helper.

#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "common/bounded_json.h"
#include "common/text.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/notifier.h"
#include "runtime/agent/send_helper.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

NoticeMaker notice_maker(std::vector<std::string> occasions) {
  return {std::move(occasions), JobIdentity{.cluster = "alpha", .job = "7", .token = ""},
          "mnist-7"};
}

events::RankFailed crashed_rank() {
  return {.rank = 3, .host = "n2", .code = 1, .signal = "SIGSEGV"};
}

}  // namespace

TEST_CASE(
    "the notice of a failed run has the first failed rank, its node and the progress of the run") {
  auto notices = notice_maker({"failed", "completed"});
  CHECK_FALSE(notices.on_event(events::Started{.ranks = 4}, 0));
  CHECK_FALSE(notices.on_event(events::Joined{.ranks = 4, .hosts = "n[1-2]"}, 0));
  CHECK_FALSE(notices.on_event(events::Progress{.step = 120, .steps = 5000, .loss = 0.5}, 0));
  CHECK_FALSE(notices.on_event(crashed_rank(), 0));
  CHECK_FALSE(notices.on_event(events::RankFailed{.rank = 1, .host = "n1"}, 0));
  CHECK_FALSE(notices.on_event(events::AttemptEnd{.code = 1, .reason = EndReason::kRankFailed}, 0));
  const auto notice =
      notices.on_event(events::Ended{.state = EndState::kFailed, .code = 1, .message = "why"}, 0);
  REQUIRE(notice);
  CHECK(notice->occasion == "failed");
  CHECK(notice->run == "mnist-7");
  CHECK(notice->job == "7");
  CHECK(notice->message == "why");
  CHECK(notice->rank == 3);
  CHECK(notice->node == "n2");
  CHECK(notice->progress == "step 120 of 5000, loss 0.5");
}

TEST_CASE("only the occasions that notify.on lists become notices") {
  const RunEvent completed = events::Ended{.state = EndState::kCompleted};
  const RunEvent cancelled = events::Ended{.state = EndState::kCancelled};
  const RunEvent timeout = events::Ended{.state = EndState::kTimeout};
  CHECK_FALSE(notice_maker({"failed"}).on_event(completed, 0));
  CHECK_FALSE(notice_maker({"failed", "completed"}).on_event(cancelled, 0));
  CHECK(notice_maker({"cancelled"}).on_event(cancelled, 0)->occasion == "cancelled");
  CHECK(notice_maker({"failed"}).on_event(timeout, 0)->occasion == "failed");
  CHECK(notice_maker({"completed"}).on_event(completed, 0)->occasion == "completed");
}

TEST_CASE(
    "notices of a job with components have the start and progress of its first main component, and "
    "the failed rank") {
  NoticeMaker notices({"started", "failed"},
                      JobIdentity{.cluster = "alpha", .job = "7", .token = ""}, "mnist-7",
                      "trainer");
  CHECK_FALSE(notices.on_event(events::Components{}, 0));
  CHECK_FALSE(notices.on_event(events::Joined{.ranks = 1, .hosts = "n1"}, 0, "server"));
  const auto started = notices.on_event(events::Joined{.ranks = 4, .hosts = "n2"}, 0, "trainer");
  REQUIRE(started);
  CHECK(started->message == "component trainer: 4 ranks run on n2");
  CHECK_FALSE(notices.on_event(events::Progress{.step = 5}, 0, "trainer"));
  CHECK_FALSE(notices.on_event(events::Progress{.step = 900}, 0, "server"));
  // The component `server` starts again, and the job goes on.
  CHECK_FALSE(notices.on_event(events::RankFailed{.rank = 0, .host = "n1"}, 0, "server"));
  events::AttemptEnd end{.code = 1, .reason = EndReason::kRankFailed};
  end.first_failed = crashed_rank();
  CHECK_FALSE(notices.on_event(end, 0, "trainer"));
  const auto failed =
      notices.on_event(events::Ended{.state = EndState::kFailed, .code = 1, .message = "why"}, 0);
  REQUIRE(failed);
  CHECK(failed->component == "trainer");
  CHECK(failed->rank == 3);
  CHECK(failed->progress == "step 5");
  CHECK_FALSE(notices.on_event(events::Components{}, 1));
  CHECK(notices.on_event(events::Ended{.state = EndState::kFailed}, 1)->component.empty());
}

TEST_CASE("the start of a run gives one notice, not one for each attempt") {
  auto notices = notice_maker({"started"});
  const events::Joined joined{.ranks = 4, .hosts = "n[1-2]"};
  const auto notice = notices.on_event(joined, 0);
  REQUIRE(notice);
  CHECK(notice->message == "4 ranks run on n[1-2]");
  CHECK_FALSE(notices.on_event(joined, 1));
}

TEST_CASE(
    "a hang and the restart after it give one notice, and a later failure is not reported as a "
    "hang") {
  auto notices = notice_maker({"hang", "restarted", "failed"});
  CHECK_FALSE(notices.on_event(events::AttemptEnd{.reason = EndReason::kHang}, 0));
  const events::Restarting restarting{.cause = Cause::kHang, .left = 1, .by = RestartedBy::kLead};
  const auto hang = notices.on_event(restarting, 0);
  REQUIRE(hang);
  CHECK(hang->occasion == "hang");
  CHECK(has(hang->message, "another attempt starts; 1 restart is left"));
  CHECK_FALSE(notices.on_event(events::Started{}, 1));
  CHECK_FALSE(notices.on_event(crashed_rank(), 1));
  CHECK_FALSE(notices.on_event(events::AttemptEnd{.reason = EndReason::kRankFailed}, 1));
  CHECK(notices.on_event(restarting, 1)->occasion == "restarted");
  CHECK(notices.on_event(events::Ended{.state = EndState::kFailed}, 1)->occasion == "failed");
}

TEST_CASE("without `hang` in notify.on a run that ends after a hang is reported as failed") {
  auto notices = notice_maker({"failed"});
  std::ignore = notices.on_event(events::AttemptEnd{.reason = EndReason::kHang}, 0);
  CHECK(notices.on_event(events::Ended{.state = EndState::kFailed}, 0)->occasion == "failed");
}

TEST_CASE("the last lines of a rank are at most three, without empty lines and dlrun's own lines") {
  const TemporaryDirectory run;
  std::filesystem::create_directories(run / "logs/attempt-2");
  std::ofstream(run / "logs/attempt-2/rank-0003.log")
      << "first\nTraceback\n\ndlrun: rank 3 ends\n  line 4\nKeyError: 'x'\n";
  CHECK(last_lines_of_rank(run.path(), 2, "", 3) ==
        std::vector<std::string>{"Traceback", "  line 4", "KeyError: 'x'"});
  CHECK(last_lines_of_rank(run.path(), 2, "", 4).empty());
}

TEST_CASE("the last lines of a rank of a component come from the log of that component") {
  const TemporaryDirectory run;
  for (const char* component : {"server", "trainer"}) {
    const auto folder = run / "logs/attempt-0" / component;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "rank-0000.log") << "from the " << component << "\n";
  }
  CHECK(last_lines_of_rank(run.path(), 0, "trainer", 0) ==
        std::vector<std::string>{"from the trainer"});
  CHECK(last_lines_of_rank(run.path(), 0, "", 0).empty());
}

TEST_CASE(
    "lead parses the options of notify, and an address in place of a webhook's variable is refused "
    "and not shown") {
  const auto parsed = parse_arguments({"lead", "--notify", "failed,hang", "--webhook", "SLACK_URL",
                                       "--notify-word", "mail", "--notify-word", "", "--", "srun"});
  REQUIRE(parsed);
  const auto& notify = std::get<LeadOptions>(*parsed).notify;
  CHECK(notify.on == std::vector<std::string>{"failed", "hang"});
  CHECK(notify.webhook == "SLACK_URL");
  CHECK(notify.command == std::vector<std::string>{"mail", ""});
  const auto wrong = parse_arguments({"lead", "--notify", "failed,often", "--", "srun"});
  REQUIRE_FALSE(wrong.has_value());
  CHECK(has(wrong.error().message, "'often' is none of started"));
  const auto address = parse_arguments({"lead", "--webhook", "https://h/token", "--", "srun"});
  REQUIRE_FALSE(address.has_value());
  CHECK_FALSE(has(address.error().message, "token"));
}

/// A notifier that writes into a pipe. The test reads from the pipe in place of the helper.
struct PipedNotifier {
  UniqueFd read_end;
  const std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point wall{std::chrono::seconds(5)};
  Notifier notifier;

  explicit PipedNotifier(std::array<int, 2> ends = new_pipe())
      : read_end(ends[0]), notifier(notice_maker({}), true, UniqueFd(ends[1]), -1) {}

  /// Takes the lines that were sent to the helper out of the pipe. Checks that each line is short
  /// enough to be written to a pipe whole.
  [[nodiscard]] std::vector<Json> take_sent_lines() const {
    std::string text(1U << 16U, ' ');
    text.resize(static_cast<std::size_t>(::read(read_end.get(), text.data(), text.size())));
    std::vector<Json> lines;
    for (const auto line : split(text, '\n')) {
      CHECK(line.size() < 4096);
      if (!line.empty()) lines.push_back(parse_json<Json>(line));
    }
    return lines;
  }

 private:
  static std::array<int, 2> new_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    return ends;
  }
};

TEST_CASE_FIXTURE(PipedNotifier,
                  "a report reaches the helper in lines that a pipe takes whole, and the end of "
                  "the run reaches the helper, too") {
  Json body{{"step", 7}};
  for (int i = 0; i < 64; ++i)
    body["a-name-of-some-length-that-is-cut-at-sixty-four-characters-" + std::to_string(i)] =
        1.0 / (i + 3);
  notifier.on_report(body, wall, now);
  notifier.on_report(Json{{"step", 8}, {"loss", 1}}, wall, now);  // not sent: less than 1 s later
  notifier.on_event(events::Ended{.state = EndState::kCancelled}, 0, {});
  const auto lines = take_sent_lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["step"] == 7);
  CHECK(lines[0]["t"] == 5000);
  CHECK(lines[0]["m"].size() + lines[1]["m"].size() == 64);
  CHECK(lines[2]["status"] == "KILLED");
}

TEST_CASE_FIXTURE(
    PipedNotifier,
    "final values belong to the step of the last report, even if that report was not sent") {
  notifier.on_report(Json{{"step", 7}, {"loss", 1}}, wall, now);
  notifier.on_report(Json{{"step", 8}, {"loss", 1}}, wall, now);  // not sent: less than 1 s later
  notifier.on_report(Json{{"final", true}, {"score", 0.5}}, wall, now);
  const auto lines = take_sent_lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["step"] == 7);
  CHECK(lines[1]["step"] == 8);
  CHECK(lines[1]["m"]["score"] == 0.5);
}

TEST_CASE(
    "lead starts no helper if there is nothing to send, or if the webhook's variable is unset or "
    "has no address") {
  LeadOptions options;
  ClaimedRun run;
  const TemporaryDirectory folder;
  run.directory = folder.path();
  const auto none = start_notifier(options, {}, {}, run);
  REQUIRE(none.has_value());
  CHECK(*none == nullptr);
  options.notify.on = {"failed"};
  options.notify.webhook = "ADDRESS";
  CHECK(has(start_notifier(options, {}, {}, run).error().message, "ADDRESS"));
  Env env;
  env.set("ADDRESS", "token without a scheme");
  const auto wrong = start_notifier(options, env, {}, run);
  REQUIRE_FALSE(wrong.has_value());
  CHECK_FALSE(has(wrong.error().message, "token"));
}

}  // namespace dlrun::agent
