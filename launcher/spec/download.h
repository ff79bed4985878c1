#pragma once
// Checks of train.data.download.

#include <string_view>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Returns the download with a file name (by default the url's last part) and a lowercase
/// checksum. Fails with kInvalid on a missing or malformed field. Fails with kRefused if the url
/// holds a user or a password, since the record of every run shows the url; that message does
/// not repeat the url.
[[nodiscard]] Result<Download> checked_download(Download download);

/// Shown instead of a line that holds a password.
inline constexpr const char* kLineNotShown = "(not shown)";

/// Returns true if a url in the text (a line of a spec) holds a user or a password. Such a line
/// must not be shown.
[[nodiscard]] bool shows_password(std::string_view text);

}  // namespace dlrun
