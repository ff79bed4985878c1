#pragma once
// One struct for each type of member that a key can set. The struct reads, shows and describes
// values of the type. A new type needs one struct here, and one line in Field (spec_keys.h). Only
// value*.cc include this file.
//
// Every ValueType<T> has:
//   kTraits                 the facts about the type
//   set(in, member)         reads in.node, checks it, and sets the member with its origin; reports
//                           problems to in.builder
//   schema(row)             the JSON Schema of a value
//   description(row)        the description of the type, for people
//   option_text(value)      the value as the text of an option; nullopt: the value has no such text
//   yaml(value)             the value as one line of YAML; nullopt: the value is not set
// A map with entries (kTraits.has_settable_entries) has entries(value) instead of yaml(), and
// set_entry(in, member, name_node, name, value), which sets one entry.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launcher/spec/value_functions.h"
#include "launcher/spec/value_reader.h"

namespace dlrun {

template <typename T>
struct ValueType;

using ValueJson = nlohmann::ordered_json;
using MaybeText = std::optional<std::string>;

/// Returns the description of a format, such as "whole number".
[[nodiscard]] std::string_view format_in_words(Format format);

/// The base of types whose option text is the whole value; yaml() is derived from the option text.
template <typename T>
struct SingleValue {
  [[nodiscard]] static MaybeText yaml(const T& value);
};

/// The base of types whose values have no option text.
template <typename T>
struct StructuredValue {
  [[nodiscard]] static MaybeText option_text(const T&) { return std::nullopt; }
};

template <>
struct ValueType<std::optional<std::string>> : SingleValue<std::optional<std::string>> {
  static constexpr ValueTraits kTraits{.is_text = true};
  static void set(const ValueReader& in, Access<std::optional<std::string>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<std::string>& value);
};

template <>
struct ValueType<std::optional<bool>> : SingleValue<std::optional<bool>> {
  static constexpr ValueTraits kTraits{.is_switch = true};
  static void set(const ValueReader& in, Access<std::optional<bool>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<bool>& value);
};

template <>
struct ValueType<std::optional<std::int64_t>> : SingleValue<std::optional<std::int64_t>> {
  static constexpr ValueTraits kTraits{.is_number = true, .is_whole = true};
  static void set(const ValueReader& in, Access<std::optional<std::int64_t>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<std::int64_t>& value);
};

template <>
struct ValueType<std::optional<double>> : SingleValue<std::optional<double>> {
  static constexpr ValueTraits kTraits{.is_number = true};
  static void set(const ValueReader& in, Access<std::optional<double>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<double>& value);
};

template <>
struct ValueType<std::optional<NodeRange>> : SingleValue<std::optional<NodeRange>> {
  static constexpr ValueTraits kTraits{.limits = "1 to 1000000"};
  static void set(const ValueReader& in, Access<std::optional<NodeRange>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<NodeRange>& value);
};

template <>
struct ValueType<std::optional<Gpus>> : SingleValue<std::optional<Gpus>> {
  static constexpr ValueTraits kTraits{.limits = "0 to 1000000", .set_form = "TYPE:COUNT"};
  static void set(const ValueReader& in, Access<std::optional<Gpus>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::optional<Gpus>& value);
};

template <>
struct ValueType<std::vector<std::string>> {
  static constexpr ValueTraits kTraits{.is_text = true};
  static void set(const ValueReader& in, Access<std::vector<std::string>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText option_text(const std::vector<std::string>& value);
  [[nodiscard]] static MaybeText yaml(const std::vector<std::string>& value);
};

template <>
struct ValueType<std::vector<Mount>> : StructuredValue<std::vector<Mount>> {
  static constexpr ValueTraits kTraits{};
  static void set(const ValueReader& in, Access<std::vector<Mount>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<Mount>& value);
};

template <>
struct ValueType<std::vector<SecretSource>> : StructuredValue<std::vector<SecretSource>> {
  static constexpr ValueTraits kTraits{};
  static void set(const ValueReader& in, Access<std::vector<SecretSource>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<SecretSource>& value);
};

template <>
struct ValueType<std::vector<Download>> : StructuredValue<std::vector<Download>> {
  static constexpr ValueTraits kTraits{};
  static void set(const ValueReader& in, Access<std::vector<Download>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<Download>& value);
};

template <>
struct ValueType<std::vector<PreflightCheck>> : StructuredValue<std::vector<PreflightCheck>> {
  static constexpr ValueTraits kTraits{.is_text = true};
  static void set(const ValueReader& in, Access<std::vector<PreflightCheck>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<PreflightCheck>& value);
};

template <>
struct ValueType<std::vector<StagedData>> : StructuredValue<std::vector<StagedData>> {
  static constexpr ValueTraits kTraits{};
  static void set(const ValueReader& in, Access<std::vector<StagedData>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<StagedData>& value);
};

template <>
struct ValueType<std::vector<OutputCopy>> : StructuredValue<std::vector<OutputCopy>> {
  static constexpr ValueTraits kTraits{};
  static void set(const ValueReader& in, Access<std::vector<OutputCopy>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<OutputCopy>& value);
};

template <>
struct ValueType<std::vector<SweptKey>> : StructuredValue<std::vector<SweptKey>> {
  static constexpr ValueTraits kTraits{.is_map = true, .set_form = "{KEY: [VALUE, ...], ...}"};
  static void set(const ValueReader& in, Access<std::vector<SweptKey>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<SweptKey>& value);
};

template <>
struct ValueType<std::vector<SweepPoint>> : StructuredValue<std::vector<SweepPoint>> {
  static constexpr ValueTraits kTraits{.set_form = "[{KEY: VALUE, ...}, ...]"};
  static void set(const ValueReader& in, Access<std::vector<SweepPoint>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<SweepPoint>& value);
};

template <>
struct ValueType<std::vector<ComponentSpec>> : StructuredValue<std::vector<ComponentSpec>> {
  static constexpr ValueTraits kTraits{.set_form = "[{name: NAME, ...}, ...]"};
  static void set(const ValueReader& in, Access<std::vector<ComponentSpec>> member);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static MaybeText yaml(const std::vector<ComponentSpec>& value);
};

template <>
struct ValueType<NamedValues> : StructuredValue<NamedValues> {
  static constexpr ValueTraits kTraits{.is_map = true, .has_settable_entries = true};
  static void set(const ValueReader& in, Access<NamedValues> member);
  static void set_entry(const ValueReader& in, Access<NamedValues> member,
                        const YamlNode& name_node, std::string_view name, const YamlNode& value);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static NamedValues entries(const NamedValues& value);
};

template <>
struct ValueType<std::vector<SlurmOption>> : StructuredValue<std::vector<SlurmOption>> {
  static constexpr ValueTraits kTraits{.is_map = true, .has_settable_entries = true};
  static void set(const ValueReader& in, Access<std::vector<SlurmOption>> member);
  static void set_entry(const ValueReader& in, Access<std::vector<SlurmOption>> member,
                        const YamlNode& name_node, std::string_view name, const YamlNode& value);
  [[nodiscard]] static ValueJson schema(const KeyRow& row);
  [[nodiscard]] static std::string description(const KeyRow& row);
  [[nodiscard]] static NamedValues entries(const std::vector<SlurmOption>& value);
};

}  // namespace dlrun
