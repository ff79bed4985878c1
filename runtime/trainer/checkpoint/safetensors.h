#pragma once
// Reads and writes safetensors files: named arrays in one file that cannot contain code.
// Python's `safetensors` reads them too. The format (section "Format" in the README of the
// safetensors project):
//
//   8 bytes   N, length of the header, little-endian
//   N bytes   JSON: {"__metadata__": {text: text},
//                    name: {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}};
//             padded with spaces to a multiple of 8
//   the rest  the arrays' bytes, little-endian, row-major, without gaps; data_offsets count from
//             the first of these bytes

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// A float32 array.
struct NamedArray {
  std::string name;
  std::vector<std::size_t> shape;
  std::span<const float> values;  ///< [product of the shape], row-major
};

/// An array of any element type.
struct NamedBytes {
  std::string name;
  std::string dtype;
  std::vector<std::size_t> shape;
  std::span<const std::uint8_t> bytes;  ///< little-endian
};

/// The content of a parsed file. Its spans point into the bytes that were parsed.
struct ParsedTensors {
  struct Tensor {
    std::string dtype;  ///< "F32", "F16", "I64", ...
    std::vector<std::size_t> shape;
    std::span<const std::uint8_t> bytes;  ///< not aligned
  };
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Returns the bytes of a file with these arrays. No two arrays may have the same name.
[[nodiscard]] std::string to_safetensors(
    std::span<const NamedArray> arrays,
    const std::map<std::string, std::string, std::less<>>& metadata);
[[nodiscard]] std::string to_safetensors(
    std::span<const NamedBytes> arrays,
    const std::map<std::string, std::string, std::less<>>& metadata);

/// Parses a file from an untrusted source: checks every length, type, shape and offset before use.
/// The arrays must cover the data without gap or overlap, and the header must have at most 64 MiB.
/// Fails with kInvalid; the message starts with `file_name`. The result points into `bytes`.
[[nodiscard]] Result<ParsedTensors> parse_safetensors(std::string_view file_name,
                                                      std::span<const std::uint8_t> bytes);

}  // namespace dlrun::trainer
