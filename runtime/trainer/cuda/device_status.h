#pragma once
// The first failure of a device, which its owner gives to who waits for it.

#include <string_view>
#include <utility>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

class DeviceStatus {
 public:
  explicit DeviceStatus(int device) : device_(device) {}

  [[nodiscard]] const Result<>& first() const { return first_; }

  /// what: the call, as messages name it.
  void keep(cudaError_t code, std::string_view what) {
    if (code != cudaSuccess) fail_at(what, cudaGetErrorString(code));
  }
  void keep(cublasStatus_t code, std::string_view what) {
    if (code != CUBLAS_STATUS_SUCCESS) fail_at(what, cublasGetStatusString(code));
  }
  /// An error that names its call.
  void keep(Result<> result) {
    if (!result && first_) first_ = within(fmt::format("cuda {}", device_), result.error());
  }
  /// Of a kernel that was just queued.
  void launched(std::string_view what) { keep(cudaGetLastError(), what); }

 private:
  void fail_at(std::string_view what, const char* why) {
    if (first_) first_ = fail(Errc::kInternal, "cuda {}: {}: {}", device_, what, why);
  }

  int device_;
  Result<> first_;
};

}  // namespace dlrun::trainer::cuda
