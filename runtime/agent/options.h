#pragma once
// dlrun-agent's command line. Written by renderers, read in milliseconds: no library.

#include <string>
#include <variant>
#include <vector>

#include "common/result.h"
#include "runtime/agent/autopsy.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/rank.h"

namespace dlrun::agent {

struct HelpAsked {};
struct VersionAsked {};
using Invocation = std::variant<LeadOptions, RankOptions, AutopsyOptions, HelpAsked, VersionAsked>;

/// arguments without the program's own name. Fails with kUsage.
[[nodiscard]] Result<Invocation> parse_arguments(const std::vector<std::string>& arguments);

extern const char* const kUsageText;

}  // namespace dlrun::agent
