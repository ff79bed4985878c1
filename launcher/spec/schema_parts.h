#pragma once
// The parts of a JSON Schema that several types of values share. Only schema.cc and value*.cc
// include this file.

#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "launcher/spec/spec_keys.h"

namespace dlrun::schema_parts {

using ValueJson = nlohmann::ordered_json;

// Regular expressions in the subset that ECMA 262 and Python share.
inline constexpr std::string_view kPrintablePattern = R"(^[^\u0000-\u001f\u007f]+$)";
inline constexpr std::string_view kSlugPattern = R"(^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$)";
inline constexpr std::string_view kWholeNumberPattern = R"(^[+-]?[0-9]{1,19}$)";
inline constexpr std::string_view kNumberPattern =
    R"(^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$)";
inline constexpr std::string_view kNodesPattern = R"(^[0-9]{1,9}(-[0-9]{1,9})?$)";
inline constexpr std::string_view kGpusPattern = R"(^([A-Za-z0-9._+-]{1,64}:)?[0-9]{1,9}$)";
inline constexpr std::string_view kDurationPattern =
    R"(^([0-9]{1,9}|(?=[0-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)$)";
inline constexpr std::string_view kTimePattern =
    R"(^(([0-9]{1,9}-)?[0-9]{1,9}(:[0-9]{1,9}){0,2})"
    R"(|(?=[0-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)"
    R"(|[Uu][Nn][Ll][Ii][Mm][Ii][Tt][Ee][Dd]|[Ii][Nn][Ff][Ii][Nn][Ii][Tt][Ee])$)";
inline constexpr std::string_view kHostsPattern = R"(^[A-Za-z0-9._,\[\]-]+$)";
inline constexpr std::string_view kMemoryPattern = R"(^[0-9]{1,9}([KMGTkmgt][Bb]?)?$)";
inline constexpr std::string_view kIntervalPattern = R"(^((1 )?epoch|[0-9]{1,9} +steps?)$)";
inline constexpr std::string_view kUrlPattern = R"(^(https?://[^@/?#]+/[!-~]+|.*\$\{.*)$)";
inline constexpr std::string_view kFileNamePattern =
    R"(^[^./\u0000-\u001f\u007f][^/\u0000-\u001f\u007f]{0,199}$)";
inline constexpr std::string_view kOptionNamePattern = R"(^[a-z][a-z0-9-]*$)";

/// Returns the pattern of the names of environment variables that a spec may set.
[[nodiscard]] std::string variable_name_pattern();

/// Returns a schema that accepts ${NAME}, whose value is known only at submission.
[[nodiscard]] ValueJson variable();

[[nodiscard]] ValueJson any_of(std::initializer_list<ValueJson> alternatives);

[[nodiscard]] ValueJson text(std::string_view pattern);

/// Returns a schema for text that YAML may read as a number or a boolean: `name: 4711` is the name
/// "4711".
[[nodiscard]] ValueJson scalar(std::string_view pattern = {});

/// Returns a schema for a whole number. max 0: there is no maximum.
[[nodiscard]] ValueJson whole_number(double min, double max);

/// Returns the schema of a text in the row's format.
[[nodiscard]] ValueJson schema_of_format(const KeyRow& row);

/// Returns a schema that accepts the keys that a sweep may set, and names of parameters of the
/// user's program.
[[nodiscard]] ValueJson swept_name();

/// Returns the schema of a section. The schema accepts the section's map and null, and a single
/// value if key_of_single_value() returns a key for the section. Returns a JSON null if no key of
/// the section is supported. section: "" for the whole spec.
[[nodiscard]] ValueJson section_schema(const std::string& section);

}  // namespace dlrun::schema_parts
