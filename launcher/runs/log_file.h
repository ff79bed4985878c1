#pragma once
// Where a run's logs lie, and reading one while it grows.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// The job's own output; nothing before the job's id is known, nor before the job has begun where
/// its pattern holds what only Slurm can fill in.
[[nodiscard]] std::optional<std::filesystem::path> job_log(const std::filesystem::path& run,
                                                           const RunFacts& facts);

[[nodiscard]] std::filesystem::path rank_log(const std::filesystem::path& run, std::int64_t attempt,
                                             std::int64_t rank);

/// sbatch's output pattern of a job in this directory, absolute, with the job's name in it (%x)
/// where it is known.
[[nodiscard]] std::string absolute_pattern(const std::filesystem::path& directory,
                                           const std::string& pattern,
                                           const std::optional<std::string>& name);

/// sbatch's output pattern as the path it names: %j %A %J (job), %u (user), %%. Of an array's task
/// (job "42_7") %A and %a are known, %j is not. Nothing where it holds another.
[[nodiscard]] std::optional<std::string> expand_output_pattern(const std::string& pattern,
                                                               const std::string& job,
                                                               const std::string& user);

/// Reads what was appended to a file that may not be there yet, may be cut (a requeue) or replaced.
class LogReader {
 public:
  /// facts: of the run whose log it is. What a foreign run calls its log may be a private file of
  /// the caller's: only a file of the run's own owner is read then, and read_more() fails with
  /// kInvalid for any other. A log is a regular file.
  LogReader(std::filesystem::path path, const RunFacts& facts)
      : path_(std::move(path)),
        only_of_(facts.foreign ? std::optional(facts.foreign->uid) : std::nullopt) {}

  /// Starts so that about the last `lines` lines come first; all of them without a call.
  void start_at_tail(std::size_t lines) { tail_ = lines; }

  /// The next bytes, at most limit; empty when there are none now. Fails for what is no regular
  /// file, such as a FIFO, without waiting for it.
  [[nodiscard]] Result<std::string> read_more(std::size_t limit = 1U << 20U);
  [[nodiscard]] bool is_open() const { return fd_.is_open(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  [[nodiscard]] Result<> open();

  std::filesystem::path path_;
  std::optional<uid_t> only_of_;
  UniqueFd fd_;
  std::uint64_t offset_ = 0;
  std::optional<std::size_t> tail_;
};

}  // namespace dlrun
