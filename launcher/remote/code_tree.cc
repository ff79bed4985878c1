#include "launcher/remote/code_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include <fnmatch.h>

#include "common/sha256.h"
#include "common/text.h"
#include "common/units.h"
#include "launcher/runs/git.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kGitLimit{60};
constexpr int kDeepestSubmodule = 8;

/// Returns this machine's name, so that the copies of two machines have different names.
std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Returns the first 40 characters of the name, with '-' in place of each character that is no
/// letter, digit, '_' or '-'. Returns "code" for an empty name.
std::string plain_name(const std::string& name) {
  constexpr std::size_t kLongest = 40;
  std::string plain = name.substr(0, kLongest);
  for (char& c : plain) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!is_plain) c = '-';
  }
  return plain.empty() ? "code" : plain;
}

/// Returns true if one of the patterns matches the path or a folder above it.
bool is_matched(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string pattern) {
    while (pattern.ends_with('/')) pattern.pop_back();
    return ::fnmatch(pattern.c_str(), path.c_str(), FNM_LEADING_DIR) == 0;
  });
}

/// Adds the files that git lists in a folder and in its submodules, down to kDeepestSubmodule
/// levels. prefix: precedes each name. depth: the level of the folder; 0: the top.
Result<> add_listed(const std::filesystem::path& folder, const std::string& prefix, const Env& env,
                    int depth, std::vector<std::string>& files) {
  DLRUN_TRY_ASSIGN(
      const auto listed,
      run_git(folder, env, {"ls-files", "-co", "--exclude-standard", "-z"}, kGitLimit));
  if (listed.exit_code != 0)
    return fail(Errc::kInvalid, "{}: git cannot list the files: {}", printable(folder.string()),
                trim(listed.err));
  for (const std::string_view name : split(listed.out, '\0')) {
    if (!name.empty()) files.push_back(prefix + std::string(name));
  }
  std::error_code error;
  if (!std::filesystem::exists(folder / ".gitmodules", error) || depth >= kDeepestSubmodule)
    return {};
  DLRUN_TRY_ASSIGN(const auto staged, run_git(folder, env, {"ls-files", "-s", "-z"}, kGitLimit));
  for (const std::string_view line : split(staged.out, '\0')) {
    const auto tab = line.find('\t');
    if (!line.starts_with("160000 ") || tab == std::string_view::npos) continue;
    const std::string name(line.substr(tab + 1));
    if (!std::filesystem::exists(folder / name / ".git", error)) continue;  // not checked out
    DLRUN_TRY(add_listed(folder / name, prefix + name + "/", env, depth + 1, files));
  }
  return {};
}

/// Adds the files of `sync.also`: a file, or all files below a folder.
Result<> add_files_of_sync_also(const CodeTree& tree, const HostFile& host,
                                std::vector<std::string>& files) {
  for (const std::string& name : host.sync_also) {
    std::error_code error;
    const auto path = tree.top / name;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(std::filesystem::path(name).lexically_normal().string());
      continue;
    }
    for (std::filesystem::recursive_directory_iterator at(path, error), end; !error && at != end;
         at.increment(error)) {
      if (!at->is_directory() || at->is_symlink())
        files.push_back(at->path().lexically_relative(tree.top).string());
    }
    if (error)
      return fail(Errc::kIo, "{}: sync.also: {}", printable(path.string()), error.message());
  }
  return {};
}

Result<> refuse_size(const CodeTree& tree, const HostFile& host, std::int64_t bytes,
                     std::vector<std::pair<std::int64_t, std::string>> sizes) {
  constexpr std::size_t kShown = 5;
  const auto shown = std::min(kShown, sizes.size());
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(shown), sizes.end(),
                    std::greater<>());
  std::string largest;
  for (std::size_t i = 0; i < shown; ++i)
    largest += fmt::format("\n  {:>10}  {}", bytes_text(static_cast<double>(sizes[i].first)),
                           sizes[i].second);
  return fail(
      Errc::kInvalid,
      "the code in {} has {}, and {} allows {} (sync.max); nothing was copied. The largest "
      "files:{}\nPut them into sync.exclude (or into .gitignore, if git does not track them), "
      "or raise sync.max",
      printable(tree.top.string()), bytes_text(static_cast<double>(bytes)), host.source,
      bytes_text(static_cast<double>(host.sync_max_bytes)), largest);
}

}  // namespace

std::optional<CodeTree> find_tree(const std::filesystem::path& folder) {
  std::error_code error;
  for (auto at = folder.lexically_normal(); !at.empty(); at = at.parent_path()) {
    if (at.filename().empty() && at.has_relative_path()) continue;  // a '/' at the end
    if (std::filesystem::exists(at / ".git", error)) {
      const std::string hash = sha256_of_text(machine_name() + '\n' + at.string()).substr(0, 8);
      return CodeTree{at, plain_name(at.filename().string()) + "-" + hash};
    }
    if (!at.has_relative_path()) break;
  }
  return std::nullopt;
}

Result<CodeList> list_code(const CodeTree& tree, const HostFile& host, const Env& env) {
  CodeList list;
  std::vector<std::string> names;
  DLRUN_TRY(add_listed(tree.top, "", env, 0, names));
  DLRUN_TRY(add_files_of_sync_also(tree, host, names));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::pair<std::int64_t, std::string>> sizes;
  for (std::string& name : names) {
    if (is_matched(name, host.sync_exclude)) continue;
    struct stat status {};
    const bool exists = ::lstat((tree.top / name).c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
      // git lists a submodule as NAME, and any other inner repository as NAME/.
      if (name.ends_with('/')) list.skipped_repositories.push_back(name);
      continue;
    }
    if (exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) continue;
    if (exists && S_ISREG(status.st_mode)) {
      list.bytes += status.st_size;
      sizes.emplace_back(status.st_size, name);
    }
    list.files.push_back(std::move(name));
  }
  if (list.bytes > host.sync_max_bytes) {
    DLRUN_TRY(refuse_size(tree, host, list.bytes, std::move(sizes)));
  }
  return list;
}

}  // namespace dlrun
