#pragma once
// RCCL and HIP, loaded at run time, so that the build needs no ROCm and one build serves nodes with
// GPUs of AMD and of NVIDIA. This file declares the functions of RCCL since 2.14 (ROCm 5.5) and of
// HIP under the names that nccl.cc uses. If the build finds ROCm's headers, rccl_library.cc
// compares the constants below with those of ROCm.
//
// Sources: rccl/src/nccl.h.in; hip/hip_runtime_api.h and hip/driver_types.h of ROCm 5.5 to 6.4.

#include <cstddef>

#include "common/result.h"

namespace dlrun {

/// Loads librccl.so.1, which loads HIP. Fails with kUnavailable; the message contains the name
/// of the missing library or function. Call no other function of this header before this function
/// has succeeded.
[[nodiscard]] Result<> load_device_library();

// HIP

using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0;
inline constexpr cudaError_t cudaErrorNotReady = 600;

struct HipStream;
struct HipEvent;
using cudaStream_t = HipStream*;
using cudaEvent_t = HipEvent*;

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

enum cudaMemcpyKind : int { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

/// The kinds of memory. HIP's own numbers depend on its version; cudaPointerGetAttributes()
/// translates them.
enum cudaMemoryType { cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
struct cudaPointerAttributes {
  cudaMemoryType type = cudaMemoryTypeHost;
};

[[nodiscard]] const char* cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);

// RCCL

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7,
};
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclMin = 3, ncclNumOps = 5 };
enum ncclDataType_t : int {
  ncclUint8 = 1,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclNumTypes = 10,
};

struct RcclComm;
using ncclComm_t = RcclComm*;
struct ncclUniqueId {
  char internal[128];
};

/// The configuration of version 2.14. Later versions of RCCL read only these members and use
/// default values for the others.
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(::dlrun::ncclConfig_t), 0xcafebeef, 21400, 1 }

[[nodiscard]] const char* ncclGetErrorString(ncclResult_t code);
[[nodiscard]] const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);

}  // namespace dlrun
