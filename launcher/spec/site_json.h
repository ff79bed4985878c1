#pragma once
// A site's profile as JSON.

#include <nlohmann/json.hpp>

#include "launcher/spec/sites.h"

namespace dlrun {

/// Returns the JSON of `dlrun site show --json`; cli/OUTPUT.md documents it. is_default: true if
/// this is the site of a spec that gives no site.
[[nodiscard]] nlohmann::ordered_json site_json(const Site& site, bool is_default);

}  // namespace dlrun
