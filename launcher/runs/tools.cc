#include "launcher/runs/tools.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/sha256.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/ownership.h"

namespace dlrun {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

Result<> copy_verified(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::string& expected) {
  const auto source = open_untrusted(from, Links::kFollow);
  if (!source && source.error().code == Errc::kNotFound)
    return fail(Errc::kNotFound, "{}; the program belongs beside dlrun", source.error().message);
  if (!source) return tl::unexpected(source.error());
  const std::filesystem::path temporary =
      fmt::format("{}{}{}", to.string(), kTemporary, random_hex(8));
  UniqueFd target(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700));
  if (!target.is_open())
    return fail(Errc::kIo, "cannot write {}: {}", printable(temporary.string()), errno_text(errno));
  const auto copy = [&]() -> Result<> {
    DLRUN_TRY_ASSIGN(
        const auto hash,
        sha256_of_stream(source->get(), from.string(), [&](std::string_view bytes) -> Result<> {
          if (auto written = write_all(target.get(), bytes); !written)
            return within(printable(temporary.string()), written.error());
          return {};
        }));
    if (hash != expected) {
      return fail(Errc::kInvalid,
                  "{}: is not the file that this dlrun was built with (SHA-256 {}, expected {}); "
                  "install all files of dlrun from the same build",
                  printable(from.string()), hash, expected);
    }
    if (::fchmod(target.get(), 0755) != 0 || ::fsync(target.get()) != 0) {
      return fail(Errc::kIo, "cannot write {}: {}", printable(temporary.string()),
                  errno_text(errno));
    }
    target.reset();
    if (::rename(temporary.c_str(), to.c_str()) != 0)
      return fail(Errc::kIo, "cannot write {}: {}", printable(to.string()), errno_text(errno));
    return {};
  };
  auto done = copy();
  if (!done) ::unlink(temporary.c_str());
  return done;
}

/// Returns true if the file is an executable of this user that nobody else can write. Such a file
/// is complete, because copy_verified() renames a copy only when it is complete.
bool is_complete_copy(const std::filesystem::path& file) {
  struct stat info {};
  return ::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 0122U) == 0100U;
}

/// Removes temporary files that are older than an hour: the processes that wrote them were killed.
void remove_leftovers(const std::filesystem::path& folder) {
  constexpr auto kOld = std::chrono::hours(1);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const auto& path = entries->path();
    if (path.filename().string().find(kTemporary) == std::string::npos) continue;
    std::error_code ignored;
    const auto changed = std::filesystem::last_write_time(path, ignored);
    if (!ignored && std::filesystem::file_time_type::clock::now() - changed > kOld)
      std::filesystem::remove(path, ignored);
  }
}

}  // namespace

Result<> check_own_folder(const std::filesystem::path& folder, std::string_view remedy) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(folder.string()), errno_text(errno));
  if (!S_ISDIR(info.st_mode))
    return fail(Errc::kInvalid, "{}: is not a directory; {}", printable(folder.string()), remedy);
  if (info.st_uid != ::geteuid()) {
    return fail(Errc::kInvalid, "{}: belongs to user {}; {}", printable(folder.string()),
                printable(owner_of(info.st_uid).name), remedy);
  }
  if ((info.st_mode & 022U) != 0) {
    return fail(
        Errc::kInvalid,
        "{0}: others may write it (mode {1:04o}), and dlrun or your jobs would use what they put "
        "there; `chmod go-w {0}` forbids that",
        printable(folder.string()), info.st_mode & 07777U);
  }
  return {};
}

std::filesystem::path tools_folder(const std::filesystem::path& runs_dir, const ToolSet& tools) {
  return runs_dir / fmt::format(".agents-{}", ::geteuid()) / tools.hash;
}

Result<> check_tools_folder(const std::filesystem::path& runs_dir, const ToolSet& tools) {
  std::error_code error;
  const auto directory = tools_folder(runs_dir, tools);
  for (const auto& folder : {directory.parent_path(), directory}) {
    const auto kind = std::filesystem::symlink_status(folder, error).type();
    if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none)
      DLRUN_TRY(check_own_folder(folder));
  }
  return {};
}

std::optional<std::string> warning_about_runs_folder(const std::filesystem::path& runs_dir) {
  std::error_code error;
  // The owner of "/" controls the whole system. Within a user namespace that is not always user 0.
  struct stat root {};
  if (::stat("/", &root) != 0) root.st_uid = 0;
  auto folder = std::filesystem::canonical(runs_dir, error);
  if (error) folder = std::filesystem::weakly_canonical(runs_dir, error);
  for (; !folder.empty(); folder = folder.parent_path()) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) == 0) {
      // The sticky bit does not restrict the owner of the folder.
      if (info.st_uid != ::geteuid() && info.st_uid != 0 && info.st_uid != root.st_uid) {
        return fmt::format(
            "{}: belongs to user {}, who may rename or replace files there, including your runs "
            "and the programs that your jobs execute",
            folder.string(), owner_of(info.st_uid).name);
      }
      if ((info.st_mode & 022U) != 0 && (info.st_mode & S_ISVTX) == 0) {
        return fmt::format(
            "{}: others may rename or replace files there (mode {:04o}, no sticky bit), including "
            "your runs and the programs that your jobs execute; the folder's owner can forbid that "
            "with `chmod +t {}`",
            folder.string(), info.st_mode & 07777U, folder.string());
      }
    }
    if (folder == folder.root_path()) break;
  }
  return std::nullopt;
}

Error missing_trainer_error(const std::filesystem::path& trainer, std::string_view needed_by) {
  return {Errc::kNotFound,
          fmt::format("{} is not installed, and {} needs it; install the package dlrun-trainer of "
                      "the same version, or unpack all of the archive",
                      printable(trainer.string()), needed_by)};
}

Result<> copy_missing_tools(const std::filesystem::path& root,
                            const std::filesystem::path& runs_dir, const ToolSet& tools,
                            TrainerUse use) {
  const auto folder = tools_folder(runs_dir, tools);
  for (const auto& directory : {folder.parent_path(), folder}) {
    DLRUN_TRY(make_private_directories(directory));
    DLRUN_TRY(check_own_folder(directory));
  }
  struct statvfs filesystem {};
  if (::statvfs(folder.c_str(), &filesystem) == 0 && (filesystem.f_flag & ST_NOEXEC) != 0) {
    return fail(Errc::kIo,
                "{}: the file system is mounted noexec, so no program can be started from it; "
                "choose another runs folder with --runs or DLRUN_RUNS",
                printable(runs_dir.string()));
  }
  bool has_cleaned = false;
  for (const auto& file : tools.files) {
    const auto from = root / file.relative_path;
    const auto to = folder / from.filename();
    if (is_complete_copy(to)) continue;
    if (::access(from.c_str(), F_OK) != 0) {
      const bool is_trainer = from.filename() == "dlrun-trainer";
      if (file.relative_path.starts_with("lib/") || (is_trainer && use == TrainerUse::kNone))
        continue;
      if (is_trainer) return tl::unexpected(missing_trainer_error(from, "this job"));
    }
    // Looks for leftovers only if a file is missing, because listing the folder takes time.
    if (!std::exchange(has_cleaned, true)) remove_leftovers(folder);
    DLRUN_TRY(copy_verified(from, to, file.sha256));
  }
  return {};
}

}  // namespace dlrun
