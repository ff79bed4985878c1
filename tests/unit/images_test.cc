#include "launcher/images/images.h"

#include <fstream>

#include <doctest/doctest.h>

#include "common/text.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// An image store in a temporary folder. store.lock() creates this folder.
struct FolderWithStore {
  fs::path path = fs::temp_directory_path() / ("dlrun-images-" + random_hex(8));
  ImageStore store{path};
  ~FolderWithStore() { fs::remove_all(path); }
  /// Writes a file to an unused path in the store's folder, which must exist.
  [[nodiscard]] fs::path new_file(std::string_view content) const {
    const fs::path made = store.new_path();
    std::ofstream(made) << content;
    return made;
  }
};

const std::string kName = "docker://nvcr.io#nvidia/pytorch:24.05";

TEST_CASE("an image is stored read-only under its digest, and found by its name") {
  const FolderWithStore folder;
  CHECK_FALSE(folder.store.find(kName).has_value());
  const auto lock = folder.store.lock(kName);
  REQUIRE(lock.has_value());
  const auto stored = folder.store.adopt(folder.new_file("abc"), kName, "");
  REQUIRE(stored.has_value());
  // The digest of "abc" in FIPS 180-2, appendix B.1.
  CHECK(stored->digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(stored->file == folder.path / (stored->digest + ".sqsh"));
  CHECK((fs::status(stored->file).permissions() & fs::perms::mask) == static_cast<fs::perms>(0444));
  CHECK(folder.store.find(kName)->file == stored->file);
  CHECK(folder.store.find(kName)->bytes == 3);
}

TEST_CASE(
    "the file of an image is named after the registry's digest, but only if that is a valid "
    "digest") {
  const FolderWithStore folder;
  REQUIRE(folder.store.lock(kName).has_value());
  const std::string digest(64, 'd');
  CHECK(folder.store.adopt(folder.new_file("x"), kName, digest)->file.filename() ==
        digest + ".sqsh");
  CHECK(folder.store.adopt(folder.new_file("x"), kName, "../../evil")->file.parent_path() ==
        folder.path);
  CHECK_FALSE(folder.store.file_of("../../evil").has_value());
}

TEST_CASE(
    "a second import of an image replaces the first, and two names with the same content share a "
    "file") {
  const FolderWithStore folder;
  REQUIRE(folder.store.lock(kName).has_value());
  REQUIRE(folder.store.adopt(folder.new_file("same"), kName, "").has_value());
  REQUIRE(folder.store.adopt(folder.new_file("same"), kName, "").has_value());
  REQUIRE(folder.store.adopt(folder.new_file("same"), "docker://other", "").has_value());
  const auto images = folder.store.list();
  REQUIRE(images.has_value());
  REQUIRE(images->size() == 2);
  CHECK((*images)[0].file == (*images)[1].file);
  std::size_t file_count = 0;
  for (const auto& entry : fs::directory_iterator(folder.path))
    file_count += entry.path().extension() == ".sqsh" ? 1 : 0;
  CHECK(file_count == 1);
}

TEST_CASE("a damaged entry, and an entry without its file, are neither found nor listed") {
  const FolderWithStore folder;
  REQUIRE(folder.store.lock(kName).has_value());
  const auto stored = folder.store.adopt(folder.new_file("x"), kName, "");
  std::ofstream(folder.path / "other.json") << "{\"image\": 3";
  fs::remove(stored->file);
  CHECK_FALSE(folder.store.find(kName).has_value());
  CHECK(folder.store.list()->empty());
}

TEST_CASE("a missing folder has no images") {
  const FolderWithStore folder;
  CHECK(folder.store.list()->empty());
}

TEST_CASE(
    "files that an import left days ago are removed by the next import, and recent files are "
    "kept") {
  const FolderWithStore folder;
  REQUIRE(folder.store.lock(kName).has_value());
  const auto old = folder.new_file("old");
  const auto fresh = folder.new_file("fresh");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(72));
  REQUIRE(folder.store.lock("docker://another").has_value());
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(fresh));
}

}  // namespace
}  // namespace dlrun
