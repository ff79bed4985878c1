#pragma once
// Reads and writes IDX, the file format of MNIST and Fashion-MNIST (LeCun, Cortes & Burges,
// "The MNIST database of handwritten digits"): an n-dimensional array of unsigned bytes,
// plain or gzip-compressed.
//
//   offset     length            content
//   0          4                 0, 0, the type (0x08: unsigned bytes), the number N of dimensions
//   4          4 * N             N sizes, each 4 bytes, big-endian, slowest dimension first
//   4 + 4 * N  product of sizes  the values, one byte each, row-major

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// A parsed file: the header's sizes, and the bytes of the file, which include the values.
struct IdxArray {
  std::vector<std::uint32_t> sizes;  ///< slowest dimension first
  std::vector<std::uint8_t> file;    ///< the whole file, decompressed

  [[nodiscard]] std::span<const std::uint8_t> values() const {
    return std::span(file).subspan(4 + 4 * sizes.size());
  }
};

/// Parses a file and checks every size before use. expected_dimensions is 3 for images and 1 for
/// labels. Fails with kInvalid if the file is not IDX, has another element type or number of
/// dimensions, or has more or fewer bytes than its header specifies (the message has both numbers).
/// The message starts with `name`.
[[nodiscard]] Result<IdxArray> parse_idx(std::string_view name, std::vector<std::uint8_t> file,
                                         std::size_t expected_dimensions);

/// Reads an IDX file. Recognises gzip by the first bytes, not by the name. Fails with kNotFound
/// or kIo, and with kInvalid if the file is not valid, or has more than limit_bytes bytes after
/// decompression.
[[nodiscard]] Result<IdxArray> read_idx(const std::filesystem::path& path,
                                        std::size_t expected_dimensions,
                                        std::size_t limit_bytes = std::size_t{8} << 30U);

/// Writes an IDX file atomically. Fails with kShape if the number of values does not match the
/// sizes, or if there are no sizes or more than eight, and with kIo if the file cannot be written.
[[nodiscard]] Result<> write_idx(const std::filesystem::path& path,
                                 std::span<const std::uint32_t> sizes,
                                 std::span<const std::uint8_t> values);

}  // namespace dlrun::trainer
