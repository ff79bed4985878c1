#include "launcher/runs/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "common/files.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kSuffixLength = std::string_view("-YYYYMMDD-HHMMSS-xxxx").size();

std::string local_stamp(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

Result<> check_can_create_run_in(const std::filesystem::path& runs_dir) {
  auto folder = runs_dir;
  struct stat info {};
  while (::stat(folder.c_str(), &info) != 0) {
    if (errno != ENOENT || folder == folder.parent_path())
      return fail(Errc::kIo, "the runs folder: {}: {}; choose another with --runs or DLRUN_RUNS",
                  printable(folder.string()), errno_text(errno));
    folder = folder.parent_path();
  }
  if (::access((folder / ".").c_str(), W_OK | X_OK) != 0) {
    const auto why = errno_text(errno);
    return fail(Errc::kIo, "the runs folder {}: {}{}; choose another with --runs or DLRUN_RUNS",
                printable(runs_dir.string()),
                folder == runs_dir ? "" : printable(folder.string()) + ": ", why);
  }
  return {};
}

Result<RunDirectory> create_run_directory(const std::filesystem::path& runs_dir,
                                          std::string_view name,
                                          std::chrono::system_clock::time_point now) {
  DLRUN_TRY(check_can_create_run_in(runs_dir));
  if (auto made = make_private_directories(runs_dir); !made)
    return within("the runs folder", made.error());
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    RunDirectory run;
    run.name = name;
    run.id = fmt::format("{}-{}-{}", name, local_stamp(now), random_hex(2));
    run.path = runs_dir / run.id;
    run.created = utc_timestamp(now);
    if (::mkdir(run.path.c_str(), 0700) == 0) return run;
    if (errno != EEXIST)
      return fail(Errc::kIo, "cannot make the run directory {}: {}", printable(run.path.string()),
                  errno_text(errno));
  }
  return fail(Errc::kIo, "{}: no free run id in {} tries", printable(runs_dir.string()), kTries);
}

std::string name_of_id(std::string_view id) {
  if (id.size() <= kSuffixLength) return std::string(id);
  const auto suffix = id.substr(id.size() - kSuffixLength);
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto all_of = [](std::string_view text, std::string_view set) {
    return text.find_first_not_of(set) == std::string_view::npos;
  };
  const bool fits = suffix[0] == '-' && suffix[9] == '-' && suffix[16] == '-' &&
                    all_of(suffix.substr(1, 8), kDigits) && all_of(suffix.substr(10, 6), kDigits) &&
                    all_of(suffix.substr(17), kHex);
  return std::string(fits ? id.substr(0, id.size() - kSuffixLength) : id);
}

bool is_run_directory(const std::filesystem::path& path) {
  std::error_code error;
  for (const char* file : {"submission.json", "claim", "events.jsonl", "sweep.json"}) {
    if (std::filesystem::exists(path / file, error)) return true;
  }
  return false;
}

}  // namespace dlrun
