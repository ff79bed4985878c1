#include "launcher/submit/search_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <linux/close_range.h>

#include "common/interrupt.h"
#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/spec/program_parameters.h"
#include "launcher/spec/typed_value.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = 1U << 20U;  ///< bytes

/// Returns a value of an answer as the text of a YAML scalar; nullopt if it is not a single value.
[[nodiscard]] std::optional<std::string> text_of(const Json& value) {
  if (value.is_string()) {
    auto text = value.get<std::string>();
    return parse_double(text) ? text : yaml_text(text);
  }
  if (value.is_number() || value.is_boolean()) return json_read::dump(value);
  return std::nullopt;
}

/// Returns the reason why a value is not in the range; empty if it is.
[[nodiscard]] std::string why_outside(const SweptRange& range, const std::string& text) {
  const auto number = parse_double(text);
  if (!number) return fmt::format("{} is not a number", printable(text));
  if (*number < range.min || *number > range.max)
    return fmt::format("{} is not between {} and {}", text, range.min, range.max);
  if (range.is_whole && *number != std::floor(*number))
    return fmt::format("{} is not a whole number", text);
  return "";
}

/// Returns the listed value that is equal to the text. The job gets the spelling of the spec, such
/// as 128, and not that of the program, such as 128.0.
[[nodiscard]] std::optional<std::string> listed_value(const std::vector<SweptValue>& values,
                                                      const std::string& text) {
  const auto number = parse_double(text);
  const auto is_same = [&](const SweptValue& value) {
    return value.text == text || (number && parse_double(value.text) == number);
  };
  const auto found = std::find_if(values.begin(), values.end(), is_same);
  return found == values.end() ? std::nullopt : std::optional(found->text);
}

/// Returns the value of a parameter in an answer.
[[nodiscard]] Result<SweptValue> value_of(const SweptKey& key, const Json& point) {
  const auto found = point.find(key.key);
  if (found == point.end()) return fail(Errc::kInvalid, "the point has no '{}'", key.key);
  auto text = text_of(*found);
  if (!text) return fail(Errc::kInvalid, "'{}' is not a number, a text, true or false", key.key);
  if (key.range) {
    if (const auto why = why_outside(*key.range, *text); !why.empty())
      return fail(Errc::kInvalid, "'{}': {}", key.key, why);
    if (key.range->is_whole) text = fmt::format("{:.0f}", *parse_double(*text));
  } else if (auto listed = listed_value(key.values, *text)) {
    text = std::move(listed);
  } else {
    return fail(Errc::kInvalid, "'{}': {} is not one of the sweep's values", key.key,
                printable(*text));
  }
  return SweptValue{key.key, std::move(*text), key.where};
}

[[nodiscard]] Result<SweepPoint> parse_point(const Json& json, const SweepSpec& sweep) {
  if (!json.is_object())
    return fail(Errc::kInvalid, "\"point\" is not an object of names and values");
  for (const auto& [name, value] : json.items()) {
    const auto& all = sweep.parameters;
    if (std::none_of(all.begin(), all.end(), [&](const SweptKey& key) { return key.key == name; }))
      return fail(Errc::kInvalid, "the sweep has no parameter '{}'", printable(name));
  }
  SweepPoint point;
  for (const SweptKey& key : sweep.parameters) {
    DLRUN_TRY_ASSIGN(auto value, value_of(key, json));
    point.push_back(std::move(value));
  }
  return point;
}

/// Returns the first number in a line of JSON that is too large for a double, such as 1e400.
[[nodiscard]] std::optional<std::string_view> number_beyond_double(std::string_view line) {
  constexpr std::string_view kInNumbers = "+-.eE0123456789";
  bool is_in_text = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (is_in_text && c == '\\') ++at;
    if (c == '"') is_in_text = !is_in_text;
    if (is_in_text || (c != '-' && (c < '0' || c > '9'))) continue;
    const auto end = std::min(line.find_first_not_of(kInNumbers, at), line.size());
    const std::string_view number = line.substr(at, end - at);
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_small =
        number.find("e-") != std::string_view::npos || number.find("E-") != std::string_view::npos;
    if (read.ec == std::errc::result_out_of_range && !is_small) return number;
    at = end - 1;
  }
  return std::nullopt;
}

/// Returns the reason why a line is not a JSON object. Many libraries write NaN and Infinity, which
/// JSON does not have.
[[nodiscard]] std::string why_no_object(std::string_view line) {
  if (const auto number = number_beyond_double(line))
    return fmt::format("{} is too large for a number", printable(number->substr(0, 40)));
  const bool has_nan_or_infinity =
      line.find("NaN") != std::string_view::npos || line.find("Infinity") != std::string_view::npos;
  if (line.starts_with('{') && has_nan_or_infinity)
    return "it is not a JSON object: JSON has neither NaN nor Infinity";
  return "it is not a JSON object";
}

/// Makes all descriptors except the standard streams close at exec. Otherwise a daemon that the
/// program leaves behind would hold dlrun's locks. Makes only async-signal-safe calls.
void close_others_at_exec() {
  constexpr unsigned kFirst = 3;
  if (::syscall(SYS_close_range, kFirst, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  // Linux before 5.11 does not know the call.
  constexpr int kMost = 65536;
  for (int fd = kFirst; fd < kMost; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/// Becomes the search program. Runs in the child after fork, where only async-signal-safe calls are
/// allowed.
[[noreturn]] void become_search_program(const std::string& program, char** argv, char** envp,
                                        const std::string& directory, int channel) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  // In a process group of its own, the program gets no SIGINT on Ctrl-C. It sees the end of its
  // input instead, and can save its state.
  setpgid(0, 0);
  close_others_at_exec();
  if (chdir(directory.c_str()) == 0 && dup2(channel, 0) >= 0 && dup2(channel, 1) >= 0)
    execve(program.c_str(), argv, envp);
  _exit(127);
}

[[nodiscard]] std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Waits until the descriptor is ready for `events`. Returns false at the deadline. Fails with
/// kInterrupted after a signal.
[[nodiscard]] Result<bool> wait_for(int fd, short events, Clock::time_point deadline,
                                    const Interrupt& interrupt) {
  constexpr long long kLookMs = 200;  // a signal just before poll() is noticed within this time
  for (;;) {
    if (interrupt.requested()) return fail(Errc::kInterrupted, "interrupted");
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{fd, events, 0};
    if (::poll(&wait, 1, static_cast<int>(std::min<long long>(left, kLookMs))) > 0) return true;
  }
}

}  // namespace

Result<Proposal> parse_proposal(std::string_view line, const SweepSpec& sweep) {
  const auto json = json_read::object_of(line);
  if (!json) return fail(Errc::kInvalid, "{}", why_no_object(line));
  if (json->size() == 1 && json_read::boolean(*json, "wait"))
    return Proposal{Proposal::Kind::kWait, {}};
  if (json->size() == 1 && json_read::boolean(*json, "done"))
    return Proposal{Proposal::Kind::kDone, {}};
  const auto point = json->find("point");
  if (json->size() != 1 || point == json->end())
    return fail(Errc::kInvalid,
                "expected {{\"point\": {{...}}}}, {{\"wait\": true}} or {{\"done\": true}}");
  DLRUN_TRY_ASSIGN(auto values, parse_point(*point, sweep));
  return Proposal{Proposal::Kind::kPoint, std::move(values)};
}

Json start_message(const SweepSpec& sweep) {
  Json parameters = Json::object();
  for (const SweptKey& key : sweep.parameters) {
    if (key.range) {
      Json range{{"min", key.range->min}, {"max", key.range->max}};
      if (key.range->is_whole)
        range = {{"min", static_cast<std::int64_t>(key.range->min)},
                 {"max", static_cast<std::int64_t>(key.range->max)}};
      range["log"] = key.range->is_log;
      parameters[key.key] = std::move(range);
      continue;
    }
    Json values = Json::array();
    for (const SweptValue& value : key.values) values.push_back(typed_value(key.key, value.text));
    parameters[key.key] = std::move(values);
  }
  return {{"start", {{"parameters", std::move(parameters)}}}};
}

Json values_json(const SweepPoint& point) {
  Json values = Json::object();
  for (const SweptValue& value : point) values[value.key] = typed_value(value.key, value.text);
  return values;
}

Result<std::unique_ptr<SearchProgram>> SearchProgram::start(const std::vector<std::string>& argv,
                                                            const Env& env,
                                                            const std::string& directory,
                                                            std::chrono::seconds timeout) {
  const bool is_path = argv.at(0).find('/') != std::string::npos;
  const auto program =
      find_program(is_path ? (std::filesystem::path(directory) / argv[0]).string() : argv[0], env);
  if (!program) return fail(Errc::kNotFound, "sweep.ask: {}: no such program", printable(argv[0]));
  // The channel is a socket pair, not two pipes: a write to a socket can avoid SIGPIPE
  // (MSG_NOSIGNAL), and a write to a pipe cannot.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(Errc::kIo, "sweep.ask: {}", errno_text(errno));
  UniqueFd parent_end(ends[0]), child_end(ends[1]);
  const std::vector<std::string> entries = env.entries();
  std::vector<char*> arguments = pointers(argv), variables = pointers(entries);
  const pid_t child = ::fork();
  if (child < 0) return fail(Errc::kIo, "sweep.ask: fork: {}", errno_text(errno));
  if (child == 0)
    become_search_program(*program, arguments.data(), variables.data(), directory, child_end.get());
  return std::unique_ptr<SearchProgram>(
      new SearchProgram(argv[0], child, std::move(parent_end), timeout));
}

SearchProgram::~SearchProgram() {
  channel_.reset();
  constexpr auto kEndLimit = std::chrono::seconds(2);
  const auto deadline = Clock::now() + kEndLimit;
  while (child_ > 0 && Clock::now() < deadline) {
    if (::waitpid(child_, nullptr, WNOHANG) != 0) child_ = -1;
    const timespec pause{0, 5'000'000};
    if (child_ > 0) ::nanosleep(&pause, nullptr);
  }
  if (child_ <= 0) return;
  ::kill(-child_, SIGKILL);  // the process group of the program
  ::waitpid(child_, nullptr, 0);
}

ssize_t SearchProgram::read_some() {
  std::array<char, 16384> buffer{};
  const ssize_t got = ::recv(channel_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) unread_.append(buffer.data(), static_cast<std::size_t>(got));
  return got;
}

Error SearchProgram::end_error() {
  // A program that ends while dlrun sends may have written something first.
  while (unread_.size() <= kLongestLine && read_some() > 0) continue;
  int status = 0;
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  while (child_ > 0 && Clock::now() < deadline) {
    if (::waitpid(child_, &status, WNOHANG) == child_) child_ = -1;
    const timespec pause{0, 5'000'000};
    if (child_ > 0) ::nanosleep(&pause, nullptr);
  }
  std::string how = "has closed its output";
  if (child_ <= 0 && WIFEXITED(status))
    how = fmt::format("ended with code {} before the search was over", WEXITSTATUS(status));
  if (child_ <= 0 && WIFSIGNALED(status))
    how = fmt::format("was ended by {}", signal_name(WTERMSIG(status)));
  return {Errc::kPeer, fmt::format("sweep.ask: {} {}; its messages, if any, are above{}",
                                   printable(name_), how, unfinished_line_note())};
}

std::string SearchProgram::unfinished_line_note() const {
  constexpr std::size_t kShown = 80;
  const std::string unfinished = unread_.substr(unread_.rfind('\n') + 1);
  if (unfinished.empty()) return "";
  return fmt::format(
      ". Its last output has no newline at its end, and is therefore no answer: '{}'",
      printable(unfinished.substr(0, kShown)));
}

Result<> SearchProgram::send(const Json& message) {
  const std::string line = json_read::dump(message) + "\n";
  const Interrupt interrupt;
  const auto deadline = Clock::now() + timeout_;
  for (std::string_view rest = line; !rest.empty();) {
    DLRUN_TRY_ASSIGN(const bool is_ready, wait_for(channel_.get(), POLLOUT, deadline, interrupt));
    if (!is_ready)
      return fail(Errc::kTimeout,
                  "sweep.ask: {} did not read a message within {} s (sweep.ask_timeout)",
                  printable(name_), timeout_.count());
    const ssize_t sent =
        ::send(channel_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return tl::unexpected(end_error());
  }
  return {};
}

Result<std::string> SearchProgram::ask(const Json& message) {
  const Interrupt interrupt;
  DLRUN_TRY(send(message));
  const auto deadline = Clock::now() + timeout_;
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      ++line_count_;
      return line;
    }
    if (unread_.size() > kLongestLine)
      return fail(Errc::kInvalid, "sweep.ask: {} has written a line of more than {} bytes",
                  printable(name_), kLongestLine);
    DLRUN_TRY_ASSIGN(const bool is_ready, wait_for(channel_.get(), POLLIN, deadline, interrupt));
    if (!is_ready)
      return fail(Errc::kTimeout,
                  "sweep.ask: {} has not answered for {} s (sweep.ask_timeout); does it flush its "
                  "output after each line?{}",
                  printable(name_), timeout_.count(), unfinished_line_note());
    const ssize_t got = read_some();
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
      return tl::unexpected(end_error());
  }
}

}  // namespace dlrun
