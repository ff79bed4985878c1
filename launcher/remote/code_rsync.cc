#include "launcher/remote/code_rsync.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/remote/host_records.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestFileList = 64U << 20U;  ///< bytes
constexpr std::chrono::hours kCopyTimeLimit{24};

/// rsync's exit code after an error with a file, such as a full disk or a missing permission.
constexpr int kRsyncFileError = 11;

/// Returns those of the names that no longer lead to a file in the repository, sorted: there is no
/// such file, or a folder of its path is now a link.
std::vector<std::string> gone_names(const CodeTree& tree,
                                    const std::vector<std::string_view>& names) {
  std::map<std::string, bool, std::less<>> is_folder;
  const auto leads_through_folders = [&](std::string_view name) {
    for (auto slash = name.find('/'); slash != std::string_view::npos;
         slash = name.find('/', slash + 1)) {
      const std::string_view folder = name.substr(0, slash);
      auto known = is_folder.find(folder);
      if (known == is_folder.end()) {
        struct stat status {};
        const bool is_real =
            ::lstat((tree.top / folder).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
        known = is_folder.emplace(folder, is_real).first;
      }
      if (!known->second) return false;
    }
    return true;
  };
  std::vector<std::string> gone;
  for (const std::string_view name : names) {
    struct stat status {};
    if (name.empty()) continue;
    if (!leads_through_folders(name) || ::lstat((tree.top / name).c_str(), &status) != 0)
      gone.emplace_back(name);
  }
  std::sort(gone.begin(), gone.end());
  return gone;
}

/// Returns a pattern of rsync's filter rules that matches only this path below the top.
std::string pattern_of(const std::string& path) {
  // A backslash stands for itself in a pattern without wildcards.
  if (path.find_first_of("*?[") == std::string::npos) return "/" + path;
  std::string pattern = "/";
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// Returns the rules that include the files and the folders around them, each with a NUL behind it.
std::string include_rules(const std::vector<std::string>& files) {
  std::set<std::string> rules;
  for (const std::string& file : files) {
    rules.insert(pattern_of(file));
    for (auto slash = file.find('/'); slash != std::string::npos; slash = file.find('/', slash + 1))
      rules.insert(pattern_of(file.substr(0, slash)) + "/");
  }
  std::string text;
  for (const std::string& rule : rules) text += rule + '\0';
  return text;
}

/// Returns the name of the file on this machine that lists the files of the last copy to a host.
std::string name_of_copy_record(const CodeTree& tree) {
  return tree.mirror + ".list";
}

/// Quotes a word of rsync's -e. rsync itself splits the value into words, and interprets these
/// quotes.
std::string quoted_for_rsync(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

/// The values that all calls of rsync for one copy share.
struct RsyncCall {
  const CodeTree& tree;
  const HostFile& host;
  const std::string& mirror_path;
  const std::filesystem::path& own_program;
  const Env& env;
};

/// Calls rsync from the repository to its copy on the host. options: added to those that every call
/// has. stdin_text: the standard input of rsync, from which --files-from=- or
/// --include-from=- reads.
Result<> call_rsync(const RsyncCall& call, const std::vector<std::string>& options,
                    std::string stdin_text) {
  const HostFile& host = call.host;
  Command command;
  // rsync reads the files of `options` while it parses its arguments, so --from0 comes first.
  command.argv = {"rsync", "-s", "--from0", "-e", rsync_shell(call.own_program, host.name)};
  command.argv.insert(command.argv.end(), options.begin(), options.end());
  command.argv.insert(command.argv.end(),
                      {call.tree.top.string() + "/", "mirror:" + call.mirror_path + "/"});
  command.env = call.env;
  command.stdin_text = std::move(stdin_text);
  command.timeout = kCopyTimeLimit;
  const auto ended = run_command(command);
  if (!ended && ended.error().code == Errc::kNotFound)
    return fail(Errc::kNotFound,
                "dlrun copies your code to {} with rsync, which is not installed here", host.name);
  if (!ended) return tl::unexpected(ended.error());
  if (ended->exit_code == 0) return {};
  const bool is_file_error = ended->exit_code == kRsyncFileError;
  const std::string lines = with_unix_line_ends(ended->err);
  return fail(is_connection_failure(ended->exit_code) ? Errc::kUnavailable : Errc::kIo,
              "{}: the command did not start, because the code could not be copied to {} (exit "
              "code of rsync: {}){}{}{}",
              host.name, call.mirror_path, ended->exit_code, trim(lines).empty() ? "" : ": ",
              trim(lines),
              is_file_error
                  ? fmt::format("\nCheck on {0} whether you may write there, and whether the "
                                "disk or your quota is full (`df -h {1}`, `quota`); to use another "
                                "folder, set `root` in {2}",
                                host.name, call.mirror_path, host.source)
                  : std::string());
}

/// Deletes files in the copy on the host that no longer exist here, and folders that are empty then
/// and do not exist here. rsync's own option for this, --delete-missing-args, fails in versions of
/// 2026 (rsync 3.4.3, 3.2.7-1+deb12u6).
Result<> delete_on_host(const RsyncCall& call, const std::vector<std::string>& gone) {
  // Files that no rule includes are excluded, and excluded files are not deleted. The call must
  // only delete. It copies nothing, because the included files do not exist here. Do not add
  // --ignore-existing to make sure of this: with that option, rsync would keep a link on the host
  // that stands in the place of a folder, and delete files behind that link.
  return call_rsync(call, {"-r", "--existing", "--delete", "--include-from=-", "--exclude=*"},
                    include_rules(gone));
}

/// Copies the files to the host. Leaves out files that do not exist here.
Result<> copy_to_host(const RsyncCall& call, const std::vector<std::string>& files) {
  std::string names;
  // rsync ignores a name that starts with '#' or ';'.
  for (const std::string& file : files) names += "./" + file + '\0';
  return call_rsync(call, {"-lpt", "-O", "-z", "--files-from=-", "--ignore-missing-args"},
                    std::move(names));
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
  const auto copied =
      read_untrusted(*folder / name_of_copy_record(tree), kLargestFileList, Links::kRefuse);
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
  const auto file = folder / name_of_copy_record(tree);
  const auto earlier = read_untrusted(file, kLargestFileList, Links::kRefuse);
  if (!earlier && earlier.error().code != Errc::kNotFound) return tl::unexpected(earlier.error());
  const auto gone = earlier ? gone_names(tree, split(*earlier, '\0')) : std::vector<std::string>();
  // The list also keeps the names of files that no longer exist here, until rsync has deleted these
  // files on the host.
  std::vector<std::string> known_names;
  std::set_union(list.files.begin(), list.files.end(), gone.begin(), gone.end(),
                 std::back_inserter(known_names));
  const std::string list_while_copying = joined_names(known_names);
  const std::string list_after = joined_names(list.files);
  if (!earlier || *earlier != list_while_copying)
    DLRUN_TRY(write_file_atomic(file, list_while_copying));
  const RsyncCall call{tree, host, mirror_path, own_program, env};
  if (!gone.empty()) DLRUN_TRY(delete_on_host(call, gone));
  DLRUN_TRY(copy_to_host(call, list.files));
  if (list_after != list_while_copying) DLRUN_TRY(write_file_atomic(file, list_after));
  return {};
}

}  // namespace dlrun
