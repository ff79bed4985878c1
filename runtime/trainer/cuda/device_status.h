#pragma once
// Remembers the first failure of a device. Kernels::synchronise() returns this failure.

#include <string_view>
#include <utility>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "common/result.h"

namespace dlrun::trainer::cuda {

class DeviceStatus {
 public:
  explicit DeviceStatus(int device) : device_(device) {}

  /// Returns the first failure, or success.
  [[nodiscard]] const Result<>& result() const { return result_; }
  [[nodiscard]] bool is_ok() const { return result_.has_value(); }

  /// Remembers a failed call; `what` is its name in the message.
  void remember_error(cudaError_t code, std::string_view what) {
    if (code != cudaSuccess) fail_at(what, cudaGetErrorString(code));
  }
  void remember_error(cublasStatus_t code, std::string_view what) {
    if (code != CUBLAS_STATUS_SUCCESS) fail_at(what, cublasGetStatusString(code));
  }
  /// Remembers an error whose message already contains the name of the call.
  void remember_error(Result<> outcome) {
    if (!outcome && result_) result_ = within(fmt::format("cuda {}", device_), outcome.error());
  }
  /// Remembers the error if the last launch of a kernel failed. Call it directly after the launch.
  /// `what` is the name of the kernel in the message.
  void remember_launch_error(std::string_view what) { remember_error(cudaGetLastError(), what); }

 private:
  void fail_at(std::string_view what, const char* why) {
    if (result_) result_ = fail(Errc::kInternal, "cuda {}: {}: {}", device_, what, why);
  }

  int device_;
  Result<> result_;
};

}  // namespace dlrun::trainer::cuda
