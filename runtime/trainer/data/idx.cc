#include "runtime/trainer/data/idx.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include <fmt/format.h>
#include <zlib.h>

#include "common/files.h"
#include "common/untrusted_file.h"

namespace dlrun::trainer {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMaxDimensions = 8;

std::uint32_t from_big_endian(const std::uint8_t* bytes) {
  return (std::uint32_t{bytes[0]} << 24U) | (std::uint32_t{bytes[1]} << 16U) |
         (std::uint32_t{bytes[2]} << 8U) | std::uint32_t{bytes[3]};
}

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

/// Returns the file's bytes, decompressed if it is gzip.
Result<std::vector<std::uint8_t>> read_decompressed(const std::filesystem::path& path,
                                                    std::size_t limit_bytes) {
  DLRUN_TRY_ASSIGN(auto opened, open_untrusted(path, Links::kFollow));
  UniqueFd fd = std::move(opened);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));

  std::unique_ptr<gzFile_s, CloseGz> gz(gzdopen(fd.get(), "rb"));
  if (gz == nullptr) return fail(Errc::kIo, "{}: out of memory", path.string());
  static_cast<void>(fd.release());  // gz owns the descriptor
  gzbuffer(gz.get(), 1U << 17U);
  const bool is_gzip = gzdirect(gz.get()) == 0;

  std::vector<std::uint8_t> bytes;
  if (!is_gzip) bytes.reserve(std::min(static_cast<std::size_t>(info.st_size), limit_bytes) + 1);
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20U;
  for (;;) {
    const std::size_t size = bytes.size();
    if (bytes.capacity() - size < kChunkBytes)
      bytes.reserve(std::max(2 * size, size + kChunkBytes));
    bytes.resize(size + kChunkBytes);
    const int got = gzread(gz.get(), bytes.data() + size, static_cast<unsigned>(kChunkBytes));
    bytes.resize(size + static_cast<std::size_t>(std::max(got, 0)));
    if (bytes.size() > limit_bytes) {
      return fail(Errc::kInvalid, "{}: its content is larger than the limit of {} bytes",
                  path.string(), limit_bytes);
    }
    if (got > 0) continue;
    int code = Z_OK;
    const char* text = gzerror(gz.get(), &code);
    if (code == Z_ERRNO)
      return fail(Errc::kIo, "{}: cannot read: {}", path.string(), errno_text(errno));
    if (code == Z_BUF_ERROR) {
      return fail(
          Errc::kInvalid,
          "{}: the gzip stream is cut off after {} decompressed bytes: fetch the file again",
          path.string(), bytes.size());
    }
    if (got < 0 || code != Z_OK) {
      return fail(Errc::kInvalid, "{}: damaged gzip stream after {} decompressed bytes: {}",
                  path.string(), bytes.size(), text);
    }
    return bytes;
  }
}

}  // namespace

Result<IdxArray> parse_idx(std::string_view name, std::vector<std::uint8_t> file,
                           std::size_t expected_dimensions) {
  if (file.size() < 4 || file[0] != 0 || file[1] != 0) {
    return fail(
        Errc::kInvalid,
        "{}: not an IDX file: it must begin with two zero bytes, the element type and the number "
        "of dimensions, and {}",
        name,
        file.size() < 4 ? fmt::format("holds {} bytes", file.size())
                        : fmt::format("begins with {:02x} {:02x} {:02x} {:02x}", file[0], file[1],
                                      file[2], file[3]));
  }
  if (file[2] != kUnsignedByte) {
    return fail(Errc::kInvalid, "{}: element type 0x{:02x}, expected 0x08 (unsigned byte)", name,
                file[2]);
  }
  const std::size_t dimensions = file[3];
  if (dimensions != expected_dimensions || dimensions > kMaxDimensions) {
    return fail(Errc::kInvalid, "{}: {} dimension(s), expected {} ({})", name, dimensions,
                expected_dimensions,
                expected_dimensions == 1   ? "labels; is this a file of images?"
                : expected_dimensions == 3 ? "images x rows x columns; is this a file of labels?"
                                           : "as the caller needs");
  }
  const std::size_t header_bytes = 4 + 4 * dimensions;
  if (file.size() < header_bytes) {
    return fail(Errc::kInvalid, "{}: truncated in its header: expected {} bytes, found {}", name,
                header_bytes, file.size());
  }
  IdxArray array;
  std::size_t value_bytes = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::uint32_t size = from_big_endian(file.data() + 4 + 4 * i);
    array.sizes.push_back(size);
    if (size != 0 &&
        value_bytes > (std::numeric_limits<std::size_t>::max() - header_bytes) / size) {
      return fail(Errc::kInvalid,
                  "{}: the sizes in its header multiply to more than any file holds", name);
    }
    value_bytes *= size;
  }
  const std::size_t expected_bytes = header_bytes + value_bytes;
  if (file.size() != expected_bytes) {
    return fail(Errc::kInvalid, "{}: {}: expected {} bytes for {} items of {} bytes, found {}",
                name, file.size() < expected_bytes ? "truncated" : "longer than its header says",
                expected_bytes, array.sizes[0],
                array.sizes[0] == 0 ? 0 : value_bytes / array.sizes[0], file.size());
  }
  array.file = std::move(file);
  return array;
}

Result<IdxArray> read_idx(const std::filesystem::path& path, std::size_t expected_dimensions,
                          std::size_t limit_bytes) {
  try {
    DLRUN_TRY_ASSIGN(auto bytes, read_decompressed(path, limit_bytes));
    return parse_idx(path.string(), std::move(bytes), expected_dimensions);
  } catch (const std::bad_alloc&) {
    return fail(
        Errc::kIo,
        "{}: not enough memory for its content; the limit may be ulimit -v or resources.mem",
        path.string());
  }
}

Result<> write_idx(const std::filesystem::path& path, std::span<const std::uint32_t> sizes,
                   std::span<const std::uint8_t> values) {
  std::size_t product = 1;
  std::string content{'\0', '\0', static_cast<char>(kUnsignedByte),
                      static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    product *= size;
    for (const unsigned shift : {24U, 16U, 8U, 0U})
      content.push_back(static_cast<char>((size >> shift) & 0xffU));
  }
  if (product != values.size() || sizes.empty() || sizes.size() > kMaxDimensions) {
    return fail(Errc::kShape,
                "{}: {} values do not fit the sizes [{}]: there must be 1 to {} sizes, and their "
                "product must be the number of values",
                path.string(), values.size(), fmt::join(sizes, ", "), kMaxDimensions);
  }
  content.append(values.begin(), values.end());
  return write_file_atomic(path, content, 0644);
}

}  // namespace dlrun::trainer
