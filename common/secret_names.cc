#include "common/secret_names.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::array<std::string_view, 10> kSecretEnds{
    "token",      "secret", "secrets",    "password",    "passwd",
    "passphrase", "key",    "credential", "credentials", "authorization"};
constexpr std::array<std::string_view, 6> kSecretLastWords{"pass",  "pw",   "sshpass",
                                                           "creds", "auth", "jwt"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSecretPairs{
    {{"mysql", "pwd"}, {"pass", "phrase"}, {"pass", "word"}, {"auth", "header"}}};

/// A name whose last word is one of these is not the name of a secret, although it contains a word
/// such as "token": token_type, key_frames, num_key_value_heads, HF_TOKEN_PATH.
constexpr std::array<std::string_view, 27> kPropertyWords{
    "type", "types", "mode",  "frame", "frames", "count", "length",    "len",        "size",
    "dim",  "dims",  "heads", "mask",  "limit",  "ratio", "embedding", "embeddings", "dropout",
    "map",  "name",  "names", "file",  "files",  "path",  "paths",     "dir",        "folder"};
/// Words that end with "key" and are no secrets: a partition key of InfiniBand, Slurm's workload
/// characterisation key, and ordinary English words.
constexpr std::array<std::string_view, 5> kHarmlessKeys{"pkey", "wckey", "hotkey", "monkey",
                                                        "turkey"};
/// Words before "key" in the name of a column or a field of data.
constexpr std::array<std::string_view, 12> kColumnWords{"sort",   "image",   "text",     "label",
                                                        "input",  "output",  "response", "caption",
                                                        "prompt", "primary", "target",   "foreign"};

template <std::size_t N>
[[nodiscard]] bool is_among(const std::array<std::string_view, N>& all, std::string_view word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// Returns the words of a name in lower case, without the numbers at its end.
[[nodiscard]] std::vector<std::string_view> words_of_name(std::string_view lower) {
  auto words = split_words(lower, "_-.: ");
  while (words.size() > 1 && words.back().find_first_not_of("0123456789") == std::string_view::npos)
    words.pop_back();
  return words;
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::string lower = lower_case(name);
  const auto words = words_of_name(lower);
  if (words.empty() || is_among(kPropertyWords, words.back())) return false;
  if (is_among(kSecretLastWords, words.back())) return true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::string_view before = i > 0 ? words[i - 1] : std::string_view();
    const bool is_pair = std::find(kSecretPairs.begin(), kSecretPairs.end(),
                                   std::pair(before, word)) != kSecretPairs.end();
    const bool has_secret_end =
        std::any_of(kSecretEnds.begin(), kSecretEnds.end(),
                    [word](std::string_view end) { return word.ends_with(end); });
    const bool is_harmless =
        is_among(kHarmlessKeys, word) || (word == "key" && is_among(kColumnWords, before));
    if (is_pair || (has_secret_end && !is_harmless)) return true;
  }
  return false;
}

}  // namespace dlrun
