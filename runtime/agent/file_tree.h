#pragma once
// Lists the files below a folder, and copies single files. Both operations follow no symbolic link
// below the folder, and do not wait for the writer of a FIFO. A copy fails if its file changes
// meanwhile.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

/// The facts by which two versions of a file are told apart.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t mtime_ns = 0;  ///< nanoseconds since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

struct TreeEntry {
  enum class Kind { kFolder, kFile, kLink, kOther };
  std::string path;  ///< relative to the top; empty: the top itself
  Kind kind = Kind::kFile;
  FileStamp stamp{};
  mode_t mode = 0600;
  std::string link{};  ///< the text of a symbolic link, as readlink(2) returns it
};

struct FileTree {
  std::vector<TreeEntry> entries;       ///< sorted by path, so that a folder precedes its contents
  std::int64_t file_count = 0;          ///< number of regular files; 1 if the top is no folder
  std::int64_t bytes = 0;               ///< size of these files together
  std::vector<std::string> problems{};  ///< sentences about skipped folders and files
};

/// The reaction of list_tree() to an entry below its top that cannot be read.
enum class UnreadableEntry { kFail, kSkip };

/// Lists a file, or a folder with everything below it. Leaves out an entry that vanishes meanwhile.
/// Fails with
/// - kNotFound if top does not exist;
/// - kInvalid if folders are nested too deeply;
/// - kIo if top cannot be examined;
/// - kIo if an entry below top cannot be read, and unreadable is kFail.
[[nodiscard]] Result<FileTree> list_tree(const std::filesystem::path& top,
                                         UnreadableEntry unreadable = UnreadableEntry::kFail);

/// Returns a hash (SHA-256 in hex) of the paths and kinds of all entries, the targets of links, and
/// the sizes and times of files.
[[nodiscard]] std::string digest_of(const FileTree& tree);

/// Returns true if a link at `path`, relative to the top, with this target leads to a place inside
/// the tree. Does not look at other links on the way.
[[nodiscard]] bool link_stays_inside(std::string_view path, std::string_view target);

/// Copies one file to `target`, which must not exist. The copy has the file's time and mode, except
/// that its owner can write it and nobody else can. syncs: the copy survives a power loss. is_late:
/// called before each piece; true stops the copy. After a failure there is no copy. Fails with
/// - kRefused if the file has changed since it was listed;
/// - kInterrupted if is_late() has stopped the copy;
/// - kNotFound if the file has vanished;
/// - kInvalid if the file cannot be read;
/// - kIo if the target cannot be written.
[[nodiscard]] Result<> copy_entry(const std::filesystem::path& source,
                                  const std::filesystem::path& target, const TreeEntry& entry,
                                  bool syncs, const std::function<bool()>& is_late);

/// Gives a file the time and the mode of the entry, except that its owner can write it and nobody
/// else can. Fails with kIo.
[[nodiscard]] Result<> set_time_and_mode(const std::filesystem::path& path, const TreeEntry& entry);

/// Returns the number of free bytes of the folder's file system, without regard to a quota of the
/// user; 0 if it is unknown.
[[nodiscard]] std::int64_t free_bytes(const std::filesystem::path& folder);

/// Fails with kIo if the folder's file system has fewer than `bytes` left, or if it is unknown how
/// many are left.
[[nodiscard]] Result<> check_space(const std::filesystem::path& folder, std::int64_t bytes);

/// Returns true if the folder is on a network file system of a known type, which other nodes share.
[[nodiscard]] bool is_on_network(const std::filesystem::path& folder);

}  // namespace dlrun::agent
