#pragma once
// Describes sites for people. Pure functions.

#include <string_view>
#include <vector>

#include "common/shown_data.h"
#include "launcher/spec/sites.h"

namespace dlrun {

/// Returns a table of sites. default_site: the site of a spec that gives no site.
[[nodiscard]] TableRows site_rows(const std::vector<Site>& sites, std::string_view default_site);

/// Returns the facts of one site.
[[nodiscard]] LabelledLines site_lines(const SiteProfile& profile);

/// Returns a table of the site's partitions. A limit that the site's file does not give is "?".
[[nodiscard]] TableRows partition_rows(const SiteProfile& profile);
/// Returns true if partition_rows() has a "?".
[[nodiscard]] bool has_unknown_limits(const SiteProfile& profile);

}  // namespace dlrun
