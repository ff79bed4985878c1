#include "launcher/submit/job_secrets.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
Result<std::vector<SecretValue>> secrets_of_spec(const Context& context, const LoadedSpec& loaded) {
  const auto& sources = loaded.spec.environment.secrets;
  std::vector<SecretValue> values;
  std::vector<Diagnostic> missing;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto value = read_secret(sources[i], context.env);
    if (value) {
      values.push_back(std::move(*value));
      continue;
    }
    const auto origin = loaded.spec.origins.find(fmt::format("environment.secrets[{}]", i));
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    missing.push_back({Diagnostic::Severity::kError, where,
                       "environment.secrets: " + value.error().message, line_under(loaded, where)});
  }
  if (!missing.empty()) return fail(Errc::kInvalid, std::move(missing));
  return values;
}

Result<std::vector<SecretValue>> secrets_of_script(const Context& context,
                                                   const std::vector<std::string>& names,
                                                   const std::vector<SecretSource>& sources) {
  std::vector<SecretValue> values;
  for (const std::string& name : names) {
    const auto source = std::find_if(sources.begin(), sources.end(),
                                     [&](const auto& one) { return one.name == name; });
    DLRUN_TRY_ASSIGN(
        auto value,
        read_secret(source == sources.end() ? SecretSource{name, ""} : *source, context.env));
    values.push_back(std::move(value));
  }
  return values;
}

void hide_secrets(Env& env, const std::vector<SecretValue>& secrets) {
  for (const SecretValue& secret : secrets) env.unset(secret.name);
}

}  // namespace dlrun
