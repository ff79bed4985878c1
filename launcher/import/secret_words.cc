#include "launcher/import/secret_words.h"

#include <algorithm>
#include <array>
#include <vector>

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

/// Returns true if the word has the form of a token of a known service.
bool is_known_token(std::string_view word) {
  constexpr std::size_t kShortest = 20;
  constexpr std::array<std::string_view, 8> kStarts{"hf_",    "ghp_", "gho_",  "github_pat_",
                                                    "glpat-", "sk-",  "xoxb-", "AKIA"};
  return word.size() >= kShortest && may_be_secret(word) &&
         std::any_of(kStarts.begin(), kStarts.end(),
                     [&](std::string_view start) { return word.starts_with(start); });
}

/// Returns the place of the text without its quotes.
std::string_view unquoted(std::string_view word) {
  const bool is_quoted = word.size() > 1 && (word.front() == '"' || word.front() == '\'') &&
                         word.back() == word.front();
  return is_quoted ? word.substr(1, word.size() - 2) : word;
}

/// Returns the part of a word that is a secret; empty if there is none. before: the words before
/// it.
std::string_view secret_in(std::string_view word, const std::vector<std::string_view>& before) {
  const auto value = unquoted(word);
  if (is_known_token(value)) return value;
  const auto last = before.empty() ? std::string_view() : before.back();
  const bool is_login =
      last == "login" && before.size() > 1 && before[before.size() - 2].ends_with("wandb");
  const bool follows_option =
      last.starts_with('-') && last.find('=') == std::string_view::npos && is_secret_option(last);
  if ((is_login || follows_option) && may_be_secret(value)) return value;
  const auto equals = word.find('=');
  if (!word.starts_with('-') || equals == std::string_view::npos) return {};
  const auto given = unquoted(word.substr(equals + 1));
  return is_secret_option(word.substr(0, equals)) && may_be_secret(given) ? given
                                                                          : std::string_view();
}

}  // namespace

MaskedText without_secret_words(std::string_view text) {
  constexpr std::string_view kBreaks = " \t;&|()";
  MaskedText masked;
  std::vector<std::string_view> before;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kBreaks), text.size());
    const auto word = text.substr(0, end);
    if (!word.empty()) {
      const auto secret = secret_in(word, before);
      const auto at =
          secret.empty() ? word.size() : static_cast<std::size_t>(secret.data() - word.data());
      masked.text += word.substr(0, at);
      if (!secret.empty()) {
        masked.has_secret = true;
        masked.text += "...";
        masked.text += word.substr(at + secret.size());
      }
      before.push_back(word);
    }
    if (end == text.size()) break;
    masked.text += text[end];
    text.remove_prefix(end + 1);
  }
  return masked;
}

}  // namespace dlrun
