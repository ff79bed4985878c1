#include "launcher/plan/script_bash_arrays.h"

#include <fmt/format.h>

#include "common/quoting.h"
#include "launcher/plan/script_text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestCommandLine = 100;  ///< in columns

/// Doubles each brace, so that the rank agent, which replaces {NAME} in the values of --env, passes
/// on the value unchanged.
[[nodiscard]] std::string literal_template(std::string_view value) {
  std::string text;
  for (const char c : value) text += c == '{' || c == '}' ? std::string(2, c) : std::string(1, c);
  return text;
}

}  // namespace

std::string enter_text(const LaunchPlan& plan, std::string_view array) {
  if (plan.enter_script.words.empty()) return "";
  ScriptText text;
  text.line(fmt::format("{}=(", array));
  for (const ContainerWords& words : plan.enter_script.words)
    text.line("  " + words.text, words.comment);
  text.line(")");
  return text.take();
}

std::string rank_text(const LaunchPlan& plan, std::string_view array) {
  ScriptText text;
  text.line(fmt::format("{}=(", array));
  text.line("  \"$dlrun_agent\" rank");
  if (plan.program_is_bundled) text.line("  --bundled", "the program is dlrun's own");
  for (const PlannedOption& option : plan.rank_options) {
    text.line("  " + option.option + " " + shell_quote(option.value.value_or("")), option.comment);
  }
  for (const PlannedVariable& variable : plan.rank_vars) {
    text.line("  --env " + shell_quote(variable.name + "=" + literal_template(variable.value)),
              variable.comment);
  }
  for (const PlannedVariable& variable : plan.rank_templates) {
    text.line("  --env " + shell_quote(variable.name + "=" + variable.value), variable.comment);
  }
  for (const SecretSource& secret : plan.secrets)
    text.line("  --secret " + secret.name, "environment.secrets"_key);
  text.line(")");
  return text.take();
}

std::string program_text(const LaunchPlan& plan, std::string_view array) {
  ScriptText text;
  text.line(fmt::format("{}=(", array));
  for (const PlannedArguments& group : plan.program) {
    const std::string line = "  " + shell_quote_all(group.arguments);
    if (line.size() <= kLongestCommandLine && line.find('\n') == std::string::npos) {
      text.line(line, group.comment);
      continue;
    }
    text.line("  # " + group.comment);
    for (const std::string& word : group.arguments) text.line("  " + shell_quote(word));
  }
  text.line(")");
  return text.take();
}

}  // namespace dlrun
