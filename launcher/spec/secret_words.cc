#include "launcher/spec/secret_words.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kTokenCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=:~@!%";

/// Returns true if the name of an option is that of a secret: its last word is one of a few, such
/// as "token" in --hub-token. The option --token-type is no secret.
bool is_secret_option(std::string_view option) {
  std::string name = lower_case(option);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  constexpr std::array<std::string_view, 6> kWords{"token",  "secret", "password",
                                                   "passwd", "apikey", "credentials"};
  constexpr std::array<std::string_view, 4> kKeys{"api", "access", "secret", "auth"};
  const auto words = split(name, '-');
  const auto is_one = [](const auto& all, std::string_view word) {
    return std::find(all.begin(), all.end(), word) != all.end();
  };
  return is_one(kWords, words.back()) ||
         (words.size() > 1 && words.back() == "key" && is_one(kKeys, words[words.size() - 2]));
}

/// Returns true if a value may be a secret. Words such as [PAD] and 4096 are none.
bool may_be_secret(std::string_view value) {
  constexpr std::size_t kShortest = 6;
  return value.size() >= kShortest && value.front() != '-' &&
         value.find_first_not_of(kTokenCharacters) == std::string_view::npos &&
         value.find_first_not_of("0123456789.") != std::string_view::npos;
}

/// How the tokens of a service begin.
struct TokenForm {
  std::string_view start;
  /// A token has at least one run of so many letters and digits after its start. Names such as
  /// hf_finetune_llama_7b.py have only shorter runs.
  std::size_t shortest_run = 16;
};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the number of letters and digits in the longest run of them.
std::size_t longest_run_in(std::string_view text) {
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = is_letter_or_digit(c) ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// Returns the token of this form that starts at the first character; empty if there is none.
std::string_view token_at_start(std::string_view text, const TokenForm& form) {
  constexpr std::size_t kShortest = 20;
  if (!text.starts_with(form.start)) return {};
  const auto end = std::find_if_not(text.begin(), text.end(), [](char c) {
    return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.';
  });
  const auto token = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  const bool is_token = token.size() >= kShortest &&
                        longest_run_in(token.substr(form.start.size())) >= form.shortest_run;
  return is_token ? token : std::string_view();
}

/// Returns the first part of a word that has the form of a known service's token; empty if there is
/// none. The part follows no letter or digit, so that "task-..." does not count as "sk-...".
std::string_view known_token_in(std::string_view word) {
  // Tokens of GitLab may have "-" and "_" at any place, and those of Langfuse are UUIDs.
  constexpr std::array<TokenForm, 9> kForms{{{"hf_"},
                                             {"ghp_"},
                                             {"gho_"},
                                             {"github_pat_"},
                                             {"glpat-", 1},
                                             {"sk-lf-", 8},
                                             {"sk-"},
                                             {"xoxb-"},
                                             {"AKIA"}}};
  for (std::size_t at = 0; at < word.size(); ++at) {
    if (at > 0 && is_letter_or_digit(word[at - 1])) continue;
    for (const TokenForm& form : kForms) {
      const auto token = token_at_start(word.substr(at), form);
      if (!token.empty()) return token;
    }
  }
  return {};
}

/// Returns the password of the first address such as https://user:password@host; empty if there is
/// none. A variable is no password, and a digest such as docker://image:tag@sha256:... no host.
std::string_view password_in(std::string_view word) {
  constexpr std::string_view kSlashes = "://";
  for (auto at = word.find(kSlashes); at != std::string_view::npos; at = word.find(kSlashes)) {
    word.remove_prefix(at + kSlashes.size());
    const auto place = word.substr(0, word.find_first_of("/?#\"'"));
    const auto host = place.rfind('@');
    if (host == std::string_view::npos || place.substr(host + 1).starts_with("sha256:")) continue;
    const auto user = place.substr(0, host);
    const auto colon = user.find(':');
    if (colon == std::string_view::npos) continue;
    const auto password = user.substr(colon + 1);
    if (!password.empty() && password.front() != '$') return password;
  }
  return {};
}

/// Returns the first part of a word that is a secret by its own form; empty if there is none.
std::string_view evident_secret_in(std::string_view word) {
  const auto token = known_token_in(word);
  const auto password = password_in(word);
  if (token.empty() || password.empty()) return token.empty() ? password : token;
  return token.data() < password.data() ? token : password;
}

/// Returns the part of the text without a quote at its start and one at its end. Either of them may
/// be missing, because a quoted text with blanks has several words.
std::string_view unquoted(std::string_view word) {
  const auto is_quote = [](char c) { return c == '"' || c == '\''; };
  if (!word.empty() && is_quote(word.front())) word.remove_prefix(1);
  if (!word.empty() && is_quote(word.back())) word.remove_suffix(1);
  return word;
}

/// The words of a command before the one that is read, without quotes.
struct WordsBefore {
  std::string_view last, second_last;
  /// `wandb login` is among them, and no argument of it other than options.
  bool has_login = false;

  /// Returns true if the word is the argument of `wandb login`, which is the key.
  [[nodiscard]] bool is_key_of_login(std::string_view word) const {
    return has_login && !word.starts_with('-') && last != "--host" && word != "<<<";
  }

  void add(std::string_view word) {
    if (is_key_of_login(word)) has_login = false;
    if (word == "login" && last.ends_with("wandb")) has_login = true;
    second_last = last;
    last = word;
  }
};

/// Returns true if the words before a word say that it is a secret.
bool is_secret_after(const WordsBefore& before, std::string_view word) {
  if (before.is_key_of_login(word)) return true;
  const auto last = before.last;
  if (last.starts_with('-') && last.find('=') == std::string_view::npos && is_secret_option(last))
    return true;
  const std::string scheme = lower_case(last);
  return lower_case(before.second_last).ends_with("authorization:") &&
         (scheme == "bearer" || scheme == "token" || scheme == "basic");
}

/// Returns the first part of a word that is a secret; empty if there is none.
std::string_view secret_in(std::string_view word, const WordsBefore& before) {
  const auto value = unquoted(word);
  if (is_secret_after(before, value) && may_be_secret(value)) return value;
  const auto equals = value.find('=');
  if (value.starts_with('-') && equals != std::string_view::npos) {
    const auto given = unquoted(value.substr(equals + 1));
    if (is_secret_option(value.substr(0, equals)) && may_be_secret(given)) return given;
  }
  return evident_secret_in(word);
}

/// Adds a word to the text, with "..." in the place of each secret.
void add_masked(std::string_view word, const WordsBefore& before, MaskedText& masked) {
  for (auto secret = secret_in(word, before); !secret.empty(); secret = evident_secret_in(word)) {
    const auto at = static_cast<std::size_t>(secret.data() - word.data());
    masked.text += word.substr(0, at);
    masked.text += "...";
    masked.has_secret = true;
    word.remove_prefix(at + secret.size());
  }
  masked.text += word;
}

/// Returns the part of a webhook's address after the host; empty if the word has no such address.
/// Whoever knows that part can send messages.
std::string_view path_of_hook_in(std::string_view word) {
  constexpr std::string_view kSlashes = "://";
  for (auto at = word.find(kSlashes); at != std::string_view::npos; at = word.find(kSlashes)) {
    word.remove_prefix(at + kSlashes.size());
    const auto address = word.substr(0, word.find_first_of("\"'<>,"));
    if (lower_case(address).find("hook") == std::string::npos) continue;
    const auto path = address.find_first_of("/?#");
    if (path != std::string_view::npos && path + 1 < address.size())
      return address.substr(path + 1);
  }
  return {};
}

}  // namespace

MaskedText without_evident_secrets(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  MaskedText masked;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kBlanks), text.size());
    auto word = text.substr(0, end);
    for (std::string_view secret; !word.empty(); word.remove_prefix(secret.size())) {
      secret = evident_secret_in(word);
      if (secret.empty()) secret = path_of_hook_in(word);
      if (secret.empty()) break;
      const auto at = static_cast<std::size_t>(secret.data() - word.data());
      masked.text += word.substr(0, at);
      masked.text += "...";
      masked.has_secret = true;
      word.remove_prefix(at);
    }
    masked.text += word;
    if (end == text.size()) break;
    masked.text += text[end];
    text.remove_prefix(end + 1);
  }
  return masked;
}

MaskedText without_secret_words(std::string_view text) {
  constexpr std::string_view kBreaks = " \t;&|()";
  MaskedText masked;
  WordsBefore before;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kBreaks), text.size());
    const auto word = text.substr(0, end);
    if (!word.empty()) {
      add_masked(word, before, masked);
      before.add(unquoted(word));
    }
    if (end == text.size()) break;
    const char separator = text[end];
    if (separator != ' ' && separator != '\t') before = {};
    masked.text += separator;
    text.remove_prefix(end + 1);
  }
  return masked;
}

}  // namespace dlrun
