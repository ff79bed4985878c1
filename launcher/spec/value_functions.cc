// Each key sets a member of JobSpec. For a member of type T, the functions of this file call the
// functions of ValueType<T> (value_type.h).
#include "launcher/spec/value_functions.h"

#include <type_traits>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "launcher/spec/value_setter.h"
#include "launcher/spec/value_type.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

template <typename T>
T type_of_member(Access<T>);

/// Returns visit(ValueType<T>, member) for the member of type T that the key sets; an empty result
/// for a reserved key.
template <typename Visit>
auto visit_type(const KeyRow& row, Visit visit) {
  return std::visit(
      [&](auto member) {
        using Returned =
            decltype(visit(ValueType<std::optional<bool>>(), Access<std::optional<bool>>()));
        if constexpr (std::is_same_v<decltype(member), std::monostate>) {
          return Returned();
        } else {
          return visit(ValueType<decltype(type_of_member(member))>(), member);
        }
      },
      row.field);
}

/// Returns the value of a member. Access takes a mutable spec because loading writes through it;
/// this function only reads.
template <typename T>
[[nodiscard]] const T& value_of(Access<T> member, const JobSpec& spec) {
  return member(const_cast<JobSpec&>(spec));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

/// Reports that --set cannot set a part of this key: the key has a single value, or --set can set
/// its value only as a whole.
void refuse_entry_of(SpecBuilder& builder, const SpecSource& source, const KeyRow& row) {
  const std::string_view form = traits_of(row).set_form;
  builder.report(
      {Diagnostic::Severity::kError,
       {source.kind, source.name, 1, 1},
       form.empty()
           ? fmt::format("{0} has no keys below it that --set can set; give {0}=VALUE", row.path)
           : fmt::format("{0} is set as a whole: --set '{0}={1}'", row.path, form),
       source.text});
}

}  // namespace

template <typename T>
MaybeText SingleValue<T>::yaml(const T& value) {
  const auto text = ValueType<T>::option_text(value);
  return text ? MaybeText(yaml_text(*text)) : std::nullopt;
}

ValueTraits traits_of(const KeyRow& row) {
  return visit_type(row, [](auto type, auto) { return decltype(type)::kTraits; });
}

std::string type_in_words(const KeyRow& row) {
  return visit_type(row, [&](auto type, auto) { return decltype(type)::description(row); });
}

ValueJson value_schema(const KeyRow& row) {
  return visit_type(row, [&](auto type, auto) { return decltype(type)::schema(row); });
}

std::optional<std::string> option_text(const KeyRow& row, const JobSpec& spec) {
  return visit_type(row, [&](auto type, auto member) {
    return decltype(type)::option_text(value_of(member, spec));
  });
}

std::optional<std::string> value_yaml(const KeyRow& row, const JobSpec& spec) {
  return visit_type(row, [&](auto type, auto member) -> MaybeText {
    if constexpr (decltype(type)::kTraits.has_settable_entries) {
      return std::nullopt;
    } else {
      return decltype(type)::yaml(value_of(member, spec));
    }
  });
}

NamedValues entries_yaml(const KeyRow& row, const JobSpec& spec) {
  return visit_type(row, [&](auto type, auto member) -> NamedValues {
    if constexpr (decltype(type)::kTraits.has_settable_entries) {
      return decltype(type)::entries(value_of(member, spec));
    } else {
      return {};
    }
  });
}

void copy_value(const KeyRow& row, const JobSpec& from, JobSpec& to) {
  visit_type(row, [&](auto, auto member) { member(to) = value_of(member, from); });
}

void set_value(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
               const KeyRow& row, const YamlNode& node) {
  const ValueReader in{builder, {document, source}, row, node};
  visit_type(row, [&](auto type, auto member) { decltype(type)::set(in, member); });
}

void set_map_entry(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
                   const KeyRow& row, const YamlNode& node, std::string_view name) {
  YamlNode key;
  key.kind = YamlNode::Kind::kScalar;
  key.line = 1;
  key.column = 1 - source.column_shift;
  const ValueReader in{builder, {document, source}, row, node};
  visit_type(row, [&](auto type, auto member) {
    if constexpr (decltype(type)::kTraits.has_settable_entries) {
      decltype(type)::set_entry(in, member, key, name, node);
    } else {
      refuse_entry_of(builder, source, row);
    }
  });
}

}  // namespace dlrun
