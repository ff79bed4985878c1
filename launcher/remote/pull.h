#pragma once
// Copies files of a run from a host.

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

struct PullRequest {
  std::string host;               ///< the host's name
  std::string from;               ///< the run's folder there, absolute
  std::filesystem::path to;       ///< the folder here, which is made if it is missing
  std::string pattern;            ///< rsync's pattern of files; empty: all
  std::filesystem::path program;  ///< this dlrun, which rsync calls as its remote shell
};

/// Returns rsync's words. Regular files and folders are copied, and nothing else: without links no
/// path of the host can lead out of `to`. Nothing is deleted.
[[nodiscard]] std::vector<std::string> pull_words(const PullRequest& request);

/// Copies, and returns the files that were new or changed, relative to `to`. Fails with kIo and
/// rsync's words, and with kInvalid for a `from` that is not absolute.
[[nodiscard]] Result<std::vector<std::string>> pull(const PullRequest& request, const Env& env);

/// Returns the name of the folder for a run's id: that of a sweep's point, "RUN/3", with '-'. Fails
/// with kInvalid for an id that dlrun does not make, which a hostile host could send.
[[nodiscard]] Result<std::string> folder_name_of(const std::string& id);

}  // namespace dlrun
