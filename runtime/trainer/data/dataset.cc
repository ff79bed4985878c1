// Finds and loads the files of each kind of data set, limits the number of samples, and checks that
// training and test data match.

#include "runtime/trainer/data/dataset.h"

#include <algorithm>
#include <array>
#include <new>
#include <system_error>

#include "runtime/trainer/data/arrays.h"
#include "runtime/trainer/data/cifar.h"
#include "runtime/trainer/data/digits.h"
#include "runtime/trainer/data/idx.h"
#include "runtime/trainer/data/patches.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kDefaultTrainDigits = 8000;
constexpr std::size_t kDefaultTestDigits = 2000;
constexpr std::size_t kDefaultTrainPatches = 2000;
constexpr std::size_t kDefaultTestPatches = 500;
constexpr std::size_t kDigitClasses = 10;
/// The prefixes of MNIST's file names: first of the training data, then of the test data.
constexpr std::array<const char*, 2> kIdxPrefixes{"train", "t10k"};

/// Finds a file with `prefix` under one of its possible names: plain or gzip, with '-' or '.'
/// before "idx". `kind` is "images" or "labels". `dimensions` is the number that follows "idx".
Result<std::filesystem::path> find_idx(const std::filesystem::path& folder, const char* prefix,
                                       const char* kind, int dimensions) {
  std::string expected_names;
  for (const char separator : {'-', '.'}) {
    for (const char* suffix : {"", ".gz"}) {
      const std::string name =
          fmt::format("{}-{}{}idx{}-ubyte{}", prefix, kind, separator, dimensions, suffix);
      std::error_code error;
      if (std::filesystem::exists(folder / name, error)) return folder / name;
      if (separator == '-') expected_names += (expected_names.empty() ? "" : ", ") + name;
    }
  }
  return fail(Errc::kNotFound, "{}: has none of these files: {}", folder.string(), expected_names);
}

Result<Dataset> load_idx_files(const std::filesystem::path& folder, const char* prefix) {
  DLRUN_TRY_ASSIGN(auto images_path, find_idx(folder, prefix, "images", 3));
  DLRUN_TRY_ASSIGN(auto labels_path, find_idx(folder, prefix, "labels", 1));
  DLRUN_TRY_ASSIGN(auto images, read_idx(images_path, 3));
  DLRUN_TRY_ASSIGN(auto labels, read_idx(labels_path, 1));

  if (images.sizes[0] != labels.sizes[0]) {
    return fail(Errc::kInvalid, "{}: {} labels, but {} holds {} images", labels_path.string(),
                labels.sizes[0], images_path.filename().string(), images.sizes[0]);
  }
  Dataset data;
  data.height = images.sizes[1];
  data.width = images.sizes[2];
  data.features = data.height * data.width;
  if (images.sizes[0] == 0 || data.features == 0) {
    return fail(Errc::kInvalid, "{}: {} ({} x {} x {})", images_path.string(),
                images.sizes[0] == 0 ? "holds no images" : "its images have no pixels",
                images.sizes[0], images.sizes[1], images.sizes[2]);
  }
  data.images.assign(images.values().begin(), images.values().end());
  data.labels.assign(labels.values().begin(), labels.values().end());
  data.classes = std::size_t{*std::max_element(data.labels.begin(), data.labels.end())} + 1;
  return data;
}

/// Removes the samples after the first `limit`. limit == 0: no limit.
void keep_first(Dataset& data, std::size_t limit) {
  if (limit == 0 || limit >= data.size()) return;
  data.labels.resize(limit * data.label_width);
  data.images.resize(limit * data.features);
}

/// Checks that training and test data have images of the same shape and equally many labels per
/// sample. Sets the number of classes of both to the larger number.
Result<> check_and_unify_classes(Split& split, const std::string& folder) {
  const Dataset& train = split.train;
  const Dataset& test = split.test;
  if (train.features != test.features || train.height != test.height || train.width != test.width) {
    return fail(Errc::kInvalid,
                "{}: training images are {} x {} ({} bytes), test images {} x {} ({})", folder,
                train.height, train.width, train.features, test.height, test.width, test.features);
  }
  if (train.label_width != test.label_width) {
    return fail(Errc::kInvalid, "{}: training samples have {} label(s), test samples {}", folder,
                train.label_width, test.label_width);
  }
  split.train.classes = split.test.classes = std::max(train.classes, test.classes);
  return {};
}

}  // namespace

Result<> append(Dataset& to, Dataset from, std::string_view name) {
  if (to.labels.empty()) {
    to = std::move(from);
    return {};
  }
  if (from.features != to.features || from.height != to.height || from.width != to.width ||
      from.label_width != to.label_width) {
    return fail(
        Errc::kInvalid,
        "{}: images of {} x {} ({} bytes) with {} label(s), but the files before it have images "
        "of {} x {} ({} bytes) with {} label(s)",
        name, from.height, from.width, from.features, from.label_width, to.height, to.width,
        to.features, to.label_width);
  }
  to.images.insert(to.images.end(), from.images.begin(), from.images.end());
  to.labels.insert(to.labels.end(), from.labels.begin(), from.labels.end());
  to.classes = std::max(to.classes, from.classes);
  return {};
}

Dataset generate_digits(std::size_t n, std::uint64_t seed, bool is_test) {
  Dataset data;
  data.height = data.width = kDigitSize;
  data.features = data.height * data.width;
  data.classes = kDigitClasses;
  data.images.resize(n * data.features);
  data.labels.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    Random random(seed, is_test ? Purpose::kTestDigits : Purpose::kTrainDigits, i);
    const auto digit = static_cast<int>(random.below(kDigitClasses));
    data.labels[i] = static_cast<std::uint8_t>(digit);
    draw_digit(digit, random,
               std::span<std::uint8_t, kDigitSize * kDigitSize>(&data.images[i * data.features],
                                                                data.features));
  }
  return data;
}

Result<Split> load_idx_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return fail(Errc::kNotFound, "{}: {}", folder.string(),
                error ? error.message() : "is not a folder");
  }
  Split split;
  split.source = folder.string();
  for (const char* prefix : kIdxPrefixes) {
    DLRUN_TRY_ASSIGN(auto data, load_idx_files(folder, prefix));
    (prefix == kIdxPrefixes[0] ? split.train : split.test) = std::move(data);
  }
  DLRUN_TRY(check_and_unify_classes(split, folder.string()));
  return split;
}

namespace {

Result<Split> load_or_generate(const DataOptions& options) {
  const auto or_default = [](std::size_t n, std::size_t otherwise) {
    return n == 0 ? otherwise : n;
  };
  if (options.dataset == "patches") {
    if (!options.path.empty()) {
      return fail(Errc::kUsage, "--dataset patches generates its images; remove --data {}",
                  options.path.string());
    }
    const auto draw = [&](std::size_t n, bool is_test) {
      return generate_patches(n, options.patch_size, options.seed, is_test);
    };
    return Split{draw(or_default(options.train_samples, kDefaultTrainPatches), false),
                 draw(or_default(options.test_samples, kDefaultTestPatches), true),
                 fmt::format("generated patches, seed {}", options.seed)};
  }
  if (options.dataset == "digits" && options.path.empty()) {
    return Split{
        generate_digits(or_default(options.train_samples, kDefaultTrainDigits), options.seed,
                        false),
        generate_digits(or_default(options.test_samples, kDefaultTestDigits), options.seed, true),
        fmt::format("generated digits, seed {}", options.seed)};
  }
  if (options.path.empty()) {
    return fail(Errc::kUsage, "--dataset {} needs --data FOLDER with its files", options.dataset);
  }
  auto split = options.dataset == "cifar10"  ? load_cifar_folder(options.path)
               : options.dataset == "arrays" ? load_arrays_folder(options)
                                             : load_idx_folder(options.path);
  if (!split) return split;
  DLRUN_TRY(check_and_unify_classes(*split, options.path.string()));
  if (options.dataset == "mnist") {
    for (const Dataset* data : {&split->train, &split->test}) {
      if (data->features != std::size_t{kDigitSize} * kDigitSize || data->classes > kDigitClasses) {
        return fail(
            Errc::kInvalid,
            "{}: {} pixels an image and {} classes, but MNIST has 784 and 10; use --dataset idx",
            options.path.string(), data->features, data->classes);
      }
    }
    split->train.classes = split->test.classes = kDigitClasses;
  }
  keep_first(split->train, options.train_samples);
  keep_first(split->test, options.test_samples);
  return split;
}

}  // namespace

Result<Split> load_data(const DataOptions& options) {
  try {
    return load_or_generate(options);
  } catch (const std::bad_alloc&) {
    return fail(Errc::kIo,
                "{}: no memory for the data; the limit may be ulimit -v or resources.mem",
                options.path.empty() ? "--dataset " + options.dataset : options.path.string());
  }
}

Result<> write_digits(const std::filesystem::path& folder, std::size_t train_samples,
                      std::size_t test_samples, std::uint64_t seed, std::size_t partitions) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return fail(Errc::kIo, "{}: cannot make the folder: {}", folder.string(), error.message());
  if (partitions > 0) {
    const Dataset train = generate_digits(train_samples, seed, false);
    for (std::size_t i = 0; i < partitions; ++i) {
      const std::size_t begin = train.size() * i / partitions;
      const std::size_t end = train.size() * (i + 1) / partitions;
      Dataset part{{}, {}, train.features, train.height, train.width, train.classes};
      part.labels.assign(&train.labels[begin], train.labels.data() + end);
      part.images.assign(&train.images[begin * train.features],
                         train.images.data() + end * train.features);
      DLRUN_TRY(write_arrays(folder / partition_file_name(i, partitions), part));
    }
    return write_arrays(folder / "test.safetensors", generate_digits(test_samples, seed, true));
  }
  for (const char* prefix : kIdxPrefixes) {
    const bool is_test = prefix == kIdxPrefixes[1];
    const Dataset data = generate_digits(is_test ? test_samples : train_samples, seed, is_test);
    const auto n = static_cast<std::uint32_t>(data.size());
    DLRUN_TRY(write_idx(folder / fmt::format("{}-images-idx3-ubyte", prefix),
                        std::array{n, kDigitSize, kDigitSize}, data.images));
    DLRUN_TRY(write_idx(folder / fmt::format("{}-labels-idx1-ubyte", prefix), std::array{n},
                        data.labels));
  }
  return {};
}

}  // namespace dlrun::trainer
