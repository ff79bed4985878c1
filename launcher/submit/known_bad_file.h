#pragma once
// The file of health.known_bad, in which runs remember bad nodes. `dlrun nodes` shows and changes
// the file.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/bad_nodes.h"
#include "launcher/submit/experiment.h"

namespace dlrun {

/// Returns the path of the file of bad nodes:
/// - `file` (--file) if it is not empty
/// - otherwise the file that the runs of the spec use, if options.file names a spec
/// - otherwise the file in the runs folder.
/// Fails with kUsage if the runs of the spec do not remember bad nodes, and with kNotFound if the
/// path of the runs folder is that of a file.
[[nodiscard]] Result<std::filesystem::path> chosen_known_bad_file(const Context& context,
                                                                  Reporter& reporter,
                                                                  const std::string& file,
                                                                  const SpecOptions& options);

/// Forgets that nodes are bad, and reports a note about each. lists: node lists such as "n[1-4]".
/// known: the bad nodes in the file. now: the time to write into the file. Fails with kNotFound if
/// a node is not among `known`, and with kInvalid if a list is malformed; in both cases the file is
/// unchanged. Fails as forget_bad_node() does; the nodes before the failure are then forgotten.
[[nodiscard]] Result<> forget_nodes(Reporter& reporter, const std::filesystem::path& file,
                                    const std::vector<std::string>& lists,
                                    const std::vector<BadNode>& known,
                                    std::chrono::sys_seconds now);

/// Returns the JSON of `dlrun nodes --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json bad_nodes_json(const std::filesystem::path& file,
                                                    const std::vector<BadNode>& known);

}  // namespace dlrun
