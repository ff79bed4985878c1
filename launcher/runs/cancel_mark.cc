#include "launcher/runs/cancel_mark.h"

#include <system_error>

#include "common/files.h"

namespace dlrun {
namespace {

constexpr const char* kCancelMark = "cancelled";

}  // namespace

Result<> mark_cancelled(const std::filesystem::path& run_or_array) {
  auto made = create_file_exclusive(run_or_array / kCancelMark, "");
  const bool was_marked = !made && made.error().code == Errc::kRefused;  // the file exists
  if (!made && !was_marked) return made;
  return {};
}

bool is_marked_cancelled(const std::filesystem::path& run_or_array) {
  std::error_code error;
  return std::filesystem::exists(run_or_array / kCancelMark, error);
}

void unmark_cancelled(const std::filesystem::path& run_or_array) {
  std::error_code ignored;
  std::filesystem::remove(run_or_array / kCancelMark, ignored);
}

}  // namespace dlrun
