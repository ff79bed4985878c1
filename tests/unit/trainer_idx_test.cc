#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/idx.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;

/// Returns an IDX file of two images of 2 x 3 pixels.
Bytes two_images() {
  return {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
}

void write(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_gz(const fs::path& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

/// Runs `work` in a child process, because `work` may abort or hang. Returns the child's exit code;
/// -1 if a signal ended the child.
int exit_code_in_child_process(const std::function<int()>& work) {
  constexpr unsigned kLimitSeconds = 60;  // then SIGALRM ends the child
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kLimitSeconds);
    ::_exit(work());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a FIFO in place of a data file is refused without waiting for a writer") {
  const TemporaryDirectory folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(exit_code_in_child_process([&] {
          const auto array = read_idx(folder / "fifo", 3);
          return !array && has(array.error().message, "fifo: is not a regular file") ? 0 : 1;
        }) == 0);
  fs::create_directory(folder / "data");
  REQUIRE(::mkfifo((folder / "data/train-images-idx3-ubyte").c_str(), 0600) == 0);
  CHECK(exit_code_in_child_process([&] { return load_idx_folder(folder / "data") ? 1 : 0; }) == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE(
    "data that do not fit into memory cause an error with the path of the file or folder, not an "
    "abort") {
  const TemporaryDirectory folder;
  write(folder / "large", {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3});
  // A sparse file, which takes no disk space.
  fs::resize_file(folder / "large", std::uintmax_t{3} << 30U);
  CHECK(exit_code_in_child_process([&] {
          const rlimit little{std::size_t{1} << 30U, std::size_t{1} << 30U};
          ::setrlimit(RLIMIT_AS, &little);
          const auto array = read_idx(folder / "large", 3, std::size_t{8} << 30U);
          return !array && array.error().code == Errc::kIo &&
                         has(array.error().message, "large: not enough memory")
                     ? 0
                     : 1;
        }) == 0);
  fs::create_directory(folder / "cifar");
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin"}) {
    write(folder.path() / "cifar" / name, {});
    fs::resize_file(folder.path() / "cifar" / name, 3073U * 200'000U);
  }
  CHECK(exit_code_in_child_process([&] {
          const rlimit little{std::size_t{1} << 30U, std::size_t{1} << 30U};
          ::setrlimit(RLIMIT_AS, &little);
          DataOptions options;
          options.dataset = "cifar10";
          options.path = folder / "cifar";
          const auto split = load_data(options);
          return !split && has(split.error().message, "cifar: no memory") ? 0 : 1;
        }) == 0);
}
#endif

TEST_CASE("an IDX file has the same content plain and compressed, whatever its name") {
  const TemporaryDirectory folder;
  write(folder / "plain.gz", two_images());
  write_gz(folder / "compressed", two_images());
  for (const char* name : {"plain.gz", "compressed"}) {
    CAPTURE(name);
    const auto array = read_idx(folder / name, 3);
    REQUIRE(array.has_value());
    CHECK(array->sizes == std::vector<std::uint32_t>{2, 2, 3});
    CHECK(Bytes(array->values().begin(), array->values().end()) ==
          Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  }
}

TEST_CASE(
    "a truncated IDX file is refused, with the expected and the actual size if its header is "
    "complete") {
  const Bytes whole = two_images();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto array = parse_idx(
        "f", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), 3);
    REQUIRE_FALSE(array.has_value());
    CHECK(array.error().code == Errc::kInvalid);
    if (length < 16) continue;
    CHECK(has(array.error().message, "truncated: expected 28 bytes"));
    CHECK(has(array.error().message, "found " + std::to_string(length)));
  }
}

TEST_CASE(
    "an IDX file is refused if it is too long, has another type or other dimensions, or is not an "
    "IDX file") {
  Bytes longer = two_images();
  longer.push_back(0);
  CHECK(has(parse_idx("f", longer, 3).error().message,
            "longer than its header says: expected 28 bytes"));

  CHECK(has(parse_idx("f", two_images(), 1).error().message,
            "3 dimension(s), expected 1 (labels; is this a file of images?)"));
  CHECK(has(parse_idx("f", {0, 0, 8, 1, 0, 0, 0, 1, 7}, 3).error().message,
            "is this a file of labels?"));

  Bytes floats = two_images();
  floats[2] = 0x0d;
  CHECK(has(parse_idx("f", floats, 3).error().message, "element type 0x0d, expected 0x08"));
  CHECK(has(parse_idx("f", {'P', 'K', 3, 4}, 3).error().message, "begins with 50 4b 03 04"));
}

TEST_CASE(
    "IDX sizes whose product exceeds the file or any memory are refused before anything is "
    "allocated") {
  const Bytes hostile{0,    0,    8,    3,    0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  CHECK(has(parse_idx("f", hostile, 3).error().message, "more than any file holds"));
  const Bytes large{0, 0, 8, 3, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0, 1};
  CHECK(has(parse_idx("f", large, 3).error().message, "truncated"));
}

TEST_CASE(
    "a gzip stream that is cut, damaged or larger than the limit is refused with the name of its "
    "file") {
  const TemporaryDirectory folder;
  Bytes labels{0, 0, 8, 1, 0, 1, 0x86, 0xa0};
  for (std::uint32_t i = 0; i < 100'000; ++i)
    labels.push_back(static_cast<std::uint8_t>((i * i) >> 3U));
  write_gz(folder / "x.gz", labels);
  std::string bytes = *read_file(folder / "x.gz", 1U << 20U);

  const std::string cut = bytes.substr(0, bytes.size() / 2);
  write(folder / "cut.gz", Bytes(cut.begin(), cut.end()));
  const auto half = read_idx(folder / "cut.gz", 1);
  REQUIRE_FALSE(half.has_value());
  CHECK(has(half.error().message, "cut.gz: the gzip stream is cut off after "));

  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  write(folder / "bad.gz", Bytes(bytes.begin(), bytes.end()));
  const auto bad = read_idx(folder / "bad.gz", 1);
  REQUIRE_FALSE(bad.has_value());
  CHECK(has(bad.error().message, "bad.gz: damaged gzip stream"));

  CHECK(has(read_idx(folder / "x.gz", 1, 50'000).error().message,
            "is larger than the limit of 50000 bytes"));
}

TEST_CASE("a missing file and a folder in its place are different errors") {
  const TemporaryDirectory folder;
  CHECK(read_idx(folder / "none", 1).error().code == Errc::kNotFound);
  CHECK(has(read_idx(folder.path(), 1).error().message, "is not a regular file"));
}

TEST_CASE("digits that write_digits() writes to files are read back unchanged") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder.path(), 30, 20, 7));
  const auto split = load_idx_folder(folder.path());
  REQUIRE(split.has_value());
  CHECK(split->train.images == generate_digits(30, 7, false).images);
  CHECK(split->train.labels == generate_digits(30, 7, false).labels);
  CHECK(split->test.images == generate_digits(20, 7, true).images);
  CHECK(split->train.classes == 10);
}

TEST_CASE("the error for a data folder has the name of the file that is missing or wrong") {
  const TemporaryDirectory folder;
  CHECK(has(load_idx_folder(folder / "none").error().message, "none"));
  CHECK(has(load_idx_folder(folder.path()).error().message,
            "has none of these files: train-images-idx3-ubyte, train-images-idx3-ubyte.gz"));

  REQUIRE(write_digits(folder.path(), 30, 20, 7));
  fs::copy_file(folder / "t10k-labels-idx1-ubyte", folder / "train-labels-idx1-ubyte",
                fs::copy_options::overwrite_existing);
  CHECK(has(load_idx_folder(folder.path()).error().message,
            "train-labels-idx1-ubyte: 20 labels, but train-images-idx3-ubyte holds 30 images"));

  fs::copy_file(folder / "t10k-images-idx3-ubyte", folder / "train-labels-idx1-ubyte",
                fs::copy_options::overwrite_existing);
  CHECK(has(load_idx_folder(folder.path()).error().message, "is this a file of images?"));
}

TEST_CASE("a folder of IDX files that are not MNIST's is refused as mnist and accepted as idx") {
  const TemporaryDirectory folder;
  for (const char* prefix : {"train", "t10k"}) {
    write(folder / (std::string(prefix) + "-images-idx3-ubyte"), two_images());
    write(folder / (std::string(prefix) + "-labels-idx1-ubyte"), {0, 0, 8, 1, 0, 0, 0, 2, 3, 11});
  }
  DataOptions options;
  options.dataset = "mnist";
  options.path = folder.path();
  CHECK(has(load_data(options).error().message,
            "6 pixels an image and 12 classes, but MNIST has 784 and 10"));
  options.dataset = "idx";
  const auto split = load_data(options);
  REQUIRE(split.has_value());
  CHECK(split->train.features == 6);
  CHECK(split->train.classes == 12);
}

TEST_CASE("the number of samples can be limited, and a dataset of files needs a folder") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder.path(), 30, 20, 7));
  DataOptions options;
  options.dataset = "mnist";
  CHECK(load_data(options).error().code == Errc::kUsage);
  options.path = folder.path();
  options.train_samples = 12;
  options.test_samples = 50;
  const auto split = load_data(options);
  REQUIRE(split.has_value());
  CHECK(split->train.size() == 12);
  CHECK(split->train.images.size() == 12 * 784);
  CHECK(split->test.size() == 20);
}

}  // namespace dlrun::trainer
