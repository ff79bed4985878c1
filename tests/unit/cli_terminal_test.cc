// Tests the printer: no value can control the terminal, and no broken stream can crash dlrun.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/terminal/log_output.h"
#include "cli/terminal/print.h"
#include "cli/terminal/printed_text.h"
#include "cli/terminal/status_text.h"
#include "cli/terminal/stream.h"
#include "launcher/view/run_text.h"
#include "tests/unit/cli_fixture.h"

namespace dlrun {
namespace {

// Contains the sequence OSC 52, which sets the clipboard; the C1 control CSI, in UTF-8 and as a
// single byte; a direction override, an invisible character and a tag character; a forged line; a
// null byte.
const std::string kHostileText = std::string(
                                     "a\033]52;c;eA==\a\xc2\x9b"
                                     "2J\x9b"
                                     "1m\u202eb\u200b\U000e0041\r\nforged") +
                                 '\0' + "c";
const std::string kEscapedHostileText =
    "a\\x1b]52;c;eA=="
    "\\x07\\xc2\\x9b2J\\x9b1m\\xe2\\x80\\xaeb\\xe2\\x80\\x8b\\xf3\\xa0\\x81\\x81\\x0d\\x0aforged\\x"
    "00c";

/// Runs `print` in a child process, with `file` in place of the descriptor `stream`. Returns
/// "exit CODE" or "signal NUMBER".
template <typename Print>
std::string how_printing_ends(int file, int stream, Print print) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(file, stream);
    ::_exit(print());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit {}", WEXITSTATUS(status));
}

/// Returns the writing end of a pipe whose reading end is closed.
UniqueFd pipe_without_reader() {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  ::close(ends[0]);
  return UniqueFd(ends[1]);
}

}  // namespace

TEST_CASE(
    "control characters and newlines of a value are escaped in a text, with or without a style") {
  CHECK(text("{}\n", kHostileText).plain() == kEscapedHostileText + "\n");
  CHECK(text("{}\n", styled(Style::kRed, kHostileText)).plain() == kEscapedHostileText + "\n");
  CHECK(text("{}\n", styled(Style::kRed, kHostileText)).render(true) ==
        "\033[31m" + kEscapedHostileText + "\033[0m\n");
  CHECK(text("{} and {}", text("{}", kHostileText), 7).plain() == kEscapedHostileText + " and 7");
  // The bytes that mark a style internally are escaped in a value.
  CHECK(text("{}",
             "a\x01"
             "b\x02")
            .render(true) == "a\\x01b\\x02");
}

TEST_CASE("cells of a table are escaped, and columns fit the escaped text") {
  CHECK(table({{"A", "B"}, {kHostileText, "x"}}).plain() ==
        "A" + std::string(kEscapedHostileText.size() + 1, ' ') + "B\n" + kEscapedHostileText +
            "  x\n");
  CHECK(table({{"A"}, {"b"}}).render(true) == "\033[1mA\033[0m\nb\n");
}

TEST_CASE(
    "text of several lines keeps newlines and tabs, and all other control characters are escaped") {
  CHECK(Text::of_lines("one\n\ttwo\033[2J\r\n").plain() == "one\n\ttwo\\x1b[2J\\x0d\n");
  CHECK(Text::of_lines("").plain().empty());
}

TEST_CASE(
    "status escapes every field that another user can write: id, job, nodes, result, failure, "
    "host, paths") {
  RunStatus status;
  status.state = RunState::kFailed;
  status.detail = kHostileText;
  status.job = {kHostileText, "1" + kHostileText};
  RunRecord& record = status.facts.record;
  record.has_events = true;
  record.hosts = kHostileText;
  record.ranks = 2;
  record.result =
      nlohmann::ordered_json{{"k\033[2J", "v\033[2J"}, {"n", {{"\u202e", "\u009b"}}}}.dump();
  record.first_failed = RankFailure{1, kHostileText, 3, kHostileText, kHostileText};
  record.warnings = {RunWarning{kHostileText, kHostileText, 1}};
  record.restarts = {{0, kHostileText, 1}};
  const IndexEntry run{kHostileText, kHostileText, "/no/" + std::string("such\033[2J\u202e"),
                       kHostileText};
  const std::string shown = status_text(run, status).plain();
  for (const char c : shown) CHECK((c == '\n' || !is_control(c)));
  CHECK(shown.find("\u202e") == std::string::npos);
  CHECK(shown.find("\u009b") == std::string::npos);
  CHECK(shown.find("\nforged") == std::string::npos);
  CHECK(shown.find("/no/such\\x1b[2J") != std::string::npos);
  CHECK(end_text(run, status).find("\nforged") == std::string::npos);
}

TEST_CASE("status prints the numbers of thousands of missing ranks as ranges") {
  RunStatus status;
  status.state = RunState::kFailed;
  status.facts.record.has_events = true;
  for (std::int64_t rank = 8; rank < 10'000; ++rank)
    status.facts.record.missing_ranks.push_back(rank);
  const IndexEntry run{"r-1", "r", "/runs/r-1", ""};
  CHECK(status_text(run, status).plain().find("missing   ranks 8-9999\n") != std::string::npos);
  status.facts.record.missing_ranks = {3};
  CHECK(status_text(run, status).plain().find("missing   rank 3\n") != std::string::npos);
}

TEST_CASE(
    "in printed JSON, control, hidden and direction characters are escaped, and the value stays "
    "the same") {
  const nlohmann::ordered_json json{{"k\u202e", "\x7f\u009b\u200b\U000e0041 plain ä\n\033"}};
  const std::string shown = printable_json(json.dump(2));
  CHECK(shown == "{\n  \"k\\u202e\": \"\\u007f\\u009b\\u200b\\udb40\\udc41 plain ä\\n\\u001b\"\n}");
  CHECK(nlohmann::ordered_json::parse(shown) == json);
}

TEST_CASE(
    "a log on a terminal keeps colours and progress bars, and all other control sequences are "
    "escaped") {
  const auto shown = [](std::string_view log, bool colour = true) {
    LogFilter filter(colour);
    std::string text = filter.pass(log);
    return text + filter.finish();
  };
  CHECK(shown("plain\n\ttab ä\n") == "plain\n\ttab ä\n");
  CHECK(shown("\033[1;31mred\033[0m\n") == "\033[1;31mred\033[0m\n\033[0m");
  CHECK(shown("\033[38;5;8mgrey\033[m") == "\033[38;5;8mgrey\033[m\033[0m");
  CHECK(shown("\033[8mhidden") == "\\x1b[8mhidden");
  CHECK(shown("\033[58;5;8mhidden") == "\\x1b[58;5;8mhidden");
  CHECK(shown("\033[38;5mx") == "\\x1b[38;5mx");
  CHECK(shown("\033[999999999999999999999999999999mx").starts_with("\\x1b[999"));
  CHECK(shown("\033]52;c;eA==\a") == "\\x1b]52;c;eA==\\x07");
  CHECK(shown("\033[2J\033[10;10H\xc2\x9b"
              "2J\x9b\u202e") == "\\x1b[2J\\x1b[10;10H\\xc2\\x9b2J\\x9b\\xe2\\x80\\xae");
  CHECK(shown(" 10 %\r 20 %\033[K\r\n") == " 10 %\r\033[K 20 %\n");
  CHECK(shown(" 10 %\r 20 %\r\n\033[31mred", false) == " 10 %\n 20 %\nred");
  CHECK(shown("an end in a sequence \033[3") == "an end in a sequence \\x1b[3");
  CHECK(shown("an end in a character \xe2\x80") == "an end in a character \\xe2\\x80");
}

TEST_CASE("a log keeps emoji with their variation selectors, and an invisible filler is escaped") {
  LogFilter filter(false);
  CHECK(filter.pass("done \u2714\ufe0f \u26a0\ufe0e a\u3164b") ==
        "done \u2714\ufe0f \u26a0\ufe0e a\\xe3\\x85\\xa4b");
}

TEST_CASE("a log filter does not wait for more bytes after a byte that starts no character") {
  LogFilter filter(false);
  CHECK(filter.pass("a\xf5") == "a\\xf5");
  CHECK(filter.pass("b\xff") == "b\\xff");
  CHECK(filter.pass("c\xc1") == "c\\xc1");
}

TEST_CASE("a log that arrives byte by byte is shown like one that arrives in one piece") {
  const std::string log =
      "\033[1;31mred\033[0m ä\u202e\xff\r\n10 %\r20 %\033[K\n\033[2J\x9b\033\033[32mgreen\n" +
      kHostileText;
  LogFilter whole(true), pieces(true);
  std::string expected = whole.pass(log), found;
  expected += whole.finish();
  for (const char c : log) found += pieces.pass({&c, 1});
  found += pieces.finish();
  CHECK(found == expected);
}

TEST_CASE(
    "a standard error that is full, not writable or without a reader causes neither an exception "
    "nor a signal") {
  const Cli cli;
  const auto print_messages = [&cli] {
    print_error(cli, "one");
    print_warning(cli, "two");
    print_note(cli, "three");
    print_diagnostics(cli, {Diagnostic{}});
    print_aside(cli, text("four"));
    return 7;
  };
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC)),
      read_only(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(how_printing_ends(full.get(), STDERR_FILENO, print_messages) == "exit 7");
  CHECK(how_printing_ends(read_only.get(), STDERR_FILENO, print_messages) == "exit 7");
  CHECK(how_printing_ends(pipe_without_reader().get(), STDERR_FILENO, print_messages) == "exit 7");
}

TEST_CASE(
    "after a failed write to standard output, finish_output() and print_or_fail() fail, and "
    "is_reader_gone() tells whether the reader has gone") {
  const Cli cli;
  const auto print_results = [&cli] {
    print(cli, "{}\n", std::string(1U << 20U, 'x'));
    print_json({{"a", 1}});
    print_document("text");
    const bool has_failed =
        !print_or_fail([&] { print(cli, text("more")); }, "the job is queued").has_value();
    // Each digit of the exit code is one result.
    return (finish_output() ? 1 : 2) + (is_reader_gone() ? 10 : 20) + (has_failed ? 100 : 0);
  };
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC)),
      fine(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  CHECK(how_printing_ends(fine.get(), STDOUT_FILENO, print_results) == "exit 21");
  CHECK(how_printing_ends(full.get(), STDOUT_FILENO, print_results) == "exit 122");
  CHECK(how_printing_ends(pipe_without_reader().get(), STDOUT_FILENO, print_results) == "exit 112");
}

TEST_CASE_FIXTURE(CliFixture,
                  "a command whose standard error is full ends with its normal exit code") {
  const auto status = [&] { return call({"status", "no-such-run"}); };
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK(how_printing_ends(full.get(), STDERR_FILENO, status) == "exit 6");
  CHECK(how_printing_ends(pipe_without_reader().get(), STDERR_FILENO, status) == "exit 6");
}

TEST_CASE_FIXTURE(CliFixture,
                  "a command whose reader has gone ends with the exit code 141, as after SIGPIPE") {
  const auto schema = [&] { return call({"schema"}); };
  const auto help = [&] { return call({"submit", "--help"}); };
  CHECK(how_printing_ends(pipe_without_reader().get(), STDOUT_FILENO, schema) == "exit 141");
  CHECK(how_printing_ends(pipe_without_reader().get(), STDOUT_FILENO, help) == "exit 141");
}

TEST_CASE_FIXTURE(CliFixture, "a value with newlines cannot forge a message of dlrun") {
  CHECK(code_and_stderr({"status", "x\ndlrun: submitted"}).find("\ndlrun: submitted") ==
        std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "a newline in the name of a directory is escaped in errors") {
  const auto run = folder / "z\ndlrun: error: FORGED";
  std::filesystem::create_directory(run);
  std::ofstream(run / "claim") << "{}";  // makes it look like a run
  const std::string missing = (run / "nope.yaml").string();
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"diff", run.c_str()}, {"check", missing.c_str()}, {"render", missing.c_str()}}) {
    const std::string shown = code_and_stderr(words);
    CHECK(shown.find("z\\x0adlrun: error: FORGED") != std::string::npos);
    CHECK(shown.find("\n  dlrun: error: FORGED") == std::string::npos);
  }
}

TEST_CASE_FIXTURE(CliFixture, "an unknown word of the command line is escaped in the error") {
  CHECK(code_and_stderr({"status", "x\033[2Jy"}).find('\033') == std::string::npos);
  CHECK(code_and_stderr({"x\033[2Jy"}).find('\033') == std::string::npos);
  CHECK(code_and_stderr({"submit", "a", "b\033[2J"}).find('\033') == std::string::npos);
}

}  // namespace dlrun
