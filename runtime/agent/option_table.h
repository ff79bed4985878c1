#pragma once
// The table of a command's options, as dlrun-agent reads them, and functions that store the values.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

/// One option. `store_value` parses and stores its value. An option without `store_value` is a
/// flag; its `store_flag` stores that the flag was given.
struct Option {
  std::string_view name;
  std::function<Result<>(std::string_view)> store_value;
  std::function<void()> store_flag;
};

/// Parses the options after arguments[0], up to "--", and returns the arguments after "--": the
/// command. A value has the form `--name VALUE` or `--name=VALUE`. Fails with kUsage for an unknown
/// option or a bad value, and if there is no command.
[[nodiscard]] Result<std::vector<std::string>> read_options(
    const std::vector<std::string>& arguments, const std::vector<Option>& options);

/// Stores a whole number from min to max. Fails with kUsage for another value. name, unit: the
/// option and the unit, for the message.
[[nodiscard]] Result<> store_number(std::string_view value, std::string_view name,
                                    std::string_view unit, int min, int max, int& target);

/// Returns a function for Option::store_value that stores a whole number from min to max.
[[nodiscard]] std::function<Result<>(std::string_view)> number_into(std::string_view name,
                                                                    std::string_view unit, int min,
                                                                    int max, int& target);

/// Returns a function for Option::store_value that stores a text, which must not be empty.
template <typename Text>
[[nodiscard]] std::function<Result<>(std::string_view)> text_into(std::string_view name,
                                                                  Text& target) {
  return [name, &target](std::string_view value) -> Result<> {
    if (value.empty()) return fail(Errc::kUsage, "{} needs a value", name);
    target = value;
    return {};
  };
}

/// Returns a function for Option::store_value that stores a time in whole seconds, at least one.
template <typename Time>
[[nodiscard]] std::function<Result<>(std::string_view)> seconds_into(std::string_view name,
                                                                     Time& target) {
  return [name, &target](std::string_view value) -> Result<> {
    int count = 0;
    DLRUN_TRY(store_number(value, name, "seconds", 1, 1 << 30, count));
    target = std::chrono::seconds(count);
    return {};
  };
}

/// Returns a function for Option::store_value that stores the result of `parse` for the value.
template <typename Parse, typename Target>
[[nodiscard]] std::function<Result<>(std::string_view)> parsed_into(const Parse& parse,
                                                                    Target& target) {
  return [&parse, &target](std::string_view value) -> Result<> {
    auto parsed = parse(value);
    if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
    target = std::move(*parsed);
    return {};
  };
}

/// Returns a function for Option::store_value that adds the result of `parse` for the value to a
/// list.
template <typename Parse, typename Item>
[[nodiscard]] std::function<Result<>(std::string_view)> item_into(const Parse& parse,
                                                                  std::vector<Item>& list) {
  return [&parse, &list](std::string_view value) -> Result<> {
    auto parsed = parse(value);
    if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
    list.push_back(std::move(*parsed));
    return {};
  };
}

}  // namespace dlrun::agent
