#include "runtime/trainer/cuda/step_graphs.h"

#include <algorithm>

namespace dlrun::trainer::cuda {
namespace {

Result<> checked_graph_call(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  return fail(Errc::kInternal, "{}: {}; --cuda-graphs false trains without CUDA graphs", call,
              cudaGetErrorString(code));
}

/// Owns a graph.
struct Graph {
  cudaGraph_t handle = nullptr;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (handle != nullptr) cudaGraphDestroy(handle);
  }
};

}  // namespace

StepGraphs::~StepGraphs() {
  for (const Kind& kind : kinds_) {
    if (kind.executable != nullptr) cudaGraphExecDestroy(kind.executable);
  }
}

Result<> StepGraphs::begin_step(std::size_t kind, cudaStream_t stream) {
  const auto found = std::ranges::find(kinds_, kind, &Kind::number);
  if (found == kinds_.end()) {
    kinds_.push_back({kind});
    return {};  // the first step of a kind runs without a capture
  }
  current_ = static_cast<std::size_t>(found - kinds_.begin());
  stream_ = stream;
  // Relaxed mode permits this thread to allocate memory during the capture, and to wait for
  // operations that were queued before the capture.
  DLRUN_TRY(checked_graph_call(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                               "cudaStreamBeginCapture"));
  is_capturing_ = true;
  return {};
}

Result<> StepGraphs::launch() {
  is_capturing_ = false;
  Graph graph;
  DLRUN_TRY(
      checked_graph_call(cudaStreamEndCapture(stream_, &graph.handle), "cudaStreamEndCapture"));
  cudaGraphExec_t& executable = kinds_[current_].executable;
  cudaGraphExecUpdateResultInfo result{};
  if (executable != nullptr &&
      cudaGraphExecUpdate(executable, graph.handle, &result) != cudaSuccess) {
    // The operations have changed. Clear the error, or the next launch would report it.
    cudaGetLastError();
    cudaGraphExecDestroy(executable);
    executable = nullptr;
  }
  if (executable == nullptr)
    DLRUN_TRY(checked_graph_call(cudaGraphInstantiate(&executable, graph.handle, 0),
                                 "cudaGraphInstantiate"));
  return checked_graph_call(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch");
}

}  // namespace dlrun::trainer::cuda
