#include "launcher/runs/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "common/units.h"
#include "common/unix_accounts.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

/// Returns the offset at which the last `lines` lines of the file begin. If these lines are longer
/// than kTailBytes, returns the offset kTailBytes before the end. Returns 0 if the file cannot be
/// read.
std::uint64_t tail_offset(int fd, std::uint64_t size, std::size_t lines) {
  constexpr std::uint64_t kBlock = 1U << 16U, kTailBytes = 4U << 20U;
  std::string block;
  if (lines == 0) return size;
  const std::uint64_t earliest = size > kTailBytes ? size - kTailBytes : 0;
  std::uint64_t end = size;
  std::size_t found = 0;
  while (end > earliest) {
    const std::uint64_t begin = end > earliest + kBlock ? end - kBlock : earliest;
    block.resize(end - begin);
    const ssize_t got = ::pread(fd, block.data(), block.size(), static_cast<off_t>(begin));
    if (got != static_cast<ssize_t>(block.size())) return 0;
    // A newline at the end of the file ends its last line and does not begin another.
    std::size_t before = end == size && block.back() == '\n' ? block.size() - 1 : block.size();
    for (const void* at = nullptr; (at = ::memrchr(block.data(), '\n', before)) != nullptr;) {
      before = static_cast<std::size_t>(static_cast<const char*>(at) - block.data());
      if (++found == lines) return begin + before + 1;
    }
    end = begin;
  }
  return earliest;
}

/// Holes of this size and larger are left out of what a LogReader returns. Smaller ones are read as
/// NUL bytes, as a file system without holes would store them.
constexpr std::uint64_t kShortestHole = 64U << 10U;

/// Returns the offset of the first data at `offset` or behind it; `size` if only a hole is left.
/// Returns `offset` if the file system does not report holes.
std::uint64_t data_offset(int fd, std::uint64_t offset, std::uint64_t size) {
  const off_t found = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (found >= 0) return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(found), offset, size);
  return errno == ENXIO ? size : offset;
}

/// Returns the offset of the first hole behind the offset `begin`; `size` if there is none.
std::uint64_t hole_offset(int fd, std::uint64_t begin, std::uint64_t size) {
  const off_t found = ::lseek(fd, static_cast<off_t>(begin), SEEK_HOLE);
  const auto hole = static_cast<std::uint64_t>(found);
  return found >= 0 && hole > begin && hole < size ? hole : size;
}

/// Returns the job whose id is in the name of the log. Without an output pattern of the user, all
/// jobs of a chain write to one log, which has the id of the first job in its name.
std::optional<JobId> job_in_log_name(const RunFacts& facts) {
  if (facts.follow_ups.empty()) return job_of(facts);
  const bool has_own_pattern = !facts.submission->log_pattern.empty();
  return has_own_pattern ? job_named_by_files(facts) : std::optional(facts.submission->job);
}

std::string login_name() {
  const auto user = unix_account_of(::getuid());
  return user ? user->name : "";
}

}  // namespace

std::filesystem::path rank_log(const std::filesystem::path& run, std::int64_t attempt,
                               std::int64_t rank, std::string_view component) {
  return run / "logs" / fmt::format("attempt-{}", attempt) / component /
         fmt::format("rank-{:04}.log", rank);
}

std::string absolute_pattern(const std::filesystem::path& directory, const std::string& pattern,
                             const std::optional<std::string>& name) {
  std::string filled;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      filled += pattern[i];
      continue;
    }
    ++i;
    filled += pattern[i] == 'x' && name ? escaped_for_sbatch_pattern(*name)
                                        : std::string{'%', pattern[i]};
  }
  if (filled.starts_with('/')) return std::filesystem::path(filled).lexically_normal().string();
  return (std::filesystem::path(escaped_for_sbatch_pattern(directory.string())) / filled)
      .lexically_normal()
      .string();
}

std::optional<std::string> expand_output_pattern(const std::string& pattern, const std::string& job,
                                                 const std::string& user) {
  std::string result;
  const auto task = job.find('_');
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      result += pattern[i];
      continue;
    }
    if (++i == pattern.size()) return std::nullopt;
    switch (pattern[i]) {
      case 'j':
      case 'J':
        if (task != std::string::npos)
          return std::nullopt;  // the task's own job number, which only Slurm knows
        result += job;
        break;
      case 'A':
        result += job.substr(0, task);
        break;
      case 'a':
        if (task == std::string::npos) return std::nullopt;
        result += job.substr(task + 1);
        break;
      case 'u':
        result += user;
        break;
      case '%':
        result += '%';
        break;
      default:
        return std::nullopt;
    }
  }
  return result;
}

std::optional<std::filesystem::path> job_log(const std::filesystem::path& run,
                                             const RunFacts& facts) {
  const auto job = job_in_log_name(facts);
  if (!job) return std::nullopt;
  const bool has_own_pattern = facts.submission && !facts.submission->log_pattern.empty();
  if (has_own_pattern) {
    if (auto path = expand_output_pattern(facts.submission->log_pattern, job->id, login_name()))
      return path;
  }
  // If the run has no record of a submission, the user gave the script to sbatch, and only the
  // claim can have the path of the log.
  if (has_own_pattern || !facts.submission) {
    if (facts.claim && !facts.claim->log.empty()) return facts.claim->log;
    if (has_own_pattern) return std::nullopt;
  }
  if (job->cluster == kLocalCluster) return run / "local.out";
  return run / fmt::format("slurm-{}.out", job->id);
}

std::optional<std::filesystem::path> error_log(const std::filesystem::path& run,
                                               const RunFacts& facts) {
  const auto job = job_named_by_files(facts);
  if (!job || !facts.submission || facts.submission->error_pattern.empty()) return std::nullopt;
  const auto path = expand_output_pattern(facts.submission->error_pattern, job->id, login_name());
  if (!path || job_log(run, facts) == *path) return std::nullopt;
  return *path;
}

Result<> LogReader::open() {
  std::error_code ignored;
  if (std::filesystem::is_character_file(path_, ignored))
    return {};  // /dev/null has nothing to read
  auto fd = open_untrusted(path_, Links::kFollow);
  if (!fd && fd.error().code == Errc::kNotFound) return {};
  if (!fd) return fail(fd.error().code, "cannot read the log: {}", printable(fd.error().message));
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0)
    return fail(Errc::kIo, "cannot read {}: {}", printable(path_.string()), errno_text(errno));
  if (required_owner_ && info.st_uid != *required_owner_) {
    return fail(
        Errc::kInvalid,
        "{}: belongs to user {}, but the run that names it as its log belongs to user {}; the "
        "file is not shown",
        printable(path_.string()), owner_of(info.st_uid).name, owner_of(*required_owner_).name);
  }
  fd_ = std::move(*fd);
  offset_ = tail_lines_
                ? tail_offset(fd_.get(), static_cast<std::uint64_t>(info.st_size), *tail_lines_)
                : 0;
  tail_lines_.reset();
  return {};
}

Result<std::string> LogReader::read_more(std::size_t limit) {
  struct stat info {};
  if (!fd_.is_open()) {
    DLRUN_TRY(open());
    if (!fd_.is_open()) return std::string();
  }
  if (::fstat(fd_.get(), &info) != 0)
    return fail(Errc::kIo, "cannot read {}: {}", printable(path_.string()), errno_text(errno));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < offset_) offset_ = 0;  // a requeue without --open-mode=append has truncated it
  if (size == offset_) return std::string();
  // A file of a few KiB may have a hole of many GiB, which would take minutes to print.
  const std::uint64_t data_begin = data_offset(fd_.get(), offset_, size);
  if (data_begin - offset_ >= kShortestHole) {
    const std::uint64_t left_out = data_begin - std::exchange(offset_, data_begin);
    return fmt::format("{}[dlrun: {} of empty space left out]\n",
                       std::exchange(is_line_start_, true) ? "" : "\n",
                       bytes_text(static_cast<double>(left_out)));
  }
  const std::uint64_t end = hole_offset(fd_.get(), data_begin, size);
  std::string bytes(std::min<std::uint64_t>(limit, end - offset_), '\0');
  ssize_t got = 0;
  while ((got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_))) < 0 &&
         errno == EINTR) {
  }
  if (got < 0)
    return fail(Errc::kIo, "cannot read {}: {}", printable(path_.string()), errno_text(errno));
  bytes.resize(static_cast<std::size_t>(got));
  offset_ += static_cast<std::uint64_t>(got);
  if (!bytes.empty()) is_line_start_ = bytes.back() == '\n';
  return bytes;
}

}  // namespace dlrun
