#pragma once
// Downloads files into a folder. A file appears there only when it is complete and has the expected
// checksum. Downloads run on a login node before a job is queued, because the nodes of a cluster
// usually have no network.
//
// The folder gets a file .dlrun-downloads, which downloaders lock. The file has a line for each
// verified file, "SHA256 SIZE CTIME NAME" (bytes, nanoseconds since 1970), so that a file of many
// gigabytes is hashed once and not at every submission.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Returns true if the folder has the file with the expected checksum, false if the folder has no
/// file of this name. Fails with kInvalid if the file has another checksum or size (the message
/// shows the found and the expected one), or if the name is a folder or a link that leads nowhere.
/// Fails with kIo if the file cannot be read. Reads the whole file unless it was verified before
/// and has not changed since.
[[nodiscard]] Result<bool> is_downloaded(const std::filesystem::path& folder,
                                         const Download& download);

/// Returns true if all files were verified before and have not changed since. Makes one stat call
/// per file, and reads none of them.
[[nodiscard]] bool are_verified(const std::filesystem::path& folder,
                                std::span<const Download> downloads);

struct DownloadProgress {
  std::int64_t bytes = 0;             ///< bytes of the file that were fetched, or read to check it
  std::optional<std::int64_t> total;  ///< the size of the file; nullopt: not known
  bool is_waiting = false;            ///< another dlrun holds the folder's lock
};

struct DownloadOptions {
  /// A server that sends less than 100 bytes a second for this long has stalled: the download
  /// fails.
  std::chrono::seconds stall_timeout{60};
  /// Called about every 100 ms during a download, during the check of an existing file, and while
  /// another dlrun holds the folder's lock. Returns false to stop.
  std::function<bool(const DownloadProgress&)> on_progress = [](const DownloadProgress&) {
    return true;
  };
};

/// Downloads files into one folder. Holds the folder's lock, so that other downloaders of the
/// folder wait, on any node.
///
/// In these cases there is no lock:
/// - The file system has no locks.
/// - This user may only read the folder.
/// - The folder is on NFS, which refuses the lock to users who cannot write .dlrun-downloads.
/// Two downloaders may then fetch the same file, which only costs time: a complete file gets its
/// name by a rename, and a lock on each unfinished file shows that it is still being written.
class Downloader {
 public:
  /// Creates the folder and waits for its lock. Fails with kInterrupted if on_progress returns
  /// false, and with kIo if the folder cannot be created.
  [[nodiscard]] static Result<Downloader> in(const std::filesystem::path& folder,
                                             DownloadOptions options);
  Downloader(Downloader&&) noexcept;
  Downloader& operator=(Downloader&&) noexcept;
  ~Downloader();

  /// Does the same as is_downloaded(), and records the result. Fails with kInterrupted if
  /// on_progress returns false.
  [[nodiscard]] Result<bool> verify_existing(const Download& download);

  /// Fetches a file that does not exist yet. Returns the number of bytes. Resumes a lost connection
  /// up to three times; if the resumed pieces do not have the right checksum, fetches the whole
  /// file again. Follows redirections, but from https only to https. A failure leaves nothing of
  /// the file. Fails with kInvalid if the checksum or the number of bytes differs, with kNotFound
  /// if the server does not have the file or libcurl is not installed, with kInternal if
  /// libcurl cannot be set up, with kInterrupted if on_progress returns false, else with kIo.
  [[nodiscard]] Result<std::int64_t> fetch(const Download& download);

 private:
  struct State;
  explicit Downloader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dlrun
