// Tests the readers of CIFAR-10 files and of safetensors files with arrays.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/checkpoint/safetensors.h"
#include "runtime/trainer/data/arrays.h"
#include "runtime/trainer/data/cifar.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;
using Shape = std::vector<std::size_t>;

constexpr std::size_t kRecordBytes = 3073;

/// Returns `count` records of the classes first_class, first_class + 1, ... modulo 10. A pixel with
/// index i has red i % 80, green 2 * (i % 80) and blue 3 * (i % 80).
Bytes cifar_records(std::size_t count, std::size_t first_class = 0) {
  Bytes bytes(count * kRecordBytes);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i * kRecordBytes] = static_cast<std::uint8_t>((first_class + i) % 10);
    for (std::size_t at = 0; at < 3072; ++at)
      bytes[i * kRecordBytes + 1 + at] =
          static_cast<std::uint8_t>((at / 1024 + 1) * (at % 1024 % 80));
  }
  return bytes;
}

void write(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

/// Makes a safetensors file of two arrays and parses it as a dataset.
Result<Dataset> parsed(const NamedBytes& images, const NamedBytes& labels) {
  const std::vector<NamedBytes> arrays{images, labels};
  const std::string file = to_safetensors(arrays, {});
  return parse_arrays("f", {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
}

/// Returns the error of parsed(), or an empty text.
std::string refusal(const NamedBytes& images, const NamedBytes& labels) {
  const auto data = parsed(images, labels);
  return data ? "" : data.error().message;
}

DataOptions arrays_in(const fs::path& folder) {
  DataOptions options;
  options.dataset = "arrays";
  options.path = folder;
  return options;
}

}  // namespace

TEST_CASE(
    "CIFAR-10's colour planes become pixels, its files become two sets, and wrong or missing files "
    "are refused") {
  const auto data = parse_cifar("f", cifar_records(12, 3));
  REQUIRE(data.has_value());
  CHECK(data->size() == 12);
  CHECK(data->labels[8] == 1);
  CHECK(data->features == 3072);
  CHECK(data->height == 32);
  for (const std::size_t pixel : {0U, 1U, 79U, 1023U}) {
    for (std::size_t colour = 0; colour < 3; ++colour)
      CHECK(data->images[5 * 3072 + pixel * 3 + colour] == (colour + 1) * (pixel % 80));
  }
  CHECK(has(parse_cifar("f", Bytes(kRecordBytes + 1)).error().message,
            "f: 3074 bytes, but a CIFAR-10 file has one or more records of 3073 bytes"));
  CHECK(has(parse_cifar("f", {}).error().message, "f: 0 bytes"));
  Bytes wrong = cifar_records(3);
  wrong[2 * kRecordBytes] = 10;
  CHECK(has(parse_cifar("f", wrong).error().message, "f: record 2 is of class 10"));

  const TemporaryDirectory folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "test_batch.bin"})
    write(folder / name, cifar_records(4));
  CHECK(has(load_cifar_folder(folder.path()).error().message, "data_batch_5.bin"));
  write(folder / "data_batch_5.bin", cifar_records(7, 5));
  DataOptions options;
  options.dataset = "cifar10";
  options.path = folder.path();
  options.train_samples = 22;
  const auto split = load_data(options);
  REQUIRE_MESSAGE(split.has_value(), split.error().message);
  CHECK(split->train.size() == 22);
  CHECK(split->train.labels[17] == 6);
  CHECK(split->test.size() == 4);
  fs::create_directory(folder / "cifar-10-batches-bin");
  CHECK(has(load_cifar_folder(folder.path()).error().message,
            "cifar-10-batches-bin/data_batch_1.bin"));
}

TEST_CASE(
    "arrays in safetensors are read as they were written, with one class or several labels per "
    "image") {
  const Bytes pixels{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::int64_t classes[] = {2, 0, 1};
  Bytes class_bytes(sizeof classes);
  std::memcpy(class_bytes.data(), classes, sizeof classes);
  auto data = parsed({"images", "U8", {3, 2, 2}, pixels}, {"labels", "I64", {3}, class_bytes});
  REQUIRE_MESSAGE(data.has_value(), data.error().message);
  CHECK(data->images == pixels);
  CHECK(data->labels == Bytes{2, 0, 1});
  CHECK(data->classes == 3);
  CHECK(data->height == 2);
  CHECK(data->size() == 3);
  const Bytes bits{1, 0, 0, 1, 1, 1};
  data = parsed({"images", "U8", {3, 4}, pixels}, {"labels", "BOOL", {3, 2}, bits});
  REQUIRE_MESSAGE(data.has_value(), data.error().message);
  CHECK(data->size() == 3);
  CHECK(data->label_width == 2);
  CHECK(data->classes == 2);
  CHECK(data->height == 1);
  CHECK(data->features == 4);
}

TEST_CASE(
    "arrays of images or labels with a wrong name, type, shape or value are refused with the "
    "reason") {
  const Bytes pixels(12, 7);
  const Bytes ones(24, 1);
  const NamedBytes images{"images", "U8", {3, 2, 2}, pixels};
  const auto first_ones = [&](std::size_t count) { return std::span(ones).first(count); };
  CHECK(has(refusal({"image", "U8", {3, 4}, pixels}, {"labels", "U8", {3}, first_ones(3)}),
            "f: has no array 'images'"));
  CHECK(has(refusal(images, {"label", "U8", {3}, first_ones(3)}), "f: has no array 'labels'"));
  CHECK(has(refusal({"images", "F32", {3}, pixels}, {"labels", "U8", {3}, first_ones(3)}),
            "images are F32 [3], expected U8"));
  CHECK(has(refusal({"images", "U8", {0, 4}, {}}, {"labels", "U8", {0}, {}}),
            "holds no images (0 x 4)"));
  CHECK(has(refusal({"images", "U8", {3, 0, 2}, {}}, {"labels", "U8", {3}, first_ones(3)}),
            "its images have no pixels (3 x 0 x 2)"));
  CHECK(has(refusal(images, {"labels", "U8", {4}, first_ones(4)}), "f: 4 labels, but 3 images"));
  CHECK(
      has(refusal(images, {"labels", "F32", {3}, first_ones(12)}), "labels are F32 [3], expected"));
  CHECK(has(refusal(images, {"labels", "BOOL", {3}, first_ones(3)}),
            "labels are BOOL [3], expected"));
  CHECK(has(refusal(images, {"labels", "I64", {3}, first_ones(24)}),
            "a label of sample 0 is 72340172838076673"));
  CHECK(has(refusal(images, {"labels", "U8", {3, 1}, first_ones(3)}), "labels of 1 classes"));
  const Bytes two{0, 1, 0, 2, 0, 0};
  CHECK(has(refusal(images, {"labels", "U8", {3, 2}, two}),
            "a label of sample 1 is 2, expected 0 to 1"));
}

TEST_CASE(
    "partitions of the training data are divided among the ranks, and too few or missing ones are "
    "refused") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder.path(), 100, 20, 3, 7));
  const Dataset want = generate_digits(100, 3, false);
  DataOptions options = arrays_in(folder.path());
  const auto whole = load_data(options);
  REQUIRE_MESSAGE(whole.has_value(), whole.error().message);
  CHECK(whole->train.images == want.images);
  CHECK(whole->train.labels == want.labels);
  CHECK(whole->test.size() == 20);

  options.reads_own_partitions = true;
  options.ranks = 3;
  std::vector<std::size_t> sizes;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    const auto part = load_data(options);
    REQUIRE_MESSAGE(part.has_value(), part.error().message);
    sizes.push_back(part->train.size());
    // The first partition of a rank has the rank's number, and begins at sample 100 * number / 7.
    const std::size_t first = 100 * static_cast<std::size_t>(options.rank) / 7;
    CHECK(std::equal(part->train.labels.begin(), part->train.labels.begin() + 14,
                     want.labels.begin() + static_cast<std::ptrdiff_t>(first)));
    CHECK(part->test.size() == 20);
  }
  CHECK(sizes == std::vector<std::size_t>{44, 28, 28});

  options.ranks = 8;
  options.rank = 0;
  CHECK(has(load_data(options).error().message, "7 partitions for 8 ranks"));
  options.ranks = 3;
  fs::remove(folder / partition_file_name(4, 7));
  options.rank = 0;
  CHECK(load_data(options).has_value());
  options.rank = 1;
  const auto missing = load_data(options);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == Errc::kNotFound);
  CHECK(has(missing.error().message, "train-00004-of-00007.safetensors"));
  fs::copy_file(folder / partition_file_name(0, 7), folder / partition_file_name(0, 9));
  CHECK(has(load_data(options).error().message, "partitions of several sets (-of-7, -of-9)"));
}

TEST_CASE("a folder without training data, or with files that do not fit each other, is refused") {
  const TemporaryDirectory folder;
  CHECK(has(
      load_data(arrays_in(folder.path())).error().message,
      "has neither train.safetensors nor a partition such as train-00000-of-00008.safetensors"));
  REQUIRE(write_digits(folder.path(), 20, 10, 1, 2));
  Dataset smaller = generate_digits(10, 1, false);
  smaller.height = 14;
  smaller.features = 14 * 28;
  smaller.images.resize(10 * 14 * 28);
  REQUIRE(write_arrays(folder / partition_file_name(1, 2), smaller));
  CHECK(has(load_data(arrays_in(folder.path())).error().message,
            "train-00001-of-00002.safetensors: images of 14 x 28 (392 bytes)"));
  REQUIRE(write_arrays(folder / "train.safetensors", smaller));
  CHECK(has(load_data(arrays_in(folder.path())).error().message,
            "training images are 14 x 28 (392 bytes), test images 28 x 28 (784)"));
}

}  // namespace dlrun::trainer
