#pragma once
// Golden files: they hold the exact bytes that a program must print.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

namespace dlrun::golden {

inline std::filesystem::path folder() {
  return std::filesystem::path(DLRUN_SOURCE_DIR) / "tests" / "golden";
}

/// Returns the file's content; "" if it cannot be read.
inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Checks that `actual` equals the file's content. Fails the test if the file is missing. With
/// DLRUN_UPDATE_GOLDEN=1, writes the file instead.
inline void check(const std::filesystem::path& path, const std::string& actual) {
  INFO(path.string());
  if (const char* update = std::getenv("DLRUN_UPDATE_GOLDEN");
      update != nullptr && std::string(update) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  REQUIRE_MESSAGE(std::filesystem::exists(path),
                  "golden file is missing; DLRUN_UPDATE_GOLDEN=1 writes it");
  CHECK(actual == content_of(path));
}

}  // namespace dlrun::golden
