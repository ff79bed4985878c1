#include "runtime/trainer/data/arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/ranges.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/trainer/checkpoint/safetensors.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;
using Tensor = ParsedTensors::Tensor;

constexpr std::size_t kMaxArrayFileBytes = std::size_t{64} << 30U;
constexpr std::size_t kMostClasses = 256;
constexpr const char* kWholeTrainFile = "train.safetensors";
constexpr std::string_view kTrainPrefix = "train-";
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kEnding = ".safetensors";

Result<const Tensor*> find_array(std::string_view file_name, const ParsedTensors& file,
                                 std::string_view array) {
  const auto found = file.tensors.find(array);
  if (found == file.tensors.end())
    return fail(Errc::kInvalid, "{}: has no array '{}'", file_name, array);
  return &found->second;
}

Result<> read_images(std::string_view name, const Tensor& images, Dataset& data) {
  const auto& shape = images.shape;
  if (images.dtype != "U8" || shape.size() < 2 || shape.size() > 4) {
    return fail(Errc::kInvalid,
                "{}: images are {} [{}], expected U8 [n, height, width], [n, height, width, "
                "channels] or [n, features]",
                name, images.dtype, fmt::join(shape, ", "));
  }
  data.height = shape.size() > 2 ? shape[1] : 1;
  data.width = shape.size() > 2 ? shape[2] : 1;
  if (images.bytes.empty())
    return fail(Errc::kInvalid, "{}: {} ({})", name,
                shape[0] == 0 ? "holds no images" : "its images have no pixels",
                fmt::join(shape, " x "));
  data.features = images.bytes.size() / shape[0];
  data.images.assign(images.bytes.begin(), images.bytes.end());
  return {};
}

/// Returns element i of `tensor`. bytes_per_element: 1, 4 or 8.
std::int64_t element(const Tensor& tensor, std::size_t bytes_per_element, std::size_t i) {
  const std::uint8_t* at = tensor.bytes.data() + i * bytes_per_element;
  std::int32_t narrow = 0;
  std::int64_t wide = 0;
  switch (bytes_per_element) {
    case 4:
      std::memcpy(&narrow, at, sizeof narrow);
      return narrow;
    case 8:
      std::memcpy(&wide, at, sizeof wide);
      return wide;
    default:
      return *at;
  }
}

Result<> read_labels(std::string_view name, const Tensor& labels, std::size_t n, Dataset& data) {
  const auto& shape = labels.shape;
  const std::size_t bytes_per_label = labels.dtype == "I64" ? 8 : labels.dtype == "I32" ? 4 : 1;
  const bool is_multi_label = shape.size() == 2;
  const bool is_byte = labels.dtype == "U8" || labels.dtype == "BOOL";
  if (!(is_multi_label ? is_byte
                       : shape.size() == 1 && (bytes_per_label > 1 || labels.dtype == "U8"))) {
    return fail(Errc::kInvalid,
                "{}: labels are {} [{}], expected U8, I32 or I64 [n], or U8 or BOOL [n, classes]",
                name, labels.dtype, fmt::join(shape, ", "));
  }
  if (shape[0] != n) return fail(Errc::kInvalid, "{}: {} labels, but {} images", name, shape[0], n);
  data.label_width = is_multi_label ? shape[1] : 1;
  if (is_multi_label && (shape[1] < 2 || shape[1] > kMostClasses)) {
    return fail(Errc::kInvalid, "{}: labels of {} classes, expected 2 to {}", name, shape[1],
                kMostClasses);
  }
  const std::int64_t max_label = is_multi_label ? 1 : static_cast<std::int64_t>(kMostClasses) - 1;
  std::int64_t largest = 0;
  data.labels.resize(n * data.label_width);
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    const std::int64_t label = element(labels, bytes_per_label, i);
    if (label < 0 || label > max_label) {
      return fail(Errc::kInvalid, "{}: a label of sample {} is {}, expected 0 to {}", name,
                  i / data.label_width, label, max_label);
    }
    data.labels[i] = static_cast<std::uint8_t>(label);
    largest = std::max(largest, label);
  }
  data.classes = is_multi_label ? shape[1] : static_cast<std::size_t>(largest) + 1;
  return {};
}

Result<Dataset> read_arrays(const fs::path& path) {
  DLRUN_TRY_ASSIGN(const auto bytes, read_file(path, kMaxArrayFileBytes));
  return parse_arrays(path.string(),
                      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

/// Returns the number of partitions in a file name: 8 for train-00003-of-00008.safetensors. Returns
/// nullopt if the file is not a partition.
std::optional<std::size_t> partition_count_of(std::string_view file_name) {
  if (!file_name.starts_with(kTrainPrefix) || !file_name.ends_with(kEnding)) return std::nullopt;
  const std::string_view numbers = file_name.substr(
      kTrainPrefix.size(), file_name.size() - kTrainPrefix.size() - kEnding.size());
  const std::size_t at = numbers.find(kOf);
  if (at == std::string_view::npos) return std::nullopt;
  const auto index = parse_int(numbers.substr(0, at));
  const auto count = parse_int(numbers.substr(at + kOf.size()));
  constexpr std::int64_t kMostPartitions = 1'000'000;
  if (!index || !count || *index < 0 || *index >= *count || *count > kMostPartitions)
    return std::nullopt;
  return static_cast<std::size_t>(*count);
}

/// Returns the paths of all partitions that the file names announce, whether or not each exists.
/// Fails with kInvalid if the file names announce different numbers of partitions, and with
/// kNotFound if the directory cannot be listed.
Result<std::vector<fs::path>> partitions(const fs::path& folder) {
  std::set<std::size_t> counts;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto count = partition_count_of(entry->path().filename().string()))
      counts.insert(*count);
  }
  if (error) return fail(Errc::kNotFound, "{}: {}", folder.string(), error.message());
  if (counts.size() > 1) {
    return fail(Errc::kInvalid,
                "{}: holds partitions of several sets (-of-{}): keep the files of one set",
                folder.string(), fmt::join(counts, ", -of-"));
  }
  std::vector<fs::path> files;
  for (std::size_t i = 0; !counts.empty() && i < *counts.begin(); ++i)
    files.push_back(folder / partition_file_name(i, *counts.begin()));
  return files;
}

/// Returns the files from which this rank reads its training data.
Result<std::vector<fs::path>> training_files(const DataOptions& options) {
  std::error_code ignored;
  if (!options.reads_own_partitions && fs::exists(options.path / kWholeTrainFile, ignored)) {
    return std::vector<fs::path>{options.path / kWholeTrainFile};
  }
  auto files = partitions(options.path);
  if (!files) return files;
  if (files->empty()) {
    return fail(
        Errc::kNotFound, "{}: has {}partition such as {}", options.path.string(),
        options.reads_own_partitions ? "no " : fmt::format("neither {} nor a ", kWholeTrainFile),
        partition_file_name(0, 8));
  }
  if (!options.reads_own_partitions) return files;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (files->size() < ranks) {
    return fail(Errc::kUsage,
                "{}: {} partitions for {} ranks: with --shard file each rank needs at least one",
                options.path.string(), files->size(), ranks);
  }
  std::vector<fs::path> mine;
  for (auto i = static_cast<std::size_t>(options.rank); i < files->size(); i += ranks)
    mine.push_back((*files)[i]);
  return mine;
}

}  // namespace

std::string partition_file_name(std::size_t index, std::size_t count) {
  return fmt::format("{}{:05}{}{:05}{}", kTrainPrefix, index, kOf, count, kEnding);
}

Result<Dataset> parse_arrays(std::string_view name, std::span<const std::uint8_t> bytes) {
  DLRUN_TRY_ASSIGN(const auto file, parse_safetensors(name, bytes));
  DLRUN_TRY_ASSIGN(const auto images, find_array(name, file, "images"));
  DLRUN_TRY_ASSIGN(const auto labels, find_array(name, file, "labels"));
  Dataset data;
  DLRUN_TRY(read_images(name, *images, data));
  DLRUN_TRY(read_labels(name, *labels, images->shape[0], data));
  return data;
}

Result<Split> load_arrays_folder(const DataOptions& options) {
  DLRUN_TRY_ASSIGN(const auto files, training_files(options));
  Split split;
  split.source = options.path.string();
  for (const fs::path& file : files) {
    DLRUN_TRY_ASSIGN(auto part, read_arrays(file));
    DLRUN_TRY(append(split.train, std::move(part), file.string()));
  }
  DLRUN_TRY_ASSIGN(split.test, read_arrays(options.path / "test.safetensors"));
  return split;
}

Result<> write_arrays(const fs::path& path, const Dataset& data) {
  std::vector<std::size_t> images{data.size(), data.height, data.width};
  const std::size_t channels = data.features / (data.height * data.width);
  if (channels > 1) images.push_back(channels);
  std::vector<std::size_t> labels{data.size()};
  if (data.label_width > 1) labels.push_back(data.label_width);
  const std::array<NamedBytes, 2> arrays{
      NamedBytes{"images", "U8", std::move(images), data.images},
      NamedBytes{"labels", "U8", std::move(labels), data.labels}};
  return write_file_atomic(path, to_safetensors(arrays, {}), 0644);
}

}  // namespace dlrun::trainer
