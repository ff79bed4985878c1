#pragma once
// safetensors: named arrays in one file, without code in it; Python's `safetensors` reads what this
// writes.
//
//   8 bytes     N, length of the header, little-endian     (format: the safetensors project,
//   "Format" in its README) N bytes     JSON: {"__metadata__": {text: text}, name: {"dtype": "F32",
//   "shape": [...], "data_offsets": [begin, end]}};
//               padded with spaces to a multiple of 8
//   the rest    the arrays' bytes, little-endian, row-major, without holes; offsets count from here

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::trainer {

/// One float32 array.
struct NamedArray {
  std::string name;
  std::vector<std::size_t> shape;
  std::span<const float> values;  ///< as many as the shape's product
};

/// An array of any type, by its name there: "U8", "F32", ...
struct NamedBytes {
  std::string name;
  std::string dtype;
  std::vector<std::size_t> shape;
  std::span<const std::uint8_t> bytes;  ///< little-endian, as many as type and shape make
};

/// A file's content. The arrays point into bytes of the caller.
struct ParsedTensors {
  struct Tensor {
    std::string dtype;  ///< "F32", "F16", "I64", ...
    std::vector<std::size_t> shape;
    std::span<const std::uint8_t> bytes;  ///< not aligned
  };
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// The whole file. Names must differ; metadata is text only.
[[nodiscard]] std::string to_safetensors(
    std::span<const NamedArray> arrays,
    const std::map<std::string, std::string, std::less<>>& metadata);
[[nodiscard]] std::string to_safetensors(
    std::span<const NamedBytes> arrays,
    const std::map<std::string, std::string, std::less<>>& metadata);

/// Takes bytes apart, trusting nothing: every length, type, shape and offset is checked before use;
/// arrays must cover the rest without hole or overlap. Fails with kInvalid; name is put before the
/// message. The result points into bytes.
[[nodiscard]] Result<ParsedTensors> parse_safetensors(std::string_view name,
                                                      std::span<const std::uint8_t> bytes);

}  // namespace dlrun::trainer
