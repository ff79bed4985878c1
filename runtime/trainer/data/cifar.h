#pragma once
// Reads CIFAR-10's binary version (Krizhevsky 2009): data_batch_1.bin to data_batch_5.bin and
// test_batch.bin. A record has 3073 bytes:
//
//   1 byte      the class, 0 to 9
//   3072 bytes  32 x 32 red values, row by row, then the green and the blue values

#include <filesystem>
#include <span>
#include <string_view>

#include "common/result.h"
#include "runtime/trainer/data/dataset.h"

namespace dlrun::trainer {

/// Parses a file into images [n x 32 x 32 x 3], with the three colours of a pixel side by side.
/// Fails with kInvalid if the file has no record or an incomplete record, or if a class is above 9
/// (the message names the record). The message starts with `name`.
[[nodiscard]] Result<Dataset> parse_cifar(std::string_view name,
                                          std::span<const std::uint8_t> bytes);

/// Loads the six files from `folder`, or from its sub-directory cifar-10-batches-bin: the published
/// archive unpacks into a directory of this name. Fails with kNotFound, kIo or kInvalid.
[[nodiscard]] Result<Split> load_cifar_folder(const std::filesystem::path& folder);

}  // namespace dlrun::trainer
