#pragma once
// Files from the network into a folder, each whole and with the checksum that it must have, or not
// at all. Nodes of a cluster have no network as a rule: this is a login node's work, before a job
// is queued.
//
// The folder gets a file .dlrun-downloads: the lock of those who download into it, and a line for
// each file that was verified, "SHA256 SIZE CTIME NAME", so that a file of many gigabytes is hashed
// once and not at every submission.

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

/// Whether folder has the file. Fails with kInvalid, and both checksums, where what bears its name
/// is another one; with kIo where it cannot be read. Reads the whole file unless it was verified
/// before and is unchanged.
[[nodiscard]] Result<bool> is_downloaded(const std::filesystem::path& folder,
                                         const Download& download);

/// Whether all of them were verified before and have not changed since: the cheap answer, a stat
/// each.
[[nodiscard]] bool are_verified(const std::filesystem::path& folder,
                                std::span<const Download> downloads);

struct DownloadProgress {
  std::int64_t bytes = 0;             ///< of the file, so far: fetched, or read to check it
  std::optional<std::int64_t> total;  ///< where the spec or the server says it
  bool is_waiting = false;            ///< for another dlrun that downloads into the folder
};

struct DownloadOptions {
  /// A server that sends next to nothing for so long has stalled.
  std::chrono::seconds stall{60};
  /// Called about every 100 ms; false: stop.
  std::function<bool(const DownloadProgress&)> go_on = [](const DownloadProgress&) { return true; };
};

/// One at a time for a folder: another one, of any dlrun on any node, waits. Where the file system
/// has no locks, or NFS none for those who may not write .dlrun-downloads, two may fetch the same
/// file: the renames make that right, only slower, and what is being written is locked, too, so
/// that nobody takes it for a killed one's.
class Downloader {
 public:
  /// Makes the folder. Waits for the lock; fails with kInterrupted when go_on says so, kIo.
  [[nodiscard]] static Result<Downloader> in(const std::filesystem::path& folder,
                                             DownloadOptions options);
  Downloader(Downloader&&) noexcept;
  Downloader& operator=(Downloader&&) noexcept;
  ~Downloader();

  /// As is_downloaded, and remembers it. Fails with kInterrupted when go_on says so.
  [[nodiscard]] Result<bool> has(const Download& download);

  /// Fetches a file that is not there; returns its bytes. A connection that is lost is taken up
  /// where it broke, three times; pieces that do not make the file are fetched whole. Follows
  /// redirections, from https to https alone. After a failure nothing of the file is left: kInvalid
  /// where the bytes have another checksum or number, kNotFound where the server has no such file
  /// or libcurl is not installed, kInterrupted, else kIo.
  [[nodiscard]] Result<std::int64_t> fetch(const Download& download);

 private:
  struct State;
  explicit Downloader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dlrun
