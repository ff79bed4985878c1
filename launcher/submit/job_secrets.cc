#include "launcher/submit/job_secrets.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/curl_process.h"
#include "common/quoting.h"
#include "common/text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Returns a secret that lead reads. If the name is kWebhookUrlSecret and the spec sets
/// notify.webhook.url, this URL is the value. Otherwise the value comes from the secret's entry in
/// environment.secrets or, without an entry, from the environment variable of this name.
Result<SecretValue> lead_secret(const Context& context, const LoadedSpec& loaded,
                                const std::string& name) {
  if (name == kWebhookUrlSecret && loaded.spec.notify.webhook_url)
    return SecretValue{name, *loaded.spec.notify.webhook_url};
  const auto& entries = loaded.spec.environment.secrets;
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& one) { return one.name == name; });
  return read_secret(entry == entries.end() ? SecretSource{name, ""} : *entry, context.env);
}

/// Returns a diagnostic at the place of the key, such as "environment.secrets[0]", in the spec. The
/// diagnostic has no place if the spec does not set the key.
Diagnostic diagnostic_at(const LoadedSpec& loaded, const std::string& key,
                         Diagnostic::Severity severity, std::string message) {
  const auto origin = loaded.spec.origins.find(key);
  const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
  return {severity, where, std::move(message), source_line_of(loaded, where)};
}

/// Adds to `values` the secrets that lead reads, and to `problems` the errors about them.
void add_lead_secrets(const Context& context, const LoadedSpec& loaded,
                      std::vector<SecretValue>& values, std::vector<Diagnostic>& problems) {
  const JobSpec& spec = loaded.spec;
  const auto add = [&](const std::string& name, const std::string& key, bool is_address) {
    auto value = lead_secret(context, loaded, name);
    std::string problem = value ? "" : value.error().message;
    if (value && is_address) {
      if (const auto why = address_problem(value->value); !why.empty())
        problem = fmt::format("the value of {} cannot be a webhook: {}", name, why);
    }
    if (problem.empty()) {
      const bool is_known = std::any_of(values.begin(), values.end(),
                                        [&](const auto& one) { return one.name == name; });
      if (!is_known) values.push_back(std::move(*value));
      return;
    }
    problems.push_back(diagnostic_at(loaded, key, Diagnostic::Severity::kError,
                                     fmt::format("{}: {}", key, problem)));
  };
  if (spec.notify.has_webhook())
    add(spec.notify.webhook_secret.value_or(kWebhookUrlSecret),
        spec.notify.webhook_url ? "notify.webhook.url"_key : "notify.webhook.secret"_key, true);
  if (spec.track.mlflow_secret) add(*spec.track.mlflow_secret, "track.mlflow.secret"_key, false);
}

/// Returns true if every user of this machine may read the file. False if the file or one of its
/// folders cannot be examined.
bool all_users_may_read(const std::string& file) {
  std::error_code failed;
  const auto path = std::filesystem::canonical(file, failed);
  if (failed) return false;
  using std::filesystem::perms;
  const auto has = [](const std::filesystem::path& one, perms bit) {
    std::error_code ignored;
    const auto status = std::filesystem::status(one, ignored);
    return status.type() != std::filesystem::file_type::none &&
           (status.permissions() & bit) != perms::none;
  };
  if (!has(path, perms::others_read)) return false;
  for (auto folder = path.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    if (!has(folder, perms::others_exec)) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<SecretValue>> secrets_of_spec(const Context& context, const LoadedSpec& loaded,
                                                 bool has_lead) {
  const auto& sources = loaded.spec.environment.secrets;
  std::vector<SecretValue> values;
  std::vector<Diagnostic> problems;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto value = read_secret(sources[i], context.env);
    if (value) {
      values.push_back(std::move(*value));
      continue;
    }
    problems.push_back(diagnostic_at(loaded, fmt::format("environment.secrets[{}]", i),
                                     Diagnostic::Severity::kError,
                                     "environment.secrets: " + value.error().message));
  }
  if (has_lead) add_lead_secrets(context, loaded, values, problems);
  if (!problems.empty()) return fail(Errc::kInvalid, std::move(problems));
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

void warn_of_readable_secrets(Reporter& reporter, const LoadedSpec& loaded) {
  const auto& sources = loaded.spec.environment.secrets;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& file = sources[i].file;
    if (file.empty() || !all_users_may_read(file)) continue;
    reporter.diagnostics({diagnostic_at(
        loaded, fmt::format("environment.secrets[{}]", i), Diagnostic::Severity::kWarning,
        fmt::format("environment.secrets: all users of this machine can read {}, which holds {}; "
                    "run `chmod go-rwx {}`",
                    printable(file), sources[i].name, printable(shell_quote(file))))});
  }
}

void unset_secrets(Env& env, const std::vector<SecretValue>& secrets) {
  for (const SecretValue& secret : secrets) env.unset(secret.name);
}

}  // namespace dlrun
