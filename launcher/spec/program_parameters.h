#pragma once
// The program parameters of a sweep: parameters of the user's program, whose names are not keys of
// a spec. The value of a program parameter replaces {NAME} in launch.command and environment.vars,
// and in the commands and variables of components. Without program parameters, braces have no
// meaning.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

/// The values that may contain fields such as {NAME}, as they are before the values of a point
/// replace the fields.
struct SweptTemplates {
  std::vector<std::string> command;
  NamedValues vars;
  std::vector<ComponentSpec> components;     ///< for the fields in their commands and variables
  std::vector<std::string> parameter_names;  ///< the program parameters of all points

  [[nodiscard]] bool is_given() const { return !parameter_names.empty(); }
};

/// Returns true if a program parameter may have this name: at most 64 letters, digits and '_', not
/// starting with a digit, and neither a key nor a section of a spec.
[[nodiscard]] bool is_program_parameter(std::string_view name);

/// Returns the templates of a spec; empty if its sweep has no program parameters.
[[nodiscard]] SweptTemplates swept_templates(const JobSpec& spec);

/// Returns the value of a program parameter as the text that replaces the parameter's field.
[[nodiscard]] std::string parameter_text(const SweptValue& value);

/// Replaces the fields in the templates by the point's values and stores the results in spec.
/// is_trainer: true if the bundled trainer is the program. refused: keys with refused values.
/// Returns the first error of each text: an unknown name, an unpaired brace or a field without a
/// value. Also returns an error for each parameter whose field is in none of the texts, unless a
/// refused value may contain the field.
[[nodiscard]] std::vector<Diagnostic> fill_templates(
    JobSpec& spec, const SweptTemplates& templates, const SweepPoint& point, bool is_trainer,
    const std::set<std::string, std::less<>>& refused);

}  // namespace dlrun
