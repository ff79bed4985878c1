#include "cli/secrets.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// Names and files of the secrets in a run's plan.json.
[[nodiscard]] std::map<std::string, std::string> secret_files(const std::filesystem::path& run) {
  constexpr std::size_t kEnough = 16U << 20U;
  std::map<std::string, std::string> files;
  const auto text = read_file(run / "plan.json", kEnough);
  const auto plan = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!plan.is_object() || !plan.contains("secrets") || !plan["secrets"].is_array()) return files;
  for (const auto& secret : plan["secrets"]) {
    if (secret.is_object() && secret.contains("name") && secret["name"].is_string() && secret.contains("file") &&
        secret["file"].is_string())
      files.emplace(secret["name"].get<std::string>(), secret["file"].get<std::string>());
  }
  return files;
}

}  // namespace

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
    missing.push_back({Diagnostic::Severity::kError, where, "environment.secrets: " + value.error().message,
                       line_under(loaded, where)});
  }
  if (missing.empty()) return values;
  print_diagnostics(cli, missing);
  return fail(Errc::kInvalid, "");
}

Result<std::vector<SecretValue>> secrets_of_script(const Cli& cli, std::string_view script,
                                                   const std::filesystem::path& of_run) {
  std::vector<SecretValue> values;
  const auto files = of_run.empty() ? std::map<std::string, std::string>() : secret_files(of_run);
  constexpr std::string_view kOption = "--secret ";
  for (const auto line : split(script, '\n')) {
    const auto words = trim(line);
    if (!words.starts_with(kOption)) continue;
    const auto rest = trim(words.substr(kOption.size()));
    const std::string name(rest.substr(0, rest.find_first_of(" \t#")));
    const auto file = files.find(name);
    auto value = read_secret({name, file == files.end() ? "" : file->second}, cli.env);
    if (!value) return tl::unexpected(value.error());
    values.push_back(std::move(*value));
  }
  return values;
}

void hide_secrets(Env& env, const std::vector<SecretValue>& secrets) {
  for (const SecretValue& secret : secrets) env.unset(secret.name);
}

}  // namespace dlrun
