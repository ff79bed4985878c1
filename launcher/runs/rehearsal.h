#pragma once
// The rehearsal of a run (`dlrun submit --rehearse`): a short run of the same program on two ranks.
// The real run waits until the rehearsal succeeds. These functions read the record of the
// rehearsal. From their results, launcher/view/rehearsal_text.h predicts the memory and the time of
// the real run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/result.h"
#include "launcher/runs/history.h"
#include "launcher/runs/ranks.h"

namespace dlrun {

/// The id of a run's rehearsal, and the requests of the run. The figures of the rehearsal are
/// compared with these requests. Stored in rehearsal.json of the run.
struct RehearsalNote {
  std::string id;  ///< the id of the rehearsal's run, which is in the same runs folder
  std::optional<std::int64_t> ranks_per_node;
  std::optional<std::int64_t> mem_mib;  ///< requested memory of a node
  std::optional<std::int64_t> time_s;   ///< the time limit
};

/// Writes rehearsal.json of the run.
[[nodiscard]] Result<> write_rehearsal_note(const std::filesystem::path& run,
                                            const RehearsalNote& note);
/// Reads rehearsal.json of the run. Returns nullopt if the run has no rehearsal. Fails with
/// kInvalid if the file is damaged, or has the id of a run outside of the runs folder.
[[nodiscard]] Result<std::optional<RehearsalNote>> read_rehearsal_note(
    const std::filesystem::path& run);

enum class RehearsalState {
  kNotStarted,
  kRunning,
  kPassed,         ///< the programs ran for the whole time of the rehearsal
  kEndedByItself,  ///< the programs ended successfully before the end of this time
  kFailed,
};

/// The figures of a rehearsal. Absent values are unknown.
struct RehearsalFigures {
  RehearsalState state = RehearsalState::kNotStarted;
  std::string failure;              ///< the reason, if the rehearsal has failed
  std::optional<double> rss_bytes;  ///< the largest memory of a rank
  /// The largest memory that a rank used on its GPUs, and the memory of these GPUs.
  std::optional<double> gpu_used_bytes, gpu_total_bytes;
  std::optional<double> seconds_per_step;  ///< mean, from the second report on
  /// How many steps the program would do in all, from `steps` in its reports. The real run has the
  /// same number.
  std::optional<std::int64_t> total_steps;
};

/// Returns the figures in a rehearsal's record. ranks: the rehearsal's ranks.json; nullopt if there
/// is none.
[[nodiscard]] RehearsalFigures rehearsal_figures(const RunHistory& history,
                                                 const std::optional<RankSnapshot>& ranks);

/// A run's rehearsal, and the run's requests.
struct Rehearsal {
  RehearsalNote note;
  RehearsalFigures figures;
};

/// Reads the files of a run's rehearsal. Returns nullopt if the run has no rehearsal. Fails if
/// rehearsal.json is damaged, or if the record of the rehearsal cannot be read. Ignores a
/// ranks.json that cannot be read.
[[nodiscard]] Result<std::optional<Rehearsal>> read_rehearsal(const std::filesystem::path& run);

}  // namespace dlrun
