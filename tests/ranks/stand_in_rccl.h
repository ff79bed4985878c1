#pragma once
// Helpers for tests that run the rccl backend on the stand-in for librccl.so.1 (stand_in_rccl.cc).

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "runtime/comm/make_communicator.h"
#include "tests/time_bounds.h"

namespace dlrun {

/// Loads the stand-in. The loader then uses it for every request for librccl.so.1. The stand-in
/// reports 8 GPUs, or the number in the environment variable DLRUN_STAND_IN_GPUS. The constructor
/// unsets this variable.
struct StandIn {
  void* const library = ::dlopen(DLRUN_STAND_IN_RCCL, RTLD_NOW | RTLD_GLOBAL);
  StandIn() {
    const char* const why = library == nullptr ? ::dlerror() : "";
    REQUIRE_MESSAGE(library != nullptr, why);
    for (const char* const name : {"hipMalloc", "hipFree", "stand_in_lose_rank"}) {
      CAPTURE(name);
      REQUIRE(::dlsym(library, name) != nullptr);
    }
    ::unsetenv("DLRUN_STAND_IN_GPUS");
  }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library, name));
  }

  /// Simulates in every world that the calling rank hangs. The rank must not call a collective
  /// afterwards. The other ranks' collectives then do not end until they are aborted, and
  /// ncclCommGetAsyncError() reports no error.
  void hang_this_rank() const { lose_rank(0); }  // ncclSuccess
  /// Simulates that the process of the calling rank ends. Differs from hang_this_rank() in one
  /// respect: ncclCommGetAsyncError() reports ncclRemoteError to the other ranks.
  void end_this_rank() const { lose_rank(6); }  // ncclRemoteError

 private:
  void lose_rank(int async_error) const { function<void(int)>("stand_in_lose_rank")(async_error); }
};

/// Device memory of the stand-in. The host can read and write it.
class DeviceMemory {
 public:
  DeviceMemory(const StandIn& stand_in, std::size_t bytes)
      : release_(stand_in.function<int(void*)>("hipFree")) {
    (void)stand_in.function<int(void**, std::size_t)>("hipMalloc")(&data_, bytes);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { release_(data_); }

  [[nodiscard]] void* data() const { return data_; }

 private:
  int (*release_)(void*);
  void* data_ = nullptr;
};

/// The timeout of ranks that lose a peer.
inline constexpr std::chrono::seconds kLostRankTimeout = wall_limit(std::chrono::seconds(2));

/// The reason that the backend gives for a collective which did not end within kLostRankTimeout.
inline std::string lost_or_stuck_message() {
  return fmt::format("a collective did not end within {} s; a rank is lost or stuck",
                     kLostRankTimeout.count());
}

/// Sets the timeout to kLostRankTimeout, and turns off the comparison of calls. The comparison uses
/// host memory, so it would notice a lost rank before a collective on device memory does.
inline void set_options_for_lost_rank(CommunicatorOptions& options) {
  options.timeout = kLostRankTimeout;
  options.calls_to_check = 0;
}

}  // namespace dlrun
