#include "cli/secrets.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/terminal/print.h"
#include "common/text.h"

namespace dlrun {
Result<std::vector<SecretValue>> secrets_of_spec(const Cli& cli, const LoadedSpec& loaded) {
  const auto& sources = loaded.spec.environment.secrets;
  std::vector<SecretValue> values;
  std::vector<Diagnostic> missing;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto value = read_secret(sources[i], cli.env);
    if (value) {
      values.push_back(std::move(*value));
      continue;
    }
    const auto origin = loaded.spec.origins.find(fmt::format("environment.secrets[{}]", i));
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    missing.push_back({Diagnostic::Severity::kError, where,
                       "environment.secrets: " + value.error().message, line_under(loaded, where)});
  }
  if (missing.empty()) return values;
  print_diagnostics(cli, missing);
  return fail(Errc::kInvalid, "");
}

Result<std::vector<SecretValue>> secrets_of_script(const Cli& cli, std::string_view script,
                                                   const std::vector<SecretSource>& sources) {
  std::vector<SecretValue> values;
  constexpr std::string_view kOption = "--secret ";
  for (const auto line : split(script, '\n')) {
    const auto words = trim(line);
    if (!words.starts_with(kOption)) continue;
    const auto rest = trim(words.substr(kOption.size()));
    const std::string name(rest.substr(0, rest.find_first_of(" \t#")));
    const auto source = std::find_if(sources.begin(), sources.end(),
                                     [&](const auto& one) { return one.name == name; });
    auto value = read_secret(source == sources.end() ? SecretSource{name, ""} : *source, cli.env);
    if (!value) return tl::unexpected(value.error());
    values.push_back(std::move(*value));
  }
  return values;
}

void hide_secrets(Env& env, const std::vector<SecretValue>& secrets) {
  for (const SecretValue& secret : secrets) env.unset(secret.name);
}

}  // namespace dlrun
