#include "launcher/runs/secrets_file.h"

#include "common/files.h"
#include "common/log.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestSecretBytes = 64U << 10U;

[[nodiscard]] std::filesystem::path secrets_file(const std::filesystem::path& run) {
  return run / "secrets";
}

}  // namespace

Result<SecretValue> read_secret(const SecretSource& source, const Env& env) {
  SecretValue secret{source.name, ""};
  if (source.file.empty()) {
    const auto value = env.get(source.name);
    if (!value) {
      return fail(Errc::kInvalid,
                  "secret {0} is not set in this environment; export it, or name a file in "
                  "environment.secrets: [{{name: {0}, file: PATH}}]",
                  source.name);
    }
    secret.value = *value;
  } else {
    auto text = read_file(source.file, kLargestSecretBytes);
    if (!text) return within("secret " + source.name, text.error());
    secret.value = std::move(*text);
    if (secret.value.ends_with('\n')) secret.value.pop_back();
    if (secret.value.ends_with('\r')) secret.value.pop_back();
  }
  hide_in_log(secret.value);
  if (secret.value.empty())
    return fail(Errc::kInvalid, "secret {} is empty{}", source.name,
                source.file.empty()
                    ? " in this environment"
                    : fmt::format(": the file {} has no text", printable(source.file)));
  if (secret.value.size() > kLargestSecretBytes)
    return fail(Errc::kInvalid, "secret {} is larger than {} bytes", source.name,
                kLargestSecretBytes);
  if (secret.value.find('\0') != std::string::npos)
    return fail(Errc::kInvalid, "secret {} holds a NUL byte, which no variable can hold",
                source.name);
  return secret;
}

Result<> write_secrets(const std::filesystem::path& run, const std::vector<SecretValue>& secrets) {
  if (secrets.empty()) return {};
  std::string text;
  for (const SecretValue& secret : secrets) {
    text += secret.name + "=" + secret.value;
    text += '\0';
  }
  return write_file_atomic(secrets_file(run), text, 0600);
}

void remove_secrets(const std::filesystem::path& run) {
  std::error_code ignored;
  std::filesystem::remove(secrets_file(run), ignored);
}

}  // namespace dlrun
