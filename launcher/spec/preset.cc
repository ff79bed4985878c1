#include "launcher/spec/preset.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::array kFields{
    TemplateField{"rank", false, "$DLRUN_RANK"},
    TemplateField{"world_size", false, "$DLRUN_WORLD_SIZE"},
    TemplateField{"local_rank", false, "$DLRUN_LOCAL_RANK"},
    TemplateField{"local_world_size", false, "$DLRUN_LOCAL_WORLD_SIZE"},
    TemplateField{"node_rank", false, "$DLRUN_NODE_RANK"},
    TemplateField{"nnodes", false, "$DLRUN_NNODES"},
    TemplateField{"addr"},
    TemplateField{"master_addr", false, "$DLRUN_MASTER_ADDR"},
    TemplateField{"master_port", false, "$DLRUN_MASTER_PORT"},
    TemplateField{"master", false, "$DLRUN_MASTER_ADDR:$DLRUN_MASTER_PORT"},
    TemplateField{"port"},
    // "1" only marks the field as known without the agent. agentless_task_text() replaces the field
    // by the plan's --nproc-per-node (1 if the plan has none).
    TemplateField{"nproc_per_node", false, "1"},
    TemplateField{"addresses"},
    TemplateField{"role", true},
    TemplateField{"role_index", true},
    TemplateField{"tf_config", true},
    TemplateField{"run"},
    TemplateField{"run_id"},
    TemplateField{"attempt", false, "${SLURM_RESTART_COUNT:-0}"},
    TemplateField{"job", false, "$SLURM_JOB_ID"},
};

const TemplateField* find_field(std::string_view name) {
  const auto* found =
      std::find_if(kFields.begin(), kFields.end(), [&](const auto& f) { return f.name == name; });
  return found == kFields.end() ? nullptr : found;
}

/// Returns the first field of the preset's templates for which matches(field) is true; nullopt if
/// there is none.
template <typename Matches>
std::optional<std::string> first_matching_field(const Preset& preset, Matches matches) {
  std::vector<std::string_view> texts(preset.words.begin(), preset.words.end());
  for (const auto& [name, text] : preset.env) texts.emplace_back(text);
  for (const auto text : texts) {
    const auto fields = fields_of(text);
    if (!fields) continue;  // read_preset() has reported the error
    for (const auto name : *fields) {
      if (matches(*find_field(name))) return std::string(name);
    }
  }
  return std::nullopt;
}

}  // namespace

std::span<const TemplateField> template_fields() {
  return kFields;
}

Result<std::vector<std::string_view>> fields_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = text.find_first_of("{}"); at != std::string_view::npos;
       at = text.find_first_of("{}", at)) {
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      at += 2;
      continue;
    }
    const auto close = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
    if (close == std::string_view::npos) {
      return fail(Errc::kInvalid, "an unpaired brace; write a literal brace twice");
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

std::string_view shell_of_field(std::string_view name) {
  const auto* field = find_field(name);
  return field == nullptr ? std::string_view() : field->shell;
}

bool uses_roles(const Preset& preset) {
  return first_matching_field(preset, [](const TemplateField& field) { return field.is_role; })
      .has_value();
}

std::optional<std::string> first_field_only_agent_knows(const Preset& preset) {
  return first_matching_field(preset,
                              [](const TemplateField& field) { return field.shell.empty(); });
}

}  // namespace dlrun
