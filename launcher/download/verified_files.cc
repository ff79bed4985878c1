#include "launcher/download/verified_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr std::size_t kRecordLimitBytes = 4U << 20U;
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

/// Splits "SHA256 SIZE CTIME NAME" into four parts; the name may hold blanks.
[[nodiscard]] std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (int i = 0; i < 3; ++i) {
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) return {};
    fields.push_back(line.substr(0, blank));
    line.remove_prefix(blank + 1);
  }
  fields.push_back(line);
  return fields;
}

/// Returns the record's text; empty if another user owns or can write the record, because a line of
/// another user could make dlrun accept a wrong file.
[[nodiscard]] std::string trusted_record(const std::filesystem::path& path) {
  struct stat status {};
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file || ::fstat(file->get(), &status) != 0) return {};
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return {};
  auto text = read_untrusted(path, kRecordLimitBytes, Links::kRefuse);
  return text ? std::move(*text) : std::string();
}

}  // namespace

VerifiedFiles::VerifiedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  const auto text = trusted_record(folder_ / kVerifiedRecordName);
  for (std::string_view line : split(text, '\n')) {
    const auto fields = fields_of(line);
    if (fields.empty()) continue;
    const auto size = parse_int(fields[1]), ctime_ns = parse_int(fields[2]);
    if (size && ctime_ns)
      known_[std::string(fields[3])] = {std::string(fields[0]), {*size, *ctime_ns}};
  }
}

Result<std::optional<VerifiedFiles::Stamp>> VerifiedFiles::stamp_of(const std::string& name) const {
  struct stat status {};
  const auto path = folder_ / name;
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    if (error != ENOENT)
      return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(error));
    if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
      return fail(
          Errc::kInvalid,
          "{}: is a symbolic link that leads nowhere. Remove it, or put the file where it leads",
          printable(path.string()));
    return std::optional<Stamp>();
  }
  if (!S_ISREG(status.st_mode))
    return fail(Errc::kInvalid, "{}: is not a file", printable(path.string()));
  return std::optional(Stamp{
      status.st_size, status.st_ctim.tv_sec * kNanosecondsPerSecond + status.st_ctim.tv_nsec});
}

bool VerifiedFiles::knows(const Download& download) const {
  const auto known = known_.find(download.file);
  if (known == known_.end() || known->second.sha256 != download.sha256) return false;
  const auto stamp = stamp_of(download.file);
  return stamp && *stamp == known->second.stamp;
}

Result<bool> VerifiedFiles::verify(const Download& download, const OnProgress& on_progress) {
  if (knows(download)) return true;
  const auto path = folder_ / download.file;
  // Reads the stamp first, so that a change while the file is read is noticed later.
  DLRUN_TRY_ASSIGN(const auto stamp, stamp_of(download.file));
  if (!stamp) return false;
  constexpr std::string_view kAdvice =
      "Move it away, or correct the spec; dlrun does not replace the file";
  if (download.bytes && stamp->size != *download.bytes)
    return fail(Errc::kInvalid, "{}: has {} bytes, but the spec says {}. {}",
                printable(path.string()), stamp->size, *download.bytes, kAdvice);
  DLRUN_TRY_ASSIGN(const auto file, open_untrusted(path, Links::kFollow));
  std::int64_t bytes = 0;
  DLRUN_TRY_ASSIGN(
      const auto sha256,
      sha256_of_stream(file.get(), path.string(), [&](std::string_view piece) -> Result<> {
        bytes += static_cast<std::int64_t>(piece.size());
        if (on_progress(bytes, stamp->size)) return {};
        return fail(Errc::kInterrupted, "{}: interrupted before the file was checked",
                    printable(path.string()));
      }));
  if (sha256 != download.sha256)
    return fail(Errc::kInvalid, "{}: has the sha256 {}, but the spec says {}. {}",
                printable(path.string()), sha256, download.sha256, kAdvice);
  known_[download.file] = {download.sha256, *stamp};
  return true;
}

void VerifiedFiles::record(const Download& download) {
  if (const auto stamp = stamp_of(download.file); stamp && *stamp)
    known_[download.file] = {download.sha256, **stamp};
}

void VerifiedFiles::write(int fd) const {
  std::string text;
  for (const auto& [name, known] : known_)
    text +=
        fmt::format("{} {} {} {}\n", known.sha256, known.stamp.size, known.stamp.ctime_ns, name);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return;
  // Removes the permission of others to write: the constructor ignores a record that others can
  // write.
  if (status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
      ::fchmod(fd, 0644) != 0)
    return;
  if (::ftruncate(fd, 0) != 0 || ::lseek(fd, 0, SEEK_SET) != 0) return;
  (void)write_all(fd, text);
}

}  // namespace dlrun
