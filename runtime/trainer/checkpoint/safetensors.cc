#include "runtime/trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/bounded_json.h"

static_assert(std::endian::native == std::endian::little,
              "arrays are written in the byte order of the memory");

namespace dlrun::trainer {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;  // size of the number that holds the header's length
constexpr std::size_t kMaxHeaderBytes = 64U << 20U;

/// Returns the size of one element in bytes, or nothing for an unknown type.
std::optional<std::size_t> element_bytes(std::string_view dtype) {
  struct Row {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr Row kTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                   {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                                   {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
  for (const Row& row : kTypes) {
    if (row.name == dtype) return row.bytes;
  }
  return std::nullopt;
}

std::optional<std::size_t> as_size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::size_t>();
}

/// Checks and parses one entry of the header. Sets `begin` to the offset of the tensor's first byte
/// in `data`.
Result<ParsedTensors::Tensor> parse_entry(std::string_view file_name, std::string_view name,
                                          const json& entry, std::span<const std::uint8_t> data,
                                          std::size_t& begin) {
  const auto wrong = [&](std::string_view what) {
    return fail(Errc::kInvalid, "{}: tensor '{}': {}", file_name, name.substr(0, 200), what);
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return wrong("dtype, shape and data_offsets are needed");
  }
  if (!entry["dtype"].is_string() || !entry["shape"].is_array() ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    return wrong("dtype, shape or data_offsets has the wrong type or length");
  }
  ParsedTensors::Tensor tensor;
  tensor.dtype = entry["dtype"].get<std::string>();
  const auto width = element_bytes(tensor.dtype);
  if (!width) return wrong("its dtype is not known");
  std::size_t bytes = *width;
  for (const json& item : entry["shape"]) {
    const auto size = as_size(item);
    if (!size || (*size != 0 && bytes > std::numeric_limits<std::size_t>::max() / *size))
      return wrong("its shape is not possible");
    tensor.shape.push_back(*size);
    bytes *= *size;
  }
  const auto first = as_size(entry["data_offsets"][0]);
  const auto end = as_size(entry["data_offsets"][1]);
  if (!first || !end || *first > *end || *end > data.size())
    return wrong("its data_offsets are not two numbers in order, or lie outside the file");
  if (*end - *first != bytes) return wrong("its data_offsets do not fit its shape");
  tensor.bytes = data.subspan(*first, bytes);
  begin = *first;
  return tensor;
}

}  // namespace

std::string to_safetensors(std::span<const NamedArray> arrays,
                           const std::map<std::string, std::string, std::less<>>& metadata) {
  std::vector<NamedBytes> bytes;
  for (const NamedArray& array : arrays) {
    bytes.push_back(
        {array.name,
         "F32",
         array.shape,
         {reinterpret_cast<const std::uint8_t*>(array.values.data()), array.values.size_bytes()}});
  }
  return to_safetensors(bytes, metadata);
}

std::string to_safetensors(std::span<const NamedBytes> arrays,
                           const std::map<std::string, std::string, std::less<>>& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const NamedBytes& array : arrays) {
    const std::size_t end = offset + array.bytes.size();
    header[array.name] = {
        {"dtype", array.dtype}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');

  std::string file;
  file.reserve(kLengthBytes + text.size() + offset);
  const std::uint64_t length = text.size();
  file.append(reinterpret_cast<const char*>(&length), sizeof length);
  file += text;
  for (const NamedBytes& array : arrays)
    file.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return file;
}

Result<ParsedTensors> parse_safetensors(std::string_view file_name,
                                        std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kLengthBytes) {
    return fail(Errc::kInvalid,
                "{}: truncated: has {} bytes, but a safetensors file has at least {}", file_name,
                bytes.size(), kLengthBytes);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - kLengthBytes) {
    return fail(
        Errc::kInvalid,
        "{}: truncated, or not a safetensors file: the header should have {} bytes, {} follow",
        file_name, length, bytes.size() - kLengthBytes);
  }
  if (length > kMaxHeaderBytes) {
    return fail(Errc::kInvalid, "{}: the header has {} bytes, at most {} are allowed", file_name,
                length, kMaxHeaderBytes);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  const json header =
      parse_json<json>({text, static_cast<std::size_t>(length)}, limits_for_sorted_json());
  if (!header.is_object())
    return fail(Errc::kInvalid, "{}: the header is not a JSON object", file_name);

  const std::span<const std::uint8_t> data = bytes.subspan(kLengthBytes + length);
  ParsedTensors parsed;
  std::vector<std::pair<std::size_t, std::size_t>> covered;  // begin, bytes
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") {
      if (!entry.is_object())
        return fail(Errc::kInvalid, "{}: __metadata__ is not an object", file_name);
      for (const auto& [field, value] : entry.items()) {
        if (!value.is_string())
          return fail(Errc::kInvalid, "{}: a value in __metadata__ is not text", file_name);
        parsed.metadata[field] = value.get<std::string>();
      }
      continue;
    }
    std::size_t begin = 0;
    DLRUN_TRY_ASSIGN(auto tensor, parse_entry(file_name, key, entry, data, begin));
    covered.emplace_back(begin, tensor.bytes.size());
    parsed.tensors[key] = std::move(tensor);
  }
  std::sort(covered.begin(), covered.end());
  std::size_t end = 0;
  for (const auto& [begin, count] : covered) {
    if (begin != end)
      return fail(Errc::kInvalid,
                  "{}: its arrays overlap or leave a hole at byte {} after the header", file_name,
                  std::min(begin, end));
    end = begin + count;
  }
  if (end != data.size()) {
    return fail(Errc::kInvalid,
                "{}: its arrays end at byte {}, the file has {} bytes after the header", file_name,
                end, data.size());
  }
  return parsed;
}

}  // namespace dlrun::trainer
