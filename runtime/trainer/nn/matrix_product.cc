#include "runtime/trainer/nn/matrix_product.h"

#include <dnnl.h>

namespace dlrun::trainer {

void multiply_matrices(Transpose ta, Transpose tb, std::size_t m, std::size_t n, std::size_t k,
                       const float* a, const float* b, float beta, float* c) {
  const auto size = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  // Ignore the status: it only reports wrong sizes, and the layers compute correct sizes.
  static_cast<void>(dnnl_sgemm(ta == Transpose::kYes ? 'T' : 'N', tb == Transpose::kYes ? 'T' : 'N',
                               size(m), size(n), size(k), 1.0F, a,
                               size(ta == Transpose::kYes ? m : k), b,
                               size(tb == Transpose::kYes ? k : n), beta, c, size(n)));
}

}  // namespace dlrun::trainer
