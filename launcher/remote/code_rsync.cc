#include "launcher/remote/code_rsync.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/remote/host_records.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestFileList = 64U << 20U;
constexpr std::chrono::hours kCopyTimeLimit{24};

/// rsync's exit code after an error with a file, such as a full disk or a missing permission.
constexpr int kRsyncFileError = 11;

/// Returns those names of the earlier list whose files no longer exist on this machine.
std::vector<std::string> gone_names(const CodeTree& tree, const std::string& earlier) {
  std::vector<std::string> gone;
  for (const std::string_view name : split(earlier, '\0')) {
    struct stat status {};
    if (!name.empty() && ::lstat((tree.top / name).c_str(), &status) != 0) gone.emplace_back(name);
  }
  return gone;
}

/// Returns the name of the file that records the files of the last copy.
std::string list_name(const CodeTree& tree) {
  return tree.mirror + ".list";
}

/// Quotes a word of rsync's -e. rsync itself splits the value into words, and interprets these
/// quotes.
std::string quoted_for_rsync(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

bool is_connection_failure(int exit_code) {
  constexpr int kSocket = 10, kDataStream = 12, kTimeout = 30, kConnectTimeout = 35, kSsh = 255;
  for (const int code : {kSocket, kDataStream, kTimeout, kConnectTimeout, kSsh}) {
    if (exit_code == code) return true;
  }
  return false;
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\0';
  return text;
}

bool last_copy_was_of(const CodeTree& tree, const CodeList& list, const HostFile& host,
                      const Env& env) {
  const auto folder = host_records_folder(env, host.name);
  if (!folder) return false;
  const auto copied = read_untrusted(*folder / list_name(tree), kLargestFileList, Links::kRefuse);
  return copied && *copied == joined_names(list.files);
}

std::string rsync_shell(const std::filesystem::path& own_program, const std::string& host) {
  return quoted_for_rsync(own_program.string()) + " --rsync-shell " + host;
}

Result<> copy_code(const CodeTree& tree, const CodeList& list, const HostFile& host,
                   const std::string& mirror_path, const std::filesystem::path& own_program,
                   const Env& env) {
  DLRUN_TRY_ASSIGN(const auto folder, host_records_folder(env, host.name));
  DLRUN_TRY(make_private_directories(folder));
  const auto file = folder / list_name(tree);
  const auto earlier = read_untrusted(file, kLargestFileList, Links::kRefuse);
  if (!earlier && earlier.error().code != Errc::kNotFound) return tl::unexpected(earlier.error());
  auto names = earlier ? gone_names(tree, *earlier) : std::vector<std::string>();
  names.insert(names.end(), list.files.begin(), list.files.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  // The list also keeps the names of files that no longer exist here, until rsync has deleted these
  // files on the host.
  const std::string list_while_copying = joined_names(names), list_after = joined_names(list.files);
  if (!earlier || *earlier != list_while_copying)
    DLRUN_TRY(write_file_atomic(file, list_while_copying));
  Command command;
  command.argv = {"rsync",
                  "-lpt",
                  "-O",
                  "-z",
                  "-s",
                  "--files-from=-",
                  "--from0",
                  "--delete-missing-args",
                  "-e",
                  rsync_shell(own_program, host.name),
                  tree.top.string() + "/",
                  "mirror:" + mirror_path + "/"};
  command.env = env;
  // rsync ignores a name that starts with '#' or ';'.
  for (const std::string& one : names) command.stdin_text += "./" + one + '\0';
  command.timeout = kCopyTimeLimit;
  const auto ended = run_command(command);
  if (!ended && ended.error().code == Errc::kNotFound)
    return fail(Errc::kNotFound,
                "dlrun copies your code to {} with rsync, which is not installed here", host.name);
  if (!ended) return tl::unexpected(ended.error());
  if (ended->exit_code != 0) {
    const bool is_file_error = ended->exit_code == kRsyncFileError;
    const std::string lines = with_unix_line_ends(ended->err);
    return fail(
        is_connection_failure(ended->exit_code) ? Errc::kUnavailable : Errc::kIo,
        "{}: the command did not start, because the code could not be copied to {} (exit "
        "code of rsync: {}){}{}{}",
        host.name, mirror_path, ended->exit_code, trim(lines).empty() ? "" : ": ", trim(lines),
        is_file_error ? fmt::format("\nCheck on {0} whether you may write there, and whether the "
                                    "disk or your quota is full (`df -h {1}`, `quota`); the host's "
                                    "file can name another folder as `root`",
                                    host.name, mirror_path)
                      : std::string());
  }
  if (list_after != list_while_copying) DLRUN_TRY(write_file_atomic(file, list_after));
  return {};
}

}  // namespace dlrun
