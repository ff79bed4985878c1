#include "launcher/submit/search_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/spec/own_parameters.h"
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

[[nodiscard]] bool is_among(const std::vector<SweptValue>& values, const std::string& text) {
  const auto number = parse_double(text);
  return std::any_of(values.begin(), values.end(), [&](const SweptValue& value) {
    return value.text == text || (number && parse_double(value.text) == number);
  });
}

/// Returns the value of a parameter in an answer.
[[nodiscard]] Result<SweptValue> value_of(const SweptKey& key, const Json& point) {
  const auto found = point.find(key.key);
  if (found == point.end()) return fail(Errc::kInvalid, "the point has no '{}'", key.key);
  auto text = text_of(*found);
  if (!text) return fail(Errc::kInvalid, "'{}' is neither a number nor a text", key.key);
  if (key.range) {
    if (const auto why = why_outside(*key.range, *text); !why.empty())
      return fail(Errc::kInvalid, "'{}': {}", key.key, why);
    if (key.range->is_whole) text = fmt::format("{:.0f}", *parse_double(*text));
  } else if (!is_among(key.values, *text)) {
    return fail(Errc::kInvalid, "'{}': {} is not one of the sweep's values", key.key,
                printable(*text));
  }
  return SweptValue{key.key, std::move(*text), key.where};
}

[[nodiscard]] Result<SweepPoint> read_point(const Json& json, const SweepSpec& sweep) {
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

/// Becomes the search program. Runs in the child after fork, where only async-signal-safe calls are
/// allowed.
[[noreturn]] void start_program(const std::string& program, char** argv, char** envp,
                                const std::string& directory, int channel) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  // In a process group of its own, the program gets no SIGINT on Ctrl-C. It sees the end of its
  // input instead, and can save its state.
  setpgid(0, 0);
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

/// Waits until the descriptor is ready for `events`. Returns false at the deadline.
[[nodiscard]] bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{fd, events, 0};
    if (::poll(&wait, 1, static_cast<int>(std::min<long long>(left, 1000))) > 0) return true;
  }
}

}  // namespace

Result<Proposal> read_proposal(std::string_view line, const SweepSpec& sweep) {
  const auto json = json_read::object_of(line);
  if (!json) return fail(Errc::kInvalid, "it is not a JSON object");
  if (json->size() == 1 && json_read::truth(*json, "wait"))
    return Proposal{Proposal::Kind::kWait, {}};
  if (json->size() == 1 && json_read::truth(*json, "done"))
    return Proposal{Proposal::Kind::kDone, {}};
  const auto point = json->find("point");
  if (json->size() != 1 || point == json->end())
    return fail(Errc::kInvalid,
                "expected {{\"point\": {{...}}}}, {{\"wait\": true}} or {{\"done\": true}}");
  DLRUN_TRY_ASSIGN(auto values, read_point(*point, sweep));
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
  // A socket pair instead of two pipes, because send() with MSG_NOSIGNAL raises no SIGPIPE.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(Errc::kIo, "sweep.ask: {}", errno_text(errno));
  UniqueFd own(ends[0]), childs(ends[1]);
  const std::vector<std::string> entries = env.entries();
  std::vector<char*> arguments = pointers(argv), variables = pointers(entries);
  const pid_t child = ::fork();
  if (child < 0) return fail(Errc::kIo, "sweep.ask: fork: {}", errno_text(errno));
  if (child == 0)
    start_program(*program, arguments.data(), variables.data(), directory, childs.get());
  return std::unique_ptr<SearchProgram>(new SearchProgram(argv[0], child, std::move(own), timeout));
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

Error SearchProgram::end_error() {
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
  return {Errc::kPeer,
          fmt::format("sweep.ask: {} {}; its messages are above", printable(name_), how)};
}

Result<> SearchProgram::tell(const Json& message) {
  const std::string line = json_read::dump(message) + "\n";
  const auto deadline = Clock::now() + timeout_;
  for (std::string_view rest = line; !rest.empty();) {
    if (!wait_for(channel_.get(), POLLOUT, deadline))
      return fail(Errc::kTimeout, "sweep.ask: {} has read nothing for {} s", printable(name_),
                  timeout_.count());
    const ssize_t sent =
        ::send(channel_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return tl::unexpected(end_error());
  }
  return {};
}

Result<std::string> SearchProgram::ask(const Json& message) {
  DLRUN_TRY(tell(message));
  const auto deadline = Clock::now() + timeout_;
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kLongestLine)
      return fail(Errc::kInvalid, "sweep.ask: {} has written a line of more than {} bytes",
                  printable(name_), kLongestLine);
    if (!wait_for(channel_.get(), POLLIN, deadline))
      return fail(Errc::kTimeout,
                  "sweep.ask: {} has not answered for {} s (sweep.ask_timeout); does it flush its "
                  "output after each line?",
                  printable(name_), timeout_.count());
    std::array<char, 16384> buffer{};
    const ssize_t got = ::recv(channel_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) unread_.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
      return tl::unexpected(end_error());
  }
}

}  // namespace dlrun
