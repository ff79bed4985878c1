#include "tests/crash/lazy_disk.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <mutex>
#include <regex>
#include <utility>

#include <fmt/format.h>

namespace dlrun::crash {
namespace {

namespace fs = std::filesystem;

std::atomic<LazyDisk*> the_disk{nullptr};
std::recursive_mutex the_mutex;

std::string bytes_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Returns the subsets of `count` changes that crashes() tries: none, all, each single one, all but
/// one, and each prefix.
std::vector<std::vector<bool>> subsets(std::size_t count) {
  std::set<std::vector<bool>> all{std::vector<bool>(count, false), std::vector<bool>(count, true)};
  for (std::size_t i = 0; i < count; ++i) {
    for (const bool kept : {false, true}) {
      std::vector<bool> choice(count, !kept);
      choice[i] = kept;
      all.insert(choice);
    }
    std::vector<bool> prefix(count, false);
    std::fill_n(prefix.begin(), i, true);
    all.insert(prefix);
  }
  return {all.begin(), all.end()};
}

std::string the_unreadable_path;

}  // namespace

UnreadableFile::UnreadableFile(const fs::path& path) {
  the_unreadable_path = path.string();
}
UnreadableFile::~UnreadableFile() {
  the_unreadable_path.clear();
}
const std::string& UnreadableFile::path() {
  return the_unreadable_path;
}

void write_disk_state(const DiskState& state, const fs::path& target) {
  for (const auto& [path, bytes] : state) {  // a folder comes before its content
    if (bytes) {
      std::ofstream(target / path, std::ios::binary) << *bytes;
    } else {
      fs::create_directory(target / path);
    }
  }
}

LazyDisk::LazyDisk(fs::path folder, std::optional<std::size_t> skip)
    : folder_(folder.string()), skip_(skip) {
  add_initial_nodes(folder_);
  now_ = initial_;
  the_disk = this;
}

LazyDisk::~LazyDisk() {
  stop();
}

void LazyDisk::stop() {
  const std::lock_guard guard(the_mutex);
  the_disk = nullptr;
}

LazyDisk* LazyDisk::current() {
  return the_disk;
}

void LazyDisk::lock() {
  the_mutex.lock();
}

void LazyDisk::unlock() {
  the_mutex.unlock();
}

int LazyDisk::add_initial_nodes(const fs::path& path) {
  const auto index = initial_.size();
  initial_.push_back({fs::is_directory(path), fs::is_directory(path) ? "" : bytes_in(path), {}});
  if (!initial_[index].is_folder) return static_cast<int>(index);
  for (const auto& entry : fs::directory_iterator(path)) {
    const int node = add_initial_nodes(entry.path());
    initial_[index].names[entry.path().filename().string()] = node;
  }
  return static_cast<int>(index);
}

bool LazyDisk::covers(const std::string& path) const {
  return path.starts_with(folder_ + "/") || path == folder_;
}

LazyDisk::FolderEntry LazyDisk::entry_of(const std::string& path) const {
  int folder = -1;
  std::string name;  // empty for the root
  for (const fs::path& part :
       fs::path(path.substr(folder_.size())).lexically_normal().relative_path()) {
    if (part.empty() || part == ".") continue;  // a trailing slash
    folder = folder < 0 && name.empty() ? 0 : node_of({folder, name});
    if (folder < 0) return {-1, part.string()};  // below a missing folder
    name = part.string();
  }
  return {folder, name};
}

int LazyDisk::node_of(const FolderEntry& entry) const {
  if (entry.name.empty()) return 0;
  if (entry.folder < 0) return -1;
  const auto& names = now_[static_cast<std::size_t>(entry.folder)].names;
  const auto found = names.find(entry.name);
  return found == names.end() ? -1 : found->second;
}

bool LazyDisk::record_ordering_call(std::string_view call, const std::string& path) {
  static const std::regex kRandomPart("\\.[0-9a-f]{12}\\.");
  const std::string name =
      std::regex_replace(fs::path(path).lexically_relative(folder_).string(), kRandomPart, ".*.");
  const std::string ordering_call = fmt::format("{} {}", call, name);
  const auto before = std::count_if(
      ordering_calls_.begin(), ordering_calls_.end(),
      [&](const std::string& other) { return other.starts_with(ordering_call + ", "); });
  ordering_calls_.push_back(fmt::format("{}, {}", ordering_call, before + 1));
  return skip_ != ordering_calls_.size() - 1;
}

void LazyDisk::apply_and_record(Call call) {
  apply_name_change(now_, call);
  if (call.act == Act::kBytes) now_[static_cast<std::size_t>(call.node)].bytes = call.bytes;
  calls_.push_back(std::move(call));
}

void LazyDisk::report_done(const std::string& name) {
  const std::lock_guard guard(the_mutex);
  apply_and_record({.act = Act::kReportDone, .description = name});
}

void LazyDisk::opened(const std::string& path, bool truncates) {
  const FolderEntry entry = entry_of(path);
  const int node = node_of(entry);
  if (node < 0) {
    if (entry.folder < 0) return;
    for (auto* nodes : {&initial_, &now_}) nodes->emplace_back();
    apply_and_record({.act = Act::kAddName,
                      .node = static_cast<int>(now_.size()) - 1,
                      .at = entry,
                      .description = fmt::format("create {}", path)});
  } else if (truncates) {
    apply_and_record({.act = Act::kBytes,
                      .node = node,
                      .description = fmt::format("open {} with O_TRUNC", path)});
  }
}

void LazyDisk::wrote(const std::string& path, std::size_t offset, std::string_view bytes) {
  const int node = node_at(path);
  if (node < 0) return;
  std::string all = now_[static_cast<std::size_t>(node)].bytes;
  all.resize(std::max(all.size(), offset + bytes.size()));
  all.replace(offset, bytes.size(), bytes);
  apply_and_record({.act = Act::kBytes,
                    .node = node,
                    .bytes = std::move(all),
                    .description = fmt::format("write {}", path)});
}

void LazyDisk::truncated(const std::string& path, std::size_t length) {
  const int node = node_at(path);
  if (node < 0) return;
  std::string all = now_[static_cast<std::size_t>(node)].bytes;
  all.resize(length);
  apply_and_record({.act = Act::kBytes,
                    .node = node,
                    .bytes = std::move(all),
                    .description = fmt::format("truncate {}", path)});
}

void LazyDisk::synced(const std::string& path) {
  const int node = node_at(path);
  if (node < 0) return;
  const bool is_folder = now_[static_cast<std::size_t>(node)].is_folder;
  apply_and_record({.act = is_folder ? Act::kSyncFolder : Act::kSyncFile,
                    .node = node,
                    .description = fmt::format("fsync {}", path)});
}

void LazyDisk::made_folder(const std::string& path) {
  const FolderEntry entry = entry_of(path);
  if (entry.folder < 0 || node_of(entry) >= 0) return;
  for (auto* nodes : {&initial_, &now_})
    nodes->push_back({.is_folder = true, .bytes = {}, .names = {}});
  apply_and_record({.act = Act::kAddName,
                    .node = static_cast<int>(now_.size()) - 1,
                    .at = entry,
                    .description = fmt::format("mkdir {}", path)});
}

void LazyDisk::renamed(const std::string& from, const std::string& to) {
  const FolderEntry old = entry_of(from);
  apply_and_record({.act = Act::kMove,
                    .node = node_of(old),
                    .at = old,
                    .to = entry_of(to),
                    .description = fmt::format("rename {} to {}", from, to)});
}

void LazyDisk::linked(const std::string& from, const std::string& to) {
  apply_and_record({.act = Act::kAddName,
                    .node = node_at(from),
                    .at = entry_of(to),
                    .description = fmt::format("link {}", to)});
}

void LazyDisk::removed(const std::string& path) {
  if (node_at(path) < 0) return;
  apply_and_record({.act = Act::kRemoveName,
                    .at = entry_of(path),
                    .description = fmt::format("remove {}", path)});
}

void LazyDisk::apply_name_change(std::vector<Node>& nodes, const Call& call) {
  const auto names = [&](const FolderEntry& entry) -> auto& {
    return nodes[static_cast<std::size_t>(entry.folder)].names;
  };
  if (call.act == Act::kAddName) {
    names(call.at)[call.at.name] = call.node;
  } else if (call.act == Act::kRemoveName) {
    names(call.at).erase(call.at.name);
  } else if (call.act == Act::kMove) {
    names(call.at).erase(call.at.name);
    names(call.to)[call.to.name] = call.node;
  }
}

std::string LazyDisk::bytes_after_crash(const std::string& synced_bytes,
                                        const std::string& unsynced_bytes, CrashOutcome outcome) {
  switch (outcome) {
    case CrashOutcome::kLost:
      return synced_bytes;
    case CrashOutcome::kKept:
      return unsynced_bytes;
    case CrashOutcome::kHalf:  // half of the new bytes
      return unsynced_bytes.substr(
          0, unsynced_bytes.size() > synced_bytes.size() && unsynced_bytes.starts_with(synced_bytes)
                 ? synced_bytes.size() + (unsynced_bytes.size() - synced_bytes.size()) / 2
                 : unsynced_bytes.size() / 2);
    case CrashOutcome::kZeros:
      return synced_bytes.substr(0, unsynced_bytes.size()) +
             std::string(
                 unsynced_bytes.size() - std::min(unsynced_bytes.size(), synced_bytes.size()),
                 '\0');
  }
  return {};
}

void LazyDisk::add_to_state(const std::vector<Node>& nodes, int node, const std::string& path,
                            DiskState& state) {
  const Node& listed = nodes[static_cast<std::size_t>(node)];
  if (!path.empty()) state[path] = listed.is_folder ? std::nullopt : std::optional(listed.bytes);
  for (const auto& [name, inner] : listed.names)
    add_to_state(nodes, inner, path.empty() ? name : path + "/" + name, state);
}

std::vector<LazyDisk::Crash> LazyDisk::crashes() const {
  std::vector<Crash> crashes;
  std::set<std::pair<std::set<std::string>, DiskState>> seen;
  std::vector<Node> synced_nodes = initial_;  // with the synced names and bytes
  std::map<int, std::string> written;         // unsynced bytes of nodes
  std::vector<Call> changes;                  // unsynced changes of names
  std::set<std::string> reported;
  for (std::size_t count = 0; count <= calls_.size(); ++count) {
    if (count > 0) {
      const Call& call = calls_[count - 1];
      if (call.act == Act::kReportDone) reported.insert(call.description);
      if (call.act == Act::kBytes) written[call.node] = call.bytes;
      if (call.act == Act::kSyncFile && written.contains(call.node))
        synced_nodes[static_cast<std::size_t>(call.node)].bytes =
            written.extract(call.node).mapped();
      if (call.act == Act::kSyncFolder) {
        std::vector<Call> still_unsynced;
        for (const Call& change : changes) {
          const bool is_in_folder = change.at.folder == call.node || change.to.folder == call.node;
          if (is_in_folder) apply_name_change(synced_nodes, change);
          if (!is_in_folder) still_unsynced.push_back(change);
        }
        changes = std::move(still_unsynced);
      }
      if (call.act == Act::kAddName || call.act == Act::kRemoveName || call.act == Act::kMove)
        changes.push_back(call);
    }
    for (const std::vector<bool>& choice : subsets(changes.size())) {
      for (const CrashOutcome outcome :
           {CrashOutcome::kLost, CrashOutcome::kHalf, CrashOutcome::kZeros, CrashOutcome::kKept}) {
        std::vector<Node> nodes = synced_nodes;
        for (const auto& [node, bytes] : written) {
          std::string& result = nodes[static_cast<std::size_t>(node)].bytes;
          result = bytes_after_crash(result, bytes, outcome);
        }
        for (std::size_t i = 0; i < changes.size(); ++i) {
          if (choice[i]) apply_name_change(nodes, changes[i]);
        }
        DiskState state;
        add_to_state(nodes, 0, "", state);
        if (!seen.emplace(reported, state).second) continue;
        constexpr const char* kOutcomeWords[] = {"lost", "half present", "zeros", "present"};
        std::string description = fmt::format(
            "after {} (call {} of {}); unsynced bytes: {}; unsynced changes of names, 1 "
            "kept, 0 lost:",
            count == 0 ? "nothing" : calls_[count - 1].description, count, calls_.size(),
            kOutcomeWords[static_cast<int>(outcome)]);
        for (const bool is_kept : choice) description += is_kept ? " 1" : " 0";
        crashes.push_back({std::move(state), reported, std::move(description)});
      }
    }
  }
  return crashes;
}

}  // namespace dlrun::crash
