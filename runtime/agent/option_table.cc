#include "runtime/agent/option_table.h"

#include "common/text.h"

namespace dlrun::agent {

Result<std::vector<std::string>> read_options(const std::vector<std::string>& arguments,
                                              const std::vector<Option>& options) {
  for (std::size_t at = 1; at < arguments.size(); ++at) {
    const std::string_view argument = arguments[at];
    if (argument == "--") {
      std::vector<std::string> command(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                                       arguments.end());
      if (command.empty() || command.front().empty()) break;
      return command;
    }
    const auto equals = argument.find('=');
    const auto name = argument.substr(0, equals);
    const Option* option = nullptr;
    for (const auto& known : options) {
      if (known.name == name) option = &known;
    }
    if (option == nullptr) {
      return fail(Errc::kUsage,
                  "{}: unknown option '{}'; options come before '--', the command after it",
                  arguments.front(), printable(argument));
    }
    if (!option->store_value) {
      if (equals != std::string_view::npos) return fail(Errc::kUsage, "{} takes no value", name);
      option->store_flag();
      continue;
    }
    if (equals == std::string_view::npos && at + 1 >= arguments.size()) {
      return fail(Errc::kUsage, "{} needs a value", name);
    }
    const std::string_view value =
        equals == std::string_view::npos ? arguments[++at] : argument.substr(equals + 1);
    DLRUN_TRY(option->store_value(value));
  }
  return fail(Errc::kUsage, "{}: no command; write '--' and the command after the options",
              arguments.front());
}

Result<> store_number(std::string_view value, std::string_view name, std::string_view unit, int min,
                      int max, int& target) {
  const auto number = parse_int(value);
  if (!number || *number < min || *number > max) {
    return fail(Errc::kUsage, "{} '{}' is not a number of {} from {} to {}", name, printable(value),
                unit, min, max);
  }
  target = static_cast<int>(*number);
  return {};
}

std::function<Result<>(std::string_view)> number_into(std::string_view name, std::string_view unit,
                                                      int min, int max, int& target) {
  return [=, &target](std::string_view value) {
    return store_number(value, name, unit, min, max, target);
  };
}

}  // namespace dlrun::agent
