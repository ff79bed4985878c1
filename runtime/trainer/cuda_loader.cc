#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

Result<std::unique_ptr<Kernels<float>>> make_cuda_kernels(int /*local_rank*/) {
  return fail(Errc::kUnavailable, "--device cuda: this build has no CUDA device");
}

}  // namespace dlrun::trainer
