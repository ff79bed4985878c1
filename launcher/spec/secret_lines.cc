#include "launcher/spec/secret_lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "common/secret_names.h"
#include "common/text.h"
#include "common/url_user.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_words.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestKeyName = 256;  ///< bytes; a longer text is no name of a key

[[nodiscard]] bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

[[nodiscard]] bool is_space_or_tab(char c) {
  return c == ' ' || c == '\t';
}

[[nodiscard]] HidingRule rule_of_name(std::string_view name) {
  return {is_secret_key(name), name == "notify" || name.starts_with("notify.")};
}

/// Returns the name that ends before this position, without quotes; empty if there is none.
[[nodiscard]] std::string_view key_before(std::string_view line, std::size_t at) {
  while (at > 0 && is_space_or_tab(line[at - 1])) --at;
  if (at > 0 && (line[at - 1] == '"' || line[at - 1] == '\'')) --at;
  std::size_t begin = at;
  while (begin > 0 && is_key_character(line[begin - 1])) --begin;
  return line.substr(begin, at - begin);
}

/// Returns true if the ':' at this position ends the name of a key, or of an HTTP header in a
/// command ("Authorization: Bearer ...").
[[nodiscard]] bool ends_name(std::string_view line, std::size_t at) {
  return at + 1 == line.size() || is_space_or_tab(line[at + 1]) ||
         (at > 0 && (line[at - 1] == '"' || line[at - 1] == '\''));
}

/// Returns the rule of a line, from the names of keys and variables in the line.
[[nodiscard]] HidingRule rule_of_line(std::string_view line) {
  HidingRule rule;
  for (std::size_t at = line.find_first_of(":="); at != std::string_view::npos;
       at = line.find_first_of(":=", at + 1)) {
    const std::string_view name = key_before(line, at);
    // The space after the ':' may be missing: `TOKEN:text`. Such a text counts as a key only if its
    // name is secret.
    if (line[at] == '=' || ends_name(line, at) || is_secret_key(name))
      rule = rule.with(rule_of_name(name));
  }
  return rule;
}

/// Returns true if the line has an option that is named like a secret, such as --api-key.
[[nodiscard]] bool has_secret_option(std::string_view line) {
  for (std::size_t at = line.find('-'); at != std::string_view::npos; at = line.find('-', at + 1)) {
    if (at > 0 && is_key_character(line[at - 1])) continue;
    std::size_t end = at;
    while (end < line.size() && is_key_character(line[end])) ++end;
    if (is_secret_name(line.substr(at, end - at))) return true;
    at = end - 1;
  }
  return false;
}

[[nodiscard]] bool has_address(std::string_view line) {
  return line.find("://") != std::string_view::npos;
}

/// Returns true if an address in the line has a user, perhaps with a password. Ignores addresses
/// such as docker://USER@REGISTRY, which have no password.
[[nodiscard]] bool shows_url_user(std::string_view line) {
  constexpr std::string_view kSlashes = "://";
  for (auto slashes = line.find(kSlashes); slashes != std::string_view::npos;
       slashes = line.find(kSlashes, slashes + 1)) {
    std::size_t begin = slashes;
    while (begin > 0 && std::isalpha(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
    const std::string_view scheme = line.substr(begin, slashes - begin);
    if (!scheme.starts_with("http") && !scheme.starts_with("ftp")) continue;
    const std::string_view address = line.substr(slashes + kSlashes.size());
    if (has_user(address.substr(0, address.find_first_of(" \t\"'")))) return true;
  }
  return false;
}

/// Returns the words of a YAML list in one line, without brackets, commas and quotes.
[[nodiscard]] std::vector<std::string_view> words_of_list(std::string_view text) {
  return split_words(text, " \t[]{},'\"");
}

/// Returns true if a word is clearly the name of a variable, by the rules of
/// looks_like_names_only().
[[nodiscard]] bool is_clear_name(std::string_view word) {
  constexpr std::size_t kLongest = 40, kShortestSecret = 6, kMostDigits = 2;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (word.starts_with('$')) word.remove_prefix(1);
  if (word.empty() || word.size() > kLongest || is_digit(word[0]) ||
      word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != std::string_view::npos)
    return false;
  const auto digits = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), is_digit));
  const bool has_dash_or_dot = word.find_first_of("-.") != std::string_view::npos;
  if (digits > (has_dash_or_dot ? 0 : kMostDigits)) return false;
  return word.size() < kShortestSecret || word.find('_') != std::string_view::npos ||
         is_secret_name(word);
}

/// Follows the keys that enclose each line, by indentation and by brackets.
class KeyFollower {
 public:
  /// Returns the rule for the next line, from the keys that enclose it.
  [[nodiscard]] HidingRule rule_of_next_line(std::string_view line) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const bool is_empty = line.find_first_not_of(" \t") == std::string_view::npos;
    if (is_empty || (block_key_indent_ && indent > *block_key_indent_)) return current_rule();
    block_key_indent_.reset();
    const bool is_block_style = brackets_.empty() && quote_ == '\0';
    if (is_block_style && line[indent] == '#') return {};
    if (is_block_style) enter(line, indent, keys_);
    // A quote or bracket that is never closed must not make the follower miss the keys after it.
    enter(line, indent, keys_by_indent_);
    const HidingRule rule = current_rule().with(innermost_rule(keys_by_indent_));
    read(line, indent);
    return rule;
  }

 private:
  struct Key {
    std::size_t indent;
    HidingRule rule;
  };
  struct Bracket {
    HidingRule rule;
    HidingRule value_rule{};  ///< the rule for the value after the last key in the brackets
  };

  [[nodiscard]] static HidingRule innermost_rule(const std::vector<Key>& keys) {
    return keys.empty() ? HidingRule{} : keys.back().rule;
  }
  [[nodiscard]] HidingRule current_rule() const {
    if (!brackets_.empty()) return brackets_.back().rule.with(brackets_.back().value_rule);
    return innermost_rule(keys_);
  }

  /// Returns the position of the ':' after the key that starts here; nullopt if no key does.
  [[nodiscard]] static std::optional<std::size_t> end_of_key(std::string_view line,
                                                             std::size_t at) {
    if (at >= line.size() || line[at] == '[' || line[at] == '{') return std::nullopt;
    const char quote = line[at] == '"' || line[at] == '\'' ? line[at] : '\0';
    if (quote != '\0') {
      const auto close = line.find(quote, at + 1);
      if (close == std::string_view::npos) return std::nullopt;
      const auto colon = line.find_first_not_of(" \t", close + 1);
      return colon != std::string_view::npos && line[colon] == ':' ? std::optional(colon)
                                                                   : std::nullopt;
    }
    for (auto colon = line.find(':', at); colon != std::string_view::npos;
         colon = line.find(':', colon + 1)) {
      if (ends_name(line, colon)) return colon;
    }
    return std::nullopt;
  }

  /// Leaves the keys that do not enclose the line, and enters the line's own key. A line without a
  /// key belongs to the value of the key before it, even if the line's indentation is wrong. A line
  /// that starts with '-' or ':' belongs to the key with the same indentation.
  static void enter(std::string_view line, std::size_t indent, std::vector<Key>& keys) {
    const auto is_indicator = [&](std::size_t at) {
      return at < line.size() && (line[at] == '-' || line[at] == '?' || line[at] == ':') &&
             (at + 1 == line.size() || is_space_or_tab(line[at + 1]));
    };
    const bool is_item_or_value = is_indicator(indent) && line[indent] != '?';
    std::size_t at = indent;
    bool is_explicit_key = false;
    while (is_indicator(at)) {
      is_explicit_key = line[at] == '?';
      at = std::min(line.find_first_not_of(" \t", at + 1), line.size());
    }
    const auto colon = end_of_key(line, at);
    const bool starts_key = !is_item_or_value && (colon || is_explicit_key);
    while (!keys.empty() &&
           (keys.back().indent > indent || (starts_key && keys.back().indent == indent)))
      keys.pop_back();
    if (!colon && !is_explicit_key) return;
    const auto name = key_before(line, colon.value_or(line.size()));
    const std::size_t column = is_explicit_key ? indent : at;
    keys.push_back({column, innermost_rule(keys).with(rule_of_name(name))});
  }

  /// Reads the brackets, quotes and keys of a line.
  void read(std::string_view line, std::size_t at) {
    bool is_start = true;  // a quote or a bracket would start a value here
    for (; at < line.size(); ++at) {
      const char c = line[at];
      if (quote_ != '\0') {
        if (c == '\\' && quote_ == '"') {
          ++at;
        } else if (c == quote_) {
          quote_ = '\0';
        }
        continue;
      }
      if (c == '#' && (at == 0 || is_space_or_tab(line[at - 1]))) return;
      if ((c == '"' || c == '\'') && is_start) {
        quote_ = c;
      } else if (c == '[' || c == '{') {
        if (is_start || !brackets_.empty()) brackets_.push_back({current_rule()});
      } else if (!brackets_.empty()) {
        read_in_brackets(line, at);
      } else if (c == '|' || c == '>') {
        if (is_start && !keys_.empty() && is_block_header(line.substr(at + 1)))
          block_key_indent_ = keys_.back().indent;
      }
      is_start = c == '[' || c == '{' || c == ',' || (c == ':' && ends_name(line, at)) ||
                 (is_start && (is_space_or_tab(c) || c == '-' || c == '?'));
    }
  }

  /// Returns true if the text after a '|' or '>' can only be the header of a block text, such as
  /// "|-" and ">2".
  [[nodiscard]] static bool is_block_header(std::string_view rest) {
    const auto end = rest.find_first_not_of("+-123456789");
    return end == std::string_view::npos || is_space_or_tab(rest[end]);
  }

  void read_in_brackets(std::string_view line, std::size_t at) {
    const char c = line[at];
    if (c == ']' || c == '}') {
      brackets_.pop_back();
    } else if (c == ',') {
      brackets_.back().value_rule = {};
    } else if (c == ':' && ends_name(line, at)) {
      brackets_.back().value_rule = rule_of_name(key_before(line, at));
    }
  }

  std::vector<Key> keys_;
  std::vector<Key> keys_by_indent_;  ///< as if no quote and no bracket spanned several lines
  std::vector<Bracket> brackets_;
  char quote_ = '\0';
  /// The indentation of the key of a '|' or '>' text; nullopt outside such a text.
  std::optional<std::size_t> block_key_indent_;
};

}  // namespace

bool is_secret_key(std::string_view path) {
  if (path.empty() || path.size() > kLongestKeyName) return false;
  constexpr std::array<std::string_view, 3> kSecretParts{"secret", "secrets", "webhook"};
  const auto parts = split(path, '.');
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    part = part.substr(0, part.find('['));
    if (is_secret_name(part)) return true;
    const std::string lower = lower_case(part);
    return std::any_of(kSecretParts.begin(), kSecretParts.end(), [&](std::string_view name) {
      return edit_distance(lower, name) <= 1;  // the name, or a misspelling of it
    });
  });
}

bool looks_like_names_only(std::string_view text) {
  bool has_name = false;
  for (const std::string_view word : words_of_list(text)) {
    if (word == "$") continue;  // ${NAME}: the braces separate words
    if (!is_clear_name(word)) return false;
    has_name = true;
  }
  return has_name && !mask_evident_secrets(text).had_secret;
}

bool has_only_names_of_secrets(std::string_view key, std::string_view line) {
  if (key.substr(0, key.find('[')) != "environment.secrets"_key) return false;
  std::string names;
  for (const std::string_view word : words_of_list(line)) {
    const bool is_key = word == "environment:" || word == "secrets:" || word == "name:";
    if (!is_key && word != "-") names += fmt::format("{} ", word);
  }
  return looks_like_names_only(names);
}

bool may_hold_secret(std::string_view line) {
  const HidingRule rule = rule_of_line(line);
  return rule.hides_all || (rule.hides_addresses && has_address(line)) || has_secret_option(line) ||
         shows_url_user(line) || mask_secrets(line).had_secret ||
         mask_evident_secrets(line).had_secret;
}

std::string shown_argument(std::string_view argument) {
  if (!may_hold_secret(argument)) return printable(argument);
  const auto equals = argument.find('=');
  if (equals == std::string_view::npos) return "...";
  return fmt::format("{}=...", printable(argument.substr(0, equals)));
}

SecretLines::SecretLines(std::string_view text) : text_(text) {
  KeyFollower follower;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rules_.push_back(follower.rule_of_next_line(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool SecretLines::contains(int line) const {
  if (line < 1 || static_cast<std::size_t>(line) > rules_.size()) return false;
  const HidingRule& rule = rules_[static_cast<std::size_t>(line) - 1];
  if (rule.hides_all) return true;
  const std::string line_text = line_of(text_, line);
  return (rule.hides_addresses && has_address(line_text)) || may_hold_secret(line_text);
}

SourceLine line_for_message(std::string_view text, int line) {
  if (SecretLines(text).contains(line)) return hidden_line();
  return {line_of(text, line)};
}

}  // namespace dlrun
