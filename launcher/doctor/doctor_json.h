#pragma once
// The facts about a cluster and the findings as JSON.

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "launcher/doctor/cluster_facts.h"
#include "launcher/doctor/findings.h"

namespace dlrun {

/// Returns the kind as text: ok, note or missing.
[[nodiscard]] std::string_view finding_kind_text(Finding::Kind kind);

/// Returns the JSON of `dlrun doctor --json`; cli/OUTPUT.md documents it. site: the name of the
/// site for this cluster; nullopt if there is none.
[[nodiscard]] nlohmann::ordered_json doctor_json(const ClusterFacts& facts,
                                                 const std::optional<std::string>& site);

}  // namespace dlrun
