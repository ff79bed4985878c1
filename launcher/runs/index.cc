#include "launcher/runs/index.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/runs/entry_cache.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/run_name.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {
namespace {

constexpr std::size_t kEntryLimitBytes = 64U << 10U;

Result<IndexEntry> read_entry(const std::filesystem::path& file) {
  const auto text = read_file(file, kEntryLimitBytes);
  if (!text) return tl::unexpected(text.error());
  const auto json = json_read::object_of(*text);
  IndexEntry entry;
  if (json) {
    entry.id = json_read::text(*json, "id");
    entry.name = json_read::text(*json, "name");
    entry.path = json_read::text(*json, "path");
    entry.created = json_read::text(*json, "created");
  }
  if (entry.id != file.filename().string() || !entry.path.is_absolute()) {
    return fail(Errc::kInvalid,
                "{}: is damaged; remove it, and `dlrun ls --runs DIR` finds the run again",
                printable(file.string()));
  }
  return entry;
}

bool newest_first(const IndexEntry& a, const IndexEntry& b) {
  return a.created != b.created ? a.created > b.created : a.id > b.id;
}

/// Estimates when the run directory was created. File systems do not record creation times
/// reliably, so this is the modification time of the first of these files that exists, else that of
/// the directory.
std::string creation_time(const std::filesystem::path& run) {
  struct stat info {};
  for (const char* file : {"job.sh", "claim", "submission.json", "."}) {
    if (::stat((run / file).c_str(), &info) == 0) break;
  }
  return utc_timestamp(
      std::chrono::system_clock::time_point(std::chrono::seconds(info.st_mtim.tv_sec)));
}

}  // namespace

Result<RunIndex> RunIndex::of_user(const Env& env) {
  std::filesystem::path base = env.get_or("XDG_STATE_HOME", "");
  if (!base.is_absolute()) {  // the XDG specification: ignore a relative value
    const std::string home = env.get_or("HOME", "");
    if (home.empty())
      return fail(
          Errc::kNotFound,
          "HOME is not set, and XDG_STATE_HOME is not set to an absolute path; dlrun needs one of "
          "them for the folder of its index of runs");
    base = std::filesystem::path(home) / ".local/state";
  }
  return RunIndex(base / "dlrun" / "runs");
}

Result<> RunIndex::add(const IndexEntry& entry) const {
  if (const auto owner = foreign_owner(entry.path))
    return fail(Errc::kInvalid, "{}: belongs to user {}, and your index holds only your own runs",
                printable(entry.path.string()), printable(owner->name));
  DLRUN_TRY(make_private_directories(directory_));
  nlohmann::ordered_json json;
  json["id"] = entry.id;
  json["name"] = entry.name;
  json["path"] = entry.path.string();
  json["created"] = entry.created;
  return create_file_exclusive(directory_ / entry.id, json_read::dump(json) + "\n");
}

std::optional<IndexEntry> RunIndex::find(const std::string& id) const {
  if (!is_slug(name_of_id(id))) return std::nullopt;
  auto entry = read_entry(directory_ / id);
  return entry ? std::optional(std::move(*entry)) : std::nullopt;
}

Result<> RunIndex::remove(const std::string& id) const {
  const auto file = directory_ / id;
  if (::unlink(file.c_str()) != 0 && errno != ENOENT)
    return fail(Errc::kIo, "{}: {}", printable(file.string()), errno_text(errno));
  return {};
}

Result<RunIndex::Listing> RunIndex::list() const {
  Listing listing;
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(directory_.c_str()));
  if (folder == nullptr && errno == ENOENT) return listing;
  if (folder == nullptr)
    return fail(Errc::kIo, "cannot list {}: {}", printable(directory_.string()), errno_text(errno));
  EntryCache cache(directory_);
  for (;;) {
    errno = 0;
    const struct dirent* file = ::readdir(folder.get());
    // A name means the newest run of this name. If an incomplete list lacked that run, a command
    // would act on an older one.
    if (file == nullptr && errno != 0)
      return fail(Errc::kIo, "cannot list {}: {}", printable(directory_.string()),
                  errno_text(errno));
    if (file == nullptr) break;
    const std::string_view id(file->d_name);
    if (id.starts_with('.')) continue;
    if (auto known = cache.find(id, file->d_ino)) {
      listing.entries.push_back(std::move(*known));
      continue;
    }
    auto entry = read_entry(directory_ / id);
    if (entry) {
      cache.add(*entry, file->d_ino);
      listing.entries.push_back(std::move(*entry));
    } else {
      listing.damaged.push_back(entry.error().message);
    }
  }
  cache.save();
  std::sort(listing.entries.begin(), listing.entries.end(), newest_first);
  return listing;
}

Result<RunIndex::Additions> RunIndex::add_missing_runs(
    const std::filesystem::path& runs_dir) const {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(runs_dir, error).lexically_normal();
  std::filesystem::directory_iterator folders(absolute, error);
  if (error)
    return fail(Errc::kNotFound, "cannot list {}: {}", printable(absolute.string()),
                error.message());
  Additions result;
  for (; !error && folders != std::filesystem::directory_iterator(); folders.increment(error)) {
    const auto& path = folders->path();
    const std::string id = path.filename().string();
    // The names that dlrun gives to runs pass this check. Any other name may be an attack on a
    // terminal or a shell.
    if (!is_slug(name_of_id(id)) || !is_run_directory(path)) continue;
    IndexEntry entry{id, name_of_run(path), path, creation_time(path)};
    if (foreign_owner(path)) {
      result.foreign.push_back(std::move(entry));
      continue;
    }
    const auto added = add(entry);
    if (added) {
      ++result.added_count;
    } else if (added.error().code != Errc::kRefused) {
      return tl::unexpected(added.error());
    }
  }
  // The cache may have an old path for the id of an added entry.
  if (result.added_count > 0) EntryCache::delete_file(directory_);
  if (error)
    return fail(Errc::kIo, "cannot list {}: {}", printable(absolute.string()), error.message());
  std::sort(result.foreign.begin(), result.foreign.end(), newest_first);
  return result;
}

}  // namespace dlrun
