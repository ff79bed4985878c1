#include "launcher/spec/preset.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::array kFields{
    TemplateField{"rank"},
    TemplateField{"world_size"},
    TemplateField{"local_rank"},
    TemplateField{"local_world_size"},
    TemplateField{"node_rank"},
    TemplateField{"nnodes"},
    TemplateField{"addr"},
    TemplateField{"master_addr"},
    TemplateField{"master_port"},
    TemplateField{"master"},
    TemplateField{"port"},
    TemplateField{"nproc_per_node"},
    TemplateField{"addresses"},
    TemplateField{"role", true},
    TemplateField{"role_index", true},
    TemplateField{"tf_config", true},
    TemplateField{"run"},
    TemplateField{"attempt"},
    TemplateField{"job"},
};

const TemplateField* find_field(std::string_view name) {
  const auto* found = std::find_if(kFields.begin(), kFields.end(), [&](const auto& f) { return f.name == name; });
  return found == kFields.end() ? nullptr : found;
}

}  // namespace

std::span<const TemplateField> template_fields() {
  return kFields;
}

Result<std::vector<std::string_view>> fields_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = text.find_first_of("{}"); at != std::string_view::npos; at = text.find_first_of("{}", at)) {
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      at += 2;
      continue;
    }
    const auto close = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
    if (close == std::string_view::npos) {
      return fail(Errc::kInvalid, "a brace without its partner; a literal brace is written twice");
    }
    const auto name = text.substr(at + 1, close - at - 1);
    if (find_field(name) == nullptr) {
      std::vector<std::string_view> names;
      std::string all;
      for (const auto& field : kFields) {
        names.push_back(field.name);
        all += fmt::format(" {{{}}}", field.name);
      }
      const auto similar = nearest(name, names);
      return fail(Errc::kInvalid, "there is no field '{{{}}}'; {}", printable(name),
                  similar ? fmt::format("did you mean '{{{}}}'?", *similar) : "known:" + all);
    }
    found.push_back(name);
    at = close + 1;
  }
  return found;
}

bool uses_roles(const Preset& preset) {
  const auto names_role = [](std::string_view text) {
    const auto fields = fields_of(text);
    return fields && std::any_of(fields->begin(), fields->end(), [](auto name) { return find_field(name)->is_role; });
  };
  return std::any_of(preset.env.begin(), preset.env.end(), [&](const auto& v) { return names_role(v.second); }) ||
         std::any_of(preset.words.begin(), preset.words.end(), names_role);
}

}  // namespace dlrun
