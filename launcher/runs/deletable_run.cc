#include "launcher/runs/deletable_run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/directory_tree.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// Returns true if dlrun gives this name to runs: NAME-YYYYMMDD-HHMMSS-xxxx, or NAME-JOB for a
/// script that was submitted by hand. If the user sets DLRUN_RUN, a program can claim any other
/// directory as its run, even a home directory. dlrun must not delete such a directory.
bool has_name_of_run(const fs::path& run) {
  const std::string id = run.filename().string();
  if (name_of_id(id) != id) return true;
  constexpr std::size_t kLimit = 64U << 10U;
  const auto text = read_untrusted(run / "origin", kLimit, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  if (!json) return false;
  std::string job = json_read::text(*json, "job");
  std::replace_if(
      job.begin(), job.end(), [](char c) { return c == ':' || c == '/'; }, '-');
  const std::string name = json_read::text(*json, "name");
  return !job.empty() && !name.empty() && id == name + "-" + job;
}

Result<> check_has_files_of_run(int directory, const fs::path& run) {
  for (const char* file :
       {"submission.json", "claim", "events.jsonl", "sweep.json", "job.sh", "spec.yaml"}) {
    struct stat info {};
    if (::fstatat(directory, file, &info, AT_SYMLINK_NOFOLLOW) == 0) return {};
  }
  return fail(Errc::kUsage, "{}: holds no files of a run, so it is left alone",
              printable(run.string()));
}

/// Returns true if the journal in the directory is that of this run: the journal's command has the
/// path of the run's script. Returns nullopt if there is no journal with a command.
std::optional<bool> is_journal_of_run(int directory, const std::string& id) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto json = json_read::object_of(read_own_file(directory, "submission.json", kLimit));
  const auto argv = json ? json->find("argv") : nlohmann::ordered_json::const_iterator();
  if (!json || argv == json->end() || !argv->is_array() || argv->empty()) return std::nullopt;
  return std::any_of(argv->begin(), argv->end(), [&](const nlohmann::ordered_json& word) {
    return word.is_string() && word.get<std::string>().find("/" + id + "/") != std::string::npos;
  });
}

/// Checks that the files in the directory are those of this run. Another user who can rename
/// entries of the runs folder may have given the run's name to another directory of this user.
Result<> check_is_this_run(int directory, const fs::path& run) {
  const std::string id = run.filename().string();
  auto is_this_run = is_journal_of_run(directory, id);
  if (!is_this_run) {
    const UniqueFd array = open_below(directory, "array-0");
    if (array.is_open()) is_this_run = is_journal_of_run(array.get(), id);
  }
  if (!is_this_run) {
    // A run that was never submitted has only the plan. The run of a script that was submitted by
    // hand has only `origin`, which has_name_of_run() has compared with the name.
    constexpr std::size_t kLimit = 16U << 20U;
    const auto plan = json_read::object_of(read_own_file(directory, "plan.json", kLimit));
    is_this_run =
        name_of_id(id) == id || (plan && json_read::text(*plan, "name") == name_of_id(id));
  }
  if (*is_this_run) return {};
  return fail(
      Errc::kUsage,
      "{}: the files in this directory do not show that it belongs to the run {}, so dlrun does "
      "not delete the directory. Look into it, and delete it by hand",
      printable(run.string()), printable(id));
}

}  // namespace

DirectoryIdentity identity_of(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

std::optional<DirectoryIdentity> identity_in(int folder, const std::string& name) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return identity_of(info);
}

std::string read_own_file(int directory, const char* name, std::size_t limit_bytes) {
  const UniqueFd file(
      ::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() || static_cast<std::size_t>(info.st_size) > limit_bytes)
    return {};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Result<OpenedRun> open_deletable_run(const fs::path& run) {
  OpenedRun opened;
  opened.name = run.filename().string();
  const auto failed = [&] {
    const int error = errno;
    if (error == ELOOP || error == ENOTDIR)
      return fail(
          Errc::kUsage,
          "{}: is not a directory; dlrun deletes the directory of a run, not a symbolic link "
          "to it",
          printable(run.string()));
    return fail(error == ENOENT ? Errc::kNotFound : Errc::kIo, "{}: {}", printable(run.string()),
                errno_text(error));
  };
  opened.parent.reset(::open(run.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.parent.is_open()) return failed();
  opened.run.reset(::openat(opened.parent.get(), opened.name.c_str(),
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {
  }, there{};
  if (!opened.run.is_open() || ::fstat(opened.run.get(), &info) != 0) return failed();
  opened.identity = identity_of(info);
  DLRUN_TRY(require_own(opened.name, run, "delete it"));
  if (info.st_uid != ::geteuid() || ::stat(run.c_str(), &there) != 0 ||
      identity_of(there) != opened.identity)
    return fail(Errc::kUsage, "{}: was replaced meanwhile, so it is left alone",
                printable(run.string()));
  if (!has_name_of_run(run))
    return fail(Errc::kUsage,
                "{}: does not have a name that dlrun gives to runs, so dlrun does not delete it; "
                "look into it, and delete it by hand",
                printable(run.string()));
  DLRUN_TRY(check_has_files_of_run(opened.run.get(), run));
  DLRUN_TRY(check_is_this_run(opened.run.get(), run));
  return opened;
}

bool has_sweep_record(int run) {
  struct stat info {};
  return ::fstatat(run, "sweep.json", &info, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<> visit_directories_of_run(int run, const RunVisitor& visit,
                                  const std::function<void(const std::string&)>& mounted) {
  DLRUN_TRY(visit(run, ""));
  if (!has_sweep_record(run)) return {};
  const auto open = [&](int parent, const std::string& name, const std::string& where) {
    if (!mounted || !is_mount_point(parent, name)) return open_below(parent, name);
    mounted(where);
    return UniqueFd();
  };
  DLRUN_TRY_ASSIGN(const auto arrays, names_in(run));
  for (const std::string& array : arrays) {
    const UniqueFd folder = array.starts_with("array-") ? open(run, array, array) : UniqueFd();
    if (!folder.is_open()) continue;
    DLRUN_TRY(visit(folder.get(), array));
    DLRUN_TRY_ASSIGN(auto points, names_in(folder.get()));
    std::sort(points.begin(), points.end());
    for (const std::string& point : points) {
      const std::string where = array + "/" + point;
      const UniqueFd below = parse_int(point) ? open(folder.get(), point, where) : UniqueFd();
      if (below.is_open()) DLRUN_TRY(visit(below.get(), where));
    }
  }
  return {};
}

}  // namespace dlrun
