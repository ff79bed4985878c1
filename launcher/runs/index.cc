#include "launcher/runs/index.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "common/files.h"
#include "common/text.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/origin.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

constexpr std::size_t kEntryLimit = 64U << 10U;

Result<IndexEntry> read_entry(const std::filesystem::path& file) {
  const auto text = read_file(file, kEntryLimit);
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
    return fail(Errc::kInvalid, "{}: is damaged; remove it, and `dlrun ls --runs DIR` finds the run again",
                file.string());
  }
  return entry;
}

/// When the directory was made, as well as the file system knows.
std::string made_at(const std::filesystem::path& run) {
  struct stat info {};
  for (const char* file : {"job.sh", "claim", "submission.json", "."}) {
    if (::stat((run / file).c_str(), &info) == 0) break;
  }
  return utc_timestamp(std::chrono::system_clock::time_point(std::chrono::seconds(info.st_mtim.tv_sec)));
}

}  // namespace

Result<RunIndex> RunIndex::of_user(const Env& env) {
  std::filesystem::path base = env.get_or("XDG_STATE_HOME", "");
  if (!base.is_absolute()) {  // the XDG specification: a relative value is to be ignored
    const std::string home = env.get_or("HOME", "");
    if (home.empty())
      return fail(Errc::kNotFound, "neither XDG_STATE_HOME nor HOME is set: the index of runs has no place");
    base = std::filesystem::path(home) / ".local/state";
  }
  return RunIndex(base / "dlrun" / "runs");
}

Result<> RunIndex::add(const IndexEntry& entry) const {
  DLRUN_TRY(make_private_directories(directory_));
  nlohmann::ordered_json json;
  json["id"] = entry.id;
  json["name"] = entry.name;
  json["path"] = entry.path.string();
  json["created"] = entry.created;
  return create_file_exclusive(directory_ / entry.id, json_read::dump(json) + "\n");
}

Result<RunIndex::Listing> RunIndex::list() const {
  Listing listing;
  std::error_code error;
  std::filesystem::directory_iterator files(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return listing;
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    if (files->path().filename().string().starts_with('.')) continue;
    auto entry = read_entry(files->path());
    if (entry) {
      listing.entries.push_back(std::move(*entry));
    } else {
      listing.damaged.push_back(entry.error().message);
    }
  }
  if (error) return fail(Errc::kIo, "cannot list {}: {}", directory_.string(), error.message());
  std::sort(listing.entries.begin(), listing.entries.end(), [](const IndexEntry& a, const IndexEntry& b) {
    return a.created != b.created ? a.created > b.created : a.id > b.id;
  });
  return listing;
}

Result<std::size_t> RunIndex::rebuild(const std::filesystem::path& runs_dir) const {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(runs_dir, error).lexically_normal();
  std::filesystem::directory_iterator folders(absolute, error);
  if (error) return fail(Errc::kNotFound, "cannot list {}: {}", absolute.string(), error.message());
  std::size_t added = 0;
  for (; !error && folders != std::filesystem::directory_iterator(); folders.increment(error)) {
    const auto& path = folders->path();
    const std::string id = path.filename().string();
    if (id.starts_with('.') || !is_run_directory(path)) continue;
    const auto done = add({id, name_of_run(path), path, made_at(path)});
    if (done) {
      ++added;
    } else if (done.error().code != Errc::kRefused) {
      return tl::unexpected(done.error());
    }
  }
  if (error) return fail(Errc::kIo, "cannot list {}: {}", absolute.string(), error.message());
  return added;
}

}  // namespace dlrun
