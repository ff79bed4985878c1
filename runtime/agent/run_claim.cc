#include "runtime/agent/run_claim.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/chain_limits.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kClaimFileLimitBytes = 64U << 10U;

/// Returns HOST:PID:START. The start time makes the name unique, because process ids are reused.
Result<std::string> local_job() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0)
    return fail(Errc::kInternal, "cannot read the host name: {}", errno_text(errno));
  const auto stat = read_file("/proc/self/stat", kClaimFileLimitBytes);
  if (!stat) return tl::unexpected<Error>(stat.error());
  // Field 2 is the command in parentheses, which may contain any character. Field 22 is the start
  // in clock ticks since boot.
  const auto after_command =
      std::string_view(*stat).substr(std::min(stat->rfind(')'), stat->size()));
  const auto fields = split(after_command, ' ');
  if (fields.size() < 21)
    return fail(Errc::kInternal, "/proc/self/stat is not of the kernel's form");
  return fmt::format("{}:{}:{}", host.data(), ::getpid(), fields[20]);
}

std::string member(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Reads a claim file. Returns true if it is this job's claim, and false if the file is damaged.
/// Fails with kRefused if the claim is another job's.
Result<bool> is_intact_own_claim(const fs::path& path, const JobIdentity& identity) {
  const auto text = read_untrusted(path, kClaimFileLimitBytes, Links::kRefuse);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto claim = parse_json<Json>(*text);
  if (!claim.is_object()) return false;
  const auto cluster = member(claim, "cluster");
  const auto job = member(claim, "job");
  if (cluster == identity.cluster && job == identity.job) return true;
  return fail(Errc::kRefused,
              "{}: job {} of cluster '{}' holds this run; this is job {} of cluster '{}'",
              path.parent_path().string(), printable(job), printable(cluster), identity.job,
              identity.cluster);
}

/// Returns true if the run's own files, or its name, show that the run was made for this job.
bool is_made_for(const fs::path& directory, const JobIdentity& identity, std::string_view name) {
  const auto says_so = [&](const char* file) {
    const auto text = read_file(directory / file, kClaimFileLimitBytes * 16);
    const auto json = text ? parse_json<Json>(*text) : Json();
    if (!json.is_object()) return false;
    const bool is_same_token = !identity.token.empty() && member(json, "token") == identity.token;
    return is_same_token ||
           (member(json, "cluster") == identity.cluster && member(json, "job") == identity.job);
  };
  return says_so("submission.json") || says_so("origin") ||
         directory.filename() == run_directory_of(Env(), identity, "", name).filename();
}

/// Returns true if this job has claimed the run before. If the claim is damaged, and the run was
/// made for this job, takes the claim over and returns true if the run has had an attempt. Fails
/// with kRefused if another job has claimed the run, or if a damaged claim may belong to another
/// job.
Result<bool> check_or_repair_claim(const fs::path& directory, const JobIdentity& identity,
                                   std::string_view name, std::string_view own_claim) {
  const auto path = directory / "claim";
  const auto is_intact = is_intact_own_claim(path, identity);
  if (!is_intact) return tl::unexpected<Error>(is_intact.error());
  if (*is_intact) return true;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return fail(Errc::kRefused, "{}: was removed while this job read it: {}", path.string(),
                errno_text(errno));
  if (info.st_uid != ::geteuid())
    return fail(
        Errc::kRefused,
        "{}: is damaged and belongs to another user; if no job uses the run, remove the file",
        path.string());
  if (!is_made_for(directory, identity, name)) {
    return fail(Errc::kRefused,
                "{}: is damaged, and nothing here says that this run was made for job {} of "
                "cluster '{}'; if no job uses the run, remove the file",
                path.string(), identity.job, identity.cluster);
  }
  // If several jobs try to take the run over, exactly one creates this file.
  const auto repaired = directory / "claim.repaired";
  if (auto created = create_file_exclusive(repaired, own_claim); !created) {
    if (created.error().code != Errc::kRefused)
      return tl::unexpected<Error>(std::move(created.error()));
    const auto is_intact_repair = is_intact_own_claim(repaired, identity);
    if (!is_intact_repair) return tl::unexpected<Error>(is_intact_repair.error());
    if (!*is_intact_repair)
      return fail(Errc::kRefused, "{}: is damaged; if no job uses the run, remove it",
                  repaired.string());
  }
  return read_attempt(directory).has_value();
}

/// Reads a claim file: `claim` or `claim.after-K`. Fails with kNotFound if there is no file, and
/// with kInvalid if the file is damaged.
Result<RunHolder> read_run_holder(const fs::path& path) {
  const auto text = read_untrusted(path, kClaimFileLimitBytes, Links::kRefuse);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto claim = parse_json<Json>(*text);
  if (!claim.is_object())
    return fail(Errc::kInvalid, "{}: is damaged: expected a JSON object", path.string());
  RunHolder holder{member(claim, "cluster"), member(claim, "job"), std::nullopt};
  const auto number = claim.find("chain");
  if (number != claim.end() && number->is_number_integer()) {
    const auto value = number->get<std::int64_t>();
    if (value < 0 || value > kMostChainJobs)
      return fail(Errc::kInvalid, "{}: is damaged: no chain has a job {}", path.string(), value);
    holder.number = static_cast<int>(value);
  }
  return holder;
}

/// Returns the path of the claim of the job that takes the run over from the job with this number.
fs::path takeover_path(const fs::path& directory, int number) {
  return directory / fmt::format("claim.after-{}", number);
}

/// Takes the run over from the job of the chain that claimed it last, unless this job did. A job
/// that takes the run over after job K creates claim.after-K, which only one job can create, and
/// claim_run() then overwrites `claim`. So `claim` may hold the claim of any of these jobs.
/// run_holder() starts at that job and follows the files claim.after-K to the last job, which works
/// on the run.
Result<> take_over(const fs::path& directory, const JobIdentity& identity, int number_in_chain,
                   std::string_view own_claim) {
  for (;;) {
    DLRUN_TRY_ASSIGN(const auto holder, run_holder(directory));
    if (holder.cluster == identity.cluster && holder.job == identity.job) return {};
    if (!holder.number || *holder.number >= number_in_chain) {
      return fail(Errc::kRefused,
                  "{}: job {} of cluster '{}' holds this run; this is job {}, number {} of the "
                  "run's chain",
                  directory.string(), printable(holder.job), printable(holder.cluster),
                  identity.job, number_in_chain + 1);
    }
    auto created = create_file_exclusive(takeover_path(directory, *holder.number), own_claim);
    if (created) return {};
    // Another job of the chain was faster. If it is a later job, the next round refuses this one.
    if (created.error().code != Errc::kRefused)
      return tl::unexpected<Error>(std::move(created.error()));
  }
}

/// Returns the file to which this process's standard output goes, such as Slurm's log of a batch
/// script. Empty if standard output is not a regular file, or if the file was renamed or removed.
std::string output_file() {
  struct stat info {};
  std::error_code error;
  if (::fstat(STDOUT_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  auto path = fs::read_symlink("/proc/self/fd/1", error);
  struct stat named {};
  const bool is_there = !error && ::stat(path.c_str(), &named) == 0 && named.st_ino == info.st_ino;
  return is_there ? path.string() : std::string();
}

/// Fails with kRefused if this job has another token than submission.json. Such a job was not
/// submitted for this run.
Result<> check_token(const fs::path& directory, const JobIdentity& identity) {
  const auto text =
      read_untrusted(directory / "submission.json", kClaimFileLimitBytes * 16, Links::kRefuse);
  if (!text || identity.token.empty()) return {};
  const auto submission = parse_json<Json>(*text);
  if (!submission.is_object() || member(submission, "token").empty()) return {};
  if (member(submission, "token") == identity.token) return {};
  return fail(Errc::kRefused, "{}: DLRUN_TOKEN is not the token of this run's submission",
              directory.string());
}

}  // namespace

Result<JobIdentity> identify_job(const Env& env, bool is_local) {
  JobIdentity identity;
  identity.token = env.get_or("DLRUN_TOKEN", "");
  if (is_local) {
    identity.cluster = "local";
    auto job = local_job();
    if (!job) return tl::unexpected<Error>(std::move(job.error()));
    identity.job = std::move(*job);
    return identity;
  }
  identity.cluster = env.get_or("SLURM_CLUSTER_NAME", "");
  identity.job = env.get_or("SLURM_JOB_ID", "");
  if (env.has("SLURM_ARRAY_JOB_ID") && env.has("SLURM_ARRAY_TASK_ID")) {
    identity.job =
        fmt::format("{}_{}", *env.get("SLURM_ARRAY_JOB_ID"), *env.get("SLURM_ARRAY_TASK_ID"));
  }
  if (identity.job.empty()) {
    return fail(
        Errc::kUsage,
        "SLURM_JOB_ID is not set: lead runs inside a Slurm job, or with --local N without Slurm");
  }
  return identity;
}

fs::path run_directory_of(const Env& env, const JobIdentity& identity, const fs::path& runs,
                          std::string_view name) {
  if (const auto run = env.get("DLRUN_RUN"); run && !run->empty())
    return fs::absolute(fs::path(*run));
  auto job = identity.job;
  std::replace_if(
      job.begin(), job.end(), [](char c) { return c == ':' || c == '/'; }, '-');
  return fs::absolute(runs / fmt::format("{}-{}", name, job));
}

Result<int> read_attempt(const fs::path& directory) {
  const auto path = directory / "attempt";
  const auto text = read_untrusted(path, kClaimFileLimitBytes, Links::kRefuse);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto number = parse_int(trim(*text));
  if (!number || *number < 0 || *number >= std::numeric_limits<int>::max()) {
    return fail(Errc::kInvalid, "{}: '{}' is no attempt's number", path.string(),
                printable(std::string_view(*text).substr(0, 32)));
  }
  return static_cast<int>(*number);
}

Result<> write_attempt(const fs::path& directory, int attempt) {
  return write_file_atomic(directory / "attempt", fmt::format("{}\n", attempt));
}

Result<RunHolder> run_holder(const fs::path& directory) {
  DLRUN_TRY_ASSIGN(auto holder, read_run_holder(directory / "claim"));
  while (holder.number) {
    const auto path = takeover_path(directory, *holder.number);
    auto next = read_run_holder(path);
    if (!next && next.error().code == Errc::kNotFound) break;
    if (!next) return tl::unexpected<Error>(std::move(next.error()));
    if (!next->number || *next->number <= *holder.number)
      return fail(Errc::kInvalid, "{}: is damaged: it does not name a later job of the chain",
                  path.string());
    holder = std::move(*next);
  }
  return holder;
}

int restart_count_of(const Env& env) {
  const auto count = parse_int(env.get_or("SLURM_RESTART_COUNT", "0"));
  return count && *count > 0 && *count < 1'000'000 ? static_cast<int>(*count) : 0;
}

Result<ClaimedRun> claim_run(const fs::path& directory, const JobIdentity& identity,
                             std::string_view name, int restart_count,
                             std::optional<int> number_in_chain) {
  ClaimedRun run{.directory = directory, .number_in_chain = number_in_chain};
  DLRUN_TRY(make_private_directories(directory));
  DLRUN_TRY(check_token(directory, identity));
  Json claim{{"cluster", identity.cluster}, {"job", identity.job}, {"token", identity.token}};
  if (auto log = output_file(); !log.empty()) claim["log"] = std::move(log);
  if (number_in_chain) claim["chain"] = *number_in_chain;
  if (auto created = create_file_exclusive(directory / "claim", dump(claim)); !created) {
    if (created.error().code != Errc::kRefused)
      return tl::unexpected<Error>(std::move(created.error()));
    // If the claim is damaged, read_run_holder() fails, and a job of a chain repairs the claim
    // below like any other job.
    if (number_in_chain && read_run_holder(directory / "claim")) {
      DLRUN_TRY(take_over(directory, identity, *number_in_chain, dump(claim)));
      run.was_claimed_before = true;
    } else {
      const auto again = check_or_repair_claim(directory, identity, name, dump(claim));
      if (!again) return tl::unexpected<Error>(again.error());
      run.was_claimed_before = *again;
    }
    // Rewritten because each start of the job may have another log file.
    DLRUN_TRY(write_file_atomic(directory / "claim", dump(claim)));
  }
  std::error_code ignored;
  const bool is_submitted = fs::exists(directory / "submission.json", ignored);
  if (!is_submitted && !run.was_claimed_before) {
    const Json origin{{"cluster", identity.cluster},
                      {"job", identity.job},
                      {"name", std::string(name)},
                      {"script", "by hand"}};
    DLRUN_TRY(write_file_atomic(directory / "origin", dump(origin)));
  }
  if (const auto before = read_attempt(directory)) {
    run.attempt = *before + 1;
  } else if (before.error().code == Errc::kNotFound) {
    run.attempt = restart_count;
  } else {
    return tl::unexpected<Error>(before.error());
  }
  DLRUN_TRY(write_attempt(directory, run.attempt));
  return run;
}

}  // namespace dlrun::agent
