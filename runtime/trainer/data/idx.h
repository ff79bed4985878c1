#pragma once
// IDX, the file format of MNIST and Fashion-MNIST: unsigned bytes in n dimensions, plain or
// gzip-compressed.
//
//   offset  bytes                                    (LeCun, Cortes & Burges, "The MNIST database
//   of handwritten digits") 0       0 0 TYPE N     TYPE: 0x08 unsigned byte; N: number of
//   dimensions 4       4 * N          the sizes, big-endian, slowest dimension first 4+4N product
//   the values, row-major

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// An array of unsigned bytes as its file holds it.
struct IdxArray {
  std::vector<std::uint32_t> sizes;  ///< slowest dimension first
  std::vector<std::uint8_t> file;    ///< the whole file, decompressed

  [[nodiscard]] std::span<const std::uint8_t> values() const {
    return std::span(file).subspan(4 + 4 * sizes.size());
  }
};

/// Takes file apart; checks every size before it is used. expected_dimensions: 3 for images, 1 for
/// labels. Fails with kInvalid: not IDX, another element type, another number of dimensions, or
/// more or fewer bytes than the header promises; the message gives both numbers. name is put before
/// it.
[[nodiscard]] Result<IdxArray> parse_idx(std::string_view name, std::vector<std::uint8_t> file,
                                         std::size_t expected_dimensions);

/// Reads an IDX file; gzip is known by its first bytes, not by its name. At most limit_bytes after
/// decompression. Fails with kNotFound, kIo, kInvalid.
[[nodiscard]] Result<IdxArray> read_idx(const std::filesystem::path& path,
                                        std::size_t expected_dimensions,
                                        std::size_t limit_bytes = std::size_t{8} << 30U);

/// Writes values with the given sizes, whole or not at all. Fails with kShape if they do not fit,
/// and with kIo.
[[nodiscard]] Result<> write_idx(const std::filesystem::path& path,
                                 std::span<const std::uint32_t> sizes,
                                 std::span<const std::uint8_t> values);

}  // namespace dlrun::trainer
