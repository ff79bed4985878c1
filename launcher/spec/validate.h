#pragma once
// Checks that involve several keys, the site or the preset.

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Returns errors and warnings in no particular order, without source lines. Skips the keys in
/// `refused`, which have an error already. Does not report a key as missing if the key or its
/// section is in `correct_spellings`: the spec has a misspelling of it, which has an error already.
[[nodiscard]] std::vector<Diagnostic> validate(
    const LoadedSpec& loaded, const std::set<std::string, std::less<>>& refused,
    const std::set<std::string, std::less<>>& correct_spellings);

/// Returns all pairs of keys that exclude each other: a spec may set only one key of a pair.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys();

}  // namespace dlrun
