// A stand-in for librccl.so.1, for tests without AMD GPUs: the functions of RCCL and HIP that the
// backend rccl uses. The ranks are threads of one process, "device" memory is memory of the host,
// and each collective ends before its call returns. The sums are computed in the order of the
// ranks.
//
// A rank that waits for others in a collective gives up after ten seconds.
//
// stand_in_lose_rank() simulates the loss of a rank. The calls of later collectives then succeed,
// as those of RCCL do, but the collectives do not end: their stream, and events recorded on it, are
// not ready until ncclCommAbort(). An aborted collective ends without an error and writes nothing:
// its result buffer keeps what it held, which is this rank's own values if the collective works in
// place. Copies do not wait for the stream.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/half.h"

namespace {

constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kRemoteError = 6,
              kInProgress = 7;
constexpr int kHipInvalidValue = 1, kHipNotReady = 600;
constexpr int kHipMemoryTypeDevice = 2;
// Values of ncclDataType_t and of ncclRedOp_t.
constexpr int kUint8 = 1, kInt64 = 4, kUint64 = 5, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8,
              kBfloat16 = 9;
constexpr int kMax = 2, kMin = 3;
constexpr std::chrono::seconds kWaitLimit{10};

struct UniqueId {
  char internal[128];
};

struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

/// One call of a collective by one rank.
struct Call {
  const void* from = nullptr;
  void* to = nullptr;
};

/// The ranks that joined with the same UniqueId, and their current collective.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0, joined_count = 0;
  std::vector<Call> calls;
  int called_count = 0, finished_count = 0;  ///< ranks in the current collective
  std::uint64_t round = 0;
  bool has_lost_rank = false;
  int async_error = kSuccess;  ///< what a communicator with an unfinished collective reports
};

/// The unfinished collectives of one communicator.
struct UnfinishedCollectives {
  bool is_aborted = false;  ///< guarded by device_mutex
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  /// Guarded by the world's mutex. nullptr: no collective is unfinished.
  std::shared_ptr<UnfinishedCollectives> unfinished = nullptr;
};

struct StreamOrEvent {
  /// The collectives for which the stream or event waits. Guarded by device_mutex.
  std::shared_ptr<const UnfinishedCollectives> unfinished;
};

std::mutex registry_mutex;
std::map<std::string, std::shared_ptr<World>> worlds;
std::map<const char*, std::size_t> allocations;  // sizes in bytes by address
std::uint64_t next_id = 1;
std::mutex device_mutex;

/// Returns kHipNotReady while `waiter` waits for an unfinished collective, otherwise kSuccess.
/// waiter: nullptr for the default stream, which no collective uses.
int state_of(const StreamOrEvent* waiter) {
  const std::lock_guard lock(device_mutex);
  const bool waits =
      waiter != nullptr && waiter->unfinished != nullptr && !waiter->unfinished->is_aborted;
  return waits ? kHipNotReady : kSuccess;
}

/// Leaves a collective unfinished until its communicator is aborted. The caller holds the world's
/// mutex.
void leave_unfinished(Comm& comm, StreamOrEvent& stream) {
  if (comm.unfinished == nullptr) comm.unfinished = std::make_shared<UnfinishedCollectives>();
  const std::lock_guard lock(device_mutex);
  stream.unfinished = comm.unfinished;
}

bool is_allocated(const void* data) {
  const std::lock_guard lock(registry_mutex);
  const auto* const address = static_cast<const char*>(data);
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return false;
  const auto& [begin, size] = *--after;
  return address < begin + size;
}

/// Waits until all ranks have called, runs `work` in each rank on all calls, and waits until all
/// ranks have finished, so that no buffer changes while another rank reads it. `work` writes into a
/// buffer of its own, which is copied to the result afterwards. If a rank is lost, the collective
/// stays unfinished.
template <typename Work>
int run_collective(Comm& comm, StreamOrEvent& stream, const void* from, void* to,
                   std::size_t result_bytes, Work&& work) {
  World& world = *comm.world;
  std::unique_lock lock(world.mutex);
  const auto round = world.round;
  world.calls[static_cast<std::size_t>(comm.rank)] = {from, to};
  if (++world.called_count == world.size) world.changed.notify_all();
  if (!world.changed.wait_for(lock, kWaitLimit, [&] {
        return world.has_lost_rank || world.called_count == world.size;
      }))
    return kSystemError;
  if (world.has_lost_rank) {
    leave_unfinished(comm, stream);
    return kSuccess;
  }
  const std::vector<Call> calls = world.calls;
  lock.unlock();
  std::vector<std::byte> result(result_bytes);
  work(calls, result.data());
  lock.lock();
  if (++world.finished_count == world.size) {
    world.finished_count = 0;
    world.called_count = 0;
    ++world.round;
    world.changed.notify_all();
  }
  if (!world.changed.wait_for(lock, kWaitLimit, [&] { return world.round != round; }))
    return kSystemError;
  lock.unlock();
  std::memcpy(to, result.data(), result.size());
  return kSuccess;
}

std::size_t bytes_of(int type) {
  switch (type) {
    case kUint8:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

/// Combines two numbers. Every op other than kMax and kMin is a sum.
template <typename T>
T reduced(T a, T b, int op) {
  if (op == kMax) return a < b ? b : a;
  if (op == kMin) return b < a ? b : a;
  return static_cast<T>(a + b);
}

/// Reduces the elements [offset, offset + count) of all inputs into `result`.
template <typename T, typename Combine>
void reduce_as(const std::vector<Call>& calls, std::size_t offset, std::size_t count,
               std::byte* result, Combine&& combine) {
  for (std::size_t i = 0; i < count; ++i) {
    T combined{};
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      T value{};
      std::memcpy(&value,
                  static_cast<const std::byte*>(calls[rank].from) + (offset + i) * sizeof(T),
                  sizeof(T));
      combined = rank == 0 ? value : combine(combined, value);
    }
    std::memcpy(result + i * sizeof(T), &combined, sizeof(T));
  }
}

void reduce(const std::vector<Call>& calls, std::size_t offset, std::size_t count, int type, int op,
            std::byte* result) {
  const auto combine = [op](auto a, auto b) { return reduced(a, b, op); };
  switch (type) {
    case kUint8:
      return reduce_as<std::uint8_t>(calls, offset, count, result, combine);
    case kInt64:
      return reduce_as<std::int64_t>(calls, offset, count, result, combine);
    case kUint64:
      return reduce_as<std::uint64_t>(calls, offset, count, result, combine);
    case kFloat16:
      return reduce_as<dlrun::Float16>(calls, offset, count, result, combine);
    case kFloat32:
      return reduce_as<float>(calls, offset, count, result, combine);
    case kFloat64:
      return reduce_as<double>(calls, offset, count, result, combine);
    case kBfloat16:
      return reduce_as<dlrun::Bfloat16>(calls, offset, count, result, combine);
    default:
      return;
  }
}

}  // namespace

#define DLRUN_EXPORT extern "C" __attribute__((visibility("default")))

DLRUN_EXPORT const char* hipGetErrorString(int code) {
  return code == kSuccess ? "no error" : "stand-in error";
}
DLRUN_EXPORT int hipGetLastError() {
  return kSuccess;
}
DLRUN_EXPORT int hipGetDeviceCount(int* count) {
  const char* const given = std::getenv("DLRUN_STAND_IN_GPUS");
  *count = given == nullptr ? 8 : std::atoi(given);
  return kSuccess;
}
DLRUN_EXPORT int hipSetDevice(int) {
  return kSuccess;
}
DLRUN_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = 60'100'000;
  return kSuccess;
}
/// attributes: hipPointerAttribute_t, which begins with the type of the memory.
DLRUN_EXPORT int hipPointerGetAttributes(int* attributes, const void* data) {
  if (!is_allocated(data)) return kHipInvalidValue;
  *attributes = kHipMemoryTypeDevice;
  return kSuccess;
}
DLRUN_EXPORT int hipMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(std::max<std::size_t>(bytes, 1));
  const std::lock_guard lock(registry_mutex);
  allocations[static_cast<const char*>(*memory)] = std::max<std::size_t>(bytes, 1);
  return kSuccess;
}
DLRUN_EXPORT int hipFree(void* memory) {
  {
    const std::lock_guard lock(registry_mutex);
    allocations.erase(static_cast<const char*>(memory));
  }
  std::free(memory);
  return kSuccess;
}
DLRUN_EXPORT int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int, void*) {
  std::memcpy(to, from, bytes);
  return kSuccess;
}
DLRUN_EXPORT int hipStreamCreateWithFlags(StreamOrEvent** stream, unsigned) {
  *stream = new StreamOrEvent;
  return kSuccess;
}
DLRUN_EXPORT int hipStreamDestroy(StreamOrEvent* stream) {
  delete stream;
  return kSuccess;
}
DLRUN_EXPORT int hipStreamQuery(const StreamOrEvent* stream) {
  return state_of(stream);
}
DLRUN_EXPORT int hipStreamWaitEvent(StreamOrEvent* stream, const StreamOrEvent* event, unsigned) {
  if (stream == nullptr || state_of(event) == kSuccess) return kSuccess;
  const std::lock_guard lock(device_mutex);
  stream->unfinished = event->unfinished;
  return kSuccess;
}
DLRUN_EXPORT int hipEventCreateWithFlags(StreamOrEvent** event, unsigned) {
  *event = new StreamOrEvent;
  return kSuccess;
}
DLRUN_EXPORT int hipEventDestroy(StreamOrEvent* event) {
  delete event;
  return kSuccess;
}
DLRUN_EXPORT int hipEventRecord(StreamOrEvent* event, const StreamOrEvent* stream) {
  const std::lock_guard lock(device_mutex);
  event->unfinished = stream == nullptr ? nullptr : stream->unfinished;
  return kSuccess;
}
DLRUN_EXPORT int hipEventQuery(const StreamOrEvent* event) {
  return state_of(event);
}

/// Loses a rank of every world that exists: see StandIn::hang_this_rank() in stand_in_rccl.h.
/// async_error: the error that ncclCommGetAsyncError() then reports to the other ranks.
DLRUN_EXPORT void stand_in_lose_rank(int async_error) {
  const std::lock_guard lock(registry_mutex);
  for (const auto& [id, world] : worlds) {
    const std::lock_guard world_lock(world->mutex);
    world->has_lost_rank = true;
    world->async_error = async_error;
    world->changed.notify_all();
  }
}

DLRUN_EXPORT const char* ncclGetErrorString(int code) {
  if (code == kRemoteError) return "remote process exited or there was a network error";
  return code == kSuccess ? "no error" : "stand-in error";
}
DLRUN_EXPORT const char* ncclGetLastError(void*) {
  return "";
}
DLRUN_EXPORT int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(registry_mutex);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &next_id, sizeof next_id);
  ++next_id;
  return kSuccess;
}
DLRUN_EXPORT int ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank,
                                        const Config* config) {
  // RCCL checks these values, too.
  if (config->magic != 0xcafebeef || config->version < 21400 || config->blocking != 0 ||
      config->size < sizeof(Config))
    return kInvalidArgument;
  const std::lock_guard lock(registry_mutex);
  auto& world = worlds[std::string(id.internal, sizeof id.internal)];
  if (!world) {
    world = std::make_shared<World>();
    world->size = size;
    world->calls.resize(static_cast<std::size_t>(size));
  }
  const std::lock_guard world_lock(world->mutex);
  ++world->joined_count;
  *comm = new Comm{world, rank};
  return kInProgress;
}
DLRUN_EXPORT int ncclCommGetAsyncError(void* comm, int* state) {
  const Comm& self = *static_cast<Comm*>(comm);
  World& world = *self.world;
  const std::lock_guard lock(world.mutex);
  *state = world.joined_count < world.size ? kInProgress
           : self.unfinished != nullptr    ? world.async_error
                                           : kSuccess;
  return kSuccess;
}
DLRUN_EXPORT int ncclCommFinalize(void*) {
  return kSuccess;
}
DLRUN_EXPORT int ncclCommDestroy(void* comm) {
  delete static_cast<Comm*>(comm);
  return kSuccess;
}
DLRUN_EXPORT int ncclCommAbort(void* comm) {
  const std::unique_ptr<Comm> self(static_cast<Comm*>(comm));
  if (self->unfinished == nullptr) return kSuccess;
  const std::lock_guard lock(device_mutex);
  self->unfinished->is_aborted = true;
  return kSuccess;
}
DLRUN_EXPORT int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op,
                               void* comm, StreamOrEvent* stream) {
  return run_collective(*static_cast<Comm*>(comm), *stream, from, to, count * bytes_of(type),
                        [&](const std::vector<Call>& calls, std::byte* result) {
                          reduce(calls, 0, count, type, op, result);
                        });
}
DLRUN_EXPORT int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                               void* comm, StreamOrEvent* stream) {
  const std::size_t bytes = count * bytes_of(type);
  return run_collective(*static_cast<Comm*>(comm), *stream, from, to, bytes,
                        [&](const std::vector<Call>& calls, std::byte* result) {
                          std::memcpy(result, calls[static_cast<std::size_t>(root)].from, bytes);
                        });
}
DLRUN_EXPORT int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* comm,
                               StreamOrEvent* stream) {
  const std::size_t bytes = count * bytes_of(type);
  auto& self = *static_cast<Comm*>(comm);
  return run_collective(self, *stream, from, to, bytes * self.world->calls.size(),
                        [&](const std::vector<Call>& calls, std::byte* result) {
                          for (std::size_t rank = 0; rank < calls.size(); ++rank)
                            std::memcpy(result + rank * bytes, calls[rank].from, bytes);
                        });
}
DLRUN_EXPORT int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int op,
                                   void* comm, StreamOrEvent* stream) {
  auto& self = *static_cast<Comm*>(comm);
  return run_collective(self, *stream, from, to, count * bytes_of(type),
                        [&](const std::vector<Call>& calls, std::byte* result) {
                          reduce(calls, static_cast<std::size_t>(self.rank) * count, count, type,
                                 op, result);
                        });
}
