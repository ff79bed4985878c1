#include "launcher/runs/entry_cache.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "common/text.h"
#include "launcher/runs/cache_lines.h"

namespace dlrun {
namespace {

/// The first line of the cache.
constexpr std::string_view kEntriesHead = "dlrun index 1\n";
/// If the cache lacks at most this many entries, reading the files of these entries is faster than
/// writing the cache again.
constexpr std::size_t kMostUncached = 64;

std::filesystem::path file_in(const std::filesystem::path& directory) {
  return directory / ".entries";
}

}  // namespace

EntryCache::EntryCache(const std::filesystem::path& directory) : file_(file_in(directory)) {
  text_ = read_own_cache(file_, kEntriesHead);
  for_each_line(text_, kEntriesHead,
                [&](std::string_view id, std::string_view line) { known_[id] = {line}; });
}

std::optional<IndexEntry> EntryCache::find(std::string_view id, ino_t inode) {
  const auto found = known_.find(id);
  if (found == known_.end()) return std::nullopt;
  std::string_view line = found->second.fields;
  std::uint64_t number = 0;
  const auto field = take_field(line);
  const auto parsed = std::from_chars(field.data(), field.data() + field.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != field.data() + field.size() || number != inode)
    return std::nullopt;
  IndexEntry entry;
  entry.id = id;
  entry.created = take_field(line);
  entry.name = take_field(line);
  entry.path = line;
  if (!entry.path.is_absolute()) return std::nullopt;
  found->second.is_used = true;
  return entry;
}

void EntryCache::add(const IndexEntry& entry, ino_t inode) {
  const std::array<std::string_view, 4> fields{entry.id, entry.created, entry.name,
                                               entry.path.native()};
  if (!have_no_separators(fields)) return;
  added_ += fmt::format("{}\t{}\t{}\t{}\t{}\n", entry.id, inode, entry.created, entry.name,
                        entry.path.native());
  ++added_count_;
}

void EntryCache::save() const {
  if (added_count_ <= kMostUncached) return;
  std::string text(kEntriesHead);
  for (const auto& [id, line] : known_) {
    if (line.is_used) text.append(id).append(1, '\t').append(line.fields).append(1, '\n');
  }
  write_own_cache(file_, text + added_);
}

void EntryCache::delete_file(const std::filesystem::path& directory) {
  static_cast<void>(::unlink(file_in(directory).c_str()));
}

}  // namespace dlrun
