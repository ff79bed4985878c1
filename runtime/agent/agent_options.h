#pragma once
// Parses dlrun-agent's command line. The launcher or the agent itself generates this command line.
// The parser therefore makes no suggestions and needs no library.

#include <string>
#include <variant>
#include <vector>

#include "common/result.h"
#include "runtime/agent/autopsy.h"
#include "runtime/agent/lead.h"
#include "runtime/agent/node_sshd.h"
#include "runtime/agent/output_copying.h"
#include "runtime/agent/rank.h"
#include "runtime/agent/relay.h"
#include "runtime/agent/send_helper.h"
#include "runtime/agent/staging.h"

namespace dlrun::agent {

struct HelpAsked {};
struct VersionAsked {};
using Invocation =
    std::variant<LeadOptions, RankOptions, AutopsyOptions, StageOptions, CollectOptions,
                 RelayOptions, SshdOptions, SendHelperOptions, HelpAsked, VersionAsked>;

/// Parses the arguments after the program's name. Fails with kUsage.
[[nodiscard]] Result<Invocation> parse_arguments(const std::vector<std::string>& arguments);

extern const char* const kUsageText;

}  // namespace dlrun::agent
