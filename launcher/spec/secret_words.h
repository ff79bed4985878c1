#pragma once
// Finds secrets that a script or a spec contains as plain words, such as `--token abc` and
// `wandb login abc`.

#include <string>
#include <string_view>

namespace dlrun {

/// The advice about a secret in a script. It follows a text that names the place.
inline constexpr std::string_view kSecretWordAdvice =
    "a word of it looks like a secret: move it to a variable of your shell, name the variable in "
    "environment.secrets, and use $NAME here";

/// A text in which "..." replaces secrets.
struct MaskedText {
  std::string text;
  bool has_secret = false;
};

/// Masks the values of options whose names are those of secrets (`--token VALUE`,
/// `--api-key=VALUE`), the key of `wandb login`, the value of a header `Authorization: Bearer`,
/// passwords in addresses (`https://user:PASSWORD@host`), and tokens that have the form of a known
/// service's, anywhere in a word. Leaves variables, short values, and other NAME=VALUE alone.
[[nodiscard]] MaskedText without_secret_words(std::string_view text);

/// Masks only secrets that show by their own form: passwords in addresses, tokens of known
/// services, and addresses of webhooks (`https://hooks...`), of which the scheme and the host stay.
[[nodiscard]] MaskedText without_evident_secrets(std::string_view text);

}  // namespace dlrun
