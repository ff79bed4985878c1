#pragma once
// The follow-up jobs of a run with retry.chain: the jobs after the first one. Each follow-up job
// waits for the end of the job before it. Its journal is in the folder chain-K of the run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/runs/journal.h"

namespace dlrun {

/// Returns the folder with the journal of the follow-up job with this number. Numbers start at 1.
[[nodiscard]] std::filesystem::path follow_up_path(const std::filesystem::path& run,
                                                   std::int64_t number);

/// A follow-up job.
struct FollowUp {
  std::int64_t number = 0;
  Submission submission;
};

/// Reads the journals of the run's follow-up jobs, in the order of their numbers. Leaves out jobs
/// without a journal, which dlrun has not begun to submit. Returns no jobs if the run has no
/// chain. first: the run's own journal, which records the number of jobs in the chain. Fails as
/// read_submission() does.
[[nodiscard]] Result<std::vector<FollowUp>> read_follow_ups(const std::filesystem::path& run,
                                                            const Submission& first);

/// Returns the other user who owns the folder or the journal of one of the follow-up jobs; nullopt
/// if this user owns all of them.
[[nodiscard]] std::optional<Owner> foreign_owner_of_follow_ups(
    const std::filesystem::path& run, const std::vector<FollowUp>& follow_ups);

/// Returns true if one of the follow-up jobs has this Slurm job id.
[[nodiscard]] bool has_follow_up(const std::vector<FollowUp>& follow_ups, std::string_view id);

}  // namespace dlrun
