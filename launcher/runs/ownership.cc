#include "launcher/runs/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <linux/openat2.h>

#include "common/files.h"
#include "common/text.h"
#include "common/unix_accounts.h"

namespace dlrun {
namespace {

/// Files that determine what commands do: which job, server, script and name they use, and whether
/// the run has ended.
constexpr std::array<const char*, 12> kDecidingFiles = {
    "submission.json", "claim",     "events.jsonl",    "sweep.json",  "submit.json", "job.sh",
    "resolved.yaml",   "spec.yaml", "provenance.json", "resubmitted", "origin",      "plan.json"};
constexpr std::array<const char*, 3> kDecidingFilesOfSweep = {"sweep.json", "submit.json",
                                                              "job.sh"};

std::optional<Owner> owner_unless_this_user(const struct stat& info) {
  static const uid_t this_user = ::geteuid();
  if (info.st_uid == this_user) return std::nullopt;
  return owner_of(info.st_uid);
}

template <std::size_t kCount>
std::optional<Owner> foreign_owner_of_files(const std::filesystem::path& folder,
                                            const std::array<const char*, kCount>& names) {
  const UniqueFd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  for (const char* name : names) {
    // For a symbolic link, the owner of the link counts. dlrun does not follow the link when it
    // reads the file.
    if (!fd.is_open() || ::fstatat(fd.get(), name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (auto owner = owner_unless_this_user(info)) return owner;
  }
  return std::nullopt;
}

/// Returns RUN/array-K for a point RUN/array-K/T; nullopt for any other run.
std::optional<std::filesystem::path> array_of(const std::filesystem::path& run) {
  const auto parent = run.parent_path();
  const bool is_point = parse_int(run.filename().string()).has_value() &&
                        parent.filename().string().starts_with("array-");
  return is_point ? std::optional(parent) : std::nullopt;
}

/// Returns true if the path exists and leads through no symbolic link. Returns false if the kernel
/// cannot tell: before Linux 5.6, or in a container that forbids the system call.
bool surely_has_no_links(const std::filesystem::path& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const UniqueFd fd(
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  return fd.is_open();
}

/// Returns the other user, except root, who owns a symbolic link that the path leads through: the
/// link's owner decides to which run the path leads.
std::optional<Owner> foreign_owner_of_links(const std::filesystem::path& path) {
  if (surely_has_no_links(path)) return std::nullopt;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  std::vector<std::filesystem::path> remaining;  // names of the path, the next one last
  const auto push = [&](const std::filesystem::path& more) {
    const auto before = static_cast<std::ptrdiff_t>(remaining.size());
    for (const auto& name : more.relative_path()) remaining.push_back(name);
    std::reverse(remaining.begin() + before, remaining.end());
  };
  push(absolute);
  std::filesystem::path at = "/";  // contains no link
  constexpr int kMostLinks = 40;   // as in the kernel
  for (int links = 0; !remaining.empty() && links <= kMostLinks;) {
    const auto name = std::move(remaining.back());
    remaining.pop_back();
    if (name == "..") at = at.parent_path();
    if (name.empty() || name == "." || name == "..") continue;
    struct stat info {};
    if (::lstat((at / name).c_str(), &info) != 0) return std::nullopt;
    if (!S_ISLNK(info.st_mode)) {
      at /= name;
      continue;
    }
    if (auto owner = info.st_uid == 0 ? std::nullopt : owner_unless_this_user(info)) return owner;
    const auto target = std::filesystem::read_symlink(at / name, error);
    if (error) return std::nullopt;
    if (target.is_absolute()) at = "/";
    push(target);
    ++links;
  }
  return std::nullopt;
}

}  // namespace

Owner owner_of(uid_t uid) {
  const auto account = unix_account_of(uid);
  return {uid, account ? account->name : std::to_string(uid)};
}

std::optional<Owner> foreign_owner_of_path(const std::filesystem::path& run) {
  if (auto owner = foreign_owner_of_links(run)) return owner;
  struct stat info {};
  if (::stat(run.c_str(), &info) != 0) return std::nullopt;
  return owner_unless_this_user(info);
}

std::optional<Owner> foreign_owner(const std::filesystem::path& run) {
  if (auto owner = foreign_owner_of_path(run)) return owner;
  if (auto owner = foreign_owner_of_files(run, kDecidingFiles)) return owner;
  const auto array = array_of(run);
  if (!array) return std::nullopt;
  if (auto owner = foreign_owner_of_path(*array)) return owner;
  if (auto owner = foreign_owner_of_files(*array, kDecidingFiles)) return owner;
  if (auto owner = foreign_owner_of_path(array->parent_path())) return owner;
  return foreign_owner_of_files(array->parent_path(), kDecidingFilesOfSweep);
}

Result<> require_own(std::string_view id, const std::filesystem::path& run,
                     std::string_view action) {
  const auto owner = foreign_owner(run);
  if (!owner) return {};
  return fail(Errc::kUsage,
              "{}: belongs to user {}, and only its owner can {}; "
              "others can look at it with `dlrun status PATH`",
              printable(id), printable(owner->name), action);
}

std::string describe_foreign_run(const Owner& owner) {
  return fmt::format("of user {}; shown from its files alone, Slurm is not asked",
                     printable(owner.name));
}

}  // namespace dlrun
