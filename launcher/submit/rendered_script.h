#pragma once
// The script that `dlrun render` writes, and the changes that were made to it since (`dlrun diff`).

#include <filesystem>
#include <string>

#include "launcher/submit/experiment.h"

namespace dlrun {

/// Returns the script followed by the spec that it was rendered from.
[[nodiscard]] std::string script_with_spec(const Experiment& prepared, const std::string& script);

/// Plans the sweep with the largest arrays that the file slurm.conf allows. Does not ask Slurm.
[[nodiscard]] Result<SweepPlan> sweep_to_render(const Context& context, const Experiment& prepared);

/// Writes the script. Replaces a regular file atomically, also through a link. Writes to a device
/// or a pipe (/dev/null), and never replaces it. Without `force`, fails with kUsage if the file
/// exists, unless it is empty, equals the script, or is an unedited script of an earlier render; a
/// file that cannot be read counts as edited.
[[nodiscard]] Result<> write_script(const std::filesystem::path& path, const std::string& script,
                                    bool force);

/// The changes to a script since dlrun rendered it.
struct ScriptChanges {
  enum class Kind {
    kEdited,
    kNone,             ///< the script is as it was rendered
    kWithoutSpec,      ///< not compared: the script of a submitted spec does not contain the spec
    kScriptsOfPoints,  ///< not compared: a sweep has a script for each point, without a spec in it
  };
  Kind kind = Kind::kEdited;
  std::string difference;  ///< the output of diff -u
};

/// Compares a script with the script that dlrun renders from the spec that it carries. Warns if
/// this dlrun renders the spec differently than the dlrun that wrote the script. what: a script
/// file, or a run, whose script is compared. Fails with kNotFound if the script neither carries a
/// spec nor belongs to a run with a recorded spec, and with kIo if diff fails.
[[nodiscard]] Result<ScriptChanges> changes_of_script(const Context& context, Reporter& reporter,
                                                      const std::string& what);

}  // namespace dlrun
