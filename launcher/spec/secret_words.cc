#include "launcher/spec/secret_words.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/secret_names.h"
#include "common/text.h"
#include "common/url_user.h"

namespace dlrun {
namespace {

constexpr std::string_view kSecretValueCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=:~@!%";

/// Returns true if a value may be a secret. Words such as [PAD] and 4096 are no secrets.
bool may_be_secret(std::string_view value) {
  constexpr std::size_t kShortest = 6;
  return value.size() >= kShortest && value.front() != '-' &&
         value.find_first_not_of(kSecretValueCharacters) == std::string_view::npos &&
         value.find_first_not_of("0123456789.") != std::string_view::npos;
}

/// The form of the tokens of a service.
struct TokenForm {
  std::string_view start;
  /// The rest of the token contains, at any place, at least this many letters and digits in a row.
  /// Names such as hf_finetune_llama_7b.py have fewer in a row.
  std::size_t min_in_a_row = 16;
  /// If true, the longest row of letters and digits in a token has a digit. The name
  /// sk-internationalization.csv has none.
  bool needs_digit = false;
};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the longest row of letters and digits.
std::string_view longest_row_in(std::string_view text) {
  std::string_view longest;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_letter_or_digit(text[i])) {
      start = i + 1;
    } else if (i + 1 - start > longest.size()) {
      longest = text.substr(start, i + 1 - start);
    }
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
  if (token.size() < kShortest) return {};
  const auto row = longest_row_in(token.substr(form.start.size()));
  const bool is_token =
      row.size() >= form.min_in_a_row &&
      (!form.needs_digit || row.find_first_of("0123456789") != std::string_view::npos);
  return is_token ? token : std::string_view();
}

/// Returns the first token in a word that has the form of a known service's tokens; empty if there
/// is none. A token cannot start right after a letter or a digit, so that "task-..." does not count
/// as "sk-...".
std::string_view known_token_in(std::string_view word) {
  // GitLab's tokens (glpat-) may have "-" and "_" at any place, and Langfuse's (sk-lf-) are UUIDs:
  // few of their letters and digits may be in a row.
  constexpr std::array<TokenForm, 13> kForms{{{"hf_"},
                                              {"ghp_"},
                                              {"gho_"},
                                              {"ghs_"},
                                              {"ghu_"},
                                              {"github_pat_"},
                                              {"glpat-", 1},
                                              {"sk-lf-", 8},
                                              {"sk-", 16, true},
                                              {"nvapi-"},
                                              {"xoxb-"},
                                              {"xoxp-"},
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

bool is_quote(char c) {
  return c == '"' || c == '\'';
}

bool is_name_part(char c) {
  return is_letter_or_digit(c) || c == '_';
}

/// Returns true for $NAME and ${NAME}, and for $${NAME}: in a spec, $${ stands for ${, because
/// dlrun replaces ${NAME} itself.
bool is_plain_variable(std::string_view text) {
  if (!text.starts_with('$')) return false;
  text.remove_prefix(std::min(text.find_first_not_of('$'), text.size()));
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  return std::all_of(text.begin(), text.end(), is_name_part);
}

/// Returns the quoted text after "user:" in an address, as in https://user:'password'@host; empty
/// if there is none. address: without the scheme.
std::string_view quoted_password_in(std::string_view address) {
  const auto colon = address.find_first_of(":/?#\"'");
  if (colon == std::string_view::npos || colon + 1 >= address.size() || address[colon] != ':' ||
      !is_quote(address[colon + 1]))
    return {};
  const auto rest = address.substr(colon + 2);
  const auto end = rest.find(address[colon + 1]);
  const bool is_before_host =
      end != std::string_view::npos && rest.substr(end + 1).starts_with('@');
  return is_before_host ? rest.substr(0, end) : std::string_view();
}

/// Returns the password of the first address such as https://user:password@host; empty if there is
/// none. A variable does not count as a password. A digest, as in docker://image:tag@sha256:...,
/// does not count as a host.
std::string_view password_in(std::string_view word) {
  constexpr std::string_view kSlashes = "://";
  for (auto at = word.find(kSlashes); at != std::string_view::npos; at = word.find(kSlashes)) {
    word.remove_prefix(at + kSlashes.size());
    const auto quoted = quoted_password_in(word);
    if (!quoted.empty() && !is_plain_variable(quoted)) return quoted;
    const auto authority = user_and_host_in(word, AddressSource::kScript);
    const auto sign = authority.rfind('@');
    if (sign == std::string_view::npos || authority.substr(sign + 1).starts_with("sha256:"))
      continue;
    const auto user = authority.substr(0, sign);
    const auto colon = user.find(':');
    if (colon == std::string_view::npos) continue;
    const auto password = user.substr(colon + 1);
    if (!password.empty() && !is_plain_variable(password)) return password;
  }
  return {};
}

/// Returns the first secret in a word, if its own form shows that it is one: a token or a password
/// in an address. Returns an empty text if there is none.
std::string_view evident_secret_in(std::string_view word) {
  const auto token = known_token_in(word);
  const auto password = password_in(word);
  if (token.empty() || password.empty()) return token.empty() ? password : token;
  return token.data() < password.data() ? token : password;
}

/// Removes a quote at the start of the word, and a quote at its end. A word may have only one of
/// the quotes, because a quoted text with blanks has several words.
std::string_view unquoted(std::string_view word) {
  if (!word.empty() && is_quote(word.front())) word.remove_prefix(1);
  if (!word.empty() && is_quote(word.back())) word.remove_suffix(1);
  return word;
}

/// Returns a word without its quotes, and without NAME= if a quote follows: the first word of
/// NAME='--token abc' becomes --token.
std::string_view without_name_and_quotes(std::string_view word) {
  const auto equals = word.find('=');
  if (equals != std::string_view::npos && equals + 1 < word.size() && is_quote(word[equals + 1]))
    word.remove_prefix(equals + 1);
  return unquoted(word);
}

/// Facts about the words that precede the current word of a command. The words have no quotes.
struct WordsBefore {
  std::string_view previous, before_previous;  ///< the two words directly before the current one
  /// Only options have followed `wandb login`: the current word may be the API key.
  bool awaits_api_key = false;
  bool has_curl = false;  ///< curl is among the words

  /// Returns true if the word is the argument of `wandb login`, which is an API key.
  [[nodiscard]] bool is_api_key(std::string_view word) const {
    return awaits_api_key && !word.starts_with('-') && previous != "--host" && word != "<<<";
  }

  void add(std::string_view word) {
    if (is_api_key(word)) awaits_api_key = false;
    if (word == "login" && previous.ends_with("wandb")) awaits_api_key = true;
    if (word == "curl" || word.ends_with("/curl")) has_curl = true;
    before_previous = previous;
    previous = word;
  }
};

/// Returns true if the words before a word show that the word is a secret.
bool is_secret_after(const WordsBefore& before, std::string_view word) {
  if (before.is_api_key(word)) return true;
  const auto previous = before.previous;
  if (previous.starts_with('-') && previous.find('=') == std::string_view::npos &&
      is_secret_name(previous))
    return true;
  const std::string scheme = lower_case(previous);
  return lower_case(before.before_previous).ends_with("authorization:") &&
         (scheme == "bearer" || scheme == "token" || scheme == "basic");
}

/// Returns the first secret in a word, which may be the whole word; empty if there is none.
std::string_view secret_in(std::string_view word, const WordsBefore& before) {
  const auto value = unquoted(word);
  if (is_secret_after(before, value) && may_be_secret(value)) return value;
  const auto equals = value.find('=');
  if (value.starts_with('-') && equals != std::string_view::npos) {
    const auto given = unquoted(value.substr(equals + 1));
    if (is_secret_name(value.substr(0, equals)) && may_be_secret(given)) return given;
  }
  return evident_secret_in(word);
}

/// Adds a word to the text, with "..." in the place of each secret.
void add_masked(std::string_view word, const WordsBefore& before, MaskedText& masked) {
  for (auto secret = secret_in(word, before); !secret.empty(); secret = evident_secret_in(word)) {
    const auto at = static_cast<std::size_t>(secret.data() - word.data());
    masked.text += word.substr(0, at);
    masked.text += "...";
    masked.had_secret = true;
    word.remove_prefix(at + secret.size());
  }
  masked.text += word;
}

/// Returns the part of a webhook's address after the host; empty if the word has no such address.
/// The part is a secret, because it suffices for sending messages to the webhook.
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

/// Returns the position of the quote that ends a quoted text; the end of the text if it is not
/// closed. at: a position inside the quoted text.
std::size_t closing_quote(std::string_view text, std::size_t at, char quote) {
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == quote) return i;
    if (text[i] == '\\' && quote == '"') ++i;
  }
  return text.size();
}

/// Returns the position after the quoted text whose first quote is at `at`.
std::size_t after_quote(std::string_view text, std::size_t at) {
  return std::min(closing_quote(text, at + 1, text[at]) + 1, text.size());
}

/// Returns the position after the bracket that closes the bracket at `at`.
std::size_t after_brackets(std::string_view text, std::size_t at) {
  const char open = text[at], close = open == '(' ? ')' : '}';
  std::size_t depth = 0;
  for (std::size_t i = at; i < text.size();) {
    if (is_quote(text[i])) {
      i = after_quote(text, i);
      continue;
    }
    if (text[i] == '\\')
      ++i;
    else if (text[i] == open)
      ++depth;
    else if (text[i] == close && --depth == 0)
      return i + 1;
    ++i;
  }
  return text.size();
}

/// Returns the position after a piece of a shell word. A piece is a character, a quoted text, or a
/// substitution. at: the start of the piece. quote: the quote around the word; NUL: none.
std::size_t after_piece(std::string_view text, std::size_t at, char quote) {
  const char c = text[at];
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (c == '\\' && quote != '\0' && is_quote(next)) {
    // A quote inside a quoted text, as in sh -c "NAME=\"a b\" program".
    const auto close = text.find(text.substr(at, 2), at + 2);
    return close == std::string_view::npos ? text.size() : close + 2;
  }
  if (c == '\\') return std::min(at + 2, text.size());
  if (is_quote(c)) return after_quote(text, at);
  if (c == '`') return std::min(text.find('`', at + 1), text.size() - 1) + 1;
  if (c == '$' && (next == '(' || next == '{')) return after_brackets(text, at + 1);
  return at + 1;
}

/// Returns the end of the value that starts at `at`. quote: the quote around the assignment; NUL:
/// none. other_ends: characters that end this value in addition to those of the shell.
std::size_t end_of_value(std::string_view text, std::size_t at, char quote,
                         std::string_view other_ends) {
  constexpr std::string_view kEnds = " \t;&|()<>";
  std::size_t i = at;
  if (i < text.size() && text[i] == '(') i = after_brackets(text, i);  // the list NAME=(a b)
  while (i < text.size() && (quote == '\0' || text[i] != quote) &&
         kEnds.find(text[i]) == std::string_view::npos &&
         other_ends.find(text[i]) == std::string_view::npos)
    i = after_piece(text, i, quote);
  return i;
}

/// The name before a '=' in a text.
struct NameLeftOf {
  std::string_view name;    ///< "HF_TOKEN", or "token" of the option --hub-token
  std::string_view option;  ///< the name with the words before it: "--hub-token"
  char char_before = '\0';  ///< the character before the option; NUL at the start of the text
};

NameLeftOf name_left_of(std::string_view text, std::size_t equals) {
  std::size_t end = equals;
  // The shell also has NAME+=VALUE and ${NAME:=VALUE}.
  if (end > 0 && (text[end - 1] == '+' || text[end - 1] == ':')) --end;
  std::size_t start = end;
  while (start > 0 && is_name_part(text[start - 1])) --start;
  std::size_t first = start;
  while (first > 0 &&
         (is_name_part(text[first - 1]) || text[first - 1] == '-' || text[first - 1] == '.'))
    --first;
  return {text.substr(start, end - start), text.substr(first, end - first),
          first > 0 ? text[first - 1] : '\0'};
}

/// Masks the values of variables and options that are named like secrets, or whose names are in
/// `names`.
MaskedText without_assigned_secrets(std::string_view text, std::span<const std::string> names) {
  MaskedText masked;
  std::size_t copied_end = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      ++i;
      continue;
    }
    if (is_quote(c) && (quote == '\0' || quote == c)) quote = quote == '\0' ? c : '\0';
    if (c != '=') continue;
    const auto [name, option, char_before] = name_left_of(text, i);
    const bool has_secret_name = !name.empty() && is_secret_name(option);
    if (!has_secret_name && std::find(names.begin(), names.end(), name) == names.end()) continue;
    // In a list such as --export=A=1,B=2, a comma ends each value. In an assignment of the shell, a
    // comma is part of the value.
    const bool is_in_list = char_before == ',' || char_before == '=';
    const bool is_quoted_whole = quote != '\0' && char_before == quote;
    const auto end = is_quoted_whole ? closing_quote(text, i + 1, quote)
                                     : end_of_value(text, i + 1, quote, is_in_list ? "," : "");
    if (end <= i + 1) continue;
    const auto value = unquoted(text.substr(i + 1, end - i - 1));
    masked.had_secret = masked.had_secret || (has_secret_name && may_be_secret(value));
    masked.text += text.substr(copied_end, i + 1 - copied_end);
    masked.text += "...";
    copied_end = end;
    i = end - 1;
  }
  masked.text += text.substr(copied_end);
  return masked;
}

/// Returns the length of the shell word at the start of a text if the word is a substitution that
/// contains its value, such as $(echo abc) or ${NAME:-abc}; else 0.
std::size_t length_of_substitution_with_value(std::string_view text) {
  const auto word = text.substr(0, end_of_value(text, 0, '\0', ""));
  auto inside = unquoted(word);
  const bool is_command = inside.starts_with("$(") || inside.starts_with('`');
  if (!is_command && !inside.starts_with("${")) return 0;
  inside.remove_prefix(inside.starts_with('`') ? 1 : 2);
  inside = trim(inside);
  const bool has_text =
      is_command ? inside.starts_with("echo ") || inside.starts_with("printf ")
                 : inside.substr(0, inside.find('}')).find_first_of("-=") != std::string_view::npos;
  return has_text ? word.size() : 0;
}

/// Returns the position after the letter of curl's option -u or -U, which takes USER:PASSWORD; also
/// in words such as -fsSLu and -uUSER:PASSWORD. Returns 0 if the word has neither option.
std::size_t after_user_letter(std::string_view word) {
  // The other letters of the word take no value.
  constexpr std::string_view kFlags = "aBfGgIijJkLlMNnOpqRSsvVZ0123469#";
  if (!word.starts_with('-')) return 0;
  const auto at = word.find_first_not_of(kFlags, 1);
  return at != std::string_view::npos && (word[at] == 'u' || word[at] == 'U') ? at + 1 : 0;
}

/// Returns the position at which curl's USER:PASSWORD starts in the first word of a text, such as 2
/// for -uUSER:PASSWORD; npos if the word has no such argument.
std::size_t start_of_curl_user(const WordsBefore& before, std::string_view text) {
  if (!before.has_curl) return std::string_view::npos;
  const auto previous = before.previous;
  if (previous == "--user" || previous == "--proxy-user" ||
      (!previous.empty() && after_user_letter(previous) == previous.size()))
    return 0;
  for (const std::string_view option : {"--user=", "--proxy-user="}) {
    if (text.starts_with(option)) return option.size();
  }
  const auto at = after_user_letter(text);
  return at > 0 ? at : std::string_view::npos;
}

/// Returns true if a password is written out in a text, which may have quotes. Returns false for a
/// variable, and for a substitution without the password in it, such as $(cat FILE).
bool is_given_password(std::string_view text) {
  constexpr std::string_view kQuotes = "\"'\\";
  const auto start = text.find_first_not_of(kQuotes);
  if (start == std::string_view::npos) return false;
  text = text.substr(start, text.find_last_not_of(kQuotes) + 1 - start);
  if (is_plain_variable(text)) return false;
  const bool is_substitution =
      text.starts_with("$(") || text.starts_with("${") || text.starts_with('`');
  return !is_substitution || length_of_substitution_with_value(text) > 0;
}

/// Masks the password if the word at the start of a text is USER:PASSWORD for curl's option -u.
/// Returns the length of the word; 0 for any other word.
std::size_t mask_curl_password(const WordsBefore& before, std::string_view text,
                               MaskedText& masked) {
  const auto start = start_of_curl_user(before, text);
  if (start >= text.size()) return 0;
  // The word may have quotes of its own inside a quoted text: sh -c "curl -u \"a:b c\"".
  const char quote = text[start] == '\\' ? '"' : '\0';
  const auto end = end_of_value(text, start, quote, "");
  const auto value = text.substr(start, end - start);
  const auto colon = value.find(':');
  if (colon == std::string_view::npos || !is_given_password(value.substr(colon + 1))) return 0;
  masked.text += text.substr(0, start + colon + 1);
  masked.text += "...";
  const auto opening = value.substr(0, value.find_first_not_of("\"'\\"));
  if (!opening.empty() && value.ends_with(opening)) masked.text += opening;
  masked.had_secret = true;
  return end;
}

/// Masks the word at the start of a text if the word is VALUE of csh's `setenv NAME VALUE`, and
/// NAME is named like a secret or is one of `names`. Returns the length of the word; 0 for any
/// other word.
std::size_t mask_setenv_value(const WordsBefore& before, std::string_view text,
                              std::span<const std::string> names, MaskedText& masked) {
  if (before.before_previous != "setenv") return 0;
  const bool has_secret_name = is_secret_name(before.previous);
  if (!has_secret_name && std::find(names.begin(), names.end(), before.previous) == names.end())
    return 0;
  const auto end = end_of_value(text, 0, '\0', "");
  if (end == 0) return 0;
  masked.text += "...";
  masked.had_secret =
      masked.had_secret || (has_secret_name && may_be_secret(unquoted(text.substr(0, end))));
  return end;
}

/// Returns the end of the word at the start of a text. A password in an address may have the
/// characters that otherwise end a word.
std::size_t end_of_word(std::string_view text) {
  const auto end = std::min(text.find_first_of(" \t;&|()"), text.size());
  const auto password = password_in(text.substr(0, text.find_first_of(" \t")));
  if (password.empty()) return end;
  const auto start = static_cast<std::size_t>(password.data() - text.data());
  return start < end ? std::max(end, start + password.size() + 1) : end;
}

/// Masks the words of a text that are secrets.
MaskedText without_secret_words(std::string_view text, std::span<const std::string> names) {
  MaskedText masked;
  WordsBefore before;
  while (!text.empty()) {
    if (const auto length =
            is_secret_after(before, "") ? length_of_substitution_with_value(text) : 0) {
      masked.text += "...";
      masked.had_secret = true;
      before = {};
      text.remove_prefix(length);
      continue;
    }
    auto length = mask_curl_password(before, text, masked);
    if (length == 0) length = mask_setenv_value(before, text, names, masked);
    if (length > 0) {
      before.add("...");
      text.remove_prefix(length);
      continue;
    }
    const auto end = end_of_word(text);
    const auto word = text.substr(0, end);
    if (!word.empty()) {
      add_masked(word, before, masked);
      before.add(without_name_and_quotes(word));
    }
    if (end == text.size()) break;
    const char separator = text[end];
    if (separator != ' ' && separator != '\t') before = {};
    masked.text += separator;
    text.remove_prefix(end + 1);
  }
  return masked;
}

}  // namespace

bool is_secret_variable(std::string_view name, std::string_view value) {
  const auto words = split(value, ' ');
  return is_secret_name(name) || std::any_of(words.begin(), words.end(), [](std::string_view word) {
           return !evident_secret_in(word).empty();
         });
}

MaskedText mask_secrets(std::string_view text, std::span<const std::string> names) {
  const auto assigned = without_assigned_secrets(text, names);
  auto masked = without_secret_words(assigned.text, names);
  masked.had_secret = masked.had_secret || assigned.had_secret;
  return masked;
}

MaskedText mask_evident_secrets(std::string_view text) {
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
      masked.had_secret = true;
      word.remove_prefix(at);
    }
    masked.text += word;
    if (end == text.size()) break;
    masked.text += text[end];
    text.remove_prefix(end + 1);
  }
  return masked;
}

}  // namespace dlrun
