// The log is an spdlog logger with one sink. spdlog's headers are compiled here and nowhere else,
// with the {fmt} that common/fmt.cc compiles.
//
// Unlike spdlog's formatter and sinks, the classes here have no lock, and no state that changes.
// Therefore a child may log after fork(), even if another thread of the parent held a lock at that
// time. The programs do not contain spdlog's pattern formatter, which is 70 KB of code.

#include "common/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>

#include "common/blocked_sigpipe.h"
#include "common/files.h"
#include "common/quoting.h"
#include "common/secret_names.h"
#include "common/text.h"
#include "common/url_user.h"

namespace dlrun {
namespace log_detail {

std::atomic<LogLevel> level{LogLevel::kOff};

}  // namespace log_detail

namespace {

constexpr std::string_view kMask = "***";
constexpr std::size_t kLongestValueBytes = 4096;
/// The log hides the value of a variable only if the value has at least this length. A shorter
/// value may be a number or a part of common words, which would then be hidden everywhere.
constexpr std::size_t kShortestSecretBytes = 4;

/// Writes "2026-11-23T16:20:01.123Z info dlrun[1234]: MESSAGE".
class LineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const auto time =
        std::chrono::time_point_cast<std::chrono::system_clock::duration>(message.time);
    const auto level = spdlog::level::to_string_view(message.level);
    fmt::format_to(std::back_inserter(line), "{} {} {}[{}]: {}\n", utc_timestamp(time),
                   std::string_view(level.data(), level.size()),
                   std::string_view(message.logger_name.data(), message.logger_name.size()),
                   ::getpid(), std::string_view(message.payload.data(), message.payload.size()));
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>();
  }
};

/// Passes whole lines to a writer.
class WriterSink final : public spdlog::sinks::sink {
 public:
  explicit WriterSink(LogWriter write) : write_(std::move(write)) {}
  void log(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    LineFormatter().format(message, line);
    write_(std::string(line.data(), line.size()));
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  LogWriter write_;
};

/// The log's state at one moment. A change creates a new state. The old state is never changed or
/// freed, because another thread may still use it. A process creates only a few states.
struct LogState {
  std::shared_ptr<spdlog::logger> logger;
  std::vector<std::string> secrets;          ///< longest first
  std::unique_ptr<const LogState> previous;  ///< the state that this one replaced
};
std::atomic<const LogState*> g_log_state{nullptr};
std::mutex g_replace_mutex;

/// Replaces the state by a copy that `change` has modified.
void replace_log_state(const std::function<void(LogState&)>& change) {
  const std::lock_guard lock(g_replace_mutex);
  auto next = std::make_unique<LogState>();
  const LogState* const now = g_log_state.load();
  if (now != nullptr) {
    next->logger = now->logger;
    next->secrets = now->secrets;
    next->previous.reset(now);
  }
  change(*next);
  g_log_state.store(next.release());
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return spdlog::level::off;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::off;
}

/// Adds a secret. The longest secrets come first, because a short secret may be part of a longer
/// secret. If the short secret were hidden first, the rest of the longer secret would stay
/// readable.
void add_secret(std::vector<std::string>& secrets, std::string_view secret) {
  if (std::find(secrets.begin(), secrets.end(), secret) != secrets.end()) return;
  const auto first_shorter =
      std::find_if(secrets.begin(), secrets.end(),
                   [&](const std::string& one) { return one.size() < secret.size(); });
  secrets.emplace(first_shorter, secret);
}

/// Replaces each occurrence of `secret` in `text` by ***.
void hide(std::string& text, std::string_view secret) {
  for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += kMask.size())
    text.replace(at, secret.size(), kMask);
}

/// Returns the text with *** in place of the secrets and of the secret parts of URLs.
std::string masked(std::string_view text, const std::vector<std::string>& secrets) {
  std::string result(text);
  for (const std::string& secret : secrets) hide(result, secret);
  return mask_urls(result);
}

/// Returns a value as it appears after `name=`: in double quotes if it is empty, or has a
/// space, '"', '=' or a backslash. Cuts a value after kLongestValueBytes bytes.
std::string shown(std::string text) {
  if (text.size() > kLongestValueBytes) text = text.substr(0, kLongestValueBytes) + "...";
  if (!text.empty() && text.find_first_of(" \"=\\") == std::string::npos) return printable(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return printable(quoted + "\"");
}

/// Returns the value of a field as it appears after `name=`, without secrets.
std::string shown(const LogField& field, const std::vector<std::string>& secrets) {
  struct Show {
    const std::vector<std::string>& secrets;
    std::string operator()(std::string_view text) const { return shown(masked(text, secrets)); }
    std::string operator()(std::span<const std::string> argv) const {
      std::vector<std::string> words = mask_arguments(argv);
      for (std::string& word : words) word = masked(word, secrets);
      return shown(shell_quote_all(words));
    }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{:.3f}", number); }
    std::string operator()(bool is_true) const { return is_true ? "true" : "false"; }
  };
  return std::visit(Show{secrets}, field.value);
}

/// Masks the value of an argument NAME=VALUE or a header NAME: VALUE if is_secret_name(NAME). Looks
/// at the name before each '=' or ':', because the value of an option may itself be NAME=VALUE, as
/// in --define=API_KEY=VALUE.
std::string mask_assignment(const std::string& word) {
  for (std::size_t at = word.find_first_of("=:"); at != std::string::npos;
       at = word.find_first_of("=:", at + 1)) {
    const std::size_t before = word.find_last_of("=:, ", at == 0 ? 0 : at - 1);
    const std::size_t begin = before == std::string::npos || before >= at ? 0 : before + 1;
    if (is_secret_name(std::string_view(word).substr(begin, at - begin)))
      return word.substr(0, at + 1) + std::string(kMask);
  }
  return word;
}

/// Masks everything after the first '=' of NAME=VALUE[,NAME=VALUE...]. Also masks the later
/// names, because a value may contain commas.
std::string mask_values(std::string_view assignments) {
  const std::size_t equals = assignments.find('=');
  if (equals == std::string_view::npos) return std::string(assignments);
  return std::string(assignments.substr(0, equals + 1)) + std::string(kMask);
}

/// Writes a line to stderr. If the reader has gone or the disk is full, the line is lost without an
/// error. Keeps errno.
void write_to_stderr(const std::string& line) {
  const int error = errno;
  {
    const BlockedSigpipe guard;
    std::ignore = write_all(STDERR_FILENO, line);
  }
  errno = error;
}

}  // namespace

Result<LogSetting> parse_log_setting(std::string_view text) {
  if (text.empty()) return LogSetting{};
  const std::size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const std::string_view file = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  for (const LogLevel known : {LogLevel::kOff, LogLevel::kInfo, LogLevel::kDebug}) {
    if (word != word_of(known)) continue;
    if (colon != std::string_view::npos && file.empty()) break;
    return LogSetting{known, std::string(file)};
  }
  return fail(
      Errc::kUsage,
      "'{}' is not a setting of the log; expected off, info or debug, or a level and a file, "
      "as in debug:/tmp/dlrun.log",
      printable(text));
}

Result<LogSetting> prepare_job_log(const Env& env, const std::filesystem::path& run,
                                   std::string_view file_name) {
  auto setting = parse_log_setting(env.get_or("DLRUN_LOG", ""));
  if (!setting) return within("DLRUN_LOG", setting.error());
  if (setting->level == LogLevel::kOff || !setting->file.empty() || run.empty()) return setting;
  DLRUN_TRY(make_private_directories(run / "debug"));
  setting->file = (run / "debug" / file_name).string();
  return setting;
}

std::string rank_debug_log_name(std::string_view component, std::string_view program, int rank) {
  const bool is_name = std::all_of(component.begin(), component.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
  const std::string prefix = component.empty() || !is_name ? "" : fmt::format("{}-", component);
  return fmt::format("{}{}-{:04}.log", prefix, program, rank);
}

std::string_view word_of(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return "off";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "off";
}

Result<> open_log(std::string program, const LogSetting& setting, const Env& env) {
  if (setting.level == LogLevel::kOff) return {};
  if (setting.file.empty()) {
    open_log_to(std::move(program), setting.level, env, write_to_stderr);
    return {};
  }
  // Without O_NONBLOCK, the open() of a FIFO waits for its reader.
  UniqueFd fd(::open(setting.file.c_str(),
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
                     0600));
  if (!fd.is_open()) {
    const int error = errno;
    return fail(error == ELOOP ? Errc::kInvalid : Errc::kIo, "{}: {}", printable(setting.file),
                error == ELOOP ? "is a symbolic link" : errno_text(error));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(Errc::kInvalid, "{}: is not a regular file", printable(setting.file));
  if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return fail(
        Errc::kInvalid,
        "{}: belongs to another user, or is open to other users; the log needs a file of your "
        "own with mode 0600",
        printable(setting.file));
  }
  const auto file = std::make_shared<UniqueFd>(std::move(fd));
  open_log_to(std::move(program), setting.level, env,
              [file](const std::string& line) { std::ignore = write_all(file->get(), line); });
  return {};
}

void open_log_to(std::string program, LogLevel level, const Env& env, LogWriter write) {
  auto logger = std::make_shared<spdlog::logger>(std::move(program),
                                                 std::make_shared<WriterSink>(std::move(write)));
  logger->set_level(spdlog_level(level));
  logger->set_error_handler([](const std::string&) {});  // the default handler prints to stderr
  replace_log_state([&](LogState& state) {
    state.logger = std::move(logger);
    state.secrets.clear();
    for (const auto& [name, value] : env.values()) {
      if (value.size() >= kShortestSecretBytes && is_secret_name(name))
        add_secret(state.secrets, value);
    }
  });
  log_detail::level.store(level);
}

void close_log() {
  log_detail::level.store(LogLevel::kOff);
}

void hide_in_log(std::string_view secret) {
  if (secret.empty() || !is_logged(LogLevel::kInfo)) return;
  replace_log_state([&](LogState& state) { add_secret(state.secrets, secret); });
}

std::vector<std::string> mask_arguments(std::span<const std::string> argv) {
  std::vector<std::string> words;
  words.reserve(argv.size());
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    const bool is_option = word.starts_with('-');
    bool takes_values = false;
    for (const std::string_view name : {"--env", "--export"}) {
      if (word == name) takes_values = true;
      if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=') {
        words.push_back(std::string(name) + "=" + mask_values(word.substr(name.size() + 1)));
        break;
      }
    }
    if (words.size() > i) continue;
    words.push_back(mask_assignment(word));
    if (i + 1 == argv.size() || !is_option) continue;
    const bool has_secret_value =
        words.back() == word && word.find('=') == std::string::npos && is_secret_name(word);
    if (takes_values) {
      words.push_back(mask_values(argv[++i]));
    } else if (has_secret_value && !argv[i + 1].starts_with("--")) {
      words.emplace_back(kMask);
      ++i;
    }
  }
  return words;
}

std::string mask_urls(std::string_view text) {
  std::string result;
  for (std::size_t at; (at = text.find("://")) != std::string_view::npos;) {
    at += 3;
    result += text.substr(0, at);
    text.remove_prefix(at);
    // A password may contain '@', so the host starts after the last '@'.
    const auto blank = [&] { return text.find_first_of(" \t\n\"'<>"); };
    const std::string_view user_and_host =
        user_and_host_in(text.substr(0, blank()), AddressSource::kLog);
    if (const std::size_t at_sign = user_and_host.rfind('@'); at_sign != std::string_view::npos) {
      result += std::string(kMask) + "@";
      text.remove_prefix(at_sign + 1);
    }
    std::size_t end = std::min(blank(), text.size());
    if (const std::size_t next = text.find("://"); next < text.find('?'))
      end = std::min(end, next);  // a list of URLs
    const std::string_view url = text.substr(0, end);
    text.remove_prefix(end);
    const std::size_t query = url.find('?');
    result += url.substr(0, query);
    if (query != std::string_view::npos) result += "?" + std::string(kMask);
  }
  return result += text;
}

namespace log_detail {

void write_line(LogLevel line_level, std::string_view message, std::span<const LogField> fields) {
  const LogState* const state = g_log_state.load();
  if (state == nullptr) return;
  std::string line(message);
  for (const LogField& field : fields) {
    const auto* const text = std::get_if<std::string_view>(&field.value);
    if (text != nullptr && text->empty()) continue;
    line += fmt::format(" {}={}", field.name, shown(field, state->secrets));
  }
  state->logger->log(spdlog_level(line_level), spdlog::string_view_t(line));
}

}  // namespace log_detail

void LockWaitLog::begin() {
  if (since_) return;
  since_ = std::chrono::steady_clock::now();
  log_info("waiting for a lock that another process holds", {{"file", file_}});
}

LockWaitLog::~LockWaitLog() {
  if (since_)
    log_info("the wait for a lock is over",
             {{"file", file_}, {"seconds", std::chrono::steady_clock::now() - *since_}});
}

}  // namespace dlrun
