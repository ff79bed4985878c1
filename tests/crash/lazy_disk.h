#pragma once
// A simulated disk that keeps only synced data (the idea is from LevelDB's FaultInjectionTestEnv).
//
// While a LazyDisk exists, this program's calls of open, write, fsync, rename, link, unlink, mkdir
// and related calls below its folder are recorded, and all but the syncs are executed
// (interposed.cc). crashes() then returns states that a crash after any of these calls could leave.
// A test reads each state with the code of dlrun that reads such files, and checks the result.
//
// The disk loses everything that POSIX permits a file system to lose. fsync of a file keeps its
// bytes but not its name; fsync of a folder keeps the names in it. An unsynced change of a name
// takes effect completely or not at all, independently of the changes before it. Unsynced bytes are
// present, missing, partly present, or zeros.
//
// At most one LazyDisk exists at a time. Calls may come from any thread.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun::crash {

/// The state after a crash: maps each path below the folder to the file's bytes, or to nullopt for
/// a folder.
using DiskState = std::map<std::string, std::optional<std::string>>;

/// Creates the files and folders of `state` in the empty folder `target`.
void write_disk_state(const DiskState& state, const std::filesystem::path& target);

/// While this object exists, read() of the file at `path` fails with EIO.
class UnreadableFile {
 public:
  explicit UnreadableFile(const std::filesystem::path& path);
  ~UnreadableFile();
  UnreadableFile(const UnreadableFile&) = delete;
  UnreadableFile& operator=(const UnreadableFile&) = delete;
  /// Returns the path of the existing UnreadableFile, or "" if none exists.
  [[nodiscard]] static const std::string& path();
};

class LazyDisk {
 public:
  /// Starts recording. The current content of `folder` counts as synced. The ordering call with the
  /// index `skip` in ordering_calls() returns success without taking effect.
  explicit LazyDisk(std::filesystem::path folder, std::optional<std::size_t> skip = std::nullopt);
  ~LazyDisk();
  LazyDisk(const LazyDisk&) = delete;
  LazyDisk& operator=(const LazyDisk&) = delete;

  /// Records that the tested writer has reported its step `name` as done.
  void report_done(const std::string& name);

  /// Stops recording.
  void stop();

  /// Returns the calls that make data durable or order changes: fsync, fdatasync, rename and link.
  /// The text of a call has its path and a number, which counts the equal calls for this path from
  /// 1: "rename run/claim, 1".
  [[nodiscard]] const std::vector<std::string>& ordering_calls() const { return ordering_calls_; }

  struct Crash {
    DiskState state;
    std::set<std::string> reported;  ///< the names that report_done() got before the crash
    std::string description;         ///< the last call before the crash, and the data that survived
  };
  /// Returns possible crashes. No two have the same `state` and the same `reported`. Each state has
  /// none, all, one, all but one, or a prefix of the unsynced changes of names.
  [[nodiscard]] std::vector<Crash> crashes() const;

  // Only interposed.cc uses the functions below. It holds the lock during each call.
  [[nodiscard]] static LazyDisk* current();
  static void lock();
  static void unlock();
  [[nodiscard]] bool covers(const std::string& path) const;
  /// Records an ordering call. Returns false if this call must be skipped, and true otherwise.
  [[nodiscard]] bool record_ordering_call(std::string_view call, const std::string& path);
  void opened(const std::string& path, bool truncates);
  void wrote(const std::string& path, std::size_t offset, std::string_view bytes);
  void truncated(const std::string& path, std::size_t length);
  void synced(const std::string& path);
  void made_folder(const std::string& path);
  void renamed(const std::string& from, const std::string& to);
  void linked(const std::string& from, const std::string& to);
  void removed(const std::string& path);

 private:
  struct Node {
    bool is_folder = false;
    std::string bytes;
    std::map<std::string, int> names;  ///< for a folder: from each name to the index of its node
  };
  /// A name in a folder.
  struct FolderEntry {
    int folder = -1;
    std::string name;
  };
  enum class Act { kAddName, kRemoveName, kMove, kBytes, kSyncFile, kSyncFolder, kReportDone };
  /// A recorded call of a function of the C library, or of report_done().
  struct Call {
    Act act = Act::kReportDone;
    int node = -1;           ///< the node that gets a name, bytes or a sync
    FolderEntry at = {};     ///< kAddName, kRemoveName: the entry; kMove: the old entry
    FolderEntry to = {};     ///< kMove: the new entry
    std::string bytes = {};  ///< kBytes: the file's whole content from now on
    std::string description = {};
  };
  /// The part of a file's unsynced bytes that a crash leaves.
  enum class CrashOutcome { kLost, kHalf, kZeros, kKept };

  /// Adds the node of `path` and all nodes below it to initial_. Returns the index of the node.
  int add_initial_nodes(const std::filesystem::path& path);
  /// Returns the entry of a path. Its name is empty for the root, and its folder is -1 for the root
  /// and for a path below a missing folder.
  [[nodiscard]] FolderEntry entry_of(const std::string& path) const;
  /// Returns the index of the node in now_, or -1 if there is none.
  [[nodiscard]] int node_of(const FolderEntry& entry) const;
  [[nodiscard]] int node_at(const std::string& path) const { return node_of(entry_of(path)); }
  /// Applies a call to now_ and appends it to calls_.
  void apply_and_record(Call call);
  /// Applies a call that changes a name. Other calls have no effect.
  static void apply_name_change(std::vector<Node>& nodes, const Call& call);
  /// Adds the node with the index `node`, and all nodes below it, to `state`. `path` is its path.
  static void add_to_state(const std::vector<Node>& nodes, int node, const std::string& path,
                           DiskState& state);
  [[nodiscard]] static std::string bytes_after_crash(const std::string& synced_bytes,
                                                     const std::string& unsynced_bytes,
                                                     CrashOutcome outcome);

  std::string folder_;
  std::optional<std::size_t> skip_;
  /// The state at the start. Also has a node without a name for each file or folder that is created
  /// later, so that an index means the same as in now_.
  std::vector<Node> initial_;
  std::vector<Node> now_;  ///< the state that the program sees
  std::vector<Call> calls_;
  std::vector<std::string> ordering_calls_;
};

}  // namespace dlrun::crash
