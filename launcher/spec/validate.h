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
/// section is in `misspelt`: the misspelt key has an error already.
[[nodiscard]] std::vector<Diagnostic> validate(const LoadedSpec& loaded,
                                               const std::set<std::string, std::less<>>& refused,
                                               const std::set<std::string, std::less<>>& misspelt);

/// Returns pairs of keys of which a spec may set only one.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys();

}  // namespace dlrun
