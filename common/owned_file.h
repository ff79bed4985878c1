#pragma once
// A file's content together with whose file it was.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/result.h"
#include "common/untrusted_file.h"

namespace dlrun {

struct OwnedText {
  std::string text;
  uid_t owner = 0;
};

/// The whole file, with the owner of what was read: no other file can have taken its place in
/// between. Fails as read_untrusted() does.
[[nodiscard]] Result<OwnedText> read_owned_file(const std::filesystem::path& path,
                                                std::size_t limit_bytes, Links links);

}  // namespace dlrun
