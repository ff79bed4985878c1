// Defines the functions of CUDA and NCCL that nccl.cc calls. Each function calls its equivalent in
// HIP or RCCL, which is looked up at run time. The table below has one row for each function: the
// name that nccl.cc uses, the name in the library, the type of the result, the parameters, and the
// arguments. Each row becomes a member of Functions, a line that looks the function up, and a
// function that calls it. Only cudaPointerGetAttributes() has no row, because it translates HIP's
// struct; it is at the end of this file.

#include "runtime/comm/rccl_library.h"

#include <dlfcn.h>

// A build with ROCm compares the constants of rccl_library.h with ROCm's own.
#ifdef DLRUN_RCCL_HEADER
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#endif

namespace dlrun {
namespace {

#ifdef DLRUN_RCCL_HEADER
static_assert(static_cast<int>(::hipErrorNotReady) == cudaErrorNotReady);
static_assert(static_cast<int>(::hipMemcpyHostToDevice) == cudaMemcpyHostToDevice);
static_assert(static_cast<int>(::hipMemcpyDeviceToHost) == cudaMemcpyDeviceToHost);
static_assert(hipStreamNonBlocking == cudaStreamNonBlocking);
static_assert(hipEventDisableTiming == cudaEventDisableTiming);
static_assert(static_cast<int>(::ncclInProgress) == ncclInProgress);
static_assert(static_cast<int>(::ncclInvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(::ncclMin) == ncclMin);
static_assert(static_cast<int>(::ncclUint64) == ncclUint64);
static_assert(static_cast<int>(::ncclBfloat16) == ncclBfloat16);
static_assert(sizeof(::ncclUniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(::ncclConfig_t, blocking) == offsetof(ncclConfig_t, blocking));
#endif

/// The first members of hipPointerAttribute_t, and space for its other members.
struct HipPointerAttributes {
  int type = 0;
  int device = 0;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
  int is_managed = 0;
  unsigned flags = 0;
  char rest[128] = {};
};

// clang-format off
#define DLRUN_RCCL_FUNCTIONS(row)                                                                  \
  row(cudaGetErrorString, hipGetErrorString, const char*, (cudaError_t code), (code))              \
  row(cudaGetLastError, hipGetLastError, cudaError_t, (), ())                                      \
  row(cudaGetDeviceCount, hipGetDeviceCount, cudaError_t, (int* count), (count))                   \
  row(cudaSetDevice, hipSetDevice, cudaError_t, (int device), (device))                            \
  row(cudaMalloc, hipMalloc, cudaError_t, (void** memory, std::size_t bytes), (memory, bytes))     \
  row(cudaFree, hipFree, cudaError_t, (void* memory), (memory))                                    \
  row(cudaMemcpyAsync, hipMemcpyAsync, cudaError_t,                                                \
      (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),   \
      (to, from, bytes, kind, stream))                                                             \
  row(cudaStreamCreateWithFlags, hipStreamCreateWithFlags, cudaError_t,                            \
      (cudaStream_t* stream, unsigned flags), (stream, flags))                                     \
  row(cudaStreamDestroy, hipStreamDestroy, cudaError_t, (cudaStream_t stream), (stream))           \
  row(cudaStreamQuery, hipStreamQuery, cudaError_t, (cudaStream_t stream), (stream))               \
  row(cudaStreamWaitEvent, hipStreamWaitEvent, cudaError_t,                                        \
      (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))            \
  row(cudaEventCreateWithFlags, hipEventCreateWithFlags, cudaError_t,                              \
      (cudaEvent_t* event, unsigned flags), (event, flags))                                        \
  row(cudaEventDestroy, hipEventDestroy, cudaError_t, (cudaEvent_t event), (event))                \
  row(cudaEventRecord, hipEventRecord, cudaError_t, (cudaEvent_t event, cudaStream_t stream),      \
      (event, stream))                                                                             \
  row(cudaEventQuery, hipEventQuery, cudaError_t, (cudaEvent_t event), (event))                    \
  row(ncclGetErrorString, ncclGetErrorString, const char*, (ncclResult_t code), (code))            \
  row(ncclGetLastError, ncclGetLastError, const char*, (ncclComm_t comm), (comm))                  \
  row(ncclGetUniqueId, ncclGetUniqueId, ncclResult_t, (ncclUniqueId* id), (id))                    \
  row(ncclCommInitRankConfig, ncclCommInitRankConfig, ncclResult_t,                                \
      (ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),              \
      (comm, ranks, id, rank, config))                                                             \
  row(ncclCommFinalize, ncclCommFinalize, ncclResult_t, (ncclComm_t comm), (comm))                 \
  row(ncclCommDestroy, ncclCommDestroy, ncclResult_t, (ncclComm_t comm), (comm))                   \
  row(ncclCommAbort, ncclCommAbort, ncclResult_t, (ncclComm_t comm), (comm))                       \
  row(ncclCommGetAsyncError, ncclCommGetAsyncError, ncclResult_t,                                  \
      (ncclComm_t comm, ncclResult_t* state), (comm, state))                                       \
  row(ncclAllReduce, ncclAllReduce, ncclResult_t,                                                  \
      (const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,         \
       ncclComm_t comm, cudaStream_t stream), (from, to, count, type, op, comm, stream))           \
  row(ncclBroadcast, ncclBroadcast, ncclResult_t,                                                  \
      (const void* from, void* to, std::size_t count, ncclDataType_t type, int root,               \
       ncclComm_t comm, cudaStream_t stream), (from, to, count, type, root, comm, stream))         \
  row(ncclAllGather, ncclAllGather, ncclResult_t,                                                  \
      (const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,        \
       cudaStream_t stream), (from, to, count, type, comm, stream))                                \
  row(ncclReduceScatter, ncclReduceScatter, ncclResult_t,                                          \
      (const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,         \
       ncclComm_t comm, cudaStream_t stream), (from, to, count, type, op, comm, stream))
// clang-format on

struct Functions {
#define DLRUN_MEMBER(name, symbol, result, parameters, arguments) \
  result(*name) parameters = nullptr;
  DLRUN_RCCL_FUNCTIONS(DLRUN_MEMBER)
#undef DLRUN_MEMBER
  cudaError_t (*hip_pointer_get_attributes)(HipPointerAttributes*, const void*) = nullptr;
  cudaError_t (*hip_runtime_get_version)(int*) = nullptr;
};

template <typename Function>
Result<> find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  if (function != nullptr) return {};
  return fail(Errc::kUnavailable,
              "librccl.so.1 and the libraries that it loads have no function {}: the rccl backend "
              "needs ROCm 5.5 or later",
              symbol);
}

Result<Functions> load_functions() {
  // A lookup in the handle of RCCL also searches HIP, which RCCL loads.
  void* const library = ::dlopen("librccl.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return fail(Errc::kUnavailable,
                "RCCL cannot be loaded: {}; load ROCm (environment.modules), or add the folder of "
                "librccl.so.1 to LD_LIBRARY_PATH",
                ::dlerror());
  }
  Functions all;
#define DLRUN_LOOKUP(name, symbol, result, parameters, arguments) \
  DLRUN_TRY(find(library, #symbol, all.name));
  DLRUN_RCCL_FUNCTIONS(DLRUN_LOOKUP)
#undef DLRUN_LOOKUP
  DLRUN_TRY(find(library, "hipPointerGetAttributes", all.hip_pointer_get_attributes));
  DLRUN_TRY(find(library, "hipRuntimeGetVersion", all.hip_runtime_get_version));
  return all;
}

const Result<Functions>& loaded_functions() {
  static const Result<Functions> loaded = load_functions();
  return loaded;
}

}  // namespace

Result<> load_device_library() {
  const auto& loaded = loaded_functions();
  return loaded ? Result<>() : tl::unexpected(loaded.error());
}

#define DLRUN_FUNCTION(name, symbol, result, parameters, arguments) \
  result name parameters {                                          \
    return loaded_functions()->name arguments;                      \
  }
DLRUN_RCCL_FUNCTIONS(DLRUN_FUNCTION)
#undef DLRUN_FUNCTION

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const Functions& hip = *loaded_functions();
  HipPointerAttributes found;
  if (const auto code = hip.hip_pointer_get_attributes(&found, data); code != cudaSuccess)
    return code;
  int version = 0;
  if (const auto code = hip.hip_runtime_get_version(&version); code != cudaSuccess) return code;
  // From ROCm 6 on, device memory has the same number as in CUDA. The version is MAJOR * 10^7 + ...
  constexpr int kRocm6 = 60'000'000;
  const int device_memory_type = version >= kRocm6 ? 2 : 1;
  attributes->type = found.is_managed != 0              ? cudaMemoryTypeManaged
                     : found.type == device_memory_type ? cudaMemoryTypeDevice
                                                        : cudaMemoryTypeHost;
  return cudaSuccess;
}

}  // namespace dlrun
