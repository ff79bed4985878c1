#include "launcher/runs/entry_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr std::string_view kHead = "dlrun index 1\n";
constexpr std::size_t kLargestFile = 64U << 20U;
/// Up to this number, reading entries from their own files is faster than writing the cache again.
constexpr std::size_t kFew = 64;

std::filesystem::path file_in(const std::filesystem::path& directory) {
  return directory / ".entries";
}

std::string_view take_field(std::string_view& line) {
  const auto end = std::min(line.find('\t'), line.size());
  const auto field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

}  // namespace

EntryCache::EntryCache(const std::filesystem::path& directory) : file_(file_in(directory)) {
  struct stat info {};
  const auto file = open_untrusted(file_, Links::kRefuse);
  if (!file || ::fstat(file->get(), &info) != 0 || info.st_uid != ::geteuid()) return;
  auto text = read_untrusted(file_, kLargestFile, Links::kRefuse);
  if (!text || !text->starts_with(kHead)) return;
  text_ = std::move(*text);
  std::string_view rest = std::string_view(text_).substr(kHead.size());
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const auto name = take_field(line);
    known_[name] = line;
  }
}

std::optional<IndexEntry> EntryCache::find(std::string_view name, ino_t inode) {
  const auto found = known_.find(name);
  if (found == known_.end()) return std::nullopt;
  std::string_view line = found->second;
  if (take_field(line) != fmt::format("{}", inode)) return std::nullopt;
  IndexEntry entry;
  entry.id = name;
  entry.created = take_field(line);
  entry.name = take_field(line);
  entry.path = line;
  if (!entry.path.is_absolute()) return std::nullopt;
  used_.append(name).append(1, '\t').append(found->second).append(1, '\n');
  return entry;
}

void EntryCache::keep(const IndexEntry& entry, ino_t inode) {
  const std::array<std::string_view, 4> parts{entry.id, entry.created, entry.name,
                                              entry.path.native()};
  for (const auto part : parts) {
    if (part.find_first_of("\t\n") != std::string_view::npos) return;
  }
  added_ += fmt::format("{}\t{}\t{}\t{}\t{}\n", entry.id, inode, entry.created, entry.name,
                        entry.path.native());
  ++added_count_;
}

void EntryCache::save() const {
  if (added_count_ <= kFew) return;
  const std::string text = std::string(kHead) + used_ + added_;
  if (text.size() <= kLargestFile) static_cast<void>(write_file_atomic(file_, text));
}

void EntryCache::forget(const std::filesystem::path& directory) {
  static_cast<void>(::unlink(file_in(directory).c_str()));
}

}  // namespace dlrun
