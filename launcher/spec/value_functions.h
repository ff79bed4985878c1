#pragma once
// Facts about the values of a key, and functions on the values. Facts and functions depend on the
// type of the member that the key sets; value_type.h has a struct for each type.

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "launcher/spec/spec_keys.h"

namespace dlrun {

/// Facts about all values of one type.
struct ValueTraits {
  bool is_text = false;               ///< a value is text even if it looks like a number
  bool is_switch = false;             ///< true and false are the only values
  bool is_number = false;             ///< a sweep can draw values from a range
  bool is_whole = false;              ///< whole numbers only
  bool is_map = false;                ///< a map whose names the user chooses
  bool has_settable_entries = false;  ///< a map in which --set can set one entry: KEY.NAME=VALUE
  std::string_view limits = {};       ///< the limits of the type, as text for people
  /// The form of the whole value after `--set KEY=`, such as "TYPE:COUNT". The error about --set
  /// KEY.NAME=VALUE shows this form. Empty: the error shows KEY=VALUE instead.
  std::string_view set_form = {};
};

[[nodiscard]] ValueTraits traits_of(const KeyRow& row);

/// Returns the description of the type: "whole number". The key must be supported.
[[nodiscard]] std::string type_in_words(const KeyRow& row);

/// Returns the JSON Schema of a value. The key must be supported.
[[nodiscard]] nlohmann::ordered_json value_schema(const KeyRow& row);

/// Returns the value as one line of YAML; nullopt if the value is not set, or if the key is a map
/// whose entries --set can set (has_settable_entries).
[[nodiscard]] std::optional<std::string> value_yaml(const KeyRow& row, const JobSpec& spec);

/// Returns the names and the YAML of the values in a map whose entries --set can set; nothing for
/// other keys.
[[nodiscard]] NamedValues entries_yaml(const KeyRow& row, const JobSpec& spec);

/// Copies the value of a key from one spec to another. If `from` does not set the value, `to` does
/// not set it afterwards.
void copy_value(const KeyRow& row, const JobSpec& from, JobSpec& to);

}  // namespace dlrun
