// Each change replaces the journal atomically. find_and_record_outcome() finds the job of an
// interrupted submission by the token: in the claim that the job wrote, else in the comments of
// Slurm's jobs.
#include "launcher/runs/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "common/chain_limits.h"
#include "common/file_and_owner.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

constexpr std::size_t kJournalLimit = 1U << 20U;

std::string_view word_of(Submission::State state) {
  switch (state) {
    case Submission::State::kIntent:
      return "intent";
    case Submission::State::kSubmitted:
      return "submitted";
    case Submission::State::kRefused:
      return "refused";
  }
  return "";
}

std::optional<Submission::State> state_of(std::string_view word) {
  for (const auto state :
       {Submission::State::kIntent, Submission::State::kSubmitted, Submission::State::kRefused}) {
    if (word_of(state) == word) return state;
  }
  return std::nullopt;
}

}  // namespace

Result<SubmissionLock> SubmissionLock::take(const std::filesystem::path& run) {
  const UniqueFd directory(::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open())
    return fail(Errc::kIo, "cannot make {}: {}", printable((run / kSubmissionLockFile).string()),
                errno_text(errno));
  return take_in(directory.get(), run.filename().string());
}

Result<SubmissionLock> SubmissionLock::take_in(int directory, std::string_view run) {
  UniqueFd same_directory(::openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  // Retries until this time, because another process that calls is_being_submitted() holds a shared
  // lock for an instant.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  for (;;) {
    // Opened without O_CLOEXEC: sbatch inherits the lock and keeps it if dlrun is killed.
    UniqueFd fd(::openat(directory, kSubmissionLockFile, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
    if (!same_directory.is_open() || !fd.is_open())
      return fail(Errc::kIo, "cannot make {}/{}: {}", printable(run), kSubmissionLockFile,
                  errno_text(errno));
    const bool is_held = ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    // The previous holder removes the file, possibly after this process has opened it. A lock on
    // the removed file would exclude no other process.
    struct stat ours {
    }, there{};
    if (!is_held && ::fstat(fd.get(), &ours) == 0 &&
        ::fstatat(directory, kSubmissionLockFile, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_ino == there.st_ino)
      return SubmissionLock{std::move(same_directory), std::move(fd)};
    if (std::chrono::steady_clock::now() >= deadline) break;
    if (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fail(Errc::kRefused, "{}: another dlrun is submitting or deleting it", printable(run));
}

SubmissionLock SubmissionLock::take_if_free(const std::filesystem::path& run) {
  auto lock = take(run);
  return lock ? std::move(*lock) : SubmissionLock{UniqueFd(), UniqueFd()};
}

SubmissionLock::~SubmissionLock() {
  if (fd_.is_open()) std::ignore = ::unlinkat(directory_.get(), kSubmissionLockFile, 0);
}

bool is_being_submitted(const std::filesystem::path& run) {
  const UniqueFd fd(::open((run / kSubmissionLockFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return fd.is_open() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string comment_of(const Submission& submission) {
  return "dlrun:" + submission.token;
}

std::string journal_of_task(std::size_t task) {
  return fmt::format("{{\"task\":{}}}\n", task);
}

namespace {

/// Checks the id (which may be empty) and the cluster of a recorded job, because both become parts
/// of a command later.
Result<> check_recorded_job(const std::filesystem::path& file, const JobId& job) {
  if (job.id.empty() && (job.cluster == kLocalCluster || is_cluster_list(job.cluster))) return {};
  if (auto checked = check_job_id(job); !checked)
    return fail(Errc::kInvalid, "{}: is damaged: {}", printable(file.string()),
                checked.error().message);
  return {};
}

/// Returns the file's owner; nullopt if this user owns the file.
std::optional<Owner> owner_if_foreign(const TextAndOwner& file) {
  return file.owner == ::geteuid() ? std::nullopt : std::optional(owner_of(file.owner));
}

/// Returns the value of a field that is also an option of the recorded command line. Journals of
/// older versions have only the option. Returns "" if there is neither.
std::string text_or_option(const nlohmann::ordered_json& json, const char* field,
                           const std::vector<std::string>& argv) {
  if (json.contains(field)) return json_read::text(json, field);
  const std::string option = fmt::format("--{}=", field);
  for (const std::string& word : argv) {
    if (word.starts_with(option)) return word.substr(option.size());
  }
  return {};
}

/// Returns the array's submission, changed to that of one of its tasks.
Result<std::optional<Submission>> submission_of_task(const std::filesystem::path& run,
                                                     std::int64_t task,
                                                     std::optional<Owner> foreign) {
  auto array = read_submission(run.parent_path());
  if (!array) return array;
  if (*array && (*array)->task)
    return fail(Errc::kInvalid,
                "{}: is damaged: the journal above it is that of a task, not of an array",
                printable(run.string()));
  // An array that was not submitted counts as an intent without a token.
  Submission submission = *array ? std::move(**array) : Submission{};
  submission.task = task;
  if (foreign) submission.foreign = std::move(foreign);
  if (!submission.job.id.empty()) submission.job.id = fmt::format("{}_{}", submission.job.id, task);
  return submission;
}

}  // namespace

Result<std::optional<Submission>> read_submission(const std::filesystem::path& run) {
  const auto path = run / "submission.json";
  const auto file = read_file_and_owner(path, kJournalLimit, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return std::nullopt;
  if (!file) return tl::unexpected(file.error());
  const auto json = json_read::object_of(file->text);
  if (const auto task = json ? json_read::integer(*json, "task") : std::nullopt; task && *task >= 0)
    return submission_of_task(run, *task, owner_if_foreign(*file));
  const auto state = json ? state_of(json_read::text(*json, "state")) : std::nullopt;
  if (!state) {
    return fail(
        Errc::kInvalid,
        "{}: is damaged: expected a JSON object whose state is intent, submitted or refused",
        printable(path.string()));
  }
  Submission submission;
  submission.state = *state;
  submission.foreign = owner_if_foreign(*file);
  submission.token = json_read::text(*json, "token");
  submission.job = {json_read::text(*json, "cluster"), json_read::text(*json, "job")};
  if (auto checked = check_recorded_job(path, submission.job); !checked)
    return tl::unexpected(checked.error());
  submission.pid_namespace = json_read::text(*json, "pid_namespace");
  submission.time = json_read::text(*json, "time");
  submission.message = json_read::text(*json, "message");
  submission.log_pattern = json_read::text(*json, "output");
  submission.error_pattern = json_read::text(*json, "error");
  const auto chain = json_read::integer(*json, "chain").value_or(0);
  submission.chain_job_count = std::clamp<std::int64_t>(chain, 0, kMostChainJobs);
  if (const auto server = json->find("server"); server != json->end() && server->is_object())
    submission.server =
        RestServer{json_read::text(*server, "url"), json_read::text(*server, "token_file")};
  if (const auto argv = json->find("argv"); argv != json->end() && argv->is_array()) {
    for (const auto& word : *argv) {
      if (word.is_string()) submission.argv.push_back(word.get<std::string>());
    }
  }
  submission.chdir = text_or_option(*json, "chdir", submission.argv);
  submission.dependency = text_or_option(*json, "dependency", submission.argv);
  return submission;
}

Result<> write_submission(const std::filesystem::path& run, Submission submission) {
  nlohmann::ordered_json json;
  json["token"] = submission.token;
  json["state"] = word_of(submission.state);
  json["cluster"] = submission.job.cluster;
  json["job"] = submission.job.id;
  if (!submission.pid_namespace.empty()) json["pid_namespace"] = submission.pid_namespace;
  if (submission.server)
    json["server"] = {{"url", submission.server->url},
                      {"token_file", submission.server->token_file}};
  json["argv"] = submission.argv;
  json["time"] = utc_timestamp(std::chrono::system_clock::now());
  if (!submission.message.empty()) json["message"] = submission.message;
  if (!submission.log_pattern.empty()) json["output"] = submission.log_pattern;
  if (!submission.error_pattern.empty()) json["error"] = submission.error_pattern;
  if (!submission.chdir.empty()) json["chdir"] = submission.chdir;
  if (!submission.dependency.empty()) json["dependency"] = submission.dependency;
  if (submission.chain_job_count > 0) json["chain"] = submission.chain_job_count;
  return write_file_atomic(run / "submission.json", json_read::dump(json) + "\n");
}

Result<std::optional<Claim>> read_claim(const std::filesystem::path& run) {
  const auto path = run / "claim";
  const auto file = read_file_and_owner(path, kJournalLimit, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return std::nullopt;
  if (!file) return tl::unexpected(file.error());
  const auto json = json_read::object_of(file->text);
  if (!json)
    return fail(Errc::kInvalid, "{}: is damaged: expected a JSON object", printable(path.string()));
  Claim claim{{json_read::text(*json, "cluster"), json_read::text(*json, "job")},
              json_read::text(*json, "token"),
              json_read::text(*json, "log"),
              owner_if_foreign(*file)};
  // The cluster in a claim is the job's own statement; no command uses it.
  if (!parse_local_job(claim.job.id)) {
    if (auto checked = check_recorded_job(path, {"", claim.job.id}); !checked)
      return tl::unexpected(checked.error());
  }
  return claim;
}

namespace {

/// Returns the array's job from the claim of one of its tasks; nullopt if no task has claimed its
/// run.
std::optional<JobId> job_of_tasks(const std::filesystem::path& array,
                                  const Submission& submission) {
  std::error_code error;
  for (std::filesystem::directory_iterator points(array, error);
       !error && points != std::filesystem::directory_iterator(); points.increment(error)) {
    if (!parse_int(points->path().filename().string())) continue;
    const auto claim = read_claim(points->path());
    if (!claim || !*claim || (*claim)->token != submission.token) continue;
    const std::string& id = (*claim)->job.id;
    return JobId{submission.job.cluster, id.substr(0, id.find('_'))};
  }
  return std::nullopt;
}

}  // namespace

Result<Submission> find_and_record_outcome(const std::filesystem::path& run, Submission submission,
                                           Executor& executor) {
  if (submission.state != Submission::State::kIntent) return submission;
  if (submission.token.empty()) return submission;  // a point whose array was never submitted
  if (submission.task) {
    Submission of_array = submission;
    of_array.task.reset();
    auto outcome = find_and_record_outcome(run.parent_path(), std::move(of_array), executor);
    if (!outcome || outcome->state == Submission::State::kIntent)
      return outcome ? Result<Submission>(submission) : outcome;
    DLRUN_TRY_ASSIGN(auto again, read_submission(run));
    return again.value_or(submission);
  }
  std::optional<JobId> found;
  // The claim comes first, because it can be read without the controller, and exists even after
  // Slurm has purged the job.
  if (const auto claim = read_claim(run); claim && *claim && (*claim)->token == submission.token) {
    found = JobId{submission.job.cluster, (*claim)->job.id};
  }
  if (!found) found = job_of_tasks(run, submission);
  if (!found) {
    DLRUN_TRY_ASSIGN(found, executor.find(comment_of(submission), submission.job.cluster));
  }
  if (!found) return submission;
  submission.job = *found;
  submission.state = Submission::State::kSubmitted;
  DLRUN_TRY(write_submission(run, submission));
  return submission;
}

}  // namespace dlrun
