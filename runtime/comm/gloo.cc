// Collectives over Gloo's TCP transport. The ranks form a full mesh and exchange addresses through
// the store.
//
// Blocking calls run on the caller's thread. Requests run one after another on a thread of this
// communicator, while the caller computes. Each call has a number, which is equal on all ranks. The
// number is Gloo's tag, so calls of the two threads cannot be confused. Gloo reports errors as
// exceptions; this file catches all of them.

#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>

#include "runtime/bootstrap/store.h"
#include "runtime/comm/module.h"
#include "runtime/comm/reduce.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;

// How long the destructor waits for ranks that have not yet received this rank's last messages.
constexpr milliseconds kLeaveWithin{5'000};

/// Adapts dlrun's store to Gloo's interface. Gloo expects exceptions; error() returns the store's
/// error that caused the exception.
class StoreForGloo final : public gloo::rendezvous::Store {
 public:
  StoreForGloo(dlrun::Store& store, std::string prefix, milliseconds timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (auto put = store_.put(prefix_ + key, std::string_view(data.data(), data.size())); !put)
      give_up(std::move(put.error()));
  }

  std::vector<char> get(const std::string& key) override {
    auto value = store_.get(prefix_ + key, timeout_);
    if (!value) give_up(std::move(value.error()));
    return {value->begin(), value->end()};
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    for (const std::string& key : keys) {
      if (auto value = store_.get(prefix_ + key, timeout); !value)
        give_up(std::move(value.error()));
    }
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  [[noreturn]] void give_up(Error error) {
    error_ = std::move(error);
    throw gloo::IoException(error_->message);
  }

  dlrun::Store& store_;
  std::string prefix_;
  milliseconds timeout_;
  std::optional<Error> error_;
};

/// Blocks SIGPIPE in this thread while Gloo runs. Gloo writes to sockets without MSG_NOSIGNAL, so a
/// lost peer would end this process. The kernel sends SIGPIPE to the thread that writes. The
/// destructor removes a pending SIGPIPE before it unblocks the signal. Threads that Gloo starts
/// while the signal is blocked inherit this setting. The program's signal disposition does not
/// change.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    constexpr timespec kNow{0, 0};
    sigtimedwait(&sigpipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
};

/// Removes the source location from messages like "[gloo/transport/tcp/pair.cc:589] Connection
/// closed by peer [10.0.0.2]:4711".
std::string_view without_source_location(std::string_view message) {
  if (message.starts_with('[')) {
    if (const auto end = message.find("] "); end != std::string_view::npos)
      message.remove_prefix(end + 2);
  }
  return message;
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<gloo::Context> context, milliseconds timeout)
      : context_(std::move(context)), timeout_(timeout) {}

  ~GlooCommunicator() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
      }
      queue_changed_.notify_one();
      thread_.join();
    }
    if (!is_abandoned_) {
      // Closing a socket with unread bytes discards data that is not yet sent. Wait until all ranks
      // have reached this barrier, then close.
      timeout_ = std::min(timeout_, kLeaveWithin);
      (void)barrier();
    }
    (void)catch_errors([&] { context_->closeConnections(); });
  }
  GlooCommunicator(const GlooCommunicator&) = delete;
  GlooCommunicator& operator=(const GlooCommunicator&) = delete;

  [[nodiscard]] std::string_view name() const override { return "gloo"; }
  [[nodiscard]] int rank() const override { return context_->rank; }
  [[nodiscard]] int size() const override { return context_->size; }

  void abandon() override {
    if (std::exchange(is_abandoned_, true)) return;
    (void)catch_errors([&] { context_->closeConnections(); });
  }

  Result<> check_results() override {
    if (is_abandoned_) return fail(Errc::kPeer, "the communicator was abandoned");
    return {};
  }

  Result<> all_reduce(Buffer data, ReduceOp op) override {
    return all_reduce_tagged(data, op, next_tag_++);
  }

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    auto queued = std::make_shared<QueuedAllReduce>(
        QueuedAllReduce{.data = data, .op = op, .tag = next_tag_++});
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(queued);
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { run_queue(); });
    queue_changed_.notify_one();
    return Request(std::make_unique<Pending>(*this, std::move(queued)));
  }

  Result<> broadcast(Buffer data, int root) override {
    return catch_errors([&] {
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<std::uint8_t*>(data.data), data.size_bytes());
      options.setRoot(root);
      options.setTag(next_tag_++);
      options.setTimeout(timeout_);
      gloo::broadcast(options);
    });
  }

  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    auto* const own_part =
        static_cast<std::byte*>(all.data) + static_cast<std::size_t>(rank()) * mine.size_bytes();
    if (mine.data != own_part) std::memcpy(own_part, mine.data, mine.size_bytes());
    return catch_errors([&] {
      gloo::AllgatherOptions options(context_);
      options.setOutput(static_cast<std::uint8_t*>(all.data), all.size_bytes());
      options.setTag(next_tag_++);
      options.setTimeout(timeout_);
      gloo::allgather(options);
    });
  }

  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    const std::uint64_t slot = kReduceScatterSlots + next_tag_++;
    return catch_errors([&] {
      with_type(mine.type, [&]<typename T>(T) {
        ring_reduce_scatter(std::span(static_cast<const T*>(all.data), all.count),
                            std::span(static_cast<T*>(mine.data), mine.count), op, slot);
      });
    });
  }

  Result<> barrier() override {
    return catch_errors([&] {
      gloo::BarrierOptions options(context_);
      options.setTag(next_tag_++);
      options.setTimeout(timeout_);
      gloo::barrier(options);
    });
  }

 private:
  struct QueuedAllReduce {
    Buffer data;
    ReduceOp op = ReduceOp::kSum;
    std::uint32_t tag = 0;
    std::optional<Result<>> result = std::nullopt;  ///< guarded by mutex_
  };

  class Pending final : public Request::State {
   public:
    Pending(GlooCommunicator& owner, std::shared_ptr<QueuedAllReduce> queued)
        : owner_(owner), queued_(std::move(queued)) {}
    Result<> finish() override {
      std::unique_lock lock(owner_.mutex_);
      owner_.all_reduce_finished_.wait(lock, [&] { return queued_->result.has_value(); });
      return *queued_->result;
    }

   private:
    GlooCommunicator& owner_;
    std::shared_ptr<QueuedAllReduce> queued_;
  };

  // Gloo's collectives use slots of the form prefix << 56 | tag << 24. None of these collectives
  // uses the prefixes 0x70 and 0x71.
  static constexpr std::uint64_t kReduceScatterSlots = std::uint64_t{0x70} << 56U;
  static constexpr std::uint64_t kProbeSlot = std::uint64_t{0x71} << 56U;

  void run_queue() {
    std::unique_lock lock(mutex_);
    while (true) {
      queue_changed_.wait(lock, [&] { return is_closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::shared_ptr<QueuedAllReduce> queued = queue_.front();
      queue_.pop_front();
      lock.unlock();
      auto result = all_reduce_tagged(queued->data, queued->op, queued->tag);
      lock.lock();
      queued->result = std::move(result);
      all_reduce_finished_.notify_all();
    }
  }

  Result<> all_reduce_tagged(Buffer data, ReduceOp op, std::uint32_t tag) {
    return catch_errors([&] {
      with_type(data.type, [&]<typename T>(T) {
        gloo::AllreduceOptions options(context_);
        options.setOutput(static_cast<T*>(data.data), data.count);
        options.setReduceFunction([op](void* out, const void* a, const void* b, std::size_t n) {
          combine(op, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), n);
        });
        options.setTag(tag);
        options.setTimeout(timeout_);
        gloo::allreduce(options);
      });
    });
  }

  /// Reduces in size - 1 steps around the ring. The reduction of part p starts at rank p + 1 and is
  /// complete at rank p.
  template <typename T>
  void ring_reduce_scatter(std::span<const T> all, std::span<T> mine, ReduceOp op,
                           std::uint64_t slot) {
    const int n = size();
    const auto part = [&](int index) {
      return all.subspan(static_cast<std::size_t>((index + 2 * n) % n) * mine.size(), mine.size());
    };
    const auto first_part_to_send = part(rank() - 1);
    std::vector<T> partial(first_part_to_send.begin(), first_part_to_send.end());
    std::vector<T> arriving(mine.size());
    const int left = (rank() + n - 1) % n;
    const int right = (rank() + 1) % n;
    for (int step = 1; step < n; ++step) {
      const auto out = context_->createUnboundBuffer(partial.data(), mine.size_bytes());
      const auto in = context_->createUnboundBuffer(arriving.data(), mine.size_bytes());
      out->send(right, slot);
      in->recv(left, slot);
      in->waitRecv(timeout_);
      out->waitSend(timeout_);
      combine(op, partial.data(), arriving.data(), part(rank() - 1 - step).data(), mine.size());
    }
    std::copy(partial.begin(), partial.end(), mine.begin());
  }

  /// Runs call() with SIGPIPE blocked, and returns an exception of Gloo as kTimeout or kPeer.
  template <typename Function>
  Result<> catch_errors(Function&& call) {
    const SigpipeBlocked sigpipe_blocked;
    try {
      call();
      return {};
    } catch (const std::exception& caught) {
      const std::string_view message = without_source_location(caught.what());
      // Gloo throws gloo::IoException for a timeout and for a closed connection. Only the message
      // tells them apart.
      const bool is_timeout = message.find("imed out") != std::string_view::npos ||
                              message.find("imeout") != std::string_view::npos;
      return fail(is_timeout ? Errc::kTimeout : Errc::kPeer, "{}{}", message,
                  is_timeout ? std::string() : lost_peers_text());
    }
  }

  /// Returns a text that lists the lost ranks. Gloo's messages contain only an address, so this
  /// function sends each rank a byte that no rank receives; sending to a lost rank fails.
  std::string lost_peers_text() {
    std::string lost;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      try {
        std::uint8_t byte = 0;
        context_->createUnboundBuffer(&byte, sizeof byte)->send(peer, kProbeSlot);
      } catch (const std::exception&) {
        lost += fmt::format("{} {}", lost.empty() ? "; lost: rank" : ",", peer);
      }
    }
    return lost;
  }

  std::shared_ptr<gloo::Context> context_;
  milliseconds timeout_;
  std::uint32_t next_tag_ = 1;
  bool is_abandoned_ = false;

  std::mutex mutex_;
  std::condition_variable queue_changed_;
  std::condition_variable all_reduce_finished_;
  std::deque<std::shared_ptr<QueuedAllReduce>> queue_;
  bool is_closing_ = false;
  std::thread thread_;
};

Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options) {
  if (options.store == nullptr) {
    return fail(Errc::kUnavailable,
                "gloo needs a store for the ranks' addresses: DLRUN_STORE is not set; start the "
                "program through dlrun-agent or with PMIx (srun --mpi=pmix, mpirun), or set "
                "DLRUN_STORE to file:DIR with a fresh folder that all ranks see");
  }
  const Result<std::string> address =
      options.address.empty() ? options.store->own_address() : Result<std::string>(options.address);
  if (!address) return tl::unexpected(address.error());
  const SigpipeBlocked sigpipe_blocked;
  StoreForGloo store(*options.store, fmt::format("gloo/{}/", options.prefix), options.timeout);
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address->empty() ? "127.0.0.1" : *address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(options.world.rank, options.world.size);
    context->setTimeout(options.timeout);
    context->connectFullMesh(store, device);
    return std::make_unique<GlooCommunicator>(std::move(context), options.timeout);
  } catch (const std::exception& caught) {
    if (store.error()) return tl::unexpected(*store.error());
    return fail(Errc::kPeer, "{}", without_source_location(caught.what()));
  }
}

}  // namespace

DLRUN_EXPORT_COMM_BACKEND(connect);

}  // namespace dlrun
