#pragma once
// Converts the values of sbatch's options to JSON. Pure functions.

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "launcher/plan/rest_fields.h"

namespace dlrun {

/// Returns true if an option of this kind takes no value.
[[nodiscard]] bool rest_kind_is_flag(RestKind kind);

/// Sets an option's field in a job description, or appends to it. value: nullopt if the option has
/// no value. Returns nullopt on success. If the value has a wrong form, returns the expected form,
/// such as "a number". Does nothing for kNotSent and kRefused.
[[nodiscard]] std::optional<std::string> set_rest_field(nlohmann::ordered_json& job,
                                                        const RestField& field,
                                                        const std::optional<std::string>& value);

}  // namespace dlrun
