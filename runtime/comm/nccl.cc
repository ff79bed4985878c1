// Collectives over NCCL or RCCL, on device memory and on a stream of this communicator. This file
// is compiled for both libraries (device_library.h) and uses the names of CUDA and NCCL.
//
// A collective waits for the caller's compute stream, and the compute stream waits for the result.
// Both waits happen on the device, so the calling thread continues. This backend also
// accepts host memory, for losses, hashes and the checks of guarded.h: the call then copies the
// data to the device, waits for the result, and copies it back.
//
// NCCL's kernels wait for a lost rank without a limit. A watchdog thread therefore checks for
// NCCL's asynchronous errors and for collectives past the timeout, and aborts the communicator,
// which ends the waiting kernels.

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/bootstrap/store.h"
#include "runtime/comm/collective_watch.h"
#include "runtime/comm/device_library.h"
#include "runtime/comm/module.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kWatchEvery{200};
/// How long the destructor waits for running collectives, and then for the other ranks.
constexpr milliseconds kLeaveWithin{5'000};

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return ncclUint8;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kUint64:
      return ncclUint64;
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
  }
  return ncclNumTypes;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
  }
  return ncclNumOps;
}

/// Returns the name of a function in this library: "hipMalloc" for "cudaMalloc" in HIP. Other text
/// stays as it is.
std::string name_in_library(std::string_view call) {
  constexpr std::string_view kPrefix = "cuda";
  if (!call.starts_with(kPrefix)) return std::string(call);
  return fmt::format("{}{}", kDeviceFunctionPrefix, call.substr(kPrefix.size()));
}

Result<> check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  return fail(Errc::kInternal, "{}: {}", name_in_library(call), cudaGetErrorString(code));
}

Result<> check_nccl(ncclResult_t code, ncclComm_t comm, const char* call) {
  if (code == ncclSuccess || code == ncclInProgress) return {};
  const char* const detail = ncclGetLastError(comm);
  return fail(
      code == ncclInvalidArgument || code == ncclInvalidUsage ? Errc::kInternal : Errc::kPeer,
      "{}: {}{}{}", call, ncclGetErrorString(code),
      detail != nullptr && *detail != '\0' ? "; " : "", detail != nullptr ? detail : "");
}

/// Waits until a non-blocking communicator has completed the requested call. Fails with kTimeout at
/// the deadline, and with the error of the call if it failed.
Result<> wait_for_call(ncclComm_t comm, steady_clock::time_point deadline, const char* call) {
  while (true) {
    ncclResult_t state = ncclSuccess;
    DLRUN_TRY(check_nccl(ncclCommGetAsyncError(comm, &state), comm, "ncclCommGetAsyncError"));
    if (state != ncclInProgress) return check_nccl(state, comm, call);
    if (steady_clock::now() > deadline)
      return fail(Errc::kTimeout, "{} did not end in time; a rank is missing or cannot be reached",
                  call);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  DLRUN_TRY(
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
  return Event(event);
}

bool is_device_memory(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

/// The functions that CollectiveWatch calls, for one communicator and its stream.
class WatchedNcclCollectives final : public WatchedCollectives {
 public:
  WatchedNcclCollectives(ncclComm_t comm, const cudaStream_t& stream)
      : comm_(comm), stream_(stream) {}

  Result<> check_device() override {
    ncclResult_t state = ncclSuccess;
    DLRUN_TRY(check_nccl(ncclCommGetAsyncError(comm_, &state), comm_, "ncclCommGetAsyncError"));
    DLRUN_TRY(check_nccl(state, comm_, "a collective failed on the device"));
    const cudaError_t code = stream_ == nullptr ? cudaSuccess : cudaStreamQuery(stream_);
    return code == cudaErrorNotReady ? Result<>()
                                     : check_cuda(code, "a collective failed on the device");
  }
  bool is_busy() override { return cudaStreamQuery(stream_) == cudaErrorNotReady; }
  void abort_all() override { ncclCommAbort(comm_); }

 private:
  ncclComm_t comm_;
  const cudaStream_t& stream_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(ncclComm_t comm, int device, int rank, int size, milliseconds timeout)
      : comm_(comm),
        device_(device),
        rank_(rank),
        size_(size),
        timeout_(timeout),
        collectives_(comm, stream_),
        watch_(collectives_, timeout) {}

  ~NcclCommunicator() override {
    if (watchdog_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
      }
      wake_.notify_one();
      watchdog_.join();
    }
    // Limit both waits: another rank may never take part in a collective, or may never call
    // ncclCommFinalize, which is also a collective.
    if (watch_.wait_until_settled(std::min<milliseconds>(timeout_, kLeaveWithin))) {
      auto finalized = check_nccl(ncclCommFinalize(comm_), comm_, "ncclCommFinalize");
      if (finalized)
        finalized = wait_for_call(comm_, steady_clock::now() + kLeaveWithin, "ncclCommFinalize");
      if (finalized) {
        ncclCommDestroy(comm_);
      } else {
        ncclCommAbort(comm_);
      }
    }
    if (staging_ != nullptr) cudaFree(staging_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Does the part of construction that can fail.
  Result<> prepare() {
    DLRUN_TRY(
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
    for (Event* event : {&before_, &after_}) {
      DLRUN_TRY_ASSIGN(*event, make_event());
    }
    watchdog_ = std::thread([this] { run_watchdog(); });
    return {};
  }

  [[nodiscard]] std::string_view name() const override { return kBackendName; }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void set_compute_stream(void* stream) override {
    compute_stream_ = static_cast<cudaStream_t>(stream);
  }

  void abandon() override { watch_.abandon("the communicator was abandoned"); }
  Result<> check_results() override { return watch_.wait_until_settled(timeout_); }

  Result<> all_reduce(Buffer data, ReduceOp op) override {
    return run(data, data, "ncclAllReduce", [&](const void* from, void* to) {
      return ncclAllReduce(from, to, data.count, nccl_type(data.type), nccl_op(op), comm_, stream_);
    });
  }

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    if (!is_device_memory(data.data)) {
      DLRUN_TRY(all_reduce(data, op));
      return Request();
    }
    DLRUN_TRY_ASSIGN(auto done, make_event());
    DLRUN_TRY(launch("ncclAllReduce", [&] {
      return ncclAllReduce(data.data, data.data, data.count, nccl_type(data.type), nccl_op(op),
                           comm_, stream_);
    }));
    DLRUN_TRY(check_cuda(cudaEventRecord(done.get(), stream_), "cudaEventRecord"));
    return Request(std::make_unique<Pending>(*this, std::move(done)));
  }

  Result<> broadcast(Buffer data, int root) override {
    return run(data, data, "ncclBroadcast", [&](const void* from, void* to) {
      return ncclBroadcast(from, to, data.count, nccl_type(data.type), root, comm_, stream_);
    });
  }

  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    return run(mine, all, "ncclAllGather", [&](const void* from, void* to) {
      return ncclAllGather(from, to, mine.count, nccl_type(mine.type), comm_, stream_);
    });
  }

  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    return run(all, mine, "ncclReduceScatter", [&](const void* from, void* to) {
      return ncclReduceScatter(from, to, mine.count, nccl_type(mine.type), nccl_op(op), comm_,
                               stream_);
    });
  }

  Result<> barrier() override {
    std::uint8_t byte = 0;
    return all_reduce(Buffer(&byte, 1, DataType::kUint8), ReduceOp::kMax);
  }

 private:
  class Pending final : public Request::State {
   public:
    Pending(NcclCommunicator& owner, Event done) : owner_(owner), done_(std::move(done)) {}
    Result<> finish() override {
      DLRUN_TRY(owner_.watch_.check_not_aborted());
      return check_cuda(cudaStreamWaitEvent(owner_.compute_stream_, done_.get(), 0),
                        "cudaStreamWaitEvent");
    }

   private:
    NcclCommunicator& owner_;
    Event done_;
  };

  /// Runs one collective. Input and output are the same memory, disjoint memory, or (all_gather in
  /// place) the input is a part of the output.
  template <typename Function>
  Result<> run(ConstBuffer input, Buffer output, const char* call, Function&& function) {
    const bool stages_input = !is_device_memory(input.data);
    const bool stages_output = !is_device_memory(output.data);
    const bool is_in_place = input.data == output.data && input.size_bytes() == output.size_bytes();
    const std::size_t input_bytes =
        stages_input ? (input.size_bytes() + 255U) & ~std::size_t{255} : 0;
    const std::size_t output_bytes = stages_output && !is_in_place ? output.size_bytes() : 0;
    DLRUN_TRY(grow_staging(input_bytes + output_bytes));
    const void* const from = stages_input ? staging_ : input.data;
    void* const to = !stages_output ? output.data
                     : is_in_place  ? staging_
                                    : static_cast<std::byte*>(staging_) + input_bytes;
    if (stages_input) {
      DLRUN_TRY(check_cuda(cudaMemcpyAsync(staging_, input.data, input.size_bytes(),
                                           cudaMemcpyHostToDevice, stream_),
                           "cudaMemcpyAsync"));
    }
    DLRUN_TRY(launch(call, [&] { return function(from, to); }));
    if (stages_output) {
      DLRUN_TRY(check_cuda(
          cudaMemcpyAsync(output.data, to, output.size_bytes(), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync"));
    }
    DLRUN_TRY(check_cuda(cudaEventRecord(after_.get(), stream_), "cudaEventRecord"));
    if (stages_input || stages_output) return wait_on_host();
    return check_cuda(cudaStreamWaitEvent(compute_stream_, after_.get(), 0), "cudaStreamWaitEvent");
  }

  /// Queues a collective after all work that is already queued on the compute stream.
  template <typename Function>
  Result<> launch(const char* call, Function&& function) {
    DLRUN_TRY(check_cuda(cudaEventRecord(before_.get(), compute_stream_), "cudaEventRecord"));
    DLRUN_TRY(check_cuda(cudaStreamWaitEvent(stream_, before_.get(), 0), "cudaStreamWaitEvent"));
    return watch_.start_collective([&]() -> Result<> {
      DLRUN_TRY(check_nccl(function(), comm_, call));
      return wait_for_call(comm_, steady_clock::now() + timeout_, call);
    });
  }

  Result<> wait_on_host() {
    for (milliseconds pause{0};; pause = milliseconds(1)) {
      const auto until = steady_clock::now() + std::chrono::microseconds(200);
      do {
        const cudaError_t state = cudaEventQuery(after_.get());
        if (state != cudaErrorNotReady) {
          DLRUN_TRY(watch_.check_not_aborted());
          return check_cuda(state, "cudaEventQuery");
        }
        std::this_thread::yield();
      } while (steady_clock::now() < until);
      DLRUN_TRY(watch_.check_not_aborted());
      std::this_thread::sleep_for(pause);
    }
  }

  Result<> grow_staging(std::size_t bytes) {
    if (bytes <= staging_bytes_) return {};
    if (staging_ != nullptr)
      DLRUN_TRY(check_cuda(cudaFree(std::exchange(staging_, nullptr)), "cudaFree"));
    staging_bytes_ = 0;
    DLRUN_TRY(check_cuda(cudaMalloc(&staging_, bytes), "cudaMalloc"));
    staging_bytes_ = bytes;
    return {};
  }

  void run_watchdog() {
    cudaSetDevice(device_);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kWatchEvery, [&] { return is_closing_; })) {
      lock.unlock();
      watch_.abort_if_failed_or_late();
      lock.lock();
    }
  }

  ncclComm_t comm_;
  int device_;
  int rank_;
  int size_;
  milliseconds timeout_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t compute_stream_ = nullptr;
  Event before_;             ///< end of the compute stream's work before a collective
  Event after_;              ///< end of the latest collective of run()
  void* staging_ = nullptr;  ///< device memory for copies of host memory
  std::size_t staging_bytes_ = 0;

  WatchedNcclCollectives collectives_;
  CollectiveWatch watch_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_closing_ = false;  ///< guarded by mutex_
  std::thread watchdog_;
};

/// Returns this rank's GPU: the only visible GPU, or the GPU whose index is the local rank. Makes
/// this GPU the thread's current device.
Result<int> choose_device(const World& world) {
  int count = 0;
  if (const cudaError_t found = cudaGetDeviceCount(&count); found != cudaSuccess || count == 0) {
    return fail(Errc::kUnavailable,
                "no GPU: {}: {}; ask for GPUs (resources.gpus_per_node), or use mpi or gloo",
                name_in_library("cudaGetDeviceCount"),
                found != cudaSuccess ? cudaGetErrorString(found) : "there is none");
  }
  const int device = count == 1 ? 0 : world.local_rank;
  if (device >= count) {
    return fail(
        Errc::kInvalid,
        "local rank {} has no GPU: this process sees {} GPUs; {} needs one GPU for each rank",
        world.local_rank, count, kBackendName);
  }
  DLRUN_TRY(check_cuda(cudaSetDevice(device), "cudaSetDevice"));
  return device;
}

Result<ncclUniqueId> exchange_id(const CommunicatorOptions& options) {
  ncclUniqueId id{};
  const std::string key = fmt::format("{}/{}/id", kBackendName, options.prefix);
  if (options.world.rank == 0) {
    DLRUN_TRY(check_nccl(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
    if (options.world.size > 1)
      DLRUN_TRY(options.store->put(key, std::string_view(id.internal, sizeof id.internal)));
    return id;
  }
  DLRUN_TRY_ASSIGN(const auto value, options.store->get(key, options.timeout));
  if (value.size() != sizeof id.internal) {
    return fail(Errc::kPeer,
                "rank 0's id for {} has {} bytes, expected {}: do all ranks run the same version?",
                kBackendName, value.size(), sizeof id.internal);
  }
  std::memcpy(id.internal, value.data(), sizeof id.internal);
  return id;
}

Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options) {
  DLRUN_TRY(load_device_library());
  DLRUN_TRY_ASSIGN(const auto device, choose_device(options.world));
  if (options.store == nullptr && options.world.size > 1) {
    return fail(Errc::kUnavailable,
                "{} needs a store for its unique id: DLRUN_STORE is not set; start the program "
                "through dlrun-agent or with PMIx (srun --mpi=pmix, mpirun), or set DLRUN_STORE to "
                "file:DIR with a fresh folder that all ranks see",
                kBackendName);
  }
  DLRUN_TRY_ASSIGN(const auto id, exchange_id(options));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t started =
      ncclCommInitRankConfig(&comm, options.world.size, id, options.world.rank, &config);
  auto connected = check_nccl(started, comm, "ncclCommInitRank");
  if (connected)
    connected = wait_for_call(comm, steady_clock::now() + options.timeout, "ncclCommInitRank");
  if (!connected) {
    if (comm != nullptr) ncclCommAbort(comm);
    // The library reports invalid usage if ranks share a GPU, but also for other errors.
    if (connected.error().code == Errc::kInternal && options.world.size > 1) {
      connected.error().message +=
          "; one possible cause: ranks share a GPU; a node may have at most as many ranks "
          "(resources.tasks_per_node) as GPUs (resources.gpus_per_node)";
    }
    return tl::unexpected(std::move(connected.error()));
  }
  auto communicator = std::make_unique<NcclCommunicator>(comm, device, options.world.rank,
                                                         options.world.size, options.timeout);
  DLRUN_TRY(communicator->prepare());
  return communicator;
}

}  // namespace

DLRUN_EXPORT_COMM_BACKEND(connect);

}  // namespace dlrun
