#include "common/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

/// Collects the lines that are logged while this object exists.
struct CapturedLog {
  std::vector<std::string> lines;
  explicit CapturedLog(LogLevel level = LogLevel::kDebug, const Env& env = {}) {
    open_log_to("test", level, env, [this](std::string line) { lines.push_back(std::move(line)); });
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { close_log(); }
  /// Returns the only line, from its message on: "MESSAGE name=value". Fails the test if there are
  /// several lines or none.
  [[nodiscard]] std::string only_line() const {
    REQUIRE(lines.size() == 1);
    const auto start = lines[0].find("]: ");
    REQUIRE(start != std::string::npos);
    return lines[0].substr(start + 3);
  }
};

std::string shown(const LogField& field) {
  CapturedLog log;
  log_info("m", {field});
  return log.only_line();
}

std::string masked(std::vector<std::string> argv) {
  std::string text;
  for (const std::string& word : mask_arguments(argv)) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

TEST_CASE("DLRUN_LOG is a level, or a level and a file") {
  CHECK(parse_log_setting("")->level == LogLevel::kOff);
  CHECK(parse_log_setting("off")->level == LogLevel::kOff);
  CHECK(parse_log_setting("info")->level == LogLevel::kInfo);
  CHECK(parse_log_setting("info")->file.empty());
  const auto both = parse_log_setting("debug:/tmp/a:b.log");
  REQUIRE(both);
  CHECK(both->level == LogLevel::kDebug);
  CHECK(both->file == "/tmp/a:b.log");
  for (const char* wrong : {"verbose", "Info", "debug:", ":/tmp/a", "/tmp/a", "info "}) {
    CAPTURE(wrong);
    const auto refused = parse_log_setting(wrong);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::kUsage);
    CHECK(refused.error().message.find("expected off, info or debug") != std::string::npos);
  }
}

TEST_CASE("a log line has time, level, program and process, and is one line whatever it contains") {
  CapturedLog log;
  log_info("a message", {{"file", "/a b\n\"c\""}, {"count", 3}, {"is_true", true}});
  REQUIRE(log.lines.size() == 1);
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info test\[\d+\]: )"
                        R"(a message file="/a b\\x0a\\"c\\"" count=3 is_true=true\n)");
  CAPTURE(log.lines[0]);
  CHECK(std::regex_match(log.lines[0], form));
}

TEST_CASE("a logged value is quoted if needed, and a long value is cut") {
  CHECK(shown({"a", "plain/value.txt"}) == "m a=plain/value.txt\n");
  CHECK(shown({"a", "x=y"}) == "m a=\"x=y\"\n");
  CHECK(shown({"a", ""}) == "m\n");
  CHECK(shown({"seconds", std::chrono::milliseconds(1500)}) == "m seconds=1.500\n");
  CHECK(shown({"argv", std::vector<std::string>{"a", "b c"}}) == "m argv=\"a 'b c'\"\n");
  CHECK(shown({"a", std::string(100'000, 'x')}).size() < 5000);
}

TEST_CASE("lines more detailed than the log level are not logged, and a closed log gets no lines") {
  {
    CapturedLog log(LogLevel::kInfo);
    log_debug("hidden");
    log_info("shown");
    CHECK(log.only_line() == "shown\n");
  }
  CapturedLog log;
  close_log();
  log_info("hidden");
  CHECK(log.lines.empty());
}

TEST_CASE("the log's file is appended to, is private, and must be a regular file") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "dlrun.log";
  const LogSetting setting{LogLevel::kInfo, file.string()};
  for (const char* line : {"first", "second"}) {
    REQUIRE(open_log("test", setting, {}));
    log_info(line);
    close_log();
  }
  const std::string text = read_file(file, 1U << 20U).value_or("");
  CHECK(text.find("first") < text.find("second"));
  CHECK(text.find("second") != std::string::npos);
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0600U);

  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto open_to_others = folder.path() / "open";
  std::ofstream(open_to_others) << "";
  REQUIRE(::chmod(open_to_others.c_str(), 0644) == 0);
  const auto link = folder.path() / "link";
  REQUIRE(::symlink(file.c_str(), link.c_str()) == 0);
  for (const auto& wrong :
       {folder.path(), pipe, folder.path() / "nowhere" / "a.log", open_to_others, link}) {
    CAPTURE(wrong);
    CHECK_FALSE(open_log("test", {LogLevel::kInfo, wrong.string()}, {}));
    CHECK_FALSE(is_logged(LogLevel::kInfo));
  }
  CHECK(open_log("test", {LogLevel::kInfo, link.string()}, {}).error().code == Errc::kInvalid);
}

TEST_CASE(
    "if the reader of stderr has gone, lines are lost, errno is unchanged and no SIGPIPE is "
    "pending") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const int original_stderr = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  REQUIRE(::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  ::close(ends[0]);
  ::close(ends[1]);
  REQUIRE(open_log("test", {LogLevel::kInfo, ""}, {}));
  errno = ENOENT;
  log_info("nobody reads this");
  const int error = errno;
  close_log();
  ::dup2(original_stderr, STDERR_FILENO);
  ::close(original_stderr);
  CHECK(error == ENOENT);
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
}

TEST_CASE("a program of a job logs into its run unless DLRUN_LOG names a file") {
  const TemporaryDirectory run;
  Env env;
  CHECK(prepare_job_log(env, run.path(), "lead.log")->level == LogLevel::kOff);
  CHECK_FALSE(std::filesystem::exists(run.path() / "debug"));  // no folder without a log
  env.set("DLRUN_LOG", "info");
  CHECK(prepare_job_log(env, run.path(), "lead.log")->file == run.path() / "debug/lead.log");
  CHECK(std::filesystem::is_directory(run.path() / "debug"));
  CHECK(prepare_job_log(env, {}, "lead.log")->file.empty());
  env.set("DLRUN_LOG", "info:/tmp/own.log");
  CHECK(prepare_job_log(env, run.path(), "lead.log")->file == "/tmp/own.log");
  env.set("DLRUN_LOG", "loud");
  CHECK_FALSE(prepare_job_log(env, run.path(), "lead.log"));
}

TEST_CASE("the log of a rank has the component in its name, unless the component could be a path") {
  CHECK(rank_debug_log_name("", "trainer", 3) == "trainer-0003.log");
  CHECK(rank_debug_log_name("server-2", "trainer", 3) == "server-2-trainer-0003.log");
  CHECK(rank_debug_log_name("../x", "trainer", 3) == "trainer-0003.log");
}

TEST_CASE("a logged command line shows no value that may be a secret") {
  CHECK(masked({"sbatch", "--parsable", "--comment=dlrun:0123", "job.sh"}) ==
        "sbatch --parsable --comment=dlrun:0123 job.sh");
  CHECK(masked({"train.py", "--api-key=hunter2", "--epochs=3"}) ==
        "train.py --api-key=*** --epochs=3");
  CHECK(masked({"train.py", "--api-key", "hunter2", "3"}) == "train.py --api-key *** 3");
  CHECK(masked({"train.py", "--use-token", "--epochs", "3"}) == "train.py --use-token --epochs 3");
  CHECK(masked({"env", "HF_TOKEN=hunter2", "A=b"}) == "env HF_TOKEN=*** A=b");
  CHECK(masked({"rank", "--env", "A=hunter2", "--env=B=hunter2"}) ==
        "rank --env A=*** --env=B=***");
  CHECK(masked({"srun", "--export=ALL,A=hunter2,B=c"}) == "srun --export=ALL,A=***");
  CHECK(masked({"srun", "--export", "ALL", "a"}) == "srun --export ALL a");
  CHECK(masked({"curl", "-H", "Authorization: Bearer hunter2"}) == "curl -H Authorization:***");
  CHECK(masked({"sshpass-wrapper", "--pw", "hunter2", "--image-key", "pixels"}) ==
        "sshpass-wrapper --pw *** --image-key pixels");
  CHECK(masked({"--password"}) == "--password");
  CHECK(masked({}).empty());
}

TEST_CASE("a logged URL shows neither its user nor its query, even if its password has a '/'") {
  CHECK(mask_urls("https://u:p@host/a?sig=x#f and http://host/b") ==
        "https://***@host/a?*** and http://host/b");
  CHECK(mask_urls("ssh://u:p@ss@host:22/a") == "ssh://***@host:22/a");
  CHECK(mask_urls("https://u:$ecret/x@host") == "https://***@host");
  CHECK(mask_urls("https://u:pa/ss@host/a") == "https://***@host/a");
  CHECK(mask_urls("redis://:p?a#s/s@host:1/a?b") == "redis://***@host:1/a?***");
  CHECK(mask_urls("https://host/a@b https://host:80/a@b https://[::1]/a@b") ==
        "https://host/a@b https://host:80/a@b https://[::1]/a@b");
  CHECK(mask_urls("--proxy=http://a,https://u:p@host") == "--proxy=http://a,https://***@host");
  CHECK(mask_urls("https://u:p?q@h,https://u2:p2@h2") == "https://***@h,https://***@h2");
  CHECK(mask_urls("https://u:p@h/a,https://u2:p/?2@h2?s https://h3") ==
        "https://***@h/a,https://***@h2?*** https://h3");
  CHECK(mask_urls("a://") == "a://");
  CHECK(mask_urls("no address") == "no address");
}

TEST_CASE("a known secret appears in no line of the log, whatever field holds it") {
  Env env;
  env.set("HF_TOKEN", "from-environment");
  env.set("A_KEY", "on");  // too short to be a secret
  CapturedLog log(LogLevel::kDebug, env);
  hide_in_log("hunter2");
  hide_in_log("hunter2-and-more");
  hide_in_log("two\nlines");
  log_info("m", {{"text", "a hunter2-and-more b from-environment on"},
                 {"argv", std::vector<std::string>{"x", "hunter2", "y=two\nlines"}},
                 {"path", std::filesystem::path("/a/hunter2/b")}});
  CHECK(log.only_line() == "m text=\"a *** b *** on\" argv=\"x '***' 'y=***'\" path=/a/***/b\n");
}

TEST_CASE("each command is logged with its arguments, its exit code and its duration") {
  Command command;
  command.argv = {"sh", "-c", "exit 3", "--token=hunter2"};
  command.env = Env::of_process();
  CapturedLog log(LogLevel::kInfo);
  REQUIRE(run_command(command));
  const std::string line = log.only_line();
  CAPTURE(line);
  CHECK(line.starts_with("a command has ended argv=\"sh -c 'exit 3' "));
  CHECK(line.find(" code=3 seconds=") != std::string::npos);
  CHECK(line.find("hunter2") == std::string::npos);

  log.lines.clear();
  command.argv = {"no-such-program"};
  CHECK_FALSE(run_command(command));
  CHECK(log.only_line().starts_with("a command has failed argv=no-such-program error="));
}

TEST_CASE("a wait for a lock is logged when it starts and when it ends") {
  CapturedLog log;
  { const LockWaitLog never_begun("/a.lock"); }
  CHECK(log.lines.empty());
  {
    LockWaitLog wait("/a.lock");
    wait.begin();
    wait.begin();
    REQUIRE(log.lines.size() == 1);
  }
  REQUIRE(log.lines.size() == 2);
  CHECK(log.lines[0].find("file=/a.lock") != std::string::npos);
  CHECK(log.lines[1].find("file=/a.lock seconds=") != std::string::npos);
}

}  // namespace dlrun
