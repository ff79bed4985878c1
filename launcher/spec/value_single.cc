// Values that are neither lists nor maps with arbitrary names: text, switches, numbers, nodes and
// GPUs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/spec/schema_parts.h"
#include "launcher/spec/value_syntax.h"
#include "launcher/spec/value_type.h"

namespace dlrun {
namespace {

using namespace schema_parts;

template <typename Number>
[[nodiscard]] MaybeText number_text(const std::optional<Number>& value) {
  return value ? MaybeText(fmt::format("{}", *value)) : std::nullopt;
}

/// Reads {type: a100, count: 4} and reports problems. Returns nullopt if the type is invalid, or if
/// the count is invalid or missing. Reports and then ignores an unknown key.
[[nodiscard]] std::optional<Gpus> gpus_of_map(const ValueReader& in) {
  Gpus gpus;
  bool has_count = false, is_fine = true;
  for (const auto& [name, value] : in.entries()) {
    const auto text = in.scalar(*value, "a single value");
    if (name->text != "type" && name->text != "count") {
      in.refuse_with_message(
          *name, in.row.path,
          fmt::format("unknown key '{}' in {}, which has type and count", name->text, in.row.path));
    } else if (!text) {
      in.refuse(text.error(), value);
      is_fine = false;
    } else if (name->text == "type") {
      gpus.type = *text;
      if (const auto fine = check_gpu_type(*text); !fine)
        in.refuse(fine.error(), value), is_fine = false;
    } else if (const auto count = parse_gpus(*text); count && count->type.empty()) {
      gpus.count = count->count;
      has_count = true;
    } else {
      in.refuse(
          {Errc::kInvalid, fmt::format("count: '{}' is not a number of GPUs", printable(*text))},
          value);
      is_fine = false;
    }
  }
  if (is_fine && !has_count)
    in.refuse({Errc::kInvalid, "count is missing: {type: a100, count: 4}"});
  return is_fine && has_count ? std::optional(gpus) : std::nullopt;
}

}  // namespace

std::string_view format_in_words(Format format) {
  switch (format) {
    case Format::kText:
      return "text";
    case Format::kLines:
      return "text, also of several lines";
    case Format::kSlug:
      return "name of letters, digits, '.', '_', '-'";
    case Format::kChoice:
      return "word";
    case Format::kPath:
      return "path, relative to the folder of the file that contains it";
    case Format::kMaybePath:
      return "name, or a path if it contains a '/'";
    case Format::kImage:
      return "name of an image in a registry, or a path if it starts with '/', './', '../' or '~/'";
    case Format::kPathPattern:
      return "path with Slurm's % patterns, relative to the folder of the file that contains it";
    case Format::kContainerPath:
      return "absolute path inside the container";
    case Format::kTimeLimit:
      return "time limit";
    case Format::kDuration:
      return "duration: seconds, or 90s, 10m, 1h30m, 2d";
    case Format::kMemory:
      return "memory size: 500M, 64G, 1T; a number without a unit is in MiB";
    case Format::kInterval:
      return "interval: '500 steps' or '1 epoch'";
    case Format::kCount:
      return "whole number";
    case Format::kNodeList:
      return "node list: n1,n[3-7]";
    case Format::kTextOrSwitch:
      return "true, false or text";
  }
  return "text";
}

// Text

using Text = ValueType<std::optional<std::string>>;

void Text::set(const ValueReader& in, Access<std::optional<std::string>> member) {
  if (in.row.format == Format::kTextOrSwitch && in.node.text == "false") {
    // The option is left out, and no weaker layer may set it.
    in.mark_decided(in.key());
    return;
  }
  in.put(member, in.text(in.node, "text"));
}

ValueJson Text::schema(const KeyRow& row) {
  return schema_of_format(row);
}

std::string Text::description(const KeyRow& row) {
  return std::string(format_in_words(row.format));
}

MaybeText Text::option_text(const std::optional<std::string>& value) {
  return value;
}

// true or false

using Switch = ValueType<std::optional<bool>>;

void Switch::set(const ValueReader& in, Access<std::optional<bool>> member) {
  const auto text = in.scalar(in.node, "true or false");
  if (!text) return in.refuse(text.error());
  if (*text == "true" || *text == "True" || *text == "TRUE")
    return in.put(member, Result<bool>(true));
  if (*text == "false" || *text == "False" || *text == "FALSE")
    return in.put(member, Result<bool>(false));
  in.refuse({Errc::kInvalid, fmt::format("expected true or false, not '{}'", printable(*text))});
}

ValueJson Switch::schema(const KeyRow&) {
  return any_of({{{"type", "boolean"}},
                 {{"enum", {"true", "false", "True", "False", "TRUE", "FALSE"}}},
                 variable()});
}

std::string Switch::description(const KeyRow&) {
  return "true or false";
}

MaybeText Switch::option_text(const std::optional<bool>& value) {
  return value ? MaybeText(*value ? "true" : "false") : std::nullopt;
}

// Numbers

using Whole = ValueType<std::optional<std::int64_t>>;

void Whole::set(const ValueReader& in, Access<std::optional<std::int64_t>> member) {
  const auto text = in.scalar(in.node, "a whole number");
  if (!text) return in.refuse(text.error());
  const auto number = parse_int(*text);
  if (!number)
    return in.refuse(
        {Errc::kInvalid, fmt::format("expected a whole number, not '{}'", printable(*text))});
  if (const auto fine = in.check_limits(static_cast<double>(*number), *text); !fine)
    return in.refuse(fine.error());
  in.put(member, Result<std::int64_t>(*number));
}

ValueJson Whole::schema(const KeyRow& row) {
  return any_of({whole_number(row.min, row.max), text(kWholeNumberPattern), variable()});
}

std::string Whole::description(const KeyRow&) {
  return "whole number";
}

MaybeText Whole::option_text(const std::optional<std::int64_t>& value) {
  return number_text(value);
}

using Real = ValueType<std::optional<double>>;

void Real::set(const ValueReader& in, Access<std::optional<double>> member) {
  const auto text = in.scalar(in.node, "a number");
  if (!text) return in.refuse(text.error());
  const auto number = parse_double(*text);
  if (!number)
    return in.refuse(
        {Errc::kInvalid, fmt::format("expected a number, not '{}'", printable(*text))});
  if (const auto fine = in.check_limits(*number, *text); !fine) return in.refuse(fine.error());
  in.put(member, Result<double>(*number));
}

ValueJson Real::schema(const KeyRow& row) {
  return any_of({{{"type", "number"}, {"minimum", row.min}, {"maximum", row.max}},
                 text(kNumberPattern),
                 variable()});
}

std::string Real::description(const KeyRow&) {
  return "number";
}

MaybeText Real::option_text(const std::optional<double>& value) {
  return number_text(value);
}

// Nodes and GPUs

using Nodes = ValueType<std::optional<NodeRange>>;

void Nodes::set(const ValueReader& in, Access<std::optional<NodeRange>> member) {
  const auto text = in.scalar(in.node, "a number of nodes");
  if (!text) return in.refuse(text.error());
  in.put(member, parse_nodes(*text));
}

ValueJson Nodes::schema(const KeyRow&) {
  return any_of({whole_number(1, 1e6), text(kNodesPattern), variable()});
}

std::string Nodes::description(const KeyRow&) {
  return "number of nodes, or a range \"2-4\"";
}

MaybeText Nodes::option_text(const std::optional<NodeRange>& value) {
  return value ? MaybeText(format_nodes(*value)) : std::nullopt;
}

using GpuCount = ValueType<std::optional<Gpus>>;

void GpuCount::set(const ValueReader& in, Access<std::optional<Gpus>> member) {
  if (in.node.kind == YamlNode::Kind::kMap) {
    if (const auto gpus = gpus_of_map(in)) in.put(member, Result<Gpus>(*gpus));
    return;
  }
  const auto text = in.scalar(in.node, "a number of GPUs");
  if (!text) return in.refuse(text.error());
  in.put(member, parse_gpus(*text));
}

ValueJson GpuCount::schema(const KeyRow&) {
  const ValueJson type = any_of(
      {{{"type", {"string", "number"}}, {"pattern", "^[A-Za-z0-9._+-]{1,64}$"}}, variable()});
  const ValueJson count = any_of({whole_number(0, 1e6), text("^[0-9]{1,9}$"), variable()});
  return any_of({whole_number(0, 1e6),
                 text(kGpusPattern),
                 variable(),
                 {{"type", "object"},
                  {"properties", {{"type", type}, {"count", count}}},
                  {"required", {"count"}},
                  {"additionalProperties", false}}});
}

std::string GpuCount::description(const KeyRow&) {
  return "number of GPUs: 4, a100:4 or {type: a100, count: 4}";
}

MaybeText GpuCount::option_text(const std::optional<Gpus>& value) {
  return value ? MaybeText(format_gpus(*value)) : std::nullopt;
}

}  // namespace dlrun
