#include "runtime/agent/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json_read.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/file_broadcast.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNoteLimitBytes = 64U << 10U;
constexpr std::chrono::milliseconds kLookAtLockEvery{500};
constexpr std::chrono::hours kLongestUnpacking{24 * 30};

/// The paths that belong to one item of stage.
struct StagePlace {
  fs::path base;    ///< NodePath::base, the folder in the $VARIABLE of StageItem::to
  fs::path target;  ///< the place itself
  fs::path note, lock, turn, temporary, old;
};

StagePlace place_of(const NodePath& place) {
  const auto beside = [&](const char* what) {
    return place.path.parent_path() / ("." + place.path.filename().string() + ".dlrun-" + what);
  };
  return {place.base,     place.path,     beside("note"), beside("lock"),
          beside("turn"), beside("part"), beside("old")};
}

/// Returns true if there is a file, a folder or a link, even a link that leads nowhere.
bool exists_at(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

/// Creates the folders between base and the target. Fails with kRefused if another user could have
/// made or could change one of them.
Result<> make_own_folders(const StagePlace& place) {
  auto folder = place.base;
  for (const auto& name : place.target.parent_path().lexically_relative(place.base)) {
    if (name == ".") continue;
    folder /= name;
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return fail(Errc::kIo, "cannot create {}: {}", printable(folder.string()), errno_text(errno));
    struct stat info {};
    if (::lstat(folder.c_str(), &info) != 0)
      return fail(Errc::kIo, "{}: {}", printable(folder.string()), errno_text(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 0022U) != 0)
      return fail(Errc::kRefused,
                  "{} is not a folder of your own that only you can write; choose another place",
                  printable(folder.string()));
  }
  return {};
}

/// Opens the lock file, which must belong to this user.
Result<UniqueFd> open_lock(const fs::path& path) {
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  if (!lock.is_open() || ::fstat(lock.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return fail(Errc::kRefused, "{} is not a regular file of your own; choose another place",
                printable(path.string()));
  return lock;
}

/// The content of the file .DIR.dlrun-note, which is JSON.
struct StageNote {
  std::string source;  ///< result of digest_of() for the source
  std::string copy;    ///< result of digest_of() for the copy; empty: the copy is not complete

  [[nodiscard]] std::string text() const {
    return json_read::dump(nlohmann::ordered_json{{"source", source}, {"copy", copy}}) + "\n";
  }
};

/// Returns the note; nullopt if there is none, or if the file cannot be read or is damaged.
std::optional<StageNote> read_note(const fs::path& path) {
  const auto text = read_untrusted(path, kNoteLimitBytes, Links::kRefuse);
  const auto object = text ? json_read::object_of(*text) : std::nullopt;
  if (!object) return std::nullopt;
  return StageNote{json_read::text(*object, "source"), json_read::text(*object, "copy")};
}

/// Returns true if the path belongs to this user. In /tmp, another user could create false data and
/// a note that matches them.
bool belongs_to_us(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

/// Returns true if the place has a complete copy of the source with this digest.
bool is_staged(const StagePlace& place, const std::string& source_digest) {
  if (!belongs_to_us(place.note) || !belongs_to_us(place.target)) return false;
  const auto note = read_note(place.note);
  if (!note || note->copy.empty() || note->source != source_digest) return false;
  const auto copy = list_tree(place.target);
  return copy && digest_of(*copy) == note->copy;
}

StagedCopy staged_copy_of(const StagePlace& place) {
  const auto text = read_untrusted(place.note, kNoteLimitBytes, Links::kRefuse);
  return {place.lock.string(), place.note.string(), text ? sha256_of_text(*text) : ""};
}

/// Copies a folder's contents, or one file, to `temporary`.
Result<> copy_tree(const fs::path& from, const FileTree& tree, const fs::path& temporary) {
  const auto never = [] { return false; };
  std::error_code error;
  const bool is_folder = fs::is_directory(from, error);
  if (is_folder && ::mkdir(temporary.c_str(), 0700) != 0)
    return fail(Errc::kIo, "{}: {}", printable(temporary.string()), errno_text(errno));
  for (const auto& entry : tree.entries) {
    const auto source = entry.path.empty() ? from : from / entry.path;
    const auto target = entry.path.empty() ? temporary : temporary / entry.path;
    switch (entry.kind) {
      case TreeEntry::Kind::kFolder:
        if (::mkdir(target.c_str(), entry.mode | 0700U) != 0)
          return fail(Errc::kIo, "{}: {}", printable(target.string()), errno_text(errno));
        break;
      case TreeEntry::Kind::kFile:
        DLRUN_TRY(copy_entry(source, target, entry, false, never));
        break;
      case TreeEntry::Kind::kLink: {
        // A relative link that leaves the folder would lead elsewhere from the copy, so the copy
        // gets an absolute link.
        const bool is_kept =
            entry.link.starts_with('/') || link_stays_inside(entry.path, entry.link);
        const auto link = is_kept ? entry.link : (source.parent_path() / entry.link).string();
        if (::symlink(link.c_str(), target.c_str()) != 0)
          return fail(Errc::kIo, "{}: {}", printable(target.string()), errno_text(errno));
        break;
      }
      case TreeEntry::Kind::kOther:
        return fail(Errc::kInvalid, "{} is neither a file nor a folder nor a link",
                    printable(source.string()));
    }
  }
  return {};
}

/// Unpacks an archive into the folder `temporary` with the node's tar. tar itself removes the first
/// '/' of names and refuses names with "..".
Result<> unpack(const fs::path& archive, const fs::path& temporary, const Env& env) {
  if (::mkdir(temporary.c_str(), 0700) != 0)
    return fail(Errc::kIo, "{}: {}", printable(temporary.string()), errno_text(errno));
  Command command;
  command.argv = {"tar",         "--extract",        "--file",          archive.string(),
                  "--directory", temporary.string(), "--no-same-owner", "--no-same-permissions"};
  command.env = env;
  command.timeout = kLongestUnpacking;
  // TAR_OPTIONS could switch tar's protections off.
  command.env.remove_matching({"TAR_OPTIONS", "DLRUN_SECRET"}, {});
  const auto done = run_command(command);
  if (!done && done.error().code == Errc::kNotFound)
    return fail(Errc::kNotFound, "the node has no tar, which unpacks the archive");
  if (!done) return within("tar", done.error());
  if (done->exit_code != 0) {
    const auto words = trim(done->err);
    const auto last = words.substr(words.rfind('\n', words.size()) + 1);
    return fail(Errc::kInvalid, "tar cannot unpack {} (code {}): {}; {} MiB are free on the node",
                printable(archive.string()), done->exit_code, printable(last.substr(0, 512)),
                free_bytes(temporary.parent_path()) >> 20);
  }
  DLRUN_TRY_ASSIGN(const auto tree, list_tree(temporary));
  for (const auto& entry : tree.entries) {
    if (entry.kind == TreeEntry::Kind::kLink && !link_stays_inside(entry.path, entry.link))
      return fail(Errc::kInvalid, "the archive {} has a link that leaves its folder: {} -> {}",
                  printable(archive.string()), printable(entry.path), printable(entry.link));
    if (entry.kind == TreeEntry::Kind::kOther)
      return fail(Errc::kInvalid,
                  "the archive {} has a member that is neither a file nor a folder nor a link: {}",
                  printable(archive.string()), printable(entry.path));
  }
  return {};
}

Result<> remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {  // an archive may have folders that nobody can write
    const auto tree = list_tree(path);
    for (const auto& entry : tree ? tree->entries : std::vector<TreeEntry>()) {
      if (entry.kind == TreeEntry::Kind::kFolder) ::chmod((path / entry.path).c_str(), 0700);
    }
    fs::remove_all(path, error);
  }
  if (error)
    return fail(Errc::kIo, "cannot remove {}: {}", printable(path.string()), error.message());
  return {};
}

Result<> rename_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail(Errc::kIo, "cannot rename {} to {}: {}", printable(from.string()),
              printable(to.string()), errno_text(errno));
}

/// Locks a broadcast file, so that other runs do not take it for a leftover. The destructor removes
/// the file, used or not.
class BroadcastCopy {
 public:
  explicit BroadcastCopy(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    auto file = open_untrusted(path_, Links::kRefuse);
    if (!file) return;
    file_ = std::move(*file);
    ::flock(file_.get(), LOCK_SH | LOCK_NB);
  }
  BroadcastCopy(const BroadcastCopy&) = delete;
  BroadcastCopy& operator=(const BroadcastCopy&) = delete;
  ~BroadcastCopy() {
    if (!path_.empty() && is_own_file()) ::unlink(path_.c_str());
  }

  /// Returns true if the file is a complete copy of the source. sbcast keeps times in seconds.
  [[nodiscard]] bool is_copy_of(const FileTree& source) const {
    constexpr std::int64_t kSecond = 1'000'000'000;
    if (path_.empty() || !is_own_file() || source.entries.size() != 1) return false;
    const auto copy = list_tree(path_);
    if (!copy) return false;
    const auto& copied = copy->entries.front().stamp;
    const auto& original = source.entries.front().stamp;
    return copied.bytes == original.bytes &&
           copied.mtime_ns / kSecond == original.mtime_ns / kSecond;
  }

 private:
  [[nodiscard]] bool is_own_file() const {
    struct stat info {};
    return ::lstat(path_.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           info.st_uid == ::geteuid();
  }

  std::string path_;
  UniqueFd file_;
};

/// Removes from the folder the broadcast files that no run will use any more.
void remove_leftover_broadcasts(const fs::path& folder, const StageOptions& options) {
  remove_leftovers(
      folder,
      [&](std::string_view name) {
        return name.size() == kBroadcastPrefix.size() + kBroadcastDigits &&
               name.starts_with(kBroadcastPrefix) &&
               are_hex_digits(name.substr(kBroadcastPrefix.size())) &&
               std::none_of(options.items.begin(), options.items.end(), [&](const StageItem& item) {
                 return fs::path(item.broadcast_copy).filename() == name;
               });
      },
      options.leftover_age);
}

/// Removes from the folder the temporary copies whose writers were killed. A living writer holds
/// the lock of its place.
void remove_leftover_copies(const fs::path& folder) {
  constexpr std::string_view kPart = ".dlrun-part", kLock = ".dlrun-lock";
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  while (!error && entries != fs::directory_iterator()) {
    const auto path = entries->path();
    entries.increment(error);
    const auto name = path.filename().string();
    if (!name.ends_with(kPart) || !name.starts_with('.') || !belongs_to_us(path)) continue;
    const auto lock_path =
        folder / (name.substr(0, name.size() - kPart.size()) + std::string(kLock));
    if (!belongs_to_us(lock_path)) continue;  // the temporary copies of dlrun have a lock file
    const auto lock = open_lock(lock_path);
    if (lock && ::flock(lock->get(), LOCK_EX | LOCK_NB) == 0) std::ignore = remove_tree(path);
  }
}

/// Removes files that killed processes have left behind: temporary copies beside the place, and
/// broadcast files in the folder `base`. Removes nothing on a shared file system: many mounts of
/// network file systems do not pass flock on to other hosts, so a copy that another host still
/// writes would look like a leftover.
void remove_leftover_files(const StagePlace& place, const StageOptions& options) {
  const auto beside = place.target.parent_path();
  if (!options.is_shared(place.base)) remove_leftover_broadcasts(place.base, options);
  if (!options.is_shared(beside)) remove_leftover_copies(beside);
}

/// Moves a broadcast file to `temporary`, or copies it if it cannot be moved. Gives it the time and
/// the mode of the source.
Result<> take_broadcast(const std::string& broadcast, const TreeEntry& source,
                        const fs::path& temporary) {
  DLRUN_TRY_ASSIGN(const auto tree, list_tree(broadcast));
  auto entry = tree.entries.front();
  entry.mode = source.mode;
  if (::rename(broadcast.c_str(), temporary.c_str()) != 0)  // for example, on another file system
    DLRUN_TRY(copy_entry(broadcast, temporary, entry, false, [] { return false; }));
  return set_time_and_mode(temporary, source);
}

/// Lists the new copy. Fails with kRefused if the source no longer has this digest, and with kIo if
/// the copy is not complete.
Result<FileTree> list_and_check_copy(const StageItem& item, const fs::path& from,
                                     const FileTree& source, const std::string& digest,
                                     const fs::path& temporary) {
  const auto again = list_tree(from);
  if (!again || digest_of(*again) != digest)
    return fail(Errc::kRefused, "the source changed while it was copied; start the run again");
  DLRUN_TRY_ASSIGN(auto copy, list_tree(temporary));
  const bool is_complete = copy.entries.size() == source.entries.size() &&
                           copy.file_count == source.file_count && copy.bytes == source.bytes;
  if (!item.unpack && !is_complete)  // the sizes in an archive are not known
    return fail(Errc::kIo,
                "the copy has {} files, folders and links with {} bytes, but the source has {} "
                "with {} bytes: another process has changed {}; start the run again",
                copy.entries.size(), copy.bytes, source.entries.size(), source.bytes,
                printable(temporary.string()));
  return copy;
}

/// Replaces the place's data by a new copy of the source. The caller has locked the place.
Result<> stage_anew(const StageItem& item, const fs::path& from, const FileTree& source,
                    const StagePlace& place, const Env& env) {
  const auto digest = digest_of(source);
  if (exists_at(place.target) && !read_note(place.note))
    return fail(
        Errc::kRefused,
        "{} exists and dlrun has not staged it, or cannot read the note about it ({}); remove "
        "{}, or choose another place",
        printable(place.target.string()), printable(place.note.string()),
        printable(place.target.string()));
  // From here on the data count as incomplete.
  DLRUN_TRY(write_file_atomic(place.note, StageNote{digest, ""}.text()));
  DLRUN_TRY(remove_tree(place.temporary));
  DLRUN_TRY(remove_tree(place.old));
  if (!item.unpack) DLRUN_TRY(check_space(place.target.parent_path(), source.bytes));
  const BroadcastCopy broadcast(item.broadcast_copy);
  const bool is_broadcast = broadcast.is_copy_of(source);
  const auto made =
      item.unpack
          ? unpack(is_broadcast ? fs::path(item.broadcast_copy) : from, place.temporary, env)
      : is_broadcast ? take_broadcast(item.broadcast_copy, source.entries.front(), place.temporary)
                     : copy_tree(from, source, place.temporary);
  const auto copy = made.and_then(
      [&] { return list_and_check_copy(item, from, source, digest, place.temporary); });
  if (!copy) {
    std::ignore = remove_tree(place.temporary);
    return tl::unexpected<Error>(copy.error());
  }
  if (exists_at(place.target)) DLRUN_TRY(rename_to(place.target, place.old));
  DLRUN_TRY(rename_to(place.temporary, place.target));
  DLRUN_TRY(write_file_atomic(place.note, StageNote{digest, digest_of(*copy)}.text()));
  return remove_tree(place.old);
}

/// Waits until no other process checks the place, and returns the lock of this process's turn.
Result<UniqueFd> take_turn(const StagePlace& place) {
  DLRUN_TRY_ASSIGN(auto turn, open_lock(place.turn));
  while (::flock(turn.get(), LOCK_EX) != 0) {
    if (errno != EINTR)
      return fail(Errc::kIo, "{}: {}", printable(place.turn.string()), errno_text(errno));
  }
  return turn;
}

/// Locks the place for a copy. Returns nullopt if the place has the data already and other runs use
/// them; the report then lists these data, so that the rank's agent locks them. Waits while another
/// run copies. Fails with kRefused if another run uses other data.
Result<std::optional<UniqueFd>> lock_to_copy(const StagePlace& place, const std::string& digest,
                                             CopyReport& report) {
  DLRUN_TRY_ASSIGN(auto lock, open_lock(place.lock));
  while (true) {
    // Only one run at a time checks the lock. If two runs did so at the same time, each would
    // believe that the other's shared lock is that of a program that uses the data, and both would
    // give up.
    // A run that waits for a copy does not keep its turn: if it is suspended, the others go on.
    DLRUN_TRY_ASSIGN(auto turn, take_turn(place));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
    if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0) {  // another run uses the data
      if (is_staged(place, digest)) {
        report.held.push_back(staged_copy_of(place));
        return std::nullopt;
      }
      // The run that held the lock may have ended by now, so try again to lock the place.
      if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
      return fail(Errc::kRefused,
                  "another run on this node uses {} with other data; choose another place",
                  printable(place.target.string()));
    }
    turn.reset();
    std::this_thread::sleep_for(kLookAtLockEvery);  // another run copies
  }
  return std::optional<UniqueFd>(std::move(lock));
}

/// Locks the place and stages the item, unless the place already has the data.
Result<> lock_and_stage(const StageItem& item, const StagePlace& place, const Env& env,
                        CopyReport& report) {
  std::error_code error;
  const auto from = fs::canonical(item.from, error);
  if (error)
    return fail(Errc::kNotFound, "{}: {} on this node", printable(item.from), error.message());
  if (item.unpack && fs::is_directory(from, error))
    return fail(Errc::kInvalid, "{} is a folder; unpack needs an archive", printable(item.from));
  DLRUN_TRY_ASSIGN(const auto source, list_tree(from));
  const auto digest = digest_of(source);
  DLRUN_TRY_ASSIGN(const auto lock, lock_to_copy(place, digest, report));
  if (!lock) return {};
  if (!is_staged(place, digest)) {
    DLRUN_TRY(stage_anew(item, from, source, place, env));
    report.file_count += source.file_count;
    report.bytes += source.bytes;
  }
  report.held.push_back(staged_copy_of(place));
  return {};
}

Result<> stage_one(const StageItem& item, const StageOptions& options, const Env& env,
                   CopyReport& report) {
  const BroadcastCopy removed_at_end(item.broadcast_copy);  // even if nothing uses the copy
  DLRUN_TRY_ASSIGN(const auto node, node_path(item.to, env));
  if (options.nnodes > 1 && options.is_shared(node.base))
    return fail(Errc::kInvalid,
                "'{}': the folder {} is on a file system that all nodes share, not on this node",
                printable(item.to), printable(node.base.string()));
  const auto place = place_of(node);
  DLRUN_TRY(make_own_folders(place));
  remove_leftover_files(place, options);
  return lock_and_stage(item, place, env, report);
}

}  // namespace

CopyReport stage_data(const StageOptions& options, const Env& env) {
  CopyReport report;
  for (const auto& item : options.items) {
    if (const auto staged = stage_one(item, options, env, report); !staged) {
      report.error = fmt::format("cannot stage {} to {}: {}", printable(item.from),
                                 printable(item.to), staged.error().message);
      break;
    }
  }
  return report;
}

Result<UniqueFd> hold_staged(const StagedCopy& copy) {
  DLRUN_TRY_ASSIGN(auto lock, open_lock(copy.lock));
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) != 0)
    return fail(Errc::kUnavailable, "another run locks {}", printable(copy.lock));
  const auto text = read_untrusted(copy.note, kNoteLimitBytes, Links::kRefuse);
  if (!text || sha256_of_text(*text) != copy.hash)
    return fail(Errc::kRefused, "another run has changed or removed the data that {} describes",
                printable(copy.note));
  return lock;
}

}  // namespace dlrun::agent
