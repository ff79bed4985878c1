#pragma once
// Labelled images in memory, and where they come from.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// n images with their labels: a class each, or 0 or 1 for each of the classes. Pixels stay
/// unsigned bytes until a batch is gathered.
struct Dataset {
  std::vector<std::uint8_t> images;  ///< [n x features], row-major
  std::vector<std::uint8_t> labels;  ///< [n], each below classes; or [n x classes]
  std::size_t features = 0;          ///< bytes of one image: height x width x channels
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t classes = 0;
  std::size_t label_width = 1;  ///< of a sample's labels: 1, or classes

  [[nodiscard]] std::size_t size() const { return labels.size() / label_width; }
};

/// The two halves of a data set; the model never trains on test.
struct Split {
  Dataset train;
  Dataset test;
  std::string source;  ///< for people: a folder, or "generated digits, seed 1"
};

struct DataOptions {
  std::string dataset = "digits";  ///< idx | mnist | cifar10 | arrays | digits
  std::filesystem::path path;      ///< the folder; digits are generated in memory when it is empty
  std::size_t train_samples = 0;   ///< at most so many of each half; 0: all, or 8000 generated
  std::size_t test_samples = 0;    ///< 0: all, or 2000 generated
  std::uint64_t seed = 1;          ///< of the generated digits
  bool is_by_file = false;         ///< arrays: each rank reads partitions of its own
  int rank = 0;
  int size = 1;
};

/// Puts from behind to, which may be empty. Fails with kInvalid where images or labels are of
/// another shape; name: from's.
[[nodiscard]] Result<> append(Dataset& to, Dataset from, std::string_view name);

/// n drawn digits of the training or the test half, which share no image. Sample i depends on
/// (seed, half, i) alone.
[[nodiscard]] Dataset generate_digits(std::size_t n, std::uint64_t seed, bool is_test);

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-... from a folder, each plain or
/// with .gz. Fails with kNotFound (which file, what was looked for), kInvalid (file and what is
/// wrong with it), kIo.
[[nodiscard]] Result<Split> load_idx_folder(const std::filesystem::path& folder);

/// What options ask for. 'mnist' also checks that the images are 28 x 28 in ten classes.
[[nodiscard]] Result<Split> load_data(const DataOptions& options);

/// Writes both halves as IDX files under MNIST's names into folder, which is made if it is missing;
/// with partitions > 0, as arrays.h has them, the training half in so many files.
[[nodiscard]] Result<> write_digits(const std::filesystem::path& folder, std::size_t train_samples,
                                    std::size_t test_samples, std::uint64_t seed,
                                    std::size_t partitions = 0);

}  // namespace dlrun::trainer
