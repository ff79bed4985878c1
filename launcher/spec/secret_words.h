#pragma once
// Finds secrets that a script or a spec contains as plain text, such as `export HF_TOKEN=abc`,
// `--token abc` and `wandb login abc`.

#include <span>
#include <string>
#include <string_view>

namespace dlrun {

/// The second part of a message about a secret in a script. The first part says where the line is.
inline constexpr std::string_view kSecretWordAdvice =
    "a word of the line looks like a secret: move the word to a variable of your shell, name the "
    "variable in environment.secrets, and use $NAME here";

/// A text in which "..." replaces secrets.
struct MaskedText {
  std::string text;
  bool had_secret = false;
};

/// Returns true if a variable is named like a secret, or if its value has a token of a known
/// service or a password in an address. value: without the quotes of the shell; empty if it is not
/// known.
[[nodiscard]] bool is_secret_variable(std::string_view name, std::string_view value);

/// Masks secrets:
/// - the whole value of a variable that is named like a secret: `HF_TOKEN=$(echo abc)`, or in csh
///   `setenv HF_TOKEN abc`;
/// - the value of an option that is named like a secret: `--token VALUE`, `--api-key=VALUE`;
/// - the API key of `wandb login`, and the password of `curl -u user:PASSWORD`;
/// - the value of a header `Authorization: Bearer` (or `Token`, or `Basic`);
/// - passwords in addresses: `https://user:PASSWORD@host`;
/// - tokens in the form of a known service, anywhere in a word.
/// A masked value that has fewer than six characters, or is a number or a variable, does not set
/// had_secret. names: further variables whose values are masked; these do not set had_secret
/// either.
[[nodiscard]] MaskedText mask_secrets(std::string_view text,
                                      std::span<const std::string> names = {});

/// Masks only secrets that their form reveals: passwords in addresses, and tokens of known
/// services. If an address contains "hook", as a webhook's does, also masks everything after the
/// host.
[[nodiscard]] MaskedText mask_evident_secrets(std::string_view text);

}  // namespace dlrun
