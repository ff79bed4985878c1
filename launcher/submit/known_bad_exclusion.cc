#include "launcher/submit/known_bad_exclusion.h"

#include <algorithm>
#include <chrono>

#include "common/bad_nodes.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/existing_nodes.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/plan/bad_nodes_exclusion.h"

namespace dlrun {
namespace {

std::chrono::sys_seconds now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// Removes nodes that the cluster no longer has, because sbatch refuses to exclude them.
Result<> remove_unknown_nodes(const Context& context, const std::string& cluster,
                              std::vector<BadNode>& remembered) {
  std::vector<std::string> names;
  for (const BadNode& bad : remembered) names.push_back(bad.node);
  DLRUN_TRY_ASSIGN(const auto existing, nodes_that_exist(context.env, cluster, names));
  std::erase_if(remembered, [&](const BadNode& bad) {
    return std::find(existing.begin(), existing.end(), bad.node) == existing.end();
  });
  return {};
}

/// Decides which bad nodes the job excludes, and makes the value of --exclude.
Result<BadNodesExclusion> decide_exclusion(const Context& context,
                                           const KnownBadSettings& known_bad,
                                           std::string_view script,
                                           const std::optional<std::string>& cluster,
                                           bool asks_slurm) {
  DLRUN_TRY_ASSIGN(auto remembered, read_bad_nodes(known_bad.file, now()));
  if (asks_slurm && !remembered.empty())
    DLRUN_TRY(remove_unknown_nodes(context, cluster.value_or(""), remembered));
  return exclude_bad_nodes(remembered, cluster.value_or(configured_cluster_name(context.env)),
                           script);
}

}  // namespace

std::optional<std::string> exclude_value_with_bad_nodes(
    const Context& context, Reporter& reporter, const std::optional<KnownBadSettings>& known_bad,
    std::string_view script, const std::optional<std::string>& cluster, bool asks_slurm) {
  if (!known_bad) return std::nullopt;
  const auto decided = decide_exclusion(context, *known_bad, script, cluster, asks_slurm);
  if (!decided) {
    reporter.warning(
        fmt::format("health.known_bad: no bad node is excluded: {}", decided.error().message));
    return std::nullopt;
  }
  for (const BadNode& bad : decided->excluded) {
    reporter.note(fmt::format(
        "{} is excluded until {} (health.known_bad): {}; "
        "`dlrun nodes --forget {}` lets jobs use it again",
        bad.node, utc_timestamp(bad.until).substr(0, 16), printable(bad.reason), bad.node));
  }
  for (const BadNode& bad : decided->wanted) {
    reporter.warning(
        fmt::format("{} is remembered as bad (health.known_bad): {}; resources.nodelist asks for "
                    "this node, so dlrun does not exclude it",
                    bad.node, printable(bad.reason)));
  }
  if (decided->value.empty()) return std::nullopt;
  return decided->value;
}

std::optional<KnownBadSettings> known_bad_settings_of_run(const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 16U << 20U;
  const auto text = read_untrusted(run / "plan.json", kLimit, Links::kRefuse);
  const auto plan = text ? json_read::object_of(*text) : std::nullopt;
  if (!plan) return std::nullopt;
  const auto known_bad = plan->find("known_bad");
  if (known_bad == plan->end() || !known_bad->is_object()) return std::nullopt;
  KnownBadSettings read{json_read::text(*known_bad, "file"),
                        json_read::integer(*known_bad, "seconds").value_or(0)};
  return read.file.starts_with('/') ? std::optional(std::move(read)) : std::nullopt;
}

}  // namespace dlrun
