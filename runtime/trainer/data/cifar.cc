#include "runtime/trainer/data/cifar.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "common/files.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kColours = 3;
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kRecordBytes = 1 + kPixels * kColours;
constexpr std::size_t kClasses = 10;
constexpr std::size_t kMaxCifarFileBytes = std::size_t{1} << 30U;

Result<Dataset> read_cifar(const std::filesystem::path& path) {
  DLRUN_TRY_ASSIGN(const auto bytes, read_file(path, kMaxCifarFileBytes));
  return parse_cifar(path.string(),
                     {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

Result<Dataset> parse_cifar(std::string_view name, std::span<const std::uint8_t> bytes) {
  if (bytes.empty() || bytes.size() % kRecordBytes != 0) {
    return fail(
        Errc::kInvalid,
        "{}: {} bytes, but a CIFAR-10 file has one or more records of {} bytes: the file is "
        "truncated, or of another format",
        name, bytes.size(), kRecordBytes);
  }
  Dataset data;
  data.height = data.width = kSide;
  data.features = kPixels * kColours;
  data.classes = kClasses;
  const std::size_t n = bytes.size() / kRecordBytes;
  data.images.resize(n * data.features);
  data.labels.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t* record = bytes.data() + i * kRecordBytes;
    if (record[0] >= kClasses) {
      return fail(Errc::kInvalid, "{}: record {} is of class {}, CIFAR-10 has 0 to 9", name, i,
                  record[0]);
    }
    data.labels[i] = record[0];
    std::uint8_t* image = data.images.data() + i * data.features;
    for (std::size_t colour = 0; colour < kColours; ++colour) {
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel)
        image[pixel * kColours + colour] = record[1 + colour * kPixels + pixel];
    }
  }
  return data;
}

Result<Split> load_cifar_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path inner = folder / "cifar-10-batches-bin";
  const std::filesystem::path& data_folder =
      std::filesystem::is_directory(inner, ignored) ? inner : folder;
  Split split;
  split.source = data_folder.string();
  for (int batch = 1; batch <= 5; ++batch) {
    DLRUN_TRY_ASSIGN(auto part, read_cifar(data_folder / fmt::format("data_batch_{}.bin", batch)));
    DLRUN_TRY(append(split.train, std::move(part), ""));
  }
  DLRUN_TRY_ASSIGN(split.test, read_cifar(data_folder / "test_batch.bin"));
  return split;
}

}  // namespace dlrun::trainer
