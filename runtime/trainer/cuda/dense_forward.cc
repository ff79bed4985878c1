// The first call for a shape and alignment asks cuBLASLt for an algorithm and makes a plan. Later
// calls reuse this plan.

#include "runtime/trainer/cuda/dense_forward.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

namespace dlrun::trainer::cuda {
namespace {

/// The size that NVIDIA recommends for cuBLASLt's workspace on Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;

Result<> checked(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return fail(Errc::kInternal, "{}: {}", call, cublasGetStatusString(status));
}

/// Returns the alignment of an address in bytes, at most 256. A layer's weights may begin at any
/// float, because parameters are stored without gaps.
std::uint32_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

/// The properties of a call that decide which algorithm is used.
struct Case {
  std::size_t n = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  bool with_relu = false;
  std::array<std::uint32_t, 4> alignments{};  // of w, x, y, bias

  friend bool operator==(const Case&, const Case&) = default;
};

/// The prepared arguments for the calls of one case: descriptions of product and arrays, and the
/// algorithm.
struct Plan {
  Case key;
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t w{}, x{}, y{};
  cublasLtMatmulAlgo_t algorithm{};
  bool has_algorithm = false;
};

}  // namespace

struct DenseForward::Parts {
  Parts(Kernels<float>& kernels, Precision precision)
      : device(kernels), input_type(precision == Precision::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  Kernels<float>& device;
  cudaDataType_t input_type;  // number format of x and w
  cublasLtHandle_t handle = nullptr;
  Array<std::byte> workspace;
  std::vector<std::unique_ptr<Plan>> plans;  // few plans: layers times batch sizes

  /// Returns the plan for `key`; makes it, and cuBLASLt's handle, at the first call.
  Result<Plan*> find_or_make_plan(const Case& key, const float* bias) {
    for (const auto& existing : plans) {
      if (existing->key == key) return existing.get();
    }
    if (handle == nullptr) {
      workspace = Array<std::byte>(device, kWorkspaceBytes);
      if (workspace.data() == nullptr) return tl::unexpected(device.synchronise().error());
      DLRUN_TRY(checked(cublasLtCreate(&handle), "cublasLtCreate"));
    }
    auto made = std::make_unique<Plan>();
    made->key = key;
    DLRUN_TRY(describe(*made, bias));
    DLRUN_TRY(choose_algorithm(*made));
    plans.push_back(std::move(made));
    return plans.back().get();
  }

  static Result<> set_attribute(Plan& plan, cublasLtMatmulDescAttributes_t attribute,
                                const auto& value) {
    return checked(cublasLtMatmulDescSetAttribute(&plan.product, attribute, &value, sizeof value),
                   "cublasLtMatmulDescSetAttribute");
  }

  /// Describes the product to cuBLASLt, which is column-major: row-major arrays are read as their
  /// transposes, so y^T = w^T x^T, with one bias per row of y^T.
  Result<> describe(Plan& plan, const float* bias) const {
    const Case& key = plan.key;
    const auto init_layout = [](cublasLtMatrixLayoutOpaque_t& to, cudaDataType_t type,
                                std::size_t rows, std::size_t columns) {
      return checked(
          cublasLtMatrixLayoutInit(&to, type, rows, columns, static_cast<std::int64_t>(rows)),
          "cublasLtMatrixLayoutInit");
    };
    DLRUN_TRY(init_layout(plan.w, input_type, key.outputs, key.inputs));
    DLRUN_TRY(init_layout(plan.x, input_type, key.inputs, key.n));
    DLRUN_TRY(init_layout(plan.y, CUDA_R_32F, key.outputs, key.n));
    DLRUN_TRY(checked(cublasLtMatmulDescInit(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "cublasLtMatmulDescInit"));
    const cublasLtEpilogue_t epilogue =
        key.with_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    DLRUN_TRY(set_attribute(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    // cuBLASLt needs this pointer's alignment to choose the algorithm. Each run() sets the pointer
    // of its call.
    return set_attribute(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }

  /// Sets has_algorithm to false if cuBLASLt has none for this case.
  Result<> choose_algorithm(Plan& plan) const {
    cublasLtMatmulPreferenceOpaque_t preference{};
    DLRUN_TRY(checked(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit"));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return checked(
          cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
    };
    const std::uint64_t max_workspace_bytes = kWorkspaceBytes;
    const auto& [w, x, y, bias] = plan.key.alignments;
    DLRUN_TRY(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, max_workspace_bytes));
    DLRUN_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, w));
    DLRUN_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x));
    DLRUN_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y));
    DLRUN_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::min(y, bias)));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, &plan.product, &plan.w, &plan.x, &plan.y, &plan.y, &preference, 1, &found, &count);
    plan.has_algorithm =
        status == CUBLAS_STATUS_SUCCESS && count == 1 && found.state == CUBLAS_STATUS_SUCCESS;
    plan.algorithm = found.algo;
    return status == CUBLAS_STATUS_NOT_SUPPORTED
               ? Result<>()
               : checked(status, "cublasLtMatmulAlgoGetHeuristic");
  }
};

DenseForward::DenseForward(Kernels<float>& device, Precision precision)
    : parts_(std::make_unique<Parts>(device, precision)) {}
DenseForward::~DenseForward() = default;

Result<bool> DenseForward::run(std::size_t n, std::size_t inputs, std::size_t outputs,
                               const void* x, const void* w, const float* bias, bool with_relu,
                               float* y) {
  Parts& p = *parts_;
  DLRUN_TRY_ASSIGN(
      const auto found,
      p.find_or_make_plan({n,
                           inputs,
                           outputs,
                           with_relu,
                           {alignment(w), alignment(x), alignment(y), alignment(bias)}},
                          bias));
  Plan& plan = *found;
  if (!plan.has_algorithm) return false;
  DLRUN_TRY(Parts::set_attribute(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  const cublasStatus_t status =
      cublasLtMatmul(p.handle, &plan.product, &kOne, w, &plan.w, x, &plan.x, &kZero, y, &plan.y, y,
                     &plan.y, &plan.algorithm, p.workspace.data(), kWorkspaceBytes,
                     static_cast<cudaStream_t>(p.device.stream()));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
    plan.has_algorithm = false;
    return false;
  }
  DLRUN_TRY(checked(status, "cublasLtMatmul"));
  return true;
}

}  // namespace dlrun::trainer::cuda
