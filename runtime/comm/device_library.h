#pragma once
// The libraries behind nccl.cc, which is compiled once for each of two modules: comm-nccl with CUDA
// and NCCL, and comm-rccl with ROCm's HIP and RCCL. RCCL has NCCL's functions, and HIP has CUDA's
// functions under names that start with "hip". rccl_library.h declares the functions of RCCL and
// HIP under the names that nccl.cc uses.

#include "common/result.h"

#ifdef DLRUN_RCCL

#include "runtime/comm/rccl_library.h"

namespace dlrun {

inline constexpr const char* kBackendName = "rccl";
inline constexpr const char* kDeviceFunctionPrefix = "hip";  ///< of the functions' names

}  // namespace dlrun

#else

#include <cuda_runtime.h>
#include <nccl.h>

namespace dlrun {

inline constexpr const char* kBackendName = "nccl";
inline constexpr const char* kDeviceFunctionPrefix = "cuda";

/// Always succeeds: the loader has loaded the libraries together with this module.
[[nodiscard]] inline Result<> load_device_library() {
  return {};
}

}  // namespace dlrun

#endif
