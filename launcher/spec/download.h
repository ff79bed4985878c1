#pragma once
// Checks the items of download.files and train.data.download.

#include <string_view>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Returns the download with a file name (by default the url's last part) and a lowercase checksum.
/// Fails with kInvalid on a missing or malformed field. Fails with kRefused if the url holds a user
/// or a password, because the record of every run shows the url; the message does not show the url.
[[nodiscard]] Result<Download> checked_download(Download download);

/// The text that replaces a line with a password.
inline constexpr const char* kLineNotShown = "(not shown)";

/// Returns true if a url in the text (a line of a spec) holds a user or a password. Such a line
/// must not be shown.
[[nodiscard]] bool shows_password(std::string_view text);

}  // namespace dlrun
