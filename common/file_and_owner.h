#pragma once
// Reads a file together with the user id of its owner.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/result.h"
#include "common/untrusted_file.h"

namespace dlrun {

struct TextAndOwner {
  std::string text;
  uid_t owner = 0;
};

/// Returns the whole file and its owner. Text and owner come from one open descriptor, so they
/// belong to the same file even if the path changes. Fails as read_untrusted() does.
[[nodiscard]] Result<TextAndOwner> read_file_and_owner(const std::filesystem::path& path,
                                                       std::size_t limit_bytes, Links links);

}  // namespace dlrun
