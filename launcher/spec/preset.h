#pragma once
// Presets define how a framework is started: templates/presets/*.yaml. A user's preset replaces the
// built-in one of the same name.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// The contents of a preset's file.
struct Preset {
  std::string name;
  std::string source;  ///< the file's path, or "built-in presets/NAME.yaml"
  std::string help;
  bool program_is_bundled = false;  ///< the program is dlrun's own and may use the agent's store
  bool is_trainer = false;          ///< `train` defines the program, not launch.command
  bool wants_mpi = false;           ///< launch.mpi defaults to the site's plugin, else to pmix
  bool is_node_launcher = false;  ///< one task per node; the program starts the node's ranks itself
  bool needs_components = false;  ///< only a component of a job can have this preset
  std::vector<std::string>
      words;  ///< templates of the words before launch.command: `torchrun` and its options
  /// Variables that the rank agent sets, NAME to template; see runtime/ENVIRONMENT.md.
  NamedValues env;
  /// Variables that the script exports unless environment.vars sets them, NAME to value.
  NamedValues vars;
  /// Like vars, but exported only for a step that srun starts over PMIx.
  NamedValues pmix_vars;
};

/// A field of a template, {NAME}; runtime/ENVIRONMENT.md defines each field.
struct TemplateField {
  std::string_view name;
  bool is_role = false;  ///< the value depends on launch.roles
  /// The shell text that stands for the field in a script without the agent (launch.agent: false);
  /// empty if only the agent knows the field.
  std::string_view shell = {};
};
/// Returns all fields.
[[nodiscard]] std::span<const TemplateField> template_fields();

/// Returns the names of the fields in a text, in their order. Fails with kInvalid on an unknown
/// field and on an unpaired brace.
[[nodiscard]] Result<std::vector<std::string_view>> fields_of(std::string_view text);

/// Returns the shell text that stands for the field in a script without the agent; empty if only
/// the agent knows the field, or if there is no such field.
[[nodiscard]] std::string_view shell_of_field(std::string_view name);

/// Returns true if a template of the preset has a field that depends on launch.roles.
[[nodiscard]] bool uses_roles(const Preset& preset);

/// Returns the first field of the preset's templates that only the agent knows; nullopt if there is
/// none.
[[nodiscard]] std::optional<std::string> first_field_only_agent_knows(const Preset& preset);

}  // namespace dlrun
