#include "common/job_id.h"

#include <algorithm>
#include <limits>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kMostDigits = 10;  // Slurm's ids have 32 bits
constexpr std::size_t kLongestHostOrCluster = 255;
constexpr std::string_view kDecimalDigits = "0123456789";

bool is_number(std::string_view text, std::size_t most_digits) {
  return !text.empty() && text.size() <= most_digits &&
         text.find_first_not_of(kDecimalDigits) == std::string_view::npos;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !text.empty() && text.size() <= kLongestHostOrCluster && text.front() != '-' &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

bool is_slurm_job_id(std::string_view text) {
  const auto underscore = text.find('_');
  return is_number(text.substr(0, underscore), kMostDigits) &&
         (underscore == std::string_view::npos ||
          is_number(text.substr(underscore + 1), kMostDigits));
}

std::optional<LocalJob> parse_local_job(std::string_view text) {
  constexpr std::size_t kMostTickDigits = 18;
  const auto parts = split(text, ':');
  if (parts.size() != 3 || !is_name(parts[0]) || !is_number(parts[1], kMostDigits) ||
      !is_number(parts[2], kMostTickDigits))
    return std::nullopt;
  const auto pid = parse_int(parts[1]), start = parse_int(parts[2]);
  if (!pid || !start || *pid < 1 || *pid > std::numeric_limits<pid_t>::max()) return std::nullopt;
  return LocalJob{std::string(parts[0]), static_cast<pid_t>(*pid),
                  static_cast<std::uint64_t>(*start)};
}

bool is_cluster_list(std::string_view text) {
  if (text.empty()) return true;
  const auto names = split(text, ',');
  return std::all_of(names.begin(), names.end(), is_name);
}

Result<> check_job_id(const JobId& job) {
  if (job.cluster == kLocalCluster) {
    if (parse_local_job(job.id)) return {};
    return fail(Errc::kInvalid,
                "'{}' is not the id of a job on this machine; expected HOST:PID:START",
                printable(job.id));
  }
  if (!is_cluster_list(job.cluster))
    return fail(Errc::kInvalid,
                "'{}' is not the name of a cluster; expected letters, digits, '_', '.' and '-', "
                "and no '-' at the start",
                printable(job.cluster));
  if (!is_slurm_job_id(job.id))
    return fail(
        Errc::kInvalid,
        "'{}' is not the id of a Slurm job; expected a number such as 42, or 42_7 for a task "
        "of a job array",
        printable(job.id));
  return {};
}

}  // namespace dlrun
