// Each function of GuardedCommunicator first compares the call with the other ranks' calls
// (begin()), then checks the arguments and calls the backend, and adds a description of the call to
// an error (finish()).

#include "runtime/comm/guarded.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace dlrun {

namespace {

enum class GuardedOperation : std::uint8_t {
  kAllReduce,
  kStartAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kAllocateShared
};

struct Call {
  static constexpr std::size_t kFieldCount = 5;

  GuardedOperation operation = GuardedOperation::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUint8;
  std::uint64_t count = 0;
  int root = 0;

  [[nodiscard]] std::array<std::uint64_t, kFieldCount> fields() const {
    return {static_cast<std::uint64_t>(operation), static_cast<std::uint64_t>(op),
            static_cast<std::uint64_t>(type), count, static_cast<std::uint64_t>(root)};
  }
  [[nodiscard]] static Call from_fields(const std::uint64_t* fields) {
    return {static_cast<GuardedOperation>(fields[0]), static_cast<ReduceOp>(fields[1]),
            static_cast<DataType>(fields[2]), fields[3], static_cast<int>(fields[4])};
  }

  /// Returns the FNV-1a hash of the fields.
  [[nodiscard]] std::uint64_t fingerprint() const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (std::uint64_t field : fields()) {
      for (int byte = 0; byte < 8; ++byte, field >>= 8U)
        hash = (hash ^ (field & 0xffU)) * 0x100000001b3U;
    }
    return hash;
  }

  [[nodiscard]] std::string text() const {
    switch (operation) {
      case GuardedOperation::kAllReduce:
        return fmt::format("all_reduce({}, {} x {})", to_string(op), to_string(type), count);
      case GuardedOperation::kStartAllReduce:
        return fmt::format("start_all_reduce({}, {} x {})", to_string(op), to_string(type), count);
      case GuardedOperation::kBroadcast:
        return fmt::format("broadcast({} x {}, root {})", to_string(type), count, root);
      case GuardedOperation::kAllGather:
        return fmt::format("all_gather({} x {} of each rank)", to_string(type), count);
      case GuardedOperation::kReduceScatter:
        return fmt::format("reduce_scatter({}, {} x {} to each rank)", to_string(op),
                           to_string(type), count);
      case GuardedOperation::kBarrier:
        return "barrier()";
      case GuardedOperation::kAllocateShared:
        return fmt::format("allocate_shared({} bytes)", count);
    }
    return "unknown call";
  }
};

/// Formats ranks for a message: "rank 3" or "ranks 0, 1, 2". Lists the first 8 ranks and adds the
/// number of the others: "and 5 more".
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kListed = 8;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < kListed; ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
  if (ranks.size() > kListed) text += fmt::format(" and {} more", ranks.size() - kListed);
  return text;
}

class GuardedCommunicator final : public Communicator {
 public:
  GuardedCommunicator(std::unique_ptr<Communicator> backend, std::uint64_t calls_to_check)
      : backend_(std::move(backend)), calls_to_check_(calls_to_check) {}

  [[nodiscard]] std::string_view name() const override { return backend_->name(); }
  [[nodiscard]] int rank() const override { return backend_->rank(); }
  [[nodiscard]] int size() const override { return backend_->size(); }
  void advance_requests() override { backend_->advance_requests(); }
  void abandon() override { backend_->abandon(); }
  void set_compute_stream(void* stream) override { backend_->set_compute_stream(stream); }

  Result<> all_reduce(Buffer data, ReduceOp op) override {
    const Call call{.operation = GuardedOperation::kAllReduce,
                    .op = op,
                    .type = data.type,
                    .count = data.count};
    if (auto agreed = begin(call); !agreed) return agreed;
    if (data.count == 0) return {};
    return finish(call, call_number_, backend_->all_reduce(data, op));
  }

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    const Call call{.operation = GuardedOperation::kStartAllReduce,
                    .op = op,
                    .type = data.type,
                    .count = data.count};
    if (auto agreed = begin(call); !agreed) return tl::unexpected(std::move(agreed.error()));
    if (data.count == 0) return Request();
    auto request = backend_->start_all_reduce(data, op);
    if (!request)
      return tl::unexpected(
          finish(call, call_number_, tl::unexpected(std::move(request.error()))).error());
    if (!request->needs_wait()) return request;
    return Request(std::make_unique<Described>(*this, call, call_number_, std::move(*request)));
  }

  Result<> broadcast(Buffer data, int root) override {
    const Call call{.operation = GuardedOperation::kBroadcast,
                    .type = data.type,
                    .count = data.count,
                    .root = root};
    if (auto agreed = begin(call); !agreed) return agreed;
    if (root < 0 || root >= size()) {
      return finish(call, call_number_,
                    fail(Errc::kShape, "root {} is not a rank of a world of {}", root, size()));
    }
    if (data.count == 0) return {};
    return finish(call, call_number_, backend_->broadcast(data, root));
  }

  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    const Call call{
        .operation = GuardedOperation::kAllGather, .type = mine.type, .count = mine.count};
    if (auto agreed = begin(call); !agreed) return agreed;
    if (auto fits = parts_fit(mine, all); !fits) return finish(call, call_number_, std::move(fits));
    if (mine.count == 0) return {};
    return finish(call, call_number_, backend_->all_gather(mine, all));
  }

  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    const Call call{.operation = GuardedOperation::kReduceScatter,
                    .op = op,
                    .type = mine.type,
                    .count = mine.count};
    if (auto agreed = begin(call); !agreed) return agreed;
    if (auto fits = parts_fit(mine, all); !fits) return finish(call, call_number_, std::move(fits));
    if (mine.count == 0) return {};
    return finish(call, call_number_, backend_->reduce_scatter(all, mine, op));
  }

  Result<> check_results() override {
    if (!status_) return status_;
    if (auto settled = backend_->check_results(); !settled)
      status_ = fail(settled.error().code, "{}: rank {} of {}: {}", name(), rank(), size(),
                     settled.error().message);
    return status_;
  }

  Result<> barrier() override {
    const Call call{.operation = GuardedOperation::kBarrier};
    if (auto agreed = begin(call); !agreed) return agreed;
    return finish(call, call_number_, backend_->barrier());
  }

  Result<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) override {
    const Call call{.operation = GuardedOperation::kAllocateShared, .count = bytes};
    if (auto agreed = begin(call); !agreed) return tl::unexpected(std::move(agreed.error()));
    auto memory = backend_->allocate_shared(bytes);
    if (!memory)
      return tl::unexpected(
          finish(call, call_number_, tl::unexpected(std::move(memory.error()))).error());
    return memory;
  }

 private:
  /// A request together with its call, so that an error message can contain the call.
  class Described final : public Request::State {
   public:
    Described(GuardedCommunicator& owner, const Call& call, std::uint64_t number, Request request)
        : owner_(owner), call_(call), number_(number), request_(std::move(request)) {}
    Result<> finish() override { return owner_.finish(call_, number_, request_.wait()); }

   private:
    GuardedCommunicator& owner_;
    Call call_;
    std::uint64_t number_;
    Request request_;
  };

  [[nodiscard]] Result<> parts_fit(const ConstBuffer& part, const ConstBuffer& all) const {
    const auto parts = static_cast<std::size_t>(size());
    if (part.type != all.type) {
      return fail(Errc::kShape, "the buffer for one rank holds {}, the buffer for all ranks {}",
                  to_string(part.type), to_string(all.type));
    }
    if (all.count % parts != 0 || all.count / parts != part.count) {
      return fail(Errc::kShape, "the buffer for all ranks holds {} elements, expected {} x {}",
                  all.count, parts, part.count);
    }
    return {};
  }

  /// Returns a success unchanged. For an error, abandons the backend, because the state of the
  /// other ranks is then unknown, and returns described().
  [[nodiscard]] Result<> finish(const Call& call, std::uint64_t number, Result<> result) {
    if (result) return result;
    backend_->abandon();
    return described(call, number, result);
  }

  /// Returns the error `result` with the call in its message. Keeps the first error in status_.
  [[nodiscard]] Result<> described(const Call& call, std::uint64_t number, const Result<>& result) {
    Result<> error = fail(result.error().code, "{}: {}, call {} of rank {} of {}: {}", name(),
                          call.text(), number, rank(), size(), result.error().message);
    if (status_) status_ = error;
    return error;
  }

  /// Counts the call and, while calls are checked, compares it with the other ranks' calls.
  [[nodiscard]] Result<> begin(const Call& call) {
    ++call_number_;
    if (call_number_ > calls_to_check_ || size() == 1) return {};
    const std::uint64_t fingerprint = call.fingerprint();
    std::array<std::uint64_t, 2> extremes{fingerprint, ~fingerprint};
    if (auto reduced = backend_->all_reduce(std::span(extremes), ReduceOp::kMax); !reduced) {
      return finish(call, call_number_, std::move(reduced));
    }
    // The largest complement belongs to the smallest fingerprint.
    if (extremes[0] == ~extremes[1]) return {};
    auto calls = gather_calls(call);
    if (!calls) return finish(call, call_number_, tl::unexpected(std::move(calls.error())));
    // Do not abandon the backend: every rank has reached this call and returns the same error.
    return described(call, call_number_,
                     fail(Errc::kPeer, "the calls of the ranks differ: {}", *calls));
  }

  /// Returns a text with all ranks' calls: "barrier() in ranks 0, 1; broadcast(float32 x 7, root 0)
  /// in rank 2".
  [[nodiscard]] Result<std::string> gather_calls(const Call& call) {
    auto mine = call.fields();
    std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(size()));
    DLRUN_TRY(backend_->all_gather(std::span(mine), std::span(all)));
    std::vector<std::pair<Call, std::vector<int>>> calls;
    for (int peer = 0; peer < size(); ++peer) {
      const Call other =
          Call::from_fields(&all[static_cast<std::size_t>(peer) * Call::kFieldCount]);
      auto at = calls.begin();
      while (at != calls.end() && at->first.fields() != other.fields()) ++at;
      if (at == calls.end()) at = calls.insert(at, {other, {}});
      at->second.push_back(peer);
    }
    std::string text;
    for (const auto& [other, ranks] : calls) {
      text += fmt::format("{}{} in {}", text.empty() ? "" : "; ", other.text(), ranks_text(ranks));
    }
    return text;
  }

  std::unique_ptr<Communicator> backend_;
  std::uint64_t calls_to_check_;
  std::uint64_t call_number_ = 0;  ///< number of the latest call, from 1
  Result<> status_;                ///< success, or the first error
};

}  // namespace

std::unique_ptr<Communicator> make_guarded(std::unique_ptr<Communicator> backend,
                                           std::uint64_t calls_to_check) {
  return std::make_unique<GuardedCommunicator>(std::move(backend), calls_to_check);
}

}  // namespace dlrun
