#pragma once
// Collectives among the ranks of one world.
//
// Every rank calls the same operations in the same order, with the same type, count and root; data
// stays in the caller's buffers and is reduced in place. A communicator is used by one thread, and
// is destroyed by it; all requests are waited for before that. Destroying is a collective too: it
// waits, for a bounded time, until the others are done with this rank's last messages. A rank that
// fails for a reason of its own calls abandon() first. Where a buffer may lie is the backend's
// matter: host memory everywhere, device memory too where name() is "nccl".
//
// Errors are kPeer (another rank failed or disagrees), kTimeout, kShape (a count or type that does
// not fit) or kInternal; the message names the operation, this rank and, where the backend knows
// it, the peer. After a kPeer or kTimeout the communicator is of no further use: the attempt is
// over.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/result.h"
#include "runtime/comm/half.h"

namespace dlrun {

enum class DataType : std::uint8_t {
  kUint8,
  kInt64,
  kUint64,
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16
};
enum class ReduceOp : std::uint8_t { kSum, kMin, kMax };

[[nodiscard]] std::string_view to_string(DataType type);
[[nodiscard]] std::string_view to_string(ReduceOp op);
[[nodiscard]] constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

template <typename T>
concept Element = std::same_as<T, std::uint8_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, Float16> || std::same_as<T, Bfloat16>;

template <Element T>
inline constexpr DataType kDataTypeOf = std::same_as<T, std::uint8_t>    ? DataType::kUint8
                                        : std::same_as<T, std::int64_t>  ? DataType::kInt64
                                        : std::same_as<T, std::uint64_t> ? DataType::kUint64
                                        : std::same_as<T, float>         ? DataType::kFloat32
                                        : std::same_as<T, Float16>       ? DataType::kFloat16
                                        : std::same_as<T, Bfloat16>      ? DataType::kBfloat16
                                                                         : DataType::kFloat64;

/// count elements of one type that the caller owns. Made from a span by itself, or from a device
/// pointer by hand.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kUint8;

  Buffer() = default;
  Buffer(void* at, std::size_t n, DataType of) : data(at), count(n), type(of) {}
  template <Element T, std::size_t kExtent>
  Buffer(std::span<T, kExtent> span)
      : data(span.data()),
        count(span.size()),
        type(kDataTypeOf<T>) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] std::size_t size_bytes() const { return count * size_of(type); }
};

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kUint8;

  ConstBuffer() = default;
  ConstBuffer(const void* at, std::size_t n, DataType of) : data(at), count(n), type(of) {}
  ConstBuffer(const Buffer& buffer)
      : data(buffer.data),
        count(buffer.count),
        type(buffer.type) {}  // NOLINT(google-explicit-constructor)
  template <typename T, std::size_t kExtent>
  requires Element<std::remove_const_t<T>> ConstBuffer(
      std::span<T, kExtent> span)  // NOLINT(google-explicit-constructor)
      : data(span.data()), count(span.size()), type(kDataTypeOf<std::remove_const_t<T>>) {}

  [[nodiscard]] std::size_t size_bytes() const { return count * size_of(type); }
};

/// An all-reduce under way; its buffer belongs to the communicator until wait() returns. Move-only.
/// A request that was not waited for is waited for by its destructor, and its error is lost.
class Request {
 public:
  /// A backend's half: finish() is called once.
  class State {
   public:
    virtual ~State() = default;
    [[nodiscard]] virtual Result<> finish() = 0;
  };

  Request() = default;  ///< complete
  explicit Request(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// Returns when the buffer holds the result, or, for device memory, when the communicator's
  /// compute stream will see it. A second call returns success at once.
  [[nodiscard]] Result<> wait();
  [[nodiscard]] bool is_pending() const { return state_ != nullptr; }

 private:
  std::unique_ptr<State> state_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] virtual std::string_view name()
      const = 0;  ///< the backend's, as in make_communicator
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// For buffers in device memory: the caller's queue of work there (a cudaStream_t; by default the
  /// device's default stream). A collective starts after what was queued before its call, and what
  /// is queued after it (after Request::wait) sees the result; the calling thread does not wait for
  /// the device.
  virtual void set_compute_stream(void* /*stream*/) {}

  /// Every rank's data, element by element combined by op, in data on every rank. A sum of floats
  /// is the same bytes on every rank, but its order of additions depends on backend and size; of
  /// 16-bit floats each partial sum is rounded to 16 bits. count == 0 does nothing.
  [[nodiscard]] virtual Result<> all_reduce(Buffer data, ReduceOp op) = 0;

  /// The same without waiting, so that communication overlaps with what the caller does next.
  /// Several may be under way; they are started in the same order on every rank.
  [[nodiscard]] virtual Result<Request> start_all_reduce(Buffer data, ReduceOp op) = 0;

  /// Gives requests under way a chance to advance; cheap, never blocks. Only backends without a
  /// thread or device of their own need it (mpi): call it now and then during long computation.
  virtual void progress() {}

  /// root's data on every rank.
  [[nodiscard]] virtual Result<> broadcast(Buffer data, int root) = 0;

  /// all holds size() * mine.count elements, rank r's at r * mine.count. mine may be that very part
  /// of all.
  [[nodiscard]] virtual Result<> all_gather(ConstBuffer mine, Buffer all) = 0;

  /// mine is part rank() of the sum (or min, max) of every rank's all; all holds size() *
  /// mine.count elements and is left as it was. The buffers do not overlap.
  [[nodiscard]] virtual Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) = 0;

  /// Returns after every rank has called it.
  [[nodiscard]] virtual Result<> barrier() = 0;

  /// bytes of zeroed memory that all ranks read and write, aligned to a page; it may outlive the
  /// communicator. What a rank writes before a collective the others see after it. nullptr, on
  /// every rank, where the backend has none (all but shm) or the machine has no room.
  [[nodiscard]] virtual Result<std::shared_ptr<std::byte>> share(std::size_t /*bytes*/) {
    return nullptr;
  }

  /// Fails where this rank must not rely on what its collectives gave: one has failed, or was cut
  /// off after its wait() had returned, as only device memory allows; of those under way there it
  /// waits for the end. No collective. Call before anything is written that is to outlive the
  /// attempt.
  [[nodiscard]] virtual Result<> settled() = 0;

  /// This rank leaves without the others: destroying then waits for nobody, and the others see an
  /// error instead of a wait where the backend can tell them. Called by itself after an error of
  /// the communicator.
  virtual void abandon() = 0;

 protected:
  Communicator() = default;
};

}  // namespace dlrun
