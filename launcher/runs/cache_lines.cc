#include "launcher/runs/cache_lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/files.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestCacheBytes = 64U << 20U;

}  // namespace

std::string read_own_cache(const std::filesystem::path& file, std::string_view head) {
  struct stat info {};
  const auto opened = open_untrusted(file, Links::kRefuse);
  if (!opened || ::fstat(opened->get(), &info) != 0 || info.st_uid != ::geteuid()) return {};
  auto text = read_untrusted(file, kLargestCacheBytes, Links::kRefuse);
  return text && text->starts_with(head) ? std::move(*text) : std::string();
}

void for_each_line(std::string_view text, std::string_view head,
                   const std::function<void(std::string_view, std::string_view)>& visit) {
  text.remove_prefix(std::min(head.size(), text.size()));
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto key = take_field(line);
    visit(key, line);
  }
}

std::string_view take_field(std::string_view& line) {
  const auto end = std::min(line.find('\t'), line.size());
  const auto field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

bool have_no_separators(std::span<const std::string_view> texts) {
  return std::all_of(texts.begin(), texts.end(), [](std::string_view text) {
    return text.find_first_of("\t\n") == std::string_view::npos;
  });
}

void write_own_cache(const std::filesystem::path& file, std::string_view text) {
  if (text.size() <= kLargestCacheBytes) static_cast<void>(write_file_atomic(file, text));
}

}  // namespace dlrun
