#pragma once
// Functions that the tests of launcher/remote share.

#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "common/files.h"

namespace dlrun {

/// Writes a file, and makes its folders.
inline void write(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  REQUIRE(write_file_atomic(file, text));
}

/// Returns the message and the diagnostics of an error; "" if the result is no error.
template <typename T>
[[nodiscard]] std::string error_text(const Result<T>& result) {
  if (result) return "";
  std::string text = result.error().message;
  for (const Diagnostic& one : result.error().diagnostics.all())
    text += fmt::format("[{}:{}] {}", one.where.line, one.where.column, one.message);
  return text;
}

}  // namespace dlrun
