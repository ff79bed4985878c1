#pragma once
// Data of one's own: safetensors files with two arrays.
//
//   images    U8 [n, height, width], [n, height, width, channels] or [n, features]
//   labels    U8, I32 or I64 [n]: the class, 0 to 255; or U8 or BOOL [n, classes]: 0 or 1 for each
//   class, for --loss sigmoid
//
// A folder has test.safetensors, and train.safetensors or its partitions
// train-00000-of-00008.safetensors and so on.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "common/result.h"
#include "runtime/trainer/data/dataset.h"

namespace dlrun::trainer {

/// Trusts nothing of bytes. Fails with kInvalid: which array of the file is wrong in what. name is
/// put before the message.
[[nodiscard]] Result<Dataset> parse_arrays(std::string_view name,
                                           std::span<const std::uint8_t> bytes);

/// What options.path holds. With options.is_by_file, of the partitions only those whose number
/// modulo size is rank. Fails with kNotFound (which file), kIo, kInvalid, and kUsage where there
/// are fewer partitions than ranks.
[[nodiscard]] Result<Split> load_arrays_folder(const DataOptions& options);

/// Writes a half as one such file. Fails with kIo.
[[nodiscard]] Result<> write_arrays(const std::filesystem::path& path, const Dataset& data);

/// train-00003-of-00008.safetensors.
[[nodiscard]] std::string partition_name(std::size_t index, std::size_t count);

}  // namespace dlrun::trainer
