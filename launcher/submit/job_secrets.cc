#include "launcher/submit/job_secrets.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/curl_process.h"
#include "common/text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Returns the address of notify.webhook as a secret; nullopt if the spec has none, or if the
/// program gets the same secret anyway. The message contains no address.
Result<std::optional<SecretValue>> webhook_of_spec(const Context& context, const NotifySpec& notify,
                                                   const std::vector<SecretSource>& others) {
  if (!notify.has_webhook()) return std::optional<SecretValue>();
  SecretValue address{notify.webhook_secret.value_or(kWebhookUrlSecret), ""};
  if (notify.webhook_url) {
    address.value = *notify.webhook_url;
  } else {
    const auto other = std::find_if(others.begin(), others.end(),
                                    [&](const auto& one) { return one.name == address.name; });
    DLRUN_TRY_ASSIGN(
        address,
        read_secret(other != others.end() ? *other : SecretSource{address.name, ""}, context.env));
    if (const auto why = why_not_address(address.value); !why.empty())
      return fail(Errc::kInvalid, "the value of {} cannot be a webhook: {}", address.name, why);
    if (other != others.end()) return std::optional<SecretValue>();
  }
  return std::optional<SecretValue>(std::move(address));
}

}  // namespace

Result<std::vector<SecretValue>> secrets_of_spec(const Context& context, const LoadedSpec& loaded,
                                                 bool has_lead) {
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
  if (has_lead) {
    auto webhook = webhook_of_spec(context, loaded.spec.notify, sources);
    if (!webhook) {
      const auto origin = loaded.spec.origins.find("notify.webhook.secret"_key);
      const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
      missing.push_back({Diagnostic::Severity::kError, where,
                         "notify.webhook: " + webhook.error().message, line_under(loaded, where)});
    } else if (*webhook) {
      values.push_back(std::move(**webhook));
    }
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
