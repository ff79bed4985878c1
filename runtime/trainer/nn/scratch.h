#pragma once
// Memory for the intermediate results of an operation. Later operations reuse the memory.

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "common/result.h"

namespace dlrun::trainer {

class Scratch {
 public:
  /// Returns memory for `count` elements, aligned to 64 bytes, with any content. The memory is
  /// valid until the next call, which may return the same memory. Fails with kInternal if out of
  /// memory.
  [[nodiscard]] Result<float*> reserve(std::size_t count) {
    if (count <= count_) return memory_.get();
    constexpr std::size_t kAlignment = 64;
    const std::size_t bytes = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    count_ = 0;
    memory_.reset();  // first, so that old and new memory do not exist at the same time
    memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    if (memory_ == nullptr) return fail(Errc::kInternal, "no memory for {} bytes", bytes);
    count_ = count;
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace dlrun::trainer
