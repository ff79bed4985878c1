#pragma once
// The device seam: the few operations that layers, loss and optimizers are made of, once for the
// CPU (float, and double for the tests' reference) and once for CUDA (float).
//
// Pointers are to memory of the device that made them. On the CPU an operation has happened when it
// returns; on a GPU it is queued on one stream, in order. A failure of the device is kept and given
// by synchronise(); nothing else fails. One Kernels belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/result.h"

namespace dlrun::trainer {

struct Dataset;
struct TensorPart;
template <typename T>
class LayerKernels;
template <typename T>
struct AdamCoefficients;
template <typename T>
struct LambCoefficients;
template <typename T>
struct RmspropCoefficients;
template <typename T>
struct SgdCoefficients;

/// A data set where gather() reads it.
struct DeviceData {
  std::shared_ptr<const std::uint8_t> images;  ///< [samples x features]
  std::shared_ptr<const std::uint8_t> labels;  ///< [samples x label_width]
  std::size_t samples = 0;
  std::size_t features = 0;
  std::size_t classes = 0;
  std::size_t label_width = 1;
  bool is_streamed =
      false;  ///< a GPU that has no memory for it is sent each batch's rows out of the host's
};

/// What the inputs of matrix products and convolutions are rounded to, and what convolutions give;
/// all else is float32: their sums, products' results, what is kept, normalisation, loss,
/// optimizer.
enum class Precision { kFloat32, kBfloat16 };

/// What a GPU is to do otherwise than by itself.
struct GpuOptions {
  Precision precision = Precision::kFloat32;
  bool records_steps = false;  ///< Kernels::begin_step
  /// A larger data set is streamed even where there is memory for it; tests make it small.
  std::size_t most_data_bytes = std::numeric_limits<std::size_t>::max();
};

enum class Transpose : bool { kNo, kYes };

/// As options and records have it.
[[nodiscard]] constexpr std::string_view name_of(Precision precision) {
  return precision == Precision::kBfloat16 ? "bf16" : "float32";
}

template <typename T>
class Kernels {
 public:
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  [[nodiscard]] virtual std::string description()
      const = 0;  ///< "cpu, 1 thread", "cuda 0 (NVIDIA H100)"
  [[nodiscard]] virtual bool uses_host_memory() const = 0;  ///< pointers can be read by the CPU

  [[nodiscard]] virtual Precision precision() const { return Precision::kFloat32; }

  /// What is queued from here to the next thing that the host waits for, copy_to_host() or
  /// synchronise(), is a step: the operations of the one before of the same kind, with other
  /// arguments. A GPU that is asked to (records_steps) then gets it as one, a CUDA graph; else, in
  /// the first step of a kind, and behind whatever allocates memory, operations are queued one by
  /// one as ever. Nothing of a step may be waited for by other means.
  virtual void begin_step(std::size_t /*kind*/) {}
  [[nodiscard]] virtual bool records_steps() const { return false; }

  /// Waits for all that was queued. Fails with kInternal, naming the operation that failed first.
  [[nodiscard]] virtual Result<> synchronise() = 0;

  /// The queue of operations as its runtime knows it (cudaStream_t); nullptr on the CPU.
  [[nodiscard]] virtual void* stream() const { return nullptr; }

  /// What convolutional networks need beyond this.
  [[nodiscard]] virtual LayerKernels<T>& layers() = 0;

  /// bytes of zeroed memory, aligned to 64; nullptr when there is not so much (then synchronise()
  /// fails, too).
  [[nodiscard]] virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// from may change or go as soon as this returns.
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits for what was queued before, then copies.
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;

  /// The data where gather() reads it: a copy in a GPU's memory, of which a quarter is left for the
  /// rest; else, and by the CPU, data is borrowed: it outlives the result.
  [[nodiscard]] virtual DeviceData upload(const Dataset& data) = 0;

  /// x[i, :] = images[samples[i], :] * scale and labels[i, :] for i < n. samples: host memory, each
  /// below data.samples. x: [n x features]; labels: [n x label_width].
  virtual void gather(const DeviceData& data, std::span<const std::uint32_t> samples, T scale, T* x,
                      std::uint8_t* labels) = 0;

  /// c = op(a) op(b) + beta c, row-major. op(a): [m x k], op(b): [k x n], c: [m x n]. m, n > 0; k
  /// == 0 gives beta c.
  virtual void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                    std::size_t k, const T* a, const T* b, T beta, T* c) = 0;

  /// y = x w + bias, then max(y, 0) where with_relu, to the bit what relu() makes of it. x: [n x
  /// inputs], w: [inputs x outputs], bias: [outputs]. n > 0.
  virtual void dense(std::size_t n, std::size_t inputs, std::size_t outputs, const T* x, const T* w,
                     const T* bias, bool with_relu, T* y) = 0;

  /// sums[j] = sum over i of x[i, j]. x: [n x width]; n == 0 gives zeros.
  virtual void sum_rows(const T* x, T* sums, std::size_t n, std::size_t width) = 0;

  /// y = max(x, 0), element by element.
  virtual void relu(const T* x, T* y, std::size_t count) = 0;

  /// dx = dy where y > 0, else 0 (the derivative at 0 is taken as 0).
  virtual void relu_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;

  /// Softmax cross-entropy of logits [n x classes] against labels [n]: adds the sum of the losses
  /// to totals[0] and the number of right answers (the first largest logit is the label) to
  /// totals[1]. With gradient not nullptr: gradient[i, j] = (softmax(logits[i])[j] - (j ==
  /// labels[i])) * scale.
  virtual void softmax_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                                     std::size_t classes, T scale, T* gradient, T* totals) = 0;

  /// One optimizer step over count elements, in place; formulas in optim/adam.h, sgd.h, rmsprop.h.
  /// velocity: nullptr without momentum.
  virtual void adam(T* parameters, const T* gradients, T* m, T* v, std::size_t count,
                    const AdamCoefficients<T>& c) = 0;
  virtual void sgd(T* parameters, const T* gradients, T* velocity, std::size_t count,
                   const SgdCoefficients<T>& c) = 0;
  virtual void rmsprop(T* parameters, const T* gradients, T* v, T* velocity, std::size_t count,
                       const RmspropCoefficients<T>& c) = 0;

  /// gradients become LAMB's directions, m and v go on; formula in optim/lamb.h.
  virtual void lamb_direction(const T* parameters, T* gradients, T* m, T* v, std::size_t count,
                              const LambCoefficients<T>& c) = 0;

  /// y = 0.
  virtual void zero(T* y, std::size_t count) = 0;

  /// y += scale * x.
  virtual void add_scaled(T* y, T scale, const T* x, std::size_t count) = 0;

  /// sums[i] = sum of x[j]^2 over parts[i], added in double in an order that neither threads nor
  /// instruction set change: ranks on unlike processors get the same bits. parts, sums: host
  /// memory, [parts]. Waits for the device.
  virtual void sums_of_squares(const T* x, std::span<const TensorPart> parts, double* sums) = 0;

 protected:
  Kernels() = default;
};

/// A zeroed array on a device; moves, does not copy.
template <typename T>
class Array {
 public:
  Array() = default;
  template <typename Device>
  Array(Device& device, std::size_t count)
      : memory_(device.allocate(count * sizeof(T))), count_(count) {}
  /// memory of at least count elements that the device works on.
  Array(std::shared_ptr<void>&& memory, std::size_t count)
      : memory_(std::move(memory)), count_(count) {}
  Array(Array&& other) noexcept
      : memory_(std::move(other.memory_)), count_(std::exchange(other.count_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    memory_ = std::move(other.memory_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~Array() = default;

  [[nodiscard]] T* data() { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] const T* data() const { return static_cast<const T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::span<T> span() { return {data(), count_}; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_ = 0;
};

/// The CPU: oneDNN's matrix product for float, plain loops for double. threads > 0.
template <typename T>
[[nodiscard]] std::unique_ptr<Kernels<T>> make_cpu_kernels(int threads);

/// The GPU of this rank. Loads lib/dlrun/dlrun-trainer-cuda.so, which needs CUDA's libraries, on
/// the first call. Fails with kUnavailable: built without CUDA, a library missing (which), no
/// usable GPU.
[[nodiscard]] Result<std::unique_ptr<Kernels<float>>> make_cuda_kernels(
    int local_rank, const GpuOptions& options = {});

}  // namespace dlrun::trainer
