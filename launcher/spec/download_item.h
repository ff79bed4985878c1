#pragma once
// Checks and completes the items of download.files and train.data.download.

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Checks the download. Returns it with a file name (by default the url's last part) and a
/// lowercase checksum. Fails with kInvalid on a missing or malformed field. Fails with kRefused if
/// the url holds a user or a password, because the record of every run shows the url; the message
/// does not show the url.
[[nodiscard]] Result<Download> complete_download_item(Download download);

}  // namespace dlrun
