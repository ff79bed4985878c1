// For each shape of a convolution (Window), batch size and number format, cuDNN lists its
// algorithms once. Every pass then uses the fastest deterministic algorithm that works and needs at
// most kMostWorkspaceBytes.

#include "runtime/trainer/cuda/cudnn_convolutions.h"

#include <array>
#include <string>

#include <cudnn.h>

#include "runtime/trainer/cuda/bfloat16_buffer.h"
#include "runtime/trainer/cuda/layer_loops.h"

namespace dlrun::trainer::cuda {
namespace {

/// Algorithms that need more workspace than this are not used.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{1} << 30U;

Result<> checked(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 256> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size() - 1);
  return fail(Errc::kInternal, "{}: {}{}{}", call, cudnnGetErrorString(status),
              detail[0] == '\0' ? "" : ": ", detail.data());
}

template <auto kDestroy>
struct Destroy {
  template <typename Object>
  void operator()(Object* object) const {
    kDestroy(object);
  }
};
/// Owns a descriptor or a handle of cuDNN.
template <typename Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;
using TensorDescriptor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

template <typename Handle, typename Owner>
Result<> create(cudnnStatus_t (*make)(Handle*), Owner& owner, const char* call) {
  Handle handle = nullptr;
  DLRUN_TRY(checked(make(&handle), call));
  owner.reset(handle);
  return {};
}

/// cuDNN's descriptions of a window at a batch size and in a number format. cuDNN takes sizes in
/// the order n, c, h, w for every layout.
struct Descriptors {
  TensorDescriptor x, y;
  FilterDescriptor w;
  ConvolutionDescriptor convolution;

  Result<> make(const Window& window, std::size_t n, cudnnDataType_t type) {
    const auto size = [](std::size_t value) { return static_cast<int>(value); };
    const auto describe_images = [&](TensorDescriptor& to, const ImageShape& shape) -> Result<> {
      DLRUN_TRY(create(cudnnCreateTensorDescriptor, to, "cudnnCreateTensorDescriptor"));
      return checked(
          cudnnSetTensor4dDescriptor(to.get(), CUDNN_TENSOR_NHWC, type, size(n),
                                     size(shape.channels), size(shape.height), size(shape.width)),
          "cudnnSetTensor4dDescriptor");
    };
    DLRUN_TRY(describe_images(x, window.input));
    DLRUN_TRY(describe_images(y, window.output));
    DLRUN_TRY(create(cudnnCreateFilterDescriptor, w, "cudnnCreateFilterDescriptor"));
    DLRUN_TRY(checked(cudnnSetFilter4dDescriptor(
                          w.get(), type, CUDNN_TENSOR_NHWC, size(window.output.channels),
                          size(window.input.channels), size(window.size), size(window.size)),
                      "cudnnSetFilter4dDescriptor"));
    DLRUN_TRY(
        create(cudnnCreateConvolutionDescriptor, convolution, "cudnnCreateConvolutionDescriptor"));
    DLRUN_TRY(checked(cudnnSetConvolution2dDescriptor(convolution.get(), size(window.padding),
                                                      size(window.padding), size(window.stride),
                                                      size(window.stride), 1, 1,
                                                      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                      "cudnnSetConvolution2dDescriptor"));
    // By default cuDNN would use TF32 for float32, with a fraction of only 10 bits.
    const cudnnMathType_t math = type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    return checked(cudnnSetConvolutionMathType(convolution.get(), math),
                   "cudnnSetConvolutionMathType");
  }
};

/// An array on the device with cuDNN's description of it.
template <typename Descriptor, typename Number>
struct Operand {
  const Descriptor& descriptor;
  Number* numbers;
  std::size_t count;
};
template <typename Descriptor, typename Number>
Operand(const Descriptor&, Number*, std::size_t) -> Operand<Descriptor, Number>;

/// One of the three passes of a window at a batch size. A pass computes an array from two others.
/// kList lists the algorithms in the order of the speed that cuDNN expects, without running them;
/// there are at most kMostAlgorithms of them. kWorkspaceSize returns the workspace size of an
/// algorithm, and kExecute runs an algorithm.
template <typename Algorithm, typename Listed, std::size_t kMostAlgorithms, auto kList,
          auto kWorkspaceSize, auto kExecute>
struct Pass {
  struct Candidate {
    Algorithm algorithm;
    std::size_t workspace_bytes = 0;
  };
  const char* call;       // name of kExecute
  const char* list_call;  // name of kList
  // The first candidate is used; candidates that fail in their first run are removed.
  std::vector<Candidate> candidates{};
  bool is_listed = false;
  bool has_run = false;
  std::string refusal{};  // cuDNN's last refusal: to list algorithms, or to run a candidate

  /// Lists the candidates at the first call; later calls do nothing. Fails with kInternal.
  template <typename A, typename B, typename C>
  [[nodiscard]] Result<> list_candidates(cudnnHandle_t handle, const A& a, const B& b,
                                         const ConvolutionDescriptor& convolution,
                                         const C& result) {
    if (is_listed) return {};
    std::array<Listed, kMostAlgorithms> list{};
    int count = 0;
    const cudnnStatus_t status = kList(handle, a.get(), b.get(), convolution.get(), result.get(),
                                       static_cast<int>(list.size()), &count, list.data());
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
      refusal = checked(status, list_call).error().message;
      count = 0;
    } else {
      DLRUN_TRY(checked(status, list_call));
    }
    is_listed = true;
    for (const Listed* one = list.data(); one != list.data() + count; ++one) {
      std::size_t bytes = 0;
      if (one->status != CUDNN_STATUS_SUCCESS || one->determinism != CUDNN_DETERMINISTIC) continue;
      const cudnnStatus_t size_status = kWorkspaceSize(handle, a.get(), b.get(), convolution.get(),
                                                       result.get(), one->algo, &bytes);
      if (size_status != CUDNN_STATUS_SUCCESS || bytes > kMostWorkspaceBytes) continue;
      candidates.push_back({one->algo, bytes});
    }
    return {};
  }

  template <typename A, typename B, typename C>
  [[nodiscard]] static cudnnStatus_t execute(
      cudnnHandle_t handle, const A& a, const void* a_numbers, const B& b, const void* b_numbers,
      const ConvolutionDescriptor& convolution, Algorithm algorithm, void* workspace,
      std::size_t bytes, const C& result, void* result_numbers) {
    constexpr float kOne = 1;
    constexpr float kZero = 0;
    return kExecute(handle, &kOne, a.get(), a_numbers, b.get(), b_numbers, convolution.get(),
                    algorithm, workspace, bytes, &kZero, result.get(), result_numbers);
  }
};

using Forward = Pass<cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t,
                     CUDNN_CONVOLUTION_FWD_ALGO_COUNT, cudnnGetConvolutionForwardAlgorithm_v7,
                     cudnnGetConvolutionForwardWorkspaceSize, cudnnConvolutionForward>;
using BackwardInput =
    Pass<cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t,
         CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, cudnnGetConvolutionBackwardDataAlgorithm_v7,
         cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnConvolutionBackwardData>;
using BackwardWeights =
    Pass<cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t,
         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
         cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnConvolutionBackwardFilter>;

/// The descriptors and the passes of a window at a batch size and in a number format.
struct Entry {
  Window window;
  std::size_t n = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Descriptors descriptors;
  Forward forward{"cudnnConvolutionForward", "cudnnGetConvolutionForwardAlgorithm_v7"};
  BackwardInput backward_input{"cudnnConvolutionBackwardData",
                               "cudnnGetConvolutionBackwardDataAlgorithm_v7"};
  BackwardWeights backward_weights{"cudnnConvolutionBackwardFilter",
                                   "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
};

/// Returns the number of weights of one output channel.
std::size_t weights_per_channel(const Window& window) {
  return window.size * window.size * window.input.channels;
}

std::size_t count_of_weights(const Window& window) {
  return weights_per_channel(window) * window.output.channels;
}

}  // namespace

struct CudnnConvolutions::Parts {
  explicit Parts(Kernels<float>& kernels)
      : device(kernels), stream(static_cast<cudaStream_t>(kernels.stream())) {}

  Kernels<float>& device;
  cudaStream_t stream;
  Owned<cudnnHandle_t, cudnnDestroy> handle;
  std::vector<std::unique_ptr<Entry>> entries;  // few: layers x batch sizes x number formats
  Array<std::byte> workspace;
  Array<float> weights;  // weights, or their gradients, in cuDNN's order
  // bfloat16 arrays for cuDNN
  Bfloat16Buffer first_buffer{device}, second_buffer{device}, result_buffer{device};
  std::vector<std::string> implementations;

  /// Returns the entry of a window at a batch size and in a number format. Creates the entry at the
  /// first call for it, and cuDNN's handle at the first call: networks without convolutions need no
  /// handle. Also makes `weights` large enough.
  Result<Entry*> find_or_make_entry(const Window& window, std::size_t n, cudnnDataType_t type) {
    if (handle == nullptr) {
      DLRUN_TRY(create(cudnnCreate, handle, "cudnnCreate"));
      DLRUN_TRY(checked(cudnnSetStream(handle.get(), stream), "cudnnSetStream"));
    }
    for (const auto& existing : entries) {
      if (existing->n == n && existing->type == type && existing->window == window)
        return existing.get();
    }
    auto made = std::make_unique<Entry>();
    made->window = window;
    made->n = n;
    made->type = type;
    DLRUN_TRY(made->descriptors.make(window, n, type));
    const std::size_t count = count_of_weights(window);
    if (count > weights.size()) {
      weights = Array<float>(device, count);
      if (weights.data() == nullptr) return tl::unexpected(device.synchronise().error());
    }
    entries.push_back(std::move(made));
    return entries.back().get();
  }

  static Result<> launch_result(const char* what) {
    const cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? Result<>()
                               : fail(Errc::kInternal, "{}: {}", what, cudaGetErrorString(code));
  }

  /// Transposes `from`, [rows x columns], into `to`.
  Result<> transpose_into(const float* from, std::size_t rows, std::size_t columns, float* to) {
    transpose(from, rows, columns, to, stream);
    return launch_result("transpose");
  }

  /// Calls run_pass(entry) in the requested number format. If run_pass() returns false, because
  /// cuDNN has no algorithm in that format, calls it again in float32.
  template <typename RunPass>
  Result<> run_in_precision(const Window& window, std::size_t n, const RunPass& run_pass) {
    const bool is_bfloat16 = device.precision() == Precision::kBfloat16;
    for (const cudnnDataType_t type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT}) {
      if (type == CUDNN_DATA_BFLOAT16 && !is_bfloat16) continue;
      DLRUN_TRY_ASSIGN(const auto found, find_or_make_entry(window, n, type));
      const Result<bool> done = run_pass(*found);
      if (!done) return tl::unexpected(done.error());
      if (*done) break;
    }
    return {};
  }

  /// The arrays of a pass in the entry's number format.
  struct Arrays {
    const void* first;
    const void* second;
    void* result;
  };
  /// Returns the arrays of a pass: with bfloat16, a and b rounded, and memory for the result.
  Result<Arrays> converted_arrays(const Entry& entry, const float* a, std::size_t a_count,
                                  const float* b, std::size_t b_count, float* to,
                                  std::size_t to_count) {
    if (entry.type == CUDNN_DATA_FLOAT) return Arrays{a, b, to};
    const Arrays rounded{first_buffer.rounded(a, a_count), second_buffer.rounded(b, b_count),
                         result_buffer.reserve(to_count)};
    if (rounded.first == nullptr || rounded.second == nullptr || rounded.result == nullptr)
      return tl::unexpected(device.synchronise().error());
    DLRUN_TRY(launch_result("round_to_bfloat16"));
    return rounded;
  }

  /// Computes `to` from a and b with the first candidate that works. An algorithm may fail in its
  /// first run although cuDNN has listed it; the function then removes it and tries the next
  /// algorithm. If no algorithm works, returns no_algorithm().
  template <typename PassOf, typename A, typename B, typename C>
  Result<bool> run(PassOf& pass, const Entry& entry, const Operand<A, const float>& a,
                   const Operand<B, const float>& b, const Operand<C, float>& to) {
    const ConvolutionDescriptor& convolution = entry.descriptors.convolution;
    const bool is_bfloat16 = entry.type != CUDNN_DATA_FLOAT;
    DLRUN_TRY(
        pass.list_candidates(handle.get(), a.descriptor, b.descriptor, convolution, to.descriptor));
    if (pass.candidates.empty()) return no_algorithm(pass.call, pass.refusal, entry);
    DLRUN_TRY_ASSIGN(const auto pass_arrays, converted_arrays(entry, a.numbers, a.count, b.numbers,
                                                              b.count, to.numbers, to.count));
    while (!pass.candidates.empty()) {
      const auto& candidate = pass.candidates.front();
      if (candidate.workspace_bytes > workspace.size()) {
        workspace = Array<std::byte>(device, candidate.workspace_bytes);
        if (workspace.data() == nullptr) return tl::unexpected(device.synchronise().error());
      }
      const auto done = checked(
          PassOf::execute(handle.get(), a.descriptor, pass_arrays.first, b.descriptor,
                          pass_arrays.second, convolution, candidate.algorithm, workspace.data(),
                          candidate.workspace_bytes, to.descriptor, pass_arrays.result),
          pass.call);
      if (!done && pass.has_run) return tl::unexpected(done.error());
      if (done) {
        if (!pass.has_run) {
          implementations.push_back(fmt::format("{} {}{}", pass.call,
                                                static_cast<int>(candidate.algorithm),
                                                is_bfloat16 ? ", bf16" : ""));
        }
        pass.has_run = true;
        if (!is_bfloat16) return true;
        widen_bfloat16(static_cast<const std::uint16_t*>(pass_arrays.result), to.numbers, to.count,
                       stream);
        DLRUN_TRY(launch_result("widen_bfloat16"));
        return true;
      }
      pass.refusal = done.error().message;
      pass.candidates.erase(pass.candidates.begin());
    }
    return no_algorithm(pass.call, pass.refusal, entry);
  }

  /// Returns false in bfloat16, where the caller tries float32. Fails with kInternal in float32.
  static Result<bool> no_algorithm(const char* call, const std::string& refusal,
                                   const Entry& entry) {
    if (entry.type != CUDNN_DATA_FLOAT) return false;
    const Window& w = entry.window;
    return fail(
        Errc::kInternal,
        "{}: cuDNN {} has no usable algorithm in float32 for {} images of {} x {} x {}, {} filters "
        "of {} x {}, stride {}, padding {}; an algorithm must give the same bits in every run and "
        "need at most {} MiB of workspace{}{}",
        call, cudnnGetVersion(), entry.n, w.input.height, w.input.width, w.input.channels,
        w.output.channels, w.size, w.size, w.stride, w.padding, kMostWorkspaceBytes >> 20U,
        refusal.empty() ? "" : "; cuDNN's last refusal: ", refusal);
  }
};

CudnnConvolutions::CudnnConvolutions(Kernels<float>& device)
    : parts_(std::make_unique<Parts>(device)) {}
CudnnConvolutions::~CudnnConvolutions() = default;

Result<> CudnnConvolutions::forward(const Window& window, std::size_t n, const float* x,
                                    const float* w, float* y) {
  Parts& p = *parts_;
  return p.run_in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Descriptors& d = entry.descriptors;
    DLRUN_TRY(
        p.transpose_into(w, weights_per_channel(window), window.output.channels, p.weights.data()));
    const float* const transposed = p.weights.data();
    return p.run(entry.forward, entry, Operand{d.x, x, n * window.input.size()},
                 Operand{d.w, transposed, count_of_weights(window)},
                 Operand{d.y, y, n * window.output.size()});
  });
}

Result<> CudnnConvolutions::backward_input(const Window& window, std::size_t n, const float* w,
                                           const float* dy, float* dx) {
  Parts& p = *parts_;
  return p.run_in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Descriptors& d = entry.descriptors;
    DLRUN_TRY(
        p.transpose_into(w, weights_per_channel(window), window.output.channels, p.weights.data()));
    const float* const transposed = p.weights.data();
    return p.run(entry.backward_input, entry, Operand{d.w, transposed, count_of_weights(window)},
                 Operand{d.y, dy, n * window.output.size()},
                 Operand{d.x, dx, n * window.input.size()});
  });
}

Result<> CudnnConvolutions::backward_weights(const Window& window, std::size_t n, const float* x,
                                             const float* dy, float* dw) {
  Parts& p = *parts_;
  const auto done = p.run_in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Descriptors& d = entry.descriptors;
    return p.run(entry.backward_weights, entry, Operand{d.x, x, n * window.input.size()},
                 Operand{d.y, dy, n * window.output.size()},
                 Operand{d.w, p.weights.data(), count_of_weights(window)});
  });
  if (!done) return done;
  return p.transpose_into(p.weights.data(), window.output.channels, weights_per_channel(window),
                          dw);
}

const std::vector<std::string>& CudnnConvolutions::implementations() const {
  return parts_->implementations;
}

}  // namespace dlrun::trainer::cuda
