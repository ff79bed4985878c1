#pragma once
// Finds secrets that a script or a spec contains as plain text, such as `export HF_TOKEN=abc`,
// `--token abc` and `wandb login abc`.

#include <span>
#include <string>
#include <string_view>

namespace dlrun {

/// The advice about a secret in a script. The advice follows a text that names the place.
inline constexpr std::string_view kSecretWordAdvice =
    "a word of the line looks like a secret: move the word to a variable of your shell, name the "
    "variable in environment.secrets, and use $NAME here";

/// A text in which "..." replaces secrets.
struct MaskedText {
  std::string text;
  bool has_secret = false;
};

/// Returns true if the name of a variable is that of a secret, or if its value has a token of a
/// known service or a password in an address.
/// value: without the quotes of the shell; empty if it is not known.
[[nodiscard]] bool is_secret_variable(std::string_view name, std::string_view value);

/// Masks the whole values of variables (`HF_TOKEN=$(echo abc)`) and options (`--token VALUE`,
/// `--api-key=VALUE`) whose names are those of secrets, also those of csh (`setenv HF_TOKEN abc`),
/// the key of `wandb login`, the password of `curl -u user:PASSWORD`, the value of a header
/// `Authorization: Bearer`, passwords in addresses (`https://user:PASSWORD@host`), and tokens that
/// have the form of a known service's, anywhere in a word. Masked values that have less than six
/// characters, or are numbers or variables, do not set has_secret. names: variables whose values
/// are secrets, too.
[[nodiscard]] MaskedText without_secrets(std::string_view text,
                                         std::span<const std::string> names = {});

/// Masks only secrets that show by their own form: passwords in addresses, tokens of known
/// services, and addresses of webhooks (`https://hooks...`), of which the scheme and the host stay.
[[nodiscard]] MaskedText without_evident_secrets(std::string_view text);

}  // namespace dlrun
