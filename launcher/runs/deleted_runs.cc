#include "launcher/runs/deleted_runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "common/file_and_owner.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestDeletionRecord = 64U << 10U;

}  // namespace

DeletedRuns DeletedRuns::beside(const RunIndex& index) {
  return DeletedRuns(index.directory().parent_path() / "deleted");
}

Result<> DeletedRuns::add(const DeletedRun& deleted) const {
  DLRUN_TRY(make_private_directories(directory_));
  nlohmann::ordered_json json;
  json["id"] = deleted.run.id;
  json["name"] = deleted.run.name;
  json["path"] = deleted.run.path.string();
  json["created"] = deleted.run.created;
  json["state"] = deleted.state;
  json["deleted"] = deleted.time;
  return write_file_atomic(directory_ / deleted.run.id, json_read::dump(json) + "\n");
}

std::optional<DeletedRun> DeletedRuns::read(const std::string& id) const {
  const auto file = read_file_and_owner(directory_ / id, kLargestDeletionRecord, Links::kRefuse);
  if (!file || file->owner != ::geteuid()) return std::nullopt;
  const auto json = json_read::object_of(file->text);
  if (!json || json_read::text(*json, "id") != id) return std::nullopt;
  return DeletedRun{{id, json_read::text(*json, "name"), json_read::text(*json, "path"),
                     json_read::text(*json, "created")},
                    json_read::text(*json, "state"),
                    json_read::text(*json, "deleted")};
}

std::optional<DeletedRun> DeletedRuns::newest_of_name(std::string_view name) const {
  std::optional<DeletedRun> newest;
  const std::string id_prefix = std::string(name) + "-";
  std::error_code error;
  for (std::filesystem::directory_iterator files(directory_, error);
       !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string id = files->path().filename().string();
    if (!id.starts_with(id_prefix)) continue;
    auto deleted = read(id);
    if (!deleted || deleted->run.name != name) continue;
    if (!newest || deleted->run.created > newest->run.created) newest = std::move(deleted);
  }
  return newest;
}

std::optional<DeletedRun> DeletedRuns::find(std::string_view text) const {
  const std::filesystem::path path(text);
  const std::string id =
      path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  if (!id.empty() && id != "." && id != "..") {
    auto deleted = read(id);
    const bool is_path = text.find('/') != std::string_view::npos;
    if (deleted && (!is_path || deleted->run.path == path.lexically_normal())) return deleted;
  }
  return newest_of_name(text);
}

void DeletedRuns::forget_old(std::chrono::system_clock::time_point now) const {
  const auto oldest_kept = std::chrono::system_clock::to_time_t(now - kDeletedRunsKeptFor);
  std::error_code error;
  for (std::filesystem::directory_iterator files(directory_, error);
       !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    struct stat info {};
    if (::lstat(files->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_mtim.tv_sec < oldest_kept)
      static_cast<void>(::unlink(files->path().c_str()));
  }
}

std::string describe(const DeletedRun& deleted) {
  return fmt::format(
      "{} was deleted on {}{}", printable(deleted.run.id), printable(deleted.time.substr(0, 10)),
      deleted.state.empty() ? "" : fmt::format(" (it was {})", printable(deleted.state)));
}

}  // namespace dlrun
