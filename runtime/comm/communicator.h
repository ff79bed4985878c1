#pragma once
// Collective operations among the ranks of one world.
//
// Every rank calls the same operations in the same order, with the same type, count and root.
// Inputs and results are in the caller's buffers. all_reduce and broadcast work in place. All
// backends accept host memory; the backends "nccl" and "rccl" also accept device memory.
//
// One thread uses and destroys a communicator. Wait for all requests before destroying it.
// The destructor may block until the other ranks have received this rank's last messages, so every
// rank destroys its communicator at the same point of the program. The destructor blocks for a
// bounded time, except with mpi. A rank whose program has failed calls abandon() first.
//
// Error codes: kPeer (another rank failed, or called a different operation), kTimeout, kShape (a
// count, type or root does not fit), kInternal. The message contains the operation, this rank
// and, if the backend knows it, the failed rank. After any error the communicator cannot be used
// any more, and the attempt must end.

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

/// `count` elements of one type; the caller owns the memory. Converts implicitly from a span; a
/// device pointer needs the constructor with three arguments.
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

/// A running all-reduce. The caller must not touch its buffer until wait() returns. Move-only. The
/// destructor waits for a request for which wait() was not called, and discards its error.
class Request {
 public:
  /// The backend's part of a request. finish() is called once.
  class State {
   public:
    virtual ~State() = default;
    [[nodiscard]] virtual Result<> finish() = 0;
  };

  Request() = default;  ///< an already completed request
  explicit Request(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// For host memory, returns when the buffer holds the result. For device memory, returns
  /// immediately and makes only the compute stream wait: work that is queued after this call sees
  /// the result. A second call returns success immediately.
  [[nodiscard]] Result<> wait();
  /// Returns true until wait() is called, even if the all-reduce has ended in the meantime. Always
  /// returns false for a default-constructed request, and for a request that was complete when it
  /// was started (count 0; the backend single; the backends nccl and rccl with host memory).
  [[nodiscard]] bool needs_wait() const { return state_ != nullptr; }

 private:
  std::unique_ptr<State> state_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Returns the backend's name, which make_communicator() accepts.
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Sets the stream (a cudaStream_t) on which the caller uses its device buffers; the default is
  /// the device's default stream. A collective starts after all work that was queued on this stream
  /// before the collective was called. Work that is queued after the collective (for a request:
  /// after Request::wait()) sees the result. The calling thread does not wait for the device.
  virtual void set_compute_stream(void* /*stream*/) {}

  /// Combines every rank's data element by element with op, and writes the result into data on
  /// every rank. Every rank gets identical bytes for a sum of floats, but the order of the
  /// additions depends on the backend and the world size. For 16-bit floats each partial sum is
  /// rounded to 16 bits. count == 0 does nothing.
  [[nodiscard]] virtual Result<> all_reduce(Buffer data, ReduceOp op) = 0;

  /// Starts an all-reduce, so that communication overlaps with computation. Several requests may
  /// run at a time; every rank starts them in the same order. Two cases do not overlap: shm does
  /// the work in Request::wait(), and nccl and rccl complete a request for host memory in this
  /// call.
  [[nodiscard]] virtual Result<Request> start_all_reduce(Buffer data, ReduceOp op) = 0;

  /// Lets running requests advance. This call is cheap and never blocks. Only mpi needs it,
  /// because MPI works on requests only inside its calls: call it repeatedly during a long
  /// computation.
  virtual void advance_requests() {}

  /// Copies the root's data to every rank.
  [[nodiscard]] virtual Result<> broadcast(Buffer data, int root) = 0;

  /// Gathers every rank's data into `all` on every rank. `all` holds size() * mine.count elements;
  /// rank r's elements start at index r * mine.count. `mine` may be this rank's part of `all`.
  [[nodiscard]] virtual Result<> all_gather(ConstBuffer mine, Buffer all) = 0;

  /// Combines every rank's `all` with op, and writes part rank() of the result into `mine`. `all`
  /// holds size() * mine.count elements and is not modified. The buffers must not overlap.
  [[nodiscard]] virtual Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) = 0;

  /// Returns after every rank has called barrier().
  [[nodiscard]] virtual Result<> barrier() = 0;

  /// Returns `bytes` of zeroed memory, aligned to a page, that all ranks read and write. Writes
  /// before a collective are visible to the other ranks after it. The memory may outlive the
  /// communicator. Returns nullptr on every rank if the backend has no shared memory (only shm has
  /// it), or if the machine has none left.
  [[nodiscard]] virtual Result<std::shared_ptr<std::byte>> allocate_shared(std::size_t /*bytes*/) {
    return nullptr;
  }

  /// Checks that the results of all collectives so far can be trusted. Waits for running
  /// collectives on the device. Fails if one has failed or was aborted, even after its wait()
  /// succeeded: on a device, the failure can come later. This function is not a collective. Call it
  /// before writing anything that outlives the attempt, for example a checkpoint.
  [[nodiscard]] virtual Result<> check_results() = 0;

  /// Leaves the communicator without waiting for the other ranks. The destructor then does not
  /// wait either. The other ranks get an error instead of waiting, if the backend can notify them.
  /// A collective that fails also calls this function, unless the ranks' calls differ.
  virtual void abandon() = 0;

 protected:
  Communicator() = default;
};

}  // namespace dlrun
