#pragma once
// Finds the texts in a spec that may be secrets. Messages, and the lines of the spec that messages
// quote, do not show such a text, because people copy messages into logs and bug reports.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnostic.h"

namespace dlrun {

/// Returns true if the value of a key may be a secret: a part of the key is named like a secret, or
/// is `webhook`. Misspellings of `secrets` and `webhook` count too.
[[nodiscard]] bool is_secret_key(std::string_view path);

/// Returns true if a line may hold a secret: it gives a value to a key, a variable or an option
/// that is named like a secret (HF_TOKEN, --api-key), or it has an address with a user, the address
/// of a webhook, or a token of a known service.
[[nodiscard]] bool may_hold_secret(std::string_view line);

/// Returns true if each word of a text is clearly the name of a variable, perhaps misspelt
/// (HF-TOKEN, $HF_TOKEN), and not the value of a secret that somebody wrote in the place of a name.
/// Each word, without a '$' at its start,
/// - has only capitals, digits, '_', '-' and '.', and at most 40 characters;
/// - does not start with a digit, and has at most two digits, or no digit if it has '-' or '.';
/// - contains '_', is named like a secret, or has fewer than six characters.
/// Returns false for a text without words.
[[nodiscard]] bool looks_like_names_only(std::string_view text);

/// Returns true if `key` is environment.secrets and the line has names of secrets but no values:
/// only `environment:`, `secrets:`, `name:`, brackets, and words that looks_like_names_only()
/// accepts.
[[nodiscard]] bool has_only_names_of_secrets(std::string_view key, std::string_view line);

/// Returns a --set argument (KEY=VALUE) for messages, with "..." in place of a value that may be a
/// secret. If an argument without '=' may be a secret, returns "...".
[[nodiscard]] std::string shown_argument(std::string_view argument);

/// Tells when a line must not be shown, because of the keys in it or around it.
struct HidingRule {
  bool hides_all = false;        ///< the whole line is hidden
  bool hides_addresses = false;  ///< the line is hidden if it has an address

  /// Returns the rule that hides everything that either of the two rules hides.
  [[nodiscard]] HidingRule with(const HidingRule& other) const {
    return {hides_all || other.hides_all, hides_addresses || other.hides_addresses};
  }
};

/// The lines of a YAML text that must not be shown. Also finds a secret whose name is on an earlier
/// line. The text need not be valid YAML: in doubt, a line is hidden.
class SecretLines {
 public:
  /// The text must outlive the object.
  explicit SecretLines(std::string_view text);
  /// line: counted from 1.
  [[nodiscard]] bool contains(int line) const;

 private:
  std::string_view text_;
  std::vector<HidingRule> rules_;  ///< the rule for each line, from the keys that enclose it
};

/// Returns the placeholder that replaces a line that must not be shown.
[[nodiscard]] inline SourceLine hidden_line() {
  return {.text = "", .is_hidden = true};
}

/// Returns a line of a YAML text (counted from 1) for a message. Hides a line that may hold a
/// secret.
[[nodiscard]] SourceLine line_for_message(std::string_view text, int line);

}  // namespace dlrun
