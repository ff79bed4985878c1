#include "launcher/runs/log_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "common/quoting.h"

namespace dlrun {
namespace {

/// Where the last `lines` lines of the file begin.
std::uint64_t tail_offset(int fd, std::uint64_t size, std::size_t lines) {
  constexpr std::uint64_t kBlock = 1U << 16U;
  std::string block;
  if (lines == 0) return size;
  std::uint64_t end = size;
  std::size_t found = 0;
  while (end > 0) {
    const std::uint64_t begin = end > kBlock ? end - kBlock : 0;
    block.resize(end - begin);
    const ssize_t got = ::pread(fd, block.data(), block.size(), static_cast<off_t>(begin));
    if (got != static_cast<ssize_t>(block.size())) return 0;
    for (std::uint64_t i = block.size(); i > 0; --i) {
      // The newline that ends the file ends its last line, it does not begin another.
      if (block[i - 1] == '\n' && begin + i != size && ++found == lines) return begin + i;
    }
    end = begin;
  }
  return 0;
}

std::string user_name() {
  const struct passwd* user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_name : "";
}

}  // namespace

std::filesystem::path rank_log(const std::filesystem::path& run, std::int64_t attempt, std::int64_t rank) {
  return run / "logs" / fmt::format("attempt-{}", attempt) / fmt::format("rank-{:04}.log", rank);
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
    filled += pattern[i] == 'x' && name ? escape_pattern(*name) : std::string{'%', pattern[i]};
  }
  if (filled.starts_with('/')) return std::filesystem::path(filled).lexically_normal().string();
  return (std::filesystem::path(escape_pattern(directory.string())) / filled).lexically_normal().string();
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
        if (task != std::string::npos) return std::nullopt;  // the task's own number, which only Slurm knows
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

std::optional<std::filesystem::path> job_log(const std::filesystem::path& run, const RunFacts& facts) {
  const auto job = job_of(facts);
  if (!job) return std::nullopt;
  const bool is_elsewhere = facts.submission && !facts.submission->output.empty();
  if (is_elsewhere) {
    if (auto path = expand_output_pattern(facts.submission->output, job->id, user_name())) return path;
  }
  if (is_elsewhere || !facts.submission) {  // of a script submitted by hand nothing else is known
    if (facts.claim && !facts.claim->log.empty()) return facts.claim->log;
    if (is_elsewhere) return std::nullopt;
  }
  if (job->cluster == kLocalCluster) return run / "local.out";
  return run / fmt::format("slurm-{}.out", job->id);
}

Result<std::string> LogReader::read_more(std::size_t limit) {
  struct stat now {};
  if (!fd_.is_open()) {
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_.is_open()) {
      if (errno == ENOENT) return std::string();
      return fail(Errc::kIo, "cannot read {}: {}", path_.string(), errno_text(errno));
    }
    offset_ = 0;
    if (tail_ && ::fstat(fd_.get(), &now) == 0)
      offset_ = tail_offset(fd_.get(), static_cast<std::uint64_t>(now.st_size), *tail_);
    tail_.reset();
  }
  if (::fstat(fd_.get(), &now) != 0) return fail(Errc::kIo, "cannot read {}: {}", path_.string(), errno_text(errno));
  const auto size = static_cast<std::uint64_t>(now.st_size);
  if (size < offset_) offset_ = 0;  // cut: a requeue without --open-mode=append
  if (size == offset_) return std::string();
  std::string bytes(std::min<std::uint64_t>(limit, size - offset_), '\0');
  ssize_t got = 0;
  while ((got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_))) < 0 && errno == EINTR) {
  }
  if (got < 0) return fail(Errc::kIo, "cannot read {}: {}", path_.string(), errno_text(errno));
  bytes.resize(static_cast<std::size_t>(got));
  offset_ += static_cast<std::uint64_t>(got);
  return bytes;
}

}  // namespace dlrun
