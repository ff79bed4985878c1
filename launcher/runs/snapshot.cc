#include "launcher/runs/snapshot.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "launcher/runs/git.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 20'000;
constexpr std::size_t kMostBytes = 256U << 20U;

struct Tree {
  fs::path root;
  std::vector<fs::path> files;  ///< relative to root
  bool is_repository = false;   ///< the files are those that git lists
};

[[nodiscard]] Result<std::string> ask_git(const fs::path& folder, const Env& env,
                                          const std::vector<std::string>& arguments) {
  DLRUN_TRY_ASSIGN(const auto finished, run_git(folder, env, arguments, std::chrono::seconds(30)));
  if (finished.exit_code != 0) return fail(Errc::kNotFound, "{}", trim(finished.err));
  return finished.out;
}

/// Returns the files of the repository around folder; nullopt if there is no repository or no git,
/// or if git fails.
[[nodiscard]] std::optional<Tree> git_tree(const fs::path& folder, const Env& env) {
  const auto root = ask_git(folder, env, {"rev-parse", "--show-toplevel"});
  if (!root) return std::nullopt;
  Tree tree{fs::path(std::string(trim(*root))), {}, true};
  const auto list =
      ask_git(tree.root, env, {"ls-files", "-z", "--cached", "--others", "--exclude-standard"});
  if (!list) return std::nullopt;
  for (const std::string_view name : split(*list, '\0')) {
    if (!name.empty()) tree.files.emplace_back(name);
  }
  std::sort(tree.files.begin(), tree.files.end());
  tree.files.erase(std::unique(tree.files.begin(), tree.files.end()), tree.files.end());
  return tree;
}

[[nodiscard]] bool is_at_or_below(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

/// Returns the files and links below folder. Leaves out .git, .dlrun and the folder left_out. Stops
/// after more than kMostFiles files, which copy_tree() refuses.
[[nodiscard]] Result<Tree> plain_tree(const fs::path& folder, const fs::path& left_out) {
  Tree tree{folder, {}, false};
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const auto name = at->path().filename();
    // dlrun's own folder holds environments, which are large and do not work in a copy.
    if (name == ".git" || name == ".dlrun" || is_at_or_below(at->path(), left_out)) {
      at.disable_recursion_pending();
      continue;
    }
    if (!at->is_directory(error) || at->is_symlink(error))
      tree.files.push_back(at->path().lexically_relative(folder));
    if (tree.files.size() > kMostFiles) break;
  }
  if (error) return fail(Errc::kIo, "{}: {}", printable(folder.string()), error.message());
  return tree;
}

/// Copies the tree, without the folder left_out. Does not set Snapshot::folder.
[[nodiscard]] Result<Snapshot> copy_tree(const Tree& tree, const fs::path& left_out,
                                         const fs::path& copy) {
  Snapshot snapshot;
  std::size_t largest_bytes = 0;
  fs::path largest;
  std::error_code error;
  for (const fs::path& name : tree.files) {
    const fs::path from = tree.root / name, to = copy / name;
    const auto kind = fs::symlink_status(from, error).type();
    const bool is_link = kind == fs::file_type::symlink;
    // Skips a tracked file that was deleted, a submodule's folder, a socket.
    if ((!is_link && kind != fs::file_type::regular) || is_at_or_below(from, left_out)) continue;
    if (!is_link) {
      const auto bytes = static_cast<std::size_t>(fs::file_size(from, error));
      if (error) return fail(Errc::kIo, "{}: {}", printable(from.string()), error.message());
      if (bytes > largest_bytes) largest_bytes = bytes, largest = name;
      snapshot.bytes += bytes;
    }
    const std::string_view advice =
        tree.is_repository ? "list untracked data in .gitignore, or move data out of the tree"
                           : "move data out of the tree, or make the tree a git repository and "
                             "list data in .gitignore";
    if (++snapshot.file_count > kMostFiles)
      return fail(Errc::kInvalid, "the source tree {} has more than {} files; {}",
                  printable(tree.root.string()), kMostFiles, advice);
    if (snapshot.bytes > kMostBytes) {
      return fail(Errc::kInvalid,
                  "the source tree {} has more than {} MiB; {} (the largest file so "
                  "far: {}, {} MiB)",
                  printable(tree.root.string()), kMostBytes >> 20U, advice,
                  printable(largest.string()), largest_bytes >> 20U);
    }
    DLRUN_TRY(make_private_directories(to.parent_path()));
    if (is_link) {
      fs::copy_symlink(from, to, error);
    } else {
      fs::copy_file(from, to, error);
    }
    if (error)
      return fail(Errc::kIo, "{}: cannot be copied to {}: {}", printable(from.string()),
                  printable(to.string()), error.message());
  }
  return snapshot;
}

}  // namespace

Result<Snapshot> take_snapshot(const fs::path& source_dir, const fs::path& run,
                               const fs::path& runs_dir, const Env& env) {
  std::error_code ignored;
  const auto canonical = [&](const fs::path& path) {
    auto found = fs::weakly_canonical(path, ignored);
    return found.empty() ? path : found;
  };
  const fs::path source = canonical(source_dir), left_out = canonical(runs_dir),
                 copy = run / "code";
  auto repository = git_tree(source, env);
  DLRUN_TRY_ASSIGN(
      auto tree, repository ? Result<Tree>(std::move(*repository)) : plain_tree(source, left_out));
  DLRUN_TRY(make_private_directories(copy));
  auto snapshot = copy_tree(tree, left_out, copy);
  if (snapshot) {
    snapshot->folder = (copy / source.lexically_relative(canonical(tree.root))).lexically_normal();
    if (snapshot->folder.filename().empty()) snapshot->folder = snapshot->folder.parent_path();
    if (auto made = make_private_directories(snapshot->folder); !made)
      snapshot = tl::unexpected(made.error());
  }
  if (!snapshot) fs::remove_all(copy, ignored);
  return snapshot;
}

}  // namespace dlrun
