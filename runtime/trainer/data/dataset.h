#pragma once
// Labelled images in memory and the functions that load them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// n images with labels. A sample has one class, or one value of 0 or 1 per class. Pixels stay
/// unsigned bytes until a batch is gathered.
struct Dataset {
  std::vector<std::uint8_t> images;  ///< [n x features], row-major
  std::vector<std::uint8_t> labels;  ///< [n], each below `classes`; or [n x classes]
  std::size_t features = 0;          ///< bytes of one image: height x width x channels
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t classes = 0;
  std::size_t label_width = 1;  ///< labels per sample: 1, or `classes`

  [[nodiscard]] std::size_t size() const { return labels.size() / label_width; }
};

/// Training and test data. The model is never trained on `test`.
struct Split {
  Dataset train;
  Dataset test;
  std::string source;  ///< for messages: a directory, or "generated digits, seed 1"
};

struct DataOptions {
  std::string dataset = "digits";  ///< idx | mnist | cifar10 | arrays | digits | patches
  std::filesystem::path path;      ///< directory; empty for generated digits and patches
  /// The number of training samples to generate, or the maximum number of training samples to keep
  /// from files. 0: 8000 generated digits, 2000 patches, or all samples of the files.
  std::size_t train_samples = 0;
  /// The number of test samples to generate, or the maximum number to keep from files. 0: 2000
  /// generated digits, 500 patches, or all samples of the files.
  std::size_t test_samples = 0;
  std::uint64_t seed = 1;             ///< seed of the generated images
  std::size_t patch_size = 120;       ///< for "patches": pixels per row and per column
  bool reads_own_partitions = false;  ///< for "arrays": each rank reads its own partitions
  int rank = 0;                       ///< this rank, for reads_own_partitions
  int ranks = 1;                      ///< number of ranks, for reads_own_partitions
};

/// Appends the samples of `from` to `to`, which may be empty. Fails with kInvalid if images or
/// labels have different shapes. `name` is the name of `from` in the message.
[[nodiscard]] Result<> append(Dataset& to, Dataset from, std::string_view name);

/// Draws n digits, for the test data if is_test, else for the training data. Test and training data
/// use different random streams. images: [n x 28 x 28], labels: [n]. Sample i depends only on
/// (seed, is_test, i).
[[nodiscard]] Dataset generate_digits(std::size_t n, std::uint64_t seed, bool is_test);

/// Loads train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k-... files from a
/// directory, plain or gzip-compressed (.gz). A name may have '.' in place of '-' before "idx".
/// Fails with kNotFound (the message names the missing file), kInvalid (the message names the file
/// and the problem) or kIo.
[[nodiscard]] Result<Split> load_idx_folder(const std::filesystem::path& folder);

/// Loads or generates the data set options.dataset, and keeps only the first samples if there is a
/// limit. Checks that training and test data have images of the same shape and equally many labels
/// per sample. For "mnist", also checks that there are 784 pixels and at most ten classes. Fails
/// with kUsage, kNotFound, kInvalid or kIo.
[[nodiscard]] Result<Split> load_data(const DataOptions& options);

/// Generates digits and writes them as IDX files with MNIST's names into a directory, which is
/// created if missing. With partitions > 0, writes safetensors files instead (arrays.h), with the
/// training data in that many files; partitions <= train_samples. Fails with kIo.
[[nodiscard]] Result<> write_digits(const std::filesystem::path& folder, std::size_t train_samples,
                                    std::size_t test_samples, std::uint64_t seed,
                                    std::size_t partitions = 0);

}  // namespace dlrun::trainer
