#pragma once
// CIFAR-10's binary version (Krizhevsky 2009): data_batch_1.bin to data_batch_5.bin and
// test_batch.bin.
//
//   a record    1 byte     the class, 0 to 9
//               3072 bytes 32 x 32 red values, row by row, then the green ones, then the blue ones

#include <filesystem>
#include <span>
#include <string_view>

#include "common/result.h"
#include "runtime/trainer/data/dataset.h"

namespace dlrun::trainer {

/// The records of a file, a pixel's colours together: [n x 32 x 32 x 3]. Fails with kInvalid,
/// saying the record, where the bytes are no whole number of records, there is none, or a class is
/// above 9. name is put before the message.
[[nodiscard]] Result<Dataset> parse_cifar(std::string_view name,
                                          std::span<const std::uint8_t> bytes);

/// The six files of a folder, or of cifar-10-batches-bin in it, as the archive unpacks. Fails with
/// kNotFound, kIo, kInvalid.
[[nodiscard]] Result<Split> load_cifar_folder(const std::filesystem::path& folder);

}  // namespace dlrun::trainer
