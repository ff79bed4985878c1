#include "runtime/trainer/parallel/exchange_steps.h"

namespace dlrun::trainer {

void update_all_parameters(const ExchangeContext& context, StepInfo info) {
  const std::size_t count = context.parameters.size();
  if (context.clip_norm > 0) {
    info.gradient_scale =
        clipping_scale(context.kernels, context.gradients.data(), count, context.clip_norm);
  }
  context.optimizer.step(context.kernels,
                         {context.parameters.data(), context.gradients.data(),
                          context.state.pointers(), count, context.tensors},
                         info);
}

}  // namespace dlrun::trainer
