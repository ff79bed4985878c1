#pragma once
// Resolves RUN on the command line: `last`, an id, a name, a Slurm job id, a path, or the unique
// start of an id. A sweep's point is RUN/NUMBER, a job id with a task (42_7), or a path. Only a
// path refers to a run of another user.

#include <filesystem>
#include <optional>
#include <string_view>

#include "common/env.h"
#include "common/result.h"
#include "launcher/runs/index.h"

namespace dlrun {

/// The shortest start of an id that a command accepts instead of the id.
enum class IdStart {
  kAny,
  /// Only a start that has at least the run's name and date: NAME-YYYYMMDD. For commands that end
  /// or delete a run. For them, "mn" or "mnist-2" must not mean the run mnist-20261121-120000-00aa.
  kWithDate,
};

/// Returns the run whose directory has the path `text`; nullopt if that is not a run's directory.
[[nodiscard]] std::optional<IndexEntry> run_of_directory(std::string_view text,
                                                         const std::filesystem::path& current_dir);

/// Returns the run to which text refers. Tries a text with a '/' as a path first, and then the
/// forms of RUN in the order at the head of this file. If several runs have the name or the job id,
/// returns the newest. Fails
/// - with kUsage if text is the start of several ids; the message lists these ids;
/// - with kNotFound if there is no such run;
/// - with kNotFound if text is the id of a deleted run, or a name whose newest run was deleted.
///   Older runs of this name, and runs whose ids start with text, do not prevent this failure.
[[nodiscard]] Result<IndexEntry> resolve_run(std::string_view text, const RunIndex& index,
                                             const std::filesystem::path& current_dir,
                                             IdStart accepted = IdStart::kAny);

/// Calls resolve_run() with the user's index, and fails as resolve_run() does. If the index cannot
/// be opened, accepts only a path; for any other text, fails with the error of the index.
[[nodiscard]] Result<IndexEntry> find_run(const Env& env, const std::filesystem::path& current_dir,
                                          std::string_view text, IdStart accepted = IdStart::kAny);

/// Returns this user's newest sweep in the index. Fails with kNotFound if there is none.
[[nodiscard]] Result<IndexEntry> newest_sweep(const RunIndex& index);

/// Returns this user's run, sweep or point that has this Slurm job; nullopt if there is none, or
/// if the index cannot be read. job: an id without the parts that Slurm adds in dependencies, such
/// as "_*".
[[nodiscard]] std::optional<IndexEntry> find_run_of_job(const Env& env, std::string_view job);

}  // namespace dlrun
