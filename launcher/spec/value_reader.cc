#include "launcher/spec/value_reader.h"

#include "launcher/spec/secret_lines.h"
#include "launcher/spec/value_setter.h"

namespace dlrun {

void ValueReader::refuse(const Error& why, const YamlNode* at) const {
  refuse_value(at != nullptr ? *at : node, key(), why);
}

void ValueReader::refuse_value(const YamlNode& at, const std::string& path,
                               const Error& why) const {
  if (why.code == Errc::kNotFound &&
      builder.unset_variable_ == SpecBuilder::UnsetVariable::kLeftOut) {
    builder.refused_.emplace(path);
    return;
  }
  refuse_with_message(at, path, fmt::format("{}: {}", path, why.message));
}

Result<> ValueReader::check_limits(double number, std::string_view text) const {
  if ((row.min == 0 && row.max == 0) || (number >= row.min && number <= row.max)) return {};
  return fail(Errc::kInvalid, "{} is not between {} and {}", text, row.min, row.max);
}

void ValueReader::refuse_kind(std::string_view expected) const {
  refuse({Errc::kInvalid, fmt::format("expected {}, not {}", expected, kind_name(node))});
}

void ValueReader::refuse_item(const Error& why, const YamlNode& at) const {
  if (why.code != Errc::kRefused) return refuse(why, &at);
  Origin where = builder.origin(layer, at);
  if (where.kind == Origin::Kind::kSetOption) where.source = key() + "=...";
  builder.refused_.emplace(row.path);
  builder.report({.where = where,
                  .message = fmt::format("{}: {}", row.path, why.message),
                  .line = hidden_line(),
                  .key = std::string(row.path)});
}

void ValueReader::record_origin_of_item(std::size_t index, const YamlNode& at) const {
  builder.spec_.origins.try_emplace(fmt::format("{}[{}]", row.path, index),
                                    builder.origin(layer, at));
}

}  // namespace dlrun
