#pragma once
// Finds a run's logs, and reads a log while it grows.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "common/result.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the path of the file with the output of the job script and of all ranks. Returns nullopt
/// while the job's id is unknown. If the output pattern has a field that only Slurm can fill in,
/// also returns nullopt until the job has started.
[[nodiscard]] std::optional<std::filesystem::path> job_log(const std::filesystem::path& run,
                                                           const RunFacts& facts);

/// Returns the path of the file to which Slurm writes the job's standard error, if it is not the
/// file of job_log(). Also returns nullopt while the job's id is unknown, and if the pattern has a
/// field that only Slurm can fill in.
[[nodiscard]] std::optional<std::filesystem::path> error_log(const std::filesystem::path& run,
                                                             const RunFacts& facts);

/// Returns the path of a rank's log in an attempt. component: empty if the job has one program.
[[nodiscard]] std::filesystem::path rank_log(const std::filesystem::path& run, std::int64_t attempt,
                                             std::int64_t rank, std::string_view component = {});

/// Returns sbatch's output pattern as an absolute path, with the job's name for %x if the name is
/// known. A relative pattern starts at `directory`.
[[nodiscard]] std::string absolute_pattern(const std::filesystem::path& directory,
                                           const std::string& pattern,
                                           const std::optional<std::string>& name);

/// Expands sbatch's output pattern: %j %A %J (job), %u (user), %%. For an array's task (job "42_7")
/// %A and %a are known, and %j is not. Returns nullopt if the pattern needs anything else.
[[nodiscard]] std::optional<std::string> expand_output_pattern(const std::string& pattern,
                                                               const std::string& job,
                                                               const std::string& user);

/// Reads a file that grows. The file need not exist yet, and may be truncated (by a requeue).
class LogReader {
 public:
  /// `facts` are those of the log's run. A foreign run may give a private file of this user as its
  /// log. A foreign run's log is therefore read only if the run's owner owns the file; read_more()
  /// fails with kInvalid for any other file.
  LogReader(std::filesystem::path path, const RunFacts& facts)
      : path_(std::move(path)),
        required_owner_(facts.foreign ? std::optional(facts.foreign->uid) : std::nullopt) {}

  /// Starts at about the last `lines` lines. Without this call reading starts at the beginning.
  void start_at_tail(std::size_t lines) { tail_lines_ = lines; }

  /// Returns the next bytes, at most limit; empty if there are none now. Instead of a hole in the
  /// file, returns a line such as "[dlrun: 256.0 GiB of empty space left out]". A character device
  /// such as /dev/null counts as empty. For any other file that is not regular, such as a FIFO,
  /// fails and does not wait.
  [[nodiscard]] Result<std::string> read_more(std::size_t limit = 1U << 20U);
  [[nodiscard]] bool is_open() const { return fd_.is_open(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  [[nodiscard]] Result<> open();

  std::filesystem::path path_;
  std::optional<uid_t> required_owner_;
  UniqueFd fd_;
  std::uint64_t offset_ = 0;
  /// The bytes that were returned most recently ended with a newline, or none were returned yet.
  bool is_line_start_ = true;
  std::optional<std::size_t> tail_lines_;
};

}  // namespace dlrun
