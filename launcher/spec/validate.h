#pragma once
// The checks that need more than one key, the site or the preset.

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/spec/load.h"

namespace dlrun {

/// Errors and warnings, in no order, without their lines' text. Nothing is said about keys in
/// refused.
[[nodiscard]] std::vector<Diagnostic> validate(const LoadedSpec& loaded,
                                               const std::set<std::string, std::less<>>& refused);

/// Pairs of keys that say the same in two ways, so that a spec has one of them at most.
[[nodiscard]] std::span<const std::pair<std::string_view, std::string_view>> exclusive_keys();

}  // namespace dlrun
