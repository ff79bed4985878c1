#include "runtime/trainer/cuda/cudnn_convolutions.h"

#include <array>
#include <string>

#include <cudnn.h>

#include "runtime/trainer/cuda/halves.h"
#include "runtime/trainer/cuda/layer_loops.h"

namespace dlrun::trainer::cuda {
namespace {

/// Algorithms that want more memory than this beside their arrays are left out.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{1} << 30U;

Result<> checked(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 256> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size() - 1);
  return fail(Errc::kInternal, "{}: {}{}{}", call, cudnnGetErrorString(status), detail[0] == '\0' ? "" : ": ",
              detail.data());
}

template <auto kDestroy>
struct Destroy {
  template <typename Object>
  void operator()(Object* object) const {
    kDestroy(object);
  }
};
/// A descriptor of cuDNN's, and its end.
template <typename Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;
using TensorDescriptor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

template <typename Handle, typename Owner>
Result<> create(cudnnStatus_t (*make)(Handle*), Owner& owner, const char* call) {
  Handle handle = nullptr;
  DLRUN_TRY(checked(make(&handle), call));
  owner.reset(handle);
  return {};
}

/// A window at a batch size and in a type, in cuDNN's words. Its dimensions are named in the order n, c, h, w, whatever
/// the layout.
struct Shapes {
  TensorDescriptor x, y;
  FilterDescriptor w;
  ConvolutionDescriptor convolution;

  Result<> make(const Window& window, std::size_t n, cudnnDataType_t type) {
    const auto size = [](std::size_t value) { return static_cast<int>(value); };
    const auto image = [&](TensorDescriptor& to, const ImageShape& shape) -> Result<> {
      DLRUN_TRY(create(cudnnCreateTensorDescriptor, to, "cudnnCreateTensorDescriptor"));
      return checked(cudnnSetTensor4dDescriptor(to.get(), CUDNN_TENSOR_NHWC, type, size(n), size(shape.channels),
                                                size(shape.height), size(shape.width)),
                     "cudnnSetTensor4dDescriptor");
    };
    DLRUN_TRY(image(x, window.input));
    DLRUN_TRY(image(y, window.output));
    DLRUN_TRY(create(cudnnCreateFilterDescriptor, w, "cudnnCreateFilterDescriptor"));
    DLRUN_TRY(checked(cudnnSetFilter4dDescriptor(w.get(), type, CUDNN_TENSOR_NHWC, size(window.output.channels),
                                                 size(window.input.channels), size(window.size), size(window.size)),
                      "cudnnSetFilter4dDescriptor"));
    DLRUN_TRY(create(cudnnCreateConvolutionDescriptor, convolution, "cudnnCreateConvolutionDescriptor"));
    DLRUN_TRY(checked(cudnnSetConvolution2dDescriptor(convolution.get(), size(window.padding), size(window.padding),
                                                      size(window.stride), size(window.stride), 1, 1,
                                                      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                      "cudnnSetConvolution2dDescriptor"));
    // Its default takes float32 through TF32, of 10 bits.
    const cudnnMathType_t math = type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    return checked(cudnnSetConvolutionMathType(convolution.get(), math), "cudnnSetConvolutionMathType");
  }
};

/// One of the three passes of a window at a batch size.
template <typename Algorithm>
struct Pass {
  struct Candidate {
    Algorithm algorithm;
    std::size_t workspace_bytes = 0;
  };
  const char* call;
  std::vector<Candidate> candidates{};  // the first is used; those that are refused at first go
  bool is_searched = false;
  bool has_run = false;
  std::string refused{};  // cuDNN's reason, of the last one that went

  /// At first: those that find(room, &count, list) gives, in its order, the fastest first; name is that call's.
  /// needs(algorithm, &bytes) asks for the workspace.
  template <typename Found, std::size_t kRoom, typename Find, typename Needs>
  [[nodiscard]] Result<> search(const char* name, const Find& find, const Needs& needs) {
    if (is_searched) return {};
    std::array<Found, kRoom> list{};
    int count = 0;
    const cudnnStatus_t status = find(static_cast<int>(list.size()), &count, list.data());
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
      refused = checked(status, name).error().message;
      count = 0;
    } else {
      DLRUN_TRY(checked(status, name));
    }
    is_searched = true;
    for (const Found* one = list.data(); one != list.data() + count; ++one) {
      std::size_t bytes = 0;
      if (one->status != CUDNN_STATUS_SUCCESS || one->determinism != CUDNN_DETERMINISTIC) continue;
      if (needs(one->algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > kMostWorkspaceBytes) continue;
      candidates.push_back({one->algo, bytes});
    }
    return {};
  }
};

struct Entry {
  Window window;
  std::size_t n = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Shapes shapes;
  Pass<cudnnConvolutionFwdAlgo_t> forward{"cudnnConvolutionForward"};
  Pass<cudnnConvolutionBwdDataAlgo_t> backward_input{"cudnnConvolutionBackwardData"};
  Pass<cudnnConvolutionBwdFilterAlgo_t> backward_weights{"cudnnConvolutionBackwardFilter"};
};

std::size_t places(const Window& window) {
  return window.size * window.size * window.input.channels;
}

std::size_t weights_of(const Window& window) {
  return places(window) * window.output.channels;
}

}  // namespace

struct CudnnConvolutions::Parts {
  explicit Parts(Kernels<float>& kernels) : device(kernels), stream(static_cast<cudaStream_t>(kernels.stream())) {}

  Kernels<float>& device;
  cudaStream_t stream;
  Owned<cudnnHandle_t, cudnnDestroy> handle;
  std::vector<std::unique_ptr<Entry>> entries;  // a handful: layers times batch sizes, and types
  Array<std::byte> workspace;
  Array<float> weights;                                  // in cuDNN's order
  Halves first{device}, second{device}, result{device};  // what cuDNN reads and writes in 16 bits
  std::vector<std::string> implementations;

  /// The entry of them; at first the handle, too: it costs a dense network nothing.
  Result<Entry*> entry(const Window& window, std::size_t n, cudnnDataType_t type) {
    if (handle == nullptr) {
      DLRUN_TRY(create(cudnnCreate, handle, "cudnnCreate"));
      DLRUN_TRY(checked(cudnnSetStream(handle.get(), stream), "cudnnSetStream"));
    }
    for (const auto& known : entries) {
      if (known->n == n && known->type == type && known->window == window) return known.get();
    }
    auto made = std::make_unique<Entry>();
    made->window = window;
    made->n = n;
    made->type = type;
    DLRUN_TRY(made->shapes.make(window, n, type));
    const std::size_t count = weights_of(window);
    if (count > weights.size()) {
      weights = Array<float>(device, count);
      if (weights.data() == nullptr) return tl::unexpected(device.synchronise().error());
    }
    entries.push_back(std::move(made));
    return entries.back().get();
  }

  static Result<> launched(const char* what) {
    const cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? Result<>() : fail(Errc::kInternal, "{}: {}", what, cudaGetErrorString(code));
  }

  /// to = from [rows x columns] the other way round.
  Result<> turn(const float* from, std::size_t rows, std::size_t columns, float* to) {
    transpose(from, rows, columns, to, stream);
    return launched("transpose");
  }

  /// pass(entry) in the type that is asked for; in float32 where cuDNN has no algorithm in the other, which pass says
  /// by false.
  template <typename RunPass>
  Result<> in_precision(const Window& window, std::size_t n, const RunPass& pass) {
    const bool is_rounded = device.precision() == Precision::kBfloat16;
    for (const cudnnDataType_t type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT}) {
      if (type == CUDNN_DATA_BFLOAT16 && !is_rounded) continue;
      const auto found = entry(window, n, type);
      if (!found) return tl::unexpected(found.error());
      const Result<bool> done = pass(**found);
      if (!done) return tl::unexpected(done.error());
      if (*done) break;
    }
    return {};
  }

  /// What cuDNN reads and writes in a pass, as the entry's type has it.
  struct Arrays {
    const void* first;
    const void* second;
    void* result;
  };
  Result<Arrays> arrays(const Entry& entry, const float* a, std::size_t a_count, const float* b, std::size_t b_count,
                        float* to, std::size_t to_count) {
    if (entry.type == CUDNN_DATA_FLOAT) return Arrays{a, b, to};
    const Arrays rounded{first.of(a, a_count), second.of(b, b_count), result.room(to_count)};
    if (rounded.first == nullptr || rounded.second == nullptr || rounded.result == nullptr)
      return tl::unexpected(device.synchronise().error());
    DLRUN_TRY(launched("round_to_bfloat16"));
    return rounded;
  }

  /// execute(algorithm, arrays, workspace, bytes) from a and b to `to` with the fastest algorithm that takes it; false:
  /// there is none in 16 bits. cuDNN's word that it supports one is not its last: what it refuses at first goes, and
  /// the next is tried.
  template <typename Algorithm, typename Execute>
  Result<bool> run(Pass<Algorithm>& pass, const Entry& entry, const float* a, std::size_t a_count, const float* b,
                   std::size_t b_count, float* to, std::size_t to_count, const Execute& execute) {
    const bool is_rounded = entry.type != CUDNN_DATA_FLOAT;
    if (pass.candidates.empty()) return no_algorithm(pass.call, pass.refused, entry);
    const auto with = arrays(entry, a, a_count, b, b_count, to, to_count);
    if (!with) return tl::unexpected(with.error());
    while (!pass.candidates.empty()) {
      const auto& candidate = pass.candidates.front();
      if (candidate.workspace_bytes > workspace.size()) {
        workspace = Array<std::byte>(device, candidate.workspace_bytes);
        if (workspace.data() == nullptr) return tl::unexpected(device.synchronise().error());
      }
      const auto done =
          checked(execute(candidate.algorithm, *with, workspace.data(), candidate.workspace_bytes), pass.call);
      if (!done && pass.has_run) return tl::unexpected(done.error());
      if (done) {
        if (!pass.has_run) {
          implementations.push_back(
              fmt::format("{} {}{}", pass.call, static_cast<int>(candidate.algorithm), is_rounded ? ", bf16" : ""));
        }
        pass.has_run = true;
        if (!is_rounded) return true;
        widen_bfloat16(static_cast<const std::uint16_t*>(with->result), to, to_count, stream);
        DLRUN_TRY(launched("widen_bfloat16"));
        return true;
      }
      pass.refused = done.error().message;
      pass.candidates.erase(pass.candidates.begin());
    }
    return no_algorithm(pass.call, pass.refused, entry);
  }

  static Result<bool> no_algorithm(const char* call, const std::string& refused, const Entry& entry) {
    if (entry.type != CUDNN_DATA_FLOAT) return false;
    const Window& w = entry.window;
    return fail(Errc::kInternal,
                "{}: cuDNN {} has no algorithm in float32 that repeats to the bit for {} images of {} x {} x {}, "
                "{} windows of {} x {}, stride {}, padding {}{}{}",
                call, cudnnGetVersion(), entry.n, w.input.height, w.input.width, w.input.channels, w.output.channels,
                w.size, w.size, w.stride, w.padding, refused.empty() ? "" : "; the last one: ", refused);
  }
};

CudnnConvolutions::CudnnConvolutions(Kernels<float>& device) : parts_(std::make_unique<Parts>(device)) {}
CudnnConvolutions::~CudnnConvolutions() = default;

namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;

}  // namespace

Result<> CudnnConvolutions::forward(const Window& window, std::size_t n, const float* x, const float* w, float* y) {
  Parts& p = *parts_;
  return p.in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Shapes& s = entry.shapes;
    cudnnHandle_t const handle = p.handle.get();
    DLRUN_TRY((entry.forward.search<cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_COUNT>(
        "cudnnGetConvolutionForwardAlgorithm_v7",
        [&](int room, int* count, cudnnConvolutionFwdAlgoPerf_t* list) {
          return cudnnGetConvolutionForwardAlgorithm_v7(handle, s.x.get(), s.w.get(), s.convolution.get(), s.y.get(),
                                                        room, count, list);
        },
        [&](cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionForwardWorkspaceSize(handle, s.x.get(), s.w.get(), s.convolution.get(), s.y.get(),
                                                         algorithm, bytes);
        })));
    DLRUN_TRY(p.turn(w, places(window), window.output.channels, p.weights.data()));
    return p.run(entry.forward, entry, x, n * window.input.size(), p.weights.data(), weights_of(window), y,
                 n * window.output.size(),
                 [&](cudnnConvolutionFwdAlgo_t algorithm, const Parts::Arrays& a, void* workspace, std::size_t bytes) {
                   return cudnnConvolutionForward(handle, &kOne, s.x.get(), a.first, s.w.get(), a.second,
                                                  s.convolution.get(), algorithm, workspace, bytes, &kZero, s.y.get(),
                                                  a.result);
                 });
  });
}

Result<> CudnnConvolutions::backward_input(const Window& window, std::size_t n, const float* w, const float* dy,
                                           float* dx) {
  Parts& p = *parts_;
  return p.in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Shapes& s = entry.shapes;
    cudnnHandle_t const handle = p.handle.get();
    DLRUN_TRY((entry.backward_input.search<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT>(
        "cudnnGetConvolutionBackwardDataAlgorithm_v7",
        [&](int room, int* count, cudnnConvolutionBwdDataAlgoPerf_t* list) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, s.w.get(), s.y.get(), s.convolution.get(),
                                                             s.x.get(), room, count, list);
        },
        [&](cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, s.w.get(), s.y.get(), s.convolution.get(),
                                                              s.x.get(), algorithm, bytes);
        })));
    DLRUN_TRY(p.turn(w, places(window), window.output.channels, p.weights.data()));
    return p.run(
        entry.backward_input, entry, p.weights.data(), weights_of(window), dy, n * window.output.size(), dx,
        n * window.input.size(),
        [&](cudnnConvolutionBwdDataAlgo_t algorithm, const Parts::Arrays& a, void* workspace, std::size_t bytes) {
          return cudnnConvolutionBackwardData(handle, &kOne, s.w.get(), a.first, s.y.get(), a.second,
                                              s.convolution.get(), algorithm, workspace, bytes, &kZero, s.x.get(),
                                              a.result);
        });
  });
}

Result<> CudnnConvolutions::backward_weights(const Window& window, std::size_t n, const float* x, const float* dy,
                                             float* dw) {
  Parts& p = *parts_;
  auto done = p.in_precision(window, n, [&](Entry& entry) -> Result<bool> {
    const Shapes& s = entry.shapes;
    cudnnHandle_t const handle = p.handle.get();
    DLRUN_TRY(
        (entry.backward_weights.search<cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT>(
            "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
            [&](int room, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* list) {
              return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, s.x.get(), s.y.get(), s.convolution.get(),
                                                                   s.w.get(), room, count, list);
            },
            [&](cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
              return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, s.x.get(), s.y.get(), s.convolution.get(),
                                                                    s.w.get(), algorithm, bytes);
            })));
    return p.run(
        entry.backward_weights, entry, x, n * window.input.size(), dy, n * window.output.size(), p.weights.data(),
        weights_of(window),
        [&](cudnnConvolutionBwdFilterAlgo_t algorithm, const Parts::Arrays& a, void* workspace, std::size_t bytes) {
          return cudnnConvolutionBackwardFilter(handle, &kOne, s.x.get(), a.first, s.y.get(), a.second,
                                                s.convolution.get(), algorithm, workspace, bytes, &kZero, s.w.get(),
                                                a.result);
        });
  });
  if (!done) return done;
  return p.turn(p.weights.data(), window.output.channels, places(window), dw);
}

const std::vector<std::string>& CudnnConvolutions::implementations() const {
  return parts_->implementations;
}

}  // namespace dlrun::trainer::cuda
