#pragma once
// The user's own data: safetensors files with two arrays.
//
//   images   U8 [n, height, width], [n, height, width, channels] or [n, features]
//   labels   U8, I32 or I64 [n]: the class, 0 to 255;
//            or U8 or BOOL [n, classes]: 0 or 1 for each of 2 to 256 classes, for --loss sigmoid
//
// A directory contains test.safetensors, and either train.safetensors or its partitions
// train-00000-of-00008.safetensors and so on.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "common/result.h"
#include "runtime/trainer/data/dataset.h"

namespace dlrun::trainer {

/// Parses a file from an untrusted source. Fails with kInvalid; the message starts with `name` and
/// states the problem.
[[nodiscard]] Result<Dataset> parse_arrays(std::string_view name,
                                           std::span<const std::uint8_t> bytes);

/// Loads the directory options.path. Reads the training data from train.safetensors if this file
/// exists, otherwise from all partitions. With options.reads_own_partitions, ignores
/// train.safetensors and reads only the partitions whose number modulo options.ranks is
/// options.rank; fails with kUsage if there are fewer partitions than ranks. Fails with kNotFound
/// (the message names the file or the directory), kIo or kInvalid.
[[nodiscard]] Result<Split> load_arrays_folder(const DataOptions& options);

/// Writes the training or the test data of a data set as a file of this format. Fails with kIo.
[[nodiscard]] Result<> write_arrays(const std::filesystem::path& path, const Dataset& data);

/// Returns a file name such as train-00003-of-00008.safetensors.
[[nodiscard]] std::string partition_file_name(std::size_t index, std::size_t count);

}  // namespace dlrun::trainer
