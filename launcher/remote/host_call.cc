#include "launcher/remote/host_call.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dlrun {
namespace {

constexpr std::array<std::string_view, 3> kWithTerminal{"interactive", "attach", "top"};
constexpr std::array<std::string_view, 2> kWithUsersExitCode{"interactive", "attach"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& commands, std::string_view command) {
  return std::find(commands.begin(), commands.end(), command) != commands.end();
}

/// Returns true if the argument is an option whose value is the next argument.
bool has_value_next(const HostCall& call, const std::string& argument) {
  const auto& options = call.value_options;
  return std::find(options.begin(), options.end(), argument) != options.end();
}

/// Returns where the letter of a short option stands in an argument such as -o, -oFILE or -vo; npos
/// if the argument does not have the option. The option must be one that takes a value. Only -v can
/// precede it.
std::size_t position_of(char option, std::string_view argument) {
  if (!argument.starts_with('-')) return std::string_view::npos;
  const auto at = argument.find_first_not_of('v', 1);
  return at < argument.size() && argument[at] == option ? at : std::string_view::npos;
}

}  // namespace

bool can_use_terminal(const HostCall& call) {
  return is_one_of(kWithTerminal, call.command);
}

bool reads_input(const HostCall& call) {
  return call.spec == "-" || (can_use_terminal(call) && call.command != "top");
}

bool returns_users_exit_code(const HostCall& call) {
  return is_one_of(kWithUsersExitCode, call.command);
}

std::vector<std::string> adapted_arguments(const HostCall& call, const std::string* spec_there) {
  std::vector<std::string> arguments = call.arguments;
  for (std::size_t at = 0; at < arguments.size() && arguments[at] != "--"; ++at) {
    std::string& argument = arguments[at];
    const auto o_position = position_of('o', argument);
    const bool value_is_next = argument == "--output" || (o_position != std::string_view::npos &&
                                                          o_position + 1 == argument.size());
    if (!call.output_file.empty() && value_is_next) {
      if (at + 1 < arguments.size()) arguments[++at] = "-";
    } else if (!call.output_file.empty() && argument.starts_with("--output=")) {
      argument = "--output=-";
    } else if (!call.output_file.empty() && o_position != std::string_view::npos) {
      argument = argument.substr(0, o_position + 1) + "-";
    } else if (has_value_next(call, argument)) {
      ++at;
    } else if (spec_there != nullptr && at > 0 && argument == call.spec) {
      argument = *spec_there;
    }
  }
  return arguments;
}

std::vector<std::string> arguments_for_host(const std::vector<std::string>& argv) {
  std::vector<std::string> arguments;
  bool is_after_command = false, is_after_dashes = false;
  for (std::size_t at = 1; at < argv.size(); ++at) {
    const std::string& argument = argv[at];
    const auto h_position = is_after_command ? std::string_view::npos : position_of('H', argument);
    const bool is_host_option = !is_after_command && argument == "--host";
    if (!is_after_dashes && (is_host_option || argument == "--log-file")) {
      ++at;
      continue;
    }
    if (!is_after_dashes && (argument.starts_with("--log-file=") ||
                             (!is_after_command && argument.starts_with("--host="))))
      continue;
    if (h_position != std::string_view::npos) {
      if (h_position > 1) arguments.push_back(argument.substr(0, h_position));  // the -v before H
      if (h_position + 1 == argument.size()) ++at;
      continue;
    }
    is_after_command = is_after_command || !argument.starts_with('-');
    is_after_dashes = is_after_dashes || argument == "--";
    arguments.push_back(argument);
  }
  return arguments;
}

std::optional<HostCall> call_for_host(const std::string& host, CommandPlace place,
                                      const ParsedCall& parsed,
                                      const std::vector<std::string>& argv,
                                      const std::filesystem::path& folder) {
  if (host.empty() || place == CommandPlace::kHere) return std::nullopt;
  std::error_code error;
  if (parsed.command == "explain" &&
      (parsed.spec.empty() || !std::filesystem::exists(folder / parsed.spec, error)))
    return std::nullopt;  // a key means the same everywhere
  HostCall call;
  call.host = host;
  call.command = parsed.command;
  call.arguments = arguments_for_host(argv);
  call.spec = parsed.spec;
  if (parsed.output_file != "-") call.output_file = parsed.output_file;
  call.needs_source_code = place == CommandPlace::kHostWithCode && !parsed.spec.empty();
  call.watches = parsed.watches;
  call.value_options = parsed.value_options;
  call.submits = (parsed.command == "submit" || parsed.command == "resubmit") && !parsed.is_trial;
  return call;
}

}  // namespace dlrun
