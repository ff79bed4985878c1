#pragma once
// Rows for tables of command-line flags. A row is the only description of its flag. The parser, the
// text of --help and the check that all ranks have the same options read the row.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/result.h"
#include "common/text.h"

namespace dlrun::trainer {

/// The placeholder, the setter and the text of a flag's value. O: the type of the options.
template <typename O>
struct FlagValue {
  std::string placeholder;  ///< for --help; empty if the flag has no value (set ignores the text)
  std::function<Result<>(O&, std::string_view)> set;
  /// Returns the value as text. The ranks compare the texts of the flags of TrainOptions: different
  /// texts mean different options. If O is another type, or if Flag::may_differ is true, `to_text`
  /// is not called and may be empty.
  std::function<std::string(const O&)> to_text;
};

template <typename O>
struct Flag {
  std::string_view name;
  FlagValue<O> value;
  std::string_view help;
  bool may_differ = false;  ///< the ranks do not compare this flag
};

/// A text that a flag accepts, and the value to which the flag then sets the option.
template <typename T>
struct FlagChoice {
  std::string_view text;
  T value;
};

/// Expands to a function that returns a member of the options, for the functions below.
#define DLRUN_FIELD(path)      \
  [](auto& options) -> auto& { \
    return options.path;       \
  }

/// Parses a whole number in [low, high]. Fails with kUsage.
[[nodiscard]] inline Result<std::int64_t> parse_whole_number(std::string_view value,
                                                             std::int64_t low, std::int64_t high) {
  const auto number = parse_int(value);
  if (!number || *number < low || *number > high) {
    return fail(Errc::kUsage, "expected a whole number from {} to {}, got '{}'", low, high,
                printable(value));
  }
  return *number;
}

/// Makes a flag's value: a whole number in [low, high].
template <typename O, typename Field>
[[nodiscard]] FlagValue<O> whole(Field field, std::int64_t low, std::int64_t high) {
  return {"N",
          [=](O& options, std::string_view value) -> Result<> {
            DLRUN_TRY_ASSIGN(const auto parsed, parse_whole_number(value, low, high));
            auto& target = field(options);
            target = static_cast<std::remove_reference_t<decltype(target)>>(parsed);
            return {};
          },
          [=](const O& options) { return fmt::format("{}", field(options)); }};
}

/// Makes a flag's value: a number in [low, high]. The member may be a std::optional.
template <typename O, typename Field>
[[nodiscard]] FlagValue<O> number(Field field, double low, double high) {
  return {"X",
          [=](O& options, std::string_view value) -> Result<> {
            const auto parsed = parse_double(value);
            if (!parsed || *parsed < low || *parsed > high) {
              return fail(Errc::kUsage, "expected a number from {:.9g} to {:.9g}, got '{}'", low,
                          high, printable(value));
            }
            field(options) = *parsed;
            return {};
          },
          [=](const O& options) {
            const std::optional<double> value = field(options);
            return value ? fmt::format("{}", *value) : "";
          }};
}

/// Makes a flag's value: one of the texts in `choices`, which must outlive the table.
template <typename O, typename Field, typename Choices>
[[nodiscard]] FlagValue<O> one_of(Field field, const Choices& choices) {
  std::string names;
  for (const auto& [choice, value] : choices)
    names += (names.empty() ? "" : "|") + std::string(choice);
  return {names,
          [=, &choices](O& options, std::string_view text) -> Result<> {
            for (const auto& [choice, value] : choices) {
              if (choice != text) continue;
              field(options) = value;
              return {};
            }
            return fail(Errc::kUsage, "expected one of {}, got '{}'", names, printable(text));
          },
          [=, &choices](const O& options) {
            for (const auto& [choice, value] : choices) {
              if (value == field(options)) return std::string(choice);
            }
            return std::string();
          }};
}

/// Makes a flag's value: one of the texts in "a|b|c", stored as text.
template <typename O, typename Field>
[[nodiscard]] FlagValue<O> one_of_texts(Field field, std::string_view texts) {
  return {std::string(texts),
          [=](O& options, std::string_view value) -> Result<> {
            for (const std::string_view text : split(texts, '|')) {
              if (text != value) continue;
              field(options) = std::string(value);
              return {};
            }
            return fail(Errc::kUsage, "expected one of {}, got '{}'", texts, printable(value));
          },
          [=](const O& options) { return field(options); }};
}

/// Makes the value of a flag without an argument. The flag sets a member to true.
template <typename O, typename Field>
[[nodiscard]] FlagValue<O> without_argument(Field field) {
  return {"",
          [=](O& options, std::string_view) -> Result<> {
            field(options) = true;
            return {};
          },
          [=](const O& options) { return field(options) ? "given" : "not given"; }};
}

/// Makes a flag's value: a path that is not empty. It has no FlagValue::to_text, so the ranks
/// cannot compare it.
template <typename O, typename Field>
[[nodiscard]] FlagValue<O> path(std::string_view placeholder, Field field) {
  return {std::string(placeholder),
          [=](O& options, std::string_view value) -> Result<> {
            if (value.empty()) return fail(Errc::kUsage, "expected a path");
            field(options) = value;
            return {};
          },
          {}};
}

/// Sets the options from args: "--name value" or "--name=value"; -h means --help. Fails with kUsage
/// if a flag is unknown (the message suggests the nearest flag if one is near), lacks its value,
/// has a wrong value, or has a value although it takes none.
template <typename O>
[[nodiscard]] Result<> parse_into(O& options, std::span<const std::string> args,
                                  const std::vector<Flag<O>>& table) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view name = args[i];
    std::optional<std::string_view> value;
    if (const std::size_t equals = name.find('=');
        name.starts_with("--") && equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    if (name == "-h") name = "--help";
    const Flag<O>* found = nullptr;
    std::vector<std::string_view> names;
    for (const Flag<O>& flag : table) {
      if (flag.name == name) found = &flag;
      names.push_back(flag.name);
    }
    if (found == nullptr) {
      const auto near = nearest(name, names);
      return fail(Errc::kUsage, "unknown option '{}'{}; --help lists all", printable(name),
                  near ? fmt::format("; did you mean '{}'?", *near) : "");
    }
    const std::string& placeholder = found->value.placeholder;
    if (placeholder.empty() && value) return fail(Errc::kUsage, "{} takes no value", name);
    if (!placeholder.empty() && !value) {
      if (++i == args.size()) return fail(Errc::kUsage, "{} needs a value: {}", name, placeholder);
      value = args[i];
    }
    if (auto set = found->value.set(options, value.value_or("")); !set)
      return within(name, set.error());
  }
  return {};
}

/// Returns the lines of --help for the flags of `table`.
template <typename O>
[[nodiscard]] std::string help_lines(const std::vector<Flag<O>>& table) {
  std::string text;
  for (const Flag<O>& flag : table) {
    const std::string& placeholder = flag.value.placeholder;
    text += fmt::format(
        "  {:<42} {}\n",
        fmt::format("{}{}{}", flag.name, placeholder.empty() ? "" : " ", placeholder), flag.help);
  }
  return text;
}

}  // namespace dlrun::trainer
