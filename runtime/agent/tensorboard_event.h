#pragma once
// Encodes records of TensorBoard's event files. Pure functions.
//
// A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h): the length in eight
// bytes, its masked CRC32C in four, the data, and the masked CRC32C of the data in four; all little
// endian. The data of a record is an Event message (tensorflow/core/util/event.proto) in the wire
// format of protocol buffers.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dlrun::agent {

/// Returns the CRC32C (Castagnoli, RFC 3720, B.4) of the bytes.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Returns the data as a record of the file.
[[nodiscard]] std::string tf_record(std::string_view data);

/// A number with its name in TensorBoard. The file holds it as a float32.
struct Scalar {
  std::string tag;
  double value = 0;
};

// Each of these functions returns a whole record. wall_s: seconds since 1970.

/// Returns the first record of a file.
[[nodiscard]] std::string version_record(double wall_s);
/// Returns the record that makes TensorBoard forget the values that earlier attempts wrote for this
/// step and later ones.
[[nodiscard]] std::string restart_record(double wall_s, std::int64_t step);
/// Returns the record with the values of the scalars at this step.
[[nodiscard]] std::string scalars_record(double wall_s, std::int64_t step,
                                         std::span<const Scalar> scalars);

}  // namespace dlrun::agent
