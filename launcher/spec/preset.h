#pragma once
// How a framework wants to be started: templates/presets/*.yaml, data that a user can override.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

struct Preset {
  std::string name;
  std::string source;  ///< file, or "built-in"
  std::string help;
  bool trusted = false;           ///< the program is dlrun's own and gets the store
  bool is_trainer = false;        ///< the program comes from `train`, not from launch.command
  bool wants_mpi = false;         ///< launch.mpi defaults to the site's
  bool is_node_launcher = false;  ///< one task per node; the program starts the node's ranks itself
  std::vector<std::string> words;  ///< templates, before launch.command
  NamedValues env;        ///< NAME to template, set by the rank agent; see runtime/ENVIRONMENT.md
  NamedValues vars;       ///< NAME to value, exported by the script unless environment.vars has it
  NamedValues pmix_vars;  ///< the same, for a step that srun starts over PMIx, and for nothing else
};

/// A field of a template, {NAME}; runtime/ENVIRONMENT.md says what each stands for.
struct TemplateField {
  std::string_view name;
  bool is_role = false;  ///< needs launch.roles
  std::string_view shell =
      {};  ///< what a plain script (launch.agent: false) knows it as; empty: only the agent knows
};
[[nodiscard]] std::span<const TemplateField> template_fields();

/// The fields that text names, in order. Fails with kInvalid on an unknown field and on a brace
/// without its partner.
[[nodiscard]] Result<std::vector<std::string_view>> fields_of(std::string_view text);

/// The field in sh; empty where only the agent knows it.
[[nodiscard]] std::string_view shell_of_field(std::string_view name);

/// Does a template of the preset name a role?
[[nodiscard]] bool uses_roles(const Preset& preset);

/// The first field of the preset's templates that only the agent knows.
[[nodiscard]] std::optional<std::string> field_of_agent(const Preset& preset);

}  // namespace dlrun
