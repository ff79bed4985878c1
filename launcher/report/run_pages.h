#pragma once
// Makes the page of `dlrun report` about the runs that the user asks for.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

/// A page about one run, or a comparison of several runs or of a sweep's points.
struct RunPage {
  std::string html;
  bool has_last_known_states = false;  ///< a state may be outdated, because Slurm did not answer
  /// The file for the page if the user gives none. The page about one run or one sweep goes into
  /// the run's or the sweep's directory, which is private. A comparison of several runs, or a page
  /// about another user's run, goes into the current directory.
  std::filesystem::path default_file;
};

/// Makes the page. Shows the points of a sweep instead of the sweep. For a point that was
/// resubmitted, shows its latest run. warn: called for each run that cannot be read and is left
/// out. Fails if there is no run for one of `names`, if the record of a sweep cannot be read, or if
/// the only run cannot be read. Fails with kNotFound if none of several runs can be read.
[[nodiscard]] Result<RunPage> make_run_page(const Env& env, const KnownServers& servers,
                                            const std::filesystem::path& current_dir,
                                            const std::vector<std::string>& names,
                                            const std::function<void(const std::string&)>& warn);

}  // namespace dlrun
