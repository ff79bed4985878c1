#pragma once
// Stores images that were imported once and that every job reuses: squashfs files named by their
// digest, and small files that map a name to a digest.
//
//   IMAGES/DIGEST.sqsh   read-only and complete: written under another name, then renamed
//   IMAGES/NAME.json     {"image": "docker://...", "digest": "...",
//                         "imported": "2026-11-21T12:30:00.123Z"}; NAME has '+' for '/'
//
// Several dlrun processes may use the store at the same time, also on several nodes. If two of them
// import the same image, the later one finds the file or replaces it with the same content.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Returns true for 64 lowercase hexadecimal digits, the form of the files' names.
[[nodiscard]] bool is_image_digest(std::string_view text);

/// An image in the store.
struct StoredImage {
  std::string image;  ///< the name as enroot writes it: docker://...
  /// Hexadecimal: the registry's digest of the manifest, or the SHA-256 of the file if the registry
  /// gave no digest.
  std::string digest;
  std::string imported;  ///< the time of the import, in UTC
  std::filesystem::path file;
  std::uintmax_t bytes = 0;
};

/// Returns an object of `dlrun container list --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json image_json(const StoredImage& stored);

/// The images in one folder.
class ImageStore {
 public:
  explicit ImageStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns the user's store: $DLRUN_IMAGES, else $XDG_CACHE_HOME/dlrun/images, else
  /// ~/.cache/dlrun/images. Ignores a relative $XDG_CACHE_HOME. Fails with kInvalid if
  /// $DLRUN_IMAGES is relative, and with kNotFound if HOME is needed and not set.
  [[nodiscard]] static Result<ImageStore> of_user(const Env& env);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// Returns the image of this name; nullopt if its entry or its file does not exist.
  [[nodiscard]] std::optional<StoredImage> find(const std::string& image) const;
  /// Returns the file of a digest; nullopt if there is no such file.
  [[nodiscard]] std::optional<std::filesystem::path> file_of(const std::string& digest) const;
  /// Returns all images, sorted by name. Skips damaged entries and entries without a file.
  [[nodiscard]] Result<std::vector<StoredImage>> list() const;

  /// Creates the folder, and waits until no other process imports the image of this name. Then
  /// takes the lock on the name. Nodes share the lock if the file system supports that. Closing the
  /// descriptor releases the lock. Fails with kIo if the folder or the lock file cannot be created.
  [[nodiscard]] Result<UniqueFd> lock(const std::string& image) const;
  /// Returns an unused path in the folder, to which the import writes.
  [[nodiscard]] std::filesystem::path new_path() const;
  /// Adds a complete file: renames it to DIGEST.sqsh, and records the name. If `digest` does not
  /// have the form of a digest, uses the SHA-256 of the file instead.
  [[nodiscard]] Result<StoredImage> adopt(const std::filesystem::path& file,
                                          const std::string& image, std::string digest) const;
  /// Records that the name has this digest. The digest's file must exist.
  [[nodiscard]] Result<StoredImage> record_digest(const std::string& image,
                                                  const std::string& digest) const;

 private:
  [[nodiscard]] std::filesystem::path entry_path(const std::string& image) const;

  std::filesystem::path folder_;
};

}  // namespace dlrun
