#include "launcher/remote/unanswered_submission.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/json_read.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/remote/host_records.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestRecord = 1U << 20U;
constexpr std::string_view kEnding = ".json";

Result<std::filesystem::path> folder_of(const Env& env, const std::string& host) {
  DLRUN_TRY_ASSIGN(const auto records, host_records_folder(env, host));
  return records / "pending";
}

/// Opens and locks a record. Returns a UniqueFd without a descriptor if another process holds the
/// lock, or if the record was deleted.
UniqueFd lock_record(const std::filesystem::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.is_open()) return fd;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) fd.reset();
  // Another process may have deleted the record just before it released the lock.
  if (fd.is_open() && ::access(file.c_str(), F_OK) != 0) fd.reset();
  return fd;
}

std::vector<std::filesystem::path> records_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == kEnding) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns a field of a record; empty if the record cannot be read.
std::string field_of(const std::filesystem::path& file, const char* field) {
  const auto text = read_untrusted(file, kLargestRecord, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  return json ? json_read::text(*json, field) : std::string();
}

}  // namespace

Result<UnansweredSubmission> UnansweredSubmission::find_or_make(const Env& env,
                                                                const std::string& host,
                                                                const std::string& identity,
                                                                const std::string& shown) {
  DLRUN_TRY_ASSIGN(const auto folder, folder_of(env, host));
  const std::string hash = sha256_of_text(identity);
  for (const auto& file : records_in(folder)) {
    if (field_of(file, "command") != hash) continue;
    UniqueFd lock = lock_record(file);
    if (lock.is_open())
      return UnansweredSubmission(file.stem().string(), file, std::move(lock), true);
  }
  DLRUN_TRY(make_private_directories(folder));
  const std::string token = random_hex(16);
  const auto file = folder / (token + std::string(kEnding));
  nlohmann::ordered_json record;
  record["command"] = hash;
  record["shown"] = shown;
  DLRUN_TRY(create_file_exclusive(file, json_read::dump(record) + "\n"));
  UniqueFd lock = lock_record(file);
  if (!lock.is_open()) {
    return fail(
        Errc::kUnavailable,
        "another dlrun has started the same submission at this moment; this dlrun sent nothing");
  }
  return UnansweredSubmission(token, file, std::move(lock), false);
}

void UnansweredSubmission::remove() {
  ::unlink(file_.c_str());
}

std::vector<std::string> unanswered_commands(const Env& env, const std::string& host) {
  std::vector<std::string> shown;
  const auto folder = folder_of(env, host);
  if (!folder) return shown;
  for (const auto& file : records_in(*folder)) shown.push_back(field_of(file, "shown"));
  return shown;
}

}  // namespace dlrun
