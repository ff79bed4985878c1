#include "launcher/submit/known_bad_file.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/hostlist.h"
#include "common/json_or_null.h"
#include "common/text.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Result<std::filesystem::path> chosen_known_bad_file(const Context& context, Reporter& reporter,
                                                    const std::string& file,
                                                    const SpecOptions& options) {
  if (!file.empty()) return (context.current_dir / file).lexically_normal();
  if (options.file.empty()) {
    DLRUN_TRY_ASSIGN(const auto runs, runs_directory_here(context, reporter, options.runs_dir));
    std::error_code error;
    if (std::filesystem::exists(runs, error) && !std::filesystem::is_directory(runs, error))
      return fail(Errc::kNotFound, "{}: is not a folder, so it holds no file of bad nodes",
                  printable(runs));
    return known_bad_file_in(runs);
  }
  DLRUN_TRY_ASSIGN(const auto prepared,
                   prepare_experiment(context, reporter, options, Target::kSlurm));
  if (prepared.plan.known_bad) return prepared.plan.known_bad->file;
  return fail(Errc::kUsage,
              "{}: its runs do not remember bad nodes; set health.known_bad, for example to 7d",
              printable(options.file));
}

Result<> forget_nodes(Reporter& reporter, const std::filesystem::path& file,
                      const std::vector<std::string>& lists, const std::vector<BadNode>& known,
                      std::chrono::sys_seconds now) {
  std::vector<std::string> chosen;
  for (const std::string& list : lists) {
    const auto nodes = expand_hostlist(list);
    if (!nodes) return within("--forget", nodes.error());
    for (const std::string& node : *nodes) {
      const bool is_known = std::any_of(known.begin(), known.end(),
                                        [&](const BadNode& bad) { return bad.node == node; });
      if (!is_known)
        return fail(Errc::kNotFound, "{}: {} is not remembered as bad", printable(file.string()),
                    printable(node));
      chosen.push_back(node);
    }
  }
  for (const std::string& node : chosen) {
    DLRUN_TRY(forget_bad_node(file, node, now));
    reporter.note(fmt::format("{} is no longer remembered as bad", printable(node)));
  }
  return {};
}

Json bad_nodes_json(const std::filesystem::path& file, const std::vector<BadNode>& known) {
  Json nodes = Json::array();
  for (const BadNode& bad : known) {
    nodes.push_back({{"node", bad.node},
                     {"cluster", text_or_null(bad.cluster)},
                     {"reason", bad.reason},
                     {"run", text_or_null(bad.run)},
                     {"job", text_or_null(bad.job)},
                     {"since", utc_timestamp(bad.since)},
                     {"until", utc_timestamp(bad.until)}});
  }
  return Json{{"file", file.string()}, {"nodes", nodes}};
}

}  // namespace dlrun
