#pragma once
// A sweep's own parameters: names that are no keys of dlrun. Their values replace {NAME} in
// launch.command and environment.vars. A spec whose sweep has none keeps its braces.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

/// The values that contain fields, as the spec has them before a point fills them in.
struct SweptTemplates {
  std::vector<std::string> command;
  NamedValues vars;
  std::vector<std::string> names;  ///< the own parameters of all points

  [[nodiscard]] bool is_given() const { return !names.empty(); }
};

/// Returns true for a name that a sweep may give to a parameter of the user's program: letters,
/// digits and '_', and neither a key nor a section of a spec.
[[nodiscard]] bool is_own_parameter(std::string_view name);

/// Returns the templates of a spec, without names if its sweep has no own parameters.
[[nodiscard]] SweptTemplates swept_templates(const JobSpec& spec);

/// Returns the text that replaces the field of an own parameter.
[[nodiscard]] std::string own_text(const SweptValue& value);

/// Fills the templates with the point's values and stores the results in spec.
/// is_trainer: the bundled trainer is the program. refused: keys with refused values.
/// Returns an error for each unknown name, each unpaired brace, each field without a value, and
/// each parameter that no field names.
[[nodiscard]] std::vector<Diagnostic> fill_templates(
    JobSpec& spec, const SweptTemplates& templates, const SweepPoint& point, bool is_trainer,
    const std::set<std::string, std::less<>>& refused);

}  // namespace dlrun
