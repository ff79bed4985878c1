#include "launcher/images/images.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/log.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEntryLimitBytes = 64U << 10U;
constexpr std::string_view kImportingPrefix = ".importing-";
constexpr auto kAbandonedAfter = std::chrono::hours(48);

/// Removes the unfinished files of imports that were killed long ago (kAbandonedAfter).
void remove_abandoned(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator files(folder, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const fs::path& path = files->path();
    std::error_code ignored;
    const auto changed = fs::last_write_time(path, ignored);
    if (path.filename().string().starts_with(kImportingPrefix) && !ignored &&
        fs::file_time_type::clock::now() - changed > kAbandonedAfter)
      fs::remove(path, ignored);
  }
}

[[nodiscard]] Result<> sync_file(const fs::path& path) {
  DLRUN_TRY_ASSIGN(const auto fd, open_untrusted(path, Links::kRefuse));
  if (::fsync(fd.get()) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  return {};
}

}  // namespace

nlohmann::ordered_json image_json(const StoredImage& stored) {
  return {{"image", stored.image},
          {"digest", stored.digest},
          {"file", stored.file.string()},
          {"bytes", stored.bytes},
          {"imported", stored.imported}};
}

bool is_image_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<ImageStore> ImageStore::of_user(const Env& env) {
  fs::path folder = env.get_or("DLRUN_IMAGES", "");
  if (!folder.empty() && !folder.is_absolute()) {
    return fail(Errc::kInvalid, "DLRUN_IMAGES is '{}', expected an absolute path",
                printable(folder.string()));
  }
  if (folder.empty()) {
    folder = env.get_or("XDG_CACHE_HOME", "");
    if (!folder.is_absolute()) {
      const std::string home = env.get_or("HOME", "");
      if (home.empty()) {
        return fail(Errc::kNotFound, "no folder for imported images: set DLRUN_IMAGES or HOME");
      }
      folder = fs::path(home) / ".cache";
    }
    folder = folder / "dlrun" / "images";
  }
  return ImageStore(folder);
}

fs::path ImageStore::entry_path(const std::string& image) const {
  std::string name =
      image.substr(image.find("://") == std::string::npos ? 0 : image.find("://") + 3);
  std::replace(name.begin(), name.end(), '/', '+');
  return folder_ / (name + ".json");
}

std::optional<fs::path> ImageStore::file_of(const std::string& digest) const {
  std::error_code error;
  const fs::path file = folder_ / (digest + ".sqsh");
  if (!is_image_digest(digest) || !fs::is_regular_file(file, error)) return std::nullopt;
  return file;
}

std::optional<StoredImage> ImageStore::find(const std::string& image) const {
  const auto text = read_file(entry_path(image), kEntryLimitBytes);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  if (!json || json_read::text(*json, "image") != image) return std::nullopt;
  StoredImage stored;
  stored.image = image;
  stored.digest = json_read::text(*json, "digest");
  stored.imported = json_read::text(*json, "imported");
  const auto file = file_of(stored.digest);
  if (!file) return std::nullopt;
  std::error_code error;
  stored.file = *file;
  stored.bytes = fs::file_size(*file, error);
  return stored;
}

Result<std::vector<StoredImage>> ImageStore::list() const {
  std::vector<StoredImage> images;
  std::error_code error;
  fs::directory_iterator files(folder_, error);
  if (error == std::errc::no_such_file_or_directory) return images;
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    if (files->path().extension() != ".json") continue;
    const auto text = read_file(files->path(), kEntryLimitBytes);
    const auto json = text ? json_read::object_of(*text) : std::nullopt;
    if (!json) continue;
    if (auto stored = find(json_read::text(*json, "image"))) images.push_back(std::move(*stored));
  }
  if (error)
    return fail(Errc::kIo, "cannot list {}: {}", printable(folder_.string()), error.message());
  std::sort(images.begin(), images.end(),
            [](const auto& a, const auto& b) { return a.image < b.image; });
  return images;
}

Result<UniqueFd> ImageStore::lock(const std::string& image) const {
  DLRUN_TRY(make_private_directories(folder_));
  remove_abandoned(folder_);
  const fs::path path = entry_path(image).replace_extension(".lock");
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  // If the file system has no locks, two processes may import the same image. The rename in adopt()
  // keeps the result correct.
  LockWaitLog wait(path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) wait.begin();
  while (::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return fd;
}

fs::path ImageStore::new_path() const {
  return folder_ / (std::string(kImportingPrefix) + random_hex(8) + ".sqsh");
}

Result<StoredImage> ImageStore::adopt(const fs::path& file, const std::string& image,
                                      std::string digest) const {
  if (!is_image_digest(digest)) {
    DLRUN_TRY_ASSIGN(digest, sha256_of_file(file));
  }
  if (::chmod(file.c_str(), 0444) != 0)
    return fail(Errc::kIo, "{}: {}", printable(file.string()), errno_text(errno));
  DLRUN_TRY(sync_file(file));
  const fs::path target = folder_ / (digest + ".sqsh");
  if (::rename(file.c_str(), target.c_str()) != 0) {
    return fail(Errc::kIo, "{}: {}", printable(target.string()), errno_text(errno));
  }
  return record_digest(image, digest);
}

Result<StoredImage> ImageStore::record_digest(const std::string& image,
                                              const std::string& digest) const {
  nlohmann::ordered_json json;
  json["image"] = image;
  json["digest"] = digest;
  json["imported"] = utc_timestamp(std::chrono::system_clock::now());
  DLRUN_TRY(write_file_atomic(entry_path(image), json_read::dump(json) + "\n"));
  auto stored = find(image);
  if (!stored)
    return fail(Errc::kIo, "{}: the image was removed in the meantime",
                printable(folder_.string()));
  return std::move(*stored);
}

}  // namespace dlrun
