// Collectives over shared memory. Each rank reduces one part of the data for all ranks
// (reduce-scatter, then all-gather), in chunks that fit into the processor's cache. shm_segment.h
// defines how ranks share memory and wait for each other.
//
// A request does its work when the caller waits for it, or in the next collective call. The work
// costs the same processor time whenever it is done, so an earlier start would gain nothing. A
// later start gives the other ranks time to reach the call.

#include "runtime/comm/shm.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/comm/reduce.h"
#include "runtime/comm/shm_segment.h"
#include "runtime/comm/slot_writer.h"

namespace dlrun {

namespace {

enum class ShmOperation : std::uint64_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier
};

/// If the data of all ranks together has at most this many bytes, every rank reduces all data by
/// itself, in one step instead of two.
constexpr std::size_t kOneStepBytes = std::size_t{32} << 10U;
/// Number of bytes combined at a time, so that the partial sum stays in the first-level cache.
constexpr std::size_t kBlockBytes = 8192;

struct Range {
  std::size_t begin;
  std::size_t count;
};

/// Returns part `index` when `count` elements are split into `parts`; the first parts may have one
/// element more.
Range part_of(std::size_t count, int index, int parts) {
  const auto i = static_cast<std::size_t>(index);
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t begin = count / n * i + std::min(i, count % n);
  return {begin, count / n + (i < count % n ? 1 : 0)};
}

template <typename T>
void copy_elements(T* to, const T* from, std::size_t count) {
  if (count > 0) std::memcpy(to, from, count * sizeof(T));
}

class ShmCommunicator final : public Communicator {
 public:
  explicit ShmCommunicator(std::unique_ptr<ShmSegment> segment) : segment_(std::move(segment)) {}

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  [[nodiscard]] int rank() const override { return segment_->rank(); }
  [[nodiscard]] int size() const override { return segment_->size(); }
  void abandon() override { segment_->leave(); }
  Result<> check_results() override {
    if (status_ && segment_->has_this_rank_left())
      return fail(Errc::kPeer, "the communicator was abandoned");
    return status_;
  }

  Result<> all_reduce(Buffer data, ReduceOp op) override {
    DLRUN_TRY(run_requests(next_request_));
    return all_reduce_now(data, op);
  }

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    requests_.push_back({data, op});
    return Request(std::make_unique<Pending>(*this, next_request_++));
  }

  Result<> broadcast(Buffer data, int root) override {
    DLRUN_TRY(
        begin(ShmOperation::kBroadcast, data.type, data.count, static_cast<std::uint64_t>(root)));
    auto* const bytes = static_cast<std::byte*>(data.data);
    const std::size_t chunk = segment_->chunk_bytes();
    for (std::size_t at = 0; at < data.size_bytes(); at += chunk) {
      const std::size_t count = std::min(chunk, data.size_bytes() - at);
      const std::uint64_t step = segment_->next_step();
      if (rank() == root) writer_.write(segment_->buffer(root, step), bytes + at, count);
      segment_->publish();
      DLRUN_TRY(segment_->await());
      if (rank() != root) copy_elements(bytes + at, segment_->buffer(root, step), count);
    }
    return {};
  }

  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    DLRUN_TRY(begin(ShmOperation::kAllGather, mine.type, mine.count, 0));
    const auto* const own = static_cast<const std::byte*>(mine.data);
    auto* const out = static_cast<std::byte*>(all.data);
    const std::size_t part = mine.size_bytes();
    const std::size_t chunk = segment_->chunk_bytes();
    for (std::size_t at = 0; at < part; at += chunk) {
      const std::size_t count = std::min(chunk, part - at);
      const std::uint64_t step = segment_->next_step();
      writer_.write(segment_->buffer(rank(), step), own + at, count);
      segment_->publish();
      DLRUN_TRY(segment_->await());
      for (int peer = 0; peer < size(); ++peer) {
        std::byte* const to = out + static_cast<std::size_t>(peer) * part + at;
        if (peer != rank()) {
          copy_elements(to, segment_->buffer(peer, step), count);
        } else if (to != own + at) {
          copy_elements(to, own + at, count);
        }
      }
    }
    return {};
  }

  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    DLRUN_TRY(
        begin(ShmOperation::kReduceScatter, mine.type, mine.count, static_cast<std::uint64_t>(op)));
    return with_type(mine.type, [&]<typename T>(T) {
      return reduce_scatter_of(static_cast<const T*>(all.data), static_cast<T*>(mine.data),
                               mine.count, op);
    });
  }

  Result<> barrier() override {
    DLRUN_TRY(begin(ShmOperation::kBarrier, DataType::kUint8, 0, 0));
    segment_->publish();
    return segment_->await();
  }

  Result<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) override {
    auto memory = segment_->extend(bytes);
    std::uint8_t have_all = memory == nullptr ? 0 : 1;
    DLRUN_TRY(all_reduce(std::span(&have_all, 1), ReduceOp::kMin));
    if (have_all == 0) memory.reset();
    return memory;
  }

 private:
  struct QueuedAllReduce {
    Buffer data;
    ReduceOp op;
  };

  class Pending final : public Request::State {
   public:
    Pending(ShmCommunicator& owner, std::uint64_t number) : owner_(owner), number_(number) {}
    Result<> finish() override { return owner_.run_requests(number_ + 1); }

   private:
    ShmCommunicator& owner_;
    std::uint64_t number_;
  };

  /// Runs the requests with numbers below `end`, in order. Each collective call except
  /// start_all_reduce() first runs all requests, so all ranks run the same operations in the same
  /// order.
  Result<> run_requests(std::uint64_t end) {
    if (!status_) return status_;
    while (next_request_ - requests_.size() < end) {
      const QueuedAllReduce queued = requests_.front();
      requests_.pop_front();
      if (auto done = all_reduce_now(queued.data, queued.op); !done)
        return status_ = std::move(done);
    }
    return {};
  }

  /// Announces a call to the other ranks as 64 bits: the operation, the type, the reduction (or the
  /// root), and the count. Runs all pending requests first, unless the call is an all-reduce:
  /// all_reduce() has run them already, or the call belongs to a request itself.
  Result<> begin(ShmOperation operation, DataType type, std::size_t count,
                 std::uint64_t op_or_root) {
    if (operation != ShmOperation::kAllReduce) DLRUN_TRY(run_requests(next_request_));
    writer_.begin_collective(count * size_of(type));
    segment_->announce_call(static_cast<std::uint64_t>(operation) << 60U |
                            static_cast<std::uint64_t>(type) << 56U |
                            (op_or_root & 0xffffU) << 40U | (count & 0xffffffffffU));
    return {};
  }

  Result<> all_reduce_now(Buffer data, ReduceOp op) {
    DLRUN_TRY(
        begin(ShmOperation::kAllReduce, data.type, data.count, static_cast<std::uint64_t>(op)));
    return with_type(data.type, [&]<typename T>(T) {
      auto* const values = static_cast<T*>(data.data);
      const auto ranks = static_cast<std::size_t>(size());
      const bool is_small = data.size_bytes() * ranks <= kOneStepBytes &&
                            data.size_bytes() <= segment_->chunk_bytes();
      return is_small ? all_reduce_small(values, data.count, op)
                      : all_reduce_large(values, data.count, op);
    });
  }

  template <typename T>
  [[nodiscard]] T* buffer(int rank, std::uint64_t step) const {
    return reinterpret_cast<T*>(segment_->buffer(rank, step));
  }

  /// Reduces all data on every rank, in the order of the ranks, so all ranks get identical bytes.
  template <typename T>
  Result<> all_reduce_small(T* values, std::size_t count, ReduceOp op) {
    const std::uint64_t step = segment_->next_step();
    write_elements(buffer<T>(rank(), step), values, count);
    segment_->publish();
    DLRUN_TRY(segment_->await());
    if (size() == 1) return {};
    combine(op, values, buffer<T>(0, step), buffer<T>(1, step), count);
    for (int peer = 2; peer < size(); ++peer)
      combine(op, values, values, buffer<T>(peer, step), count);
    return {};
  }

  /// Processes the chunks in a pipeline of three stages: copy this rank's data in; one chunk later,
  /// reduce this rank's part; one more chunk later, copy the other ranks' parts out. Takes one step
  /// per chunk and one more at the end.
  template <typename T>
  Result<> all_reduce_large(T* values, std::size_t count, ReduceOp op) {
    const std::size_t chunk = segment_->chunk_bytes() / sizeof(T);
    const std::size_t chunks = (count + chunk - 1) / chunk;
    const std::uint64_t first = segment_->next_step();
    const auto length = [&](std::size_t k) { return std::min(chunk, count - k * chunk); };
    // Returns the step in which chunk k is copied in.
    const auto step_of = [&](std::size_t k) { return first + k; };
    for (std::size_t k = 0; k < chunks + 2; ++k) {
      if (k < chunks)
        copy_into_own_slot(buffer<T>(rank(), step_of(k)), values + k * chunk, length(k));
      if (k >= 1 && k - 1 < chunks)
        reduce_own_part(values + (k - 1) * chunk, length(k - 1), step_of(k - 1), op);
      if (k >= 2) copy_reduced_parts(values + (k - 2) * chunk, length(k - 2), step_of(k - 2));
      if (k == chunks + 1) break;
      segment_->publish();
      DLRUN_TRY(segment_->await());
    }
    return {};
  }

  /// Writes into this rank's slot.
  template <typename T>
  void write_elements(T* to, const T* from, std::size_t count) {
    writer_.write(to, from, count * sizeof(T));
  }

  /// Copies a chunk into this rank's slot, without the part that this rank reduces.
  template <typename T>
  void copy_into_own_slot(T* to, const T* from, std::size_t count) {
    const Range own = part_of(count, rank(), size());
    write_elements(to, from, own.begin);
    write_elements(to + own.begin + own.count, from + own.begin + own.count,
                   count - own.begin - own.count);
  }

  /// Reduces this rank's part of a chunk over all ranks, into `values` and into this rank's slot.
  template <typename T>
  void reduce_own_part(T* values, std::size_t count, std::uint64_t step, ReduceOp op) {
    constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
    const Range own = part_of(count, rank(), size());
    for (std::size_t at = own.begin; at < own.begin + own.count; at += kBlock) {
      const std::size_t n = std::min(kBlock, own.begin + own.count - at);
      for (int other = 1; other < size(); ++other) {
        combine(op, values + at, values + at, buffer<T>((rank() + other) % size(), step) + at, n);
      }
      write_elements(buffer<T>(rank(), step) + at, values + at, n);
    }
  }

  /// Copies the parts that the other ranks have reduced from their slots into `values`.
  template <typename T>
  void copy_reduced_parts(T* values, std::size_t count, std::uint64_t step) const {
    for (int other = 1; other < size(); ++other) {
      const int peer = (rank() + other) % size();
      const Range part = part_of(count, peer, size());
      copy_elements(values + part.begin, buffer<T>(peer, step) + part.begin, part.count);
    }
  }

  /// Reduces in pieces. Each buffer holds one piece of every rank's part, in the order of the
  /// ranks.
  template <typename T>
  Result<> reduce_scatter_of(const T* all, T* mine, std::size_t count, ReduceOp op) {
    const auto ranks = static_cast<std::size_t>(size());
    const auto own_rank = static_cast<std::size_t>(rank());
    const std::size_t piece = segment_->chunk_bytes() / (sizeof(T) * ranks);
    for (std::size_t at = 0; at < count; at += piece) {
      const std::size_t n = std::min(piece, count - at);
      const std::uint64_t step = segment_->next_step();
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer != own_rank)
          write_elements(buffer<T>(rank(), step) + peer * piece, all + peer * count + at, n);
      }
      segment_->publish();
      DLRUN_TRY(segment_->await());
      copy_elements(mine + at, all + own_rank * count + at, n);
      for (int other = 1; other < size(); ++other) {
        combine(op, mine + at, mine + at,
                buffer<T>((rank() + other) % size(), step) + own_rank * piece, n);
      }
    }
    return {};
  }

  std::unique_ptr<ShmSegment> segment_;
  SlotWriter writer_;
  std::deque<QueuedAllReduce> requests_;  ///< not run yet, oldest first
  std::uint64_t next_request_ = 0;        ///< number of the next request
  Result<> status_;  ///< success, or the first error of a request; later collectives return it
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_shm_communicator(const CommunicatorOptions& options) {
  return make_shm_communicator(options, 0);
}

Result<std::unique_ptr<Communicator>> make_shm_communicator(const CommunicatorOptions& options,
                                                            std::uint64_t steps_before) {
  DLRUN_TRY_ASSIGN(auto segment, ShmSegment::join(options, steps_before));
  return std::make_unique<ShmCommunicator>(std::move(segment));
}

}  // namespace dlrun
