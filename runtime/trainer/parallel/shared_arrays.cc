#include "runtime/trainer/parallel/shared_arrays.h"

#include <memory>
#include <utility>

#include "common/memory_page.h"

namespace dlrun::trainer {

namespace {

/// Rounds up to whole pages, so that no two ranks write their gradients into the same page at the
/// same time.
std::size_t rounded_to_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  return (bytes + page - 1) / page * page;
}

}  // namespace

FlatMemory SharedArrays::allocate(std::size_t parameter_bytes, std::size_t gradient_bytes) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  if (ranks > 1 && kernels_.uses_host_memory()) {
    auto memory = communicator_.allocate_shared(rounded_to_pages(parameter_bytes) +
                                                ranks * rounded_to_pages(gradient_bytes));
    if (!memory) {
      status_ = tl::unexpected(std::move(memory.error()));
    } else if (*memory != nullptr) {
      const auto gradients_of = [&](std::size_t rank) {
        return memory->get() + rounded_to_pages(parameter_bytes) +
               rank * rounded_to_pages(gradient_bytes);
      };
      for (std::size_t rank = 0; rank < ranks; ++rank)
        gradients_of_ranks_.push_back(reinterpret_cast<const float*>(gradients_of(rank)));
      const auto this_rank = static_cast<std::size_t>(communicator_.rank());
      return {std::shared_ptr<void>(*memory, memory->get()),
              std::shared_ptr<void>(*memory, gradients_of(this_rank))};
    }
  }
  return {kernels_.allocate(parameter_bytes), kernels_.allocate(gradient_bytes)};
}

}  // namespace dlrun::trainer
