#include "launcher/runs/follow_ups.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dlrun {

std::filesystem::path follow_up_path(const std::filesystem::path& run, std::int64_t number) {
  return run / fmt::format("chain-{}", number);
}

Result<std::vector<FollowUp>> read_follow_ups(const std::filesystem::path& run,
                                              const Submission& first) {
  std::vector<FollowUp> follow_ups;
  for (std::int64_t number = 1; number < first.chain_job_count; ++number) {
    DLRUN_TRY_ASSIGN(auto submission, read_submission(follow_up_path(run, number)));
    if (submission) follow_ups.push_back({number, std::move(*submission)});
  }
  return follow_ups;
}

std::optional<Owner> foreign_owner_of_follow_ups(const std::filesystem::path& run,
                                                 const std::vector<FollowUp>& follow_ups) {
  for (const FollowUp& one : follow_ups) {
    if (one.submission.foreign) return one.submission.foreign;
    if (auto owner = foreign_owner(follow_up_path(run, one.number))) return owner;
  }
  return std::nullopt;
}

bool has_follow_up(const std::vector<FollowUp>& follow_ups, std::string_view id) {
  return !id.empty() && std::any_of(follow_ups.begin(), follow_ups.end(), [&](const FollowUp& one) {
    return one.submission.job.id == id;
  });
}

}  // namespace dlrun
