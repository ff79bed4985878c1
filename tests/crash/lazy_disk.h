#pragma once
// A disk that keeps only what it was told to keep (the idea is LevelDB's FaultInjectionTestEnv).
//
// While a LazyDisk exists, this program's own calls of open, write, fsync, rename, link, unlink,
// mkdir and the like below its folder take place and are recorded (interposed.cc). images_after()
// then says what a crash after any of them could have left. A test opens each of these images with
// the reader that dlrun uses, and states what must hold.
//
// The rules are what POSIX leaves to a file system. fsync of a file keeps its bytes, not its name;
// fsync of a folder keeps the names in it. A change of names that was not synced takes place as a
// whole or not at all, whatever became of the changes before it. Bytes that were not synced are
// there, missing, there in part, or zeros.
//
// At most one exists at a time. Calls may come from any thread.

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

/// What is left: a path below the folder -> the file's bytes; nothing for a folder.
using Image = std::map<std::string, std::optional<std::string>>;

/// Builds image in target, an empty folder.
void build(const Image& image, const std::filesystem::path& target);

/// While this exists, read() of the file at path fails with EIO.
class UnreadableFile {
 public:
  explicit UnreadableFile(const std::filesystem::path& path);
  ~UnreadableFile();
  UnreadableFile(const UnreadableFile&) = delete;
  UnreadableFile& operator=(const UnreadableFile&) = delete;
  [[nodiscard]] static const std::string& path();  ///< empty where there is none
};

class LazyDisk {
 public:
  /// What is in folder now stays for good. skip: the number, from 0, of the guard that is answered
  /// with success and does not take place.
  explicit LazyDisk(std::filesystem::path folder, std::optional<std::size_t> skip = std::nullopt);
  ~LazyDisk();
  LazyDisk(const LazyDisk&) = delete;
  LazyDisk& operator=(const LazyDisk&) = delete;

  /// The writer has told its caller that something is done.
  void mark(const std::string& name);

  /// Nothing is recorded from now on.
  void stop();

  /// The calls that keep or order things, in turn: fsync, fdatasync, rename and link, each with its
  /// path and the how manieth of that path it is: "rename run/claim, 1".
  [[nodiscard]] const std::vector<std::string>& guards() const { return guards_; }

  struct Crash {
    Image image;
    std::set<std::string> marks;  ///< what the writer had said by then
    std::string words;            ///< after which call, and what was lost
  };
  /// Every image that a crash may leave, each once for the same marks.
  [[nodiscard]] std::vector<Crash> crashes() const;

  // For interposed.cc, which has the lock() while a call takes place.
  [[nodiscard]] static LazyDisk* current();
  static void lock();
  static void unlock();
  [[nodiscard]] bool covers(const std::string& path) const;
  /// Counts a guard. True where it is the one to skip.
  [[nodiscard]] bool skips(std::string_view call, const std::string& path);
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
    std::map<std::string, int> names;  ///< of a folder: indices of nodes
  };
  struct Place {
    int folder = -1;
    std::string name;
  };
  enum class Act { kName, kUnname, kMove, kBytes, kSyncFile, kSyncFolder, kMark };
  struct Step {
    Act act = Act::kMark;
    int node = -1;           ///< what gets a name, bytes or a sync
    Place at = {};           ///< kName, kUnname: of the name; kMove: of the old one
    Place to = {};           ///< kMove: of the new name
    std::string bytes = {};  ///< kBytes: all of the file's from now on
    std::string words = {};
  };
  enum class Fate { kLost, kHalf, kZeros, kKept };

  int scan(const std::filesystem::path& path);
  [[nodiscard]] Place place_of(const std::string& path) const;
  [[nodiscard]] int node_of(const Place& place) const;
  [[nodiscard]] int node_at(const std::string& path) const { return node_of(place_of(path)); }
  void add(Step step);
  static void apply(std::vector<Node>& nodes, const Step& step);
  static void list(const std::vector<Node>& nodes, int node, const std::string& path, Image& image);
  [[nodiscard]] static std::string left_of(const std::string& kept, const std::string& written,
                                           Fate fate);

  std::string folder_;
  std::optional<std::size_t> skip_;
  std::vector<Node> first_;  ///< as found
  std::vector<Node> now_;    ///< as the program sees it
  std::vector<Step> steps_;
  std::vector<std::string> guards_;
};

}  // namespace dlrun::crash
