#pragma once
// Images that were imported once and are reused by every job: squashfs files named by their digest,
// and small files that say which name was which digest, and when.
//
//   IMAGES/DIGEST.sqsh   read-only, complete: made under another name and renamed
//   IMAGES/NAME.json     {"image": "docker://...", "digest": "...", "imported":
//   "2026-11-21T12:30:00.123Z"}, '/' of the name as '+'
//
// Any number of dlrun may work in it at once, also on several nodes: whoever is second finds the
// file or replaces it by the same.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// 64 lower-case hex digits, as files of images are named.
[[nodiscard]] bool is_image_digest(std::string_view text);

struct StoredImage {
  std::string image;  ///< as enroot names it: docker://...
  std::string
      digest;  ///< hex: the registry's manifest, or the file's own where the registry did not say
  std::string imported;  ///< UTC
  std::filesystem::path file;
  std::uintmax_t bytes = 0;
};

class ImageStore {
 public:
  explicit ImageStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// $DLRUN_IMAGES, else $XDG_CACHE_HOME/dlrun/images, else ~/.cache/dlrun/images.
  [[nodiscard]] static Result<ImageStore> of_user(const Env& env);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// What the name means, if its file is there.
  [[nodiscard]] std::optional<StoredImage> find(const std::string& image) const;
  /// The file of a digest, if it is there.
  [[nodiscard]] std::optional<std::filesystem::path> file_of(const std::string& digest) const;
  /// All names, by name. A damaged entry, and one whose file is gone, is left out.
  [[nodiscard]] Result<std::vector<StoredImage>> list() const;

  /// Makes the folder, and waits until no other process on a node that shares locks imports this
  /// name. Holds until it is closed.
  [[nodiscard]] Result<UniqueFd> lock(const std::string& image) const;
  /// A path in the folder at which nothing lies, for the import to write.
  [[nodiscard]] std::filesystem::path new_file() const;
  /// Takes a complete file in: renames it to its digest (computed where it is empty), and notes the
  /// name.
  [[nodiscard]] Result<StoredImage> adopt(const std::filesystem::path& file,
                                          const std::string& image, std::string digest) const;
  /// Notes that the name is a digest whose file is there.
  [[nodiscard]] Result<StoredImage> note(const std::string& image, const std::string& digest) const;

 private:
  [[nodiscard]] std::filesystem::path entry_of(const std::string& image) const;

  std::filesystem::path folder_;
};

}  // namespace dlrun
