#pragma once
// download.files and train.data.download: fetches the missing files before a job is recorded or
// queued.

#include <string>
#include <vector>

#include "launcher/spec/load.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Downloads the files that their folders do not have yet, and reports the progress. The error
/// holds each problem with its place in the spec. Does nothing if the spec has no downloads.
[[nodiscard]] Result<> fetch_downloads(Reporter& reporter, const LoadedSpec& loaded);

/// Returns the names of the files that fetch_downloads() would download; uses no network. Fails as
/// fetch_downloads() does if an existing file is not the file that the spec describes.
[[nodiscard]] Result<std::vector<std::string>> missing_downloads(const LoadedSpec& loaded);

}  // namespace dlrun
