#include "runtime/agent/template.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "common/text.h"

namespace dlrun::agent {
namespace {

/// Data that a field needs.
struct Needs {
  bool port = false, addresses = false, roles = false;
};

struct Field {
  std::string_view name;
  std::string (*value)(const TemplateValues&);
  Needs needs{};
};

std::string addresses(const TemplateValues& values) {
  std::string text;
  for (const auto& address : values.addresses) text += (text.empty() ? "" : ",") + address.text();
  return text;
}

/// Returns a name for the run. All attempts of the run have this name, and no other run below the
/// same folder of runs has it.
std::string run_id_of(const std::filesystem::path& run) {
  const auto array = run.parent_path().filename().string();
  constexpr std::string_view kArray = "array-";
  if (!array.starts_with(kArray)) return run.filename().string();
  return run.parent_path().parent_path().filename().string() + "-" + array.substr(kArray.size()) +
         "-" + run.filename().string();
}

constexpr std::array kTemplateFields{
    Field{"rank", [](const TemplateValues& values) { return std::to_string(values.world.rank); }},
    Field{"world_size",
          [](const TemplateValues& values) { return std::to_string(values.world.size); }},
    Field{"local_rank",
          [](const TemplateValues& values) { return std::to_string(values.world.local_rank); }},
    Field{"local_world_size",
          [](const TemplateValues& values) { return std::to_string(values.world.local_size); }},
    Field{"node_rank",
          [](const TemplateValues& values) { return std::to_string(values.world.node_rank); }},
    Field{"nnodes",
          [](const TemplateValues& values) { return std::to_string(values.world.nnodes); }},
    Field{"addr", [](const TemplateValues& values) { return values.addr; }},
    Field{"master_addr", [](const TemplateValues& values) { return values.master_addr; }},
    Field{"master_port",
          [](const TemplateValues& values) { return std::to_string(values.master_port); }},
    Field{"master",
          [](const TemplateValues& values) {
            return Endpoint{values.master_addr, static_cast<std::uint16_t>(values.master_port)}
                .text();
          }},
    Field{"port",
          [](const TemplateValues& values) { return std::to_string(values.port); },
          {.port = true}},
    Field{"nproc_per_node",
          [](const TemplateValues& values) { return std::to_string(values.nproc_per_node); }},
    Field{"addresses", addresses, {.port = true, .addresses = true}},
    Field{"role",
          [](const TemplateValues& values) {
            return std::string(values.roles.of(values.world.rank, values.world.size).name);
          },
          {.roles = true}},
    Field{"role_index",
          [](const TemplateValues& values) {
            return std::to_string(values.roles.of(values.world.rank, values.world.size).index);
          },
          {.roles = true}},
    Field{"tf_config",
          [](const TemplateValues& values) {
            return tf_config(values.roles, values.addresses, values.world.rank);
          },
          {.port = true, .addresses = true, .roles = true}},
    Field{"run", [](const TemplateValues& values) { return values.run; }},
    Field{"run_id", [](const TemplateValues& values) { return run_id_of(values.run); }},
    Field{"attempt", [](const TemplateValues& values) { return std::to_string(values.attempt); }},
    Field{"job", [](const TemplateValues& values) { return values.job; }},
};

const Field* find_field(std::string_view name) {
  const auto found = std::find_if(kTemplateFields.begin(), kTemplateFields.end(),
                                  [&](const Field& f) { return f.name == name; });
  return found == kTemplateFields.end() ? nullptr : &*found;
}

/// Splits text: calls literal(piece) for plain text and field(row) for each {name}. Fails with
/// kUsage for an unknown field and for an unpaired brace.
template <typename OnLiteral, typename OnField>
Result<> walk(std::string_view text, OnLiteral literal, OnField field) {
  for (std::size_t at = 0; at < text.size();) {
    const auto brace = std::min(text.find_first_of("{}", at), text.size());
    literal(text.substr(at, brace - at));
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      literal(text.substr(brace, 1));
      at = brace + 2;
      continue;
    }
    const auto close = text[brace] == '{' ? text.find('}', brace) : std::string_view::npos;
    if (close == std::string_view::npos) {
      return fail(Errc::kUsage,
                  "'{}' has an unpaired brace at byte {}; write a literal brace twice",
                  printable(text), brace + 1);
    }
    const auto name = text.substr(brace + 1, close - brace - 1);
    const auto* row = find_field(name);
    if (row == nullptr) {
      std::string all;
      for (const auto& known : kTemplateFields) all += fmt::format(" {{{}}}", known.name);
      const auto near = nearest(name, template_field_names());
      return fail(Errc::kUsage, "unknown field '{{{}}}'{}; the fields are{}", printable(name),
                  near ? fmt::format(" (did you mean '{{{}}}'?)", *near) : "", all);
    }
    field(*row);
    at = close + 1;
  }
  return {};
}

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<Template> Template::parse(std::string_view text) {
  Template made;
  made.text_ = text;
  DLRUN_TRY(walk(
      text, [](std::string_view) {},
      [&](const Field& field) {
        made.needs_port_ = made.needs_port_ || field.needs.port;
        made.needs_addresses_ = made.needs_addresses_ || field.needs.addresses;
        made.needs_roles_ = made.needs_roles_ || field.needs.roles;
      }));
  return made;
}

std::string Template::expand(const TemplateValues& values) const {
  std::string expanded;
  // walk() cannot fail here, because parse() has checked the text.
  std::ignore = walk(
      text_, [&](std::string_view piece) { expanded += piece; },
      [&](const Field& field) { expanded += field.value(values); });
  return expanded;
}

Result<EnvTemplate> EnvTemplate::parse(std::string_view argument) {
  const auto equals = argument.find('=');
  if (equals == std::string_view::npos) {
    return fail(Errc::kUsage, "--env '{}' is not NAME=TEMPLATE", printable(argument));
  }
  const auto name = argument.substr(0, equals);
  if (!is_variable_name(name)) {
    return fail(Errc::kUsage,
                "--env '{}': '{}' is not a valid name of a variable; expected letters, digits and "
                "'_', and no digit at the beginning",
                printable(argument), printable(name));
  }
  auto value = Template::parse(argument.substr(equals + 1));
  if (!value) return within(fmt::format("--env {}", name), value.error());
  return EnvTemplate{std::string(name), std::move(*value)};
}

std::vector<std::string_view> template_field_names() {
  std::vector<std::string_view> names;
  for (const auto& field : kTemplateFields) names.push_back(field.name);
  return names;
}

}  // namespace dlrun::agent
