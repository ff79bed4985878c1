#pragma once
// The interface to a device: the operations that layers, loss and optimizers need. The CPU
// implements it for float, and for double as the tests' reference; CUDA implements it for float.
//
// Pointers refer to memory of the device that allocated them. A CPU operation is complete when its
// function returns. A GPU operation is queued on one stream, in order. Only synchronise() returns
// errors of the device; other functions remember them. Only one thread may use a Kernels object.

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
struct TensorRange;
template <typename T>
class LayerKernels;
template <typename T>
struct Update;
template <typename T>
struct UpdateArrays;

/// A data set in memory that gather() can read.
struct DeviceData {
  std::shared_ptr<const std::uint8_t> images;  ///< [sample_count x features]
  std::shared_ptr<const std::uint8_t> labels;  ///< [sample_count x label_width]
  std::size_t sample_count = 0;
  std::size_t features = 0;
  std::size_t classes = 0;
  std::size_t label_width = 1;
  /// True if the data do not fit into GPU memory, or exceed GpuOptions::max_data_bytes: each batch
  /// is then sent from host memory.
  bool is_streamed = false;
};

/// Number format for the inputs of matrix products and convolutions, and for the outputs of
/// convolutions. All other numbers are float32: sums inside products and convolutions, results of
/// products, stored arrays, normalisation, loss, optimizer.
enum class Precision { kFloat32, kBfloat16 };

/// Options of the GPU.
struct GpuOptions {
  Precision precision = Precision::kFloat32;
  bool captures_steps = false;  ///< runs steps as CUDA graphs, see Kernels::begin_step
  /// Data sets larger than this (in bytes) are streamed even if memory is free.
  /// Tests set a small value.
  std::size_t max_data_bytes = std::numeric_limits<std::size_t>::max();
};

enum class Transpose : bool { kNo, kYes };

/// Returns the name used in options and records.
[[nodiscard]] constexpr std::string_view name_of(Precision precision) {
  return precision == Precision::kBfloat16 ? "bf16" : "float32";
}

template <typename T>
class Kernels {
 public:
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Returns for example "cpu, 1 thread" or "cuda 0 (NVIDIA H100)".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual bool uses_host_memory() const = 0;  ///< allocate() returns host memory

  [[nodiscard]] virtual Precision precision() const { return Precision::kFloat32; }

  /// Begins a step of the given kind. The step ends when the host next waits, in copy_to_host() or
  /// synchronise(). Until then the caller must not wait for the GPU in another way. All steps of a
  /// kind must consist of the same operations; the arguments may differ. A GPU with captures_steps
  /// runs the step as one CUDA graph, with two exceptions: the first step of a kind, and the rest
  /// of a step after an allocation of memory, run without a graph.
  virtual void begin_step(std::size_t /*kind*/) {}
  [[nodiscard]] virtual bool captures_steps() const { return false; }

  /// Waits for all queued operations. If some failed, fails with kInternal and the name of the
  /// first of them. Fails with kIo if an array did not fit into the GPU's memory.
  [[nodiscard]] virtual Result<> synchronise() = 0;

  /// Returns the stream of operations (a cudaStream_t); nullptr on the CPU.
  [[nodiscard]] virtual void* stream() const { return nullptr; }

  /// Returns the additional operations for convolutional networks.
  [[nodiscard]] virtual LayerKernels<T>& layer_kernels() = 0;

  /// Returns zeroed memory, aligned to 64 bytes; nullptr if out of memory (synchronise() then
  /// returns the error).
  [[nodiscard]] virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// Copies from host memory. `from` may change as soon as this function returns.
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits for all queued operations, then copies to host memory.
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;

  /// Makes a data set readable by gather(). A GPU copies the data set to its memory if a quarter of
  /// this memory stays free and GpuOptions::max_data_bytes allows the size. Otherwise, and on the
  /// CPU, the result points into `data`, which must outlive the result.
  [[nodiscard]] virtual DeviceData upload(const Dataset& data) = 0;

  /// Computes x[i, :] = images[samples[i], :] * scale, and copies the labels of sample samples[i]
  /// to labels[i, :], for i < n = samples.size(). samples: host memory, each below
  /// data.sample_count. x: [n x features]; labels: [n x label_width].
  virtual void gather(const DeviceData& data, std::span<const std::uint32_t> samples, T scale, T* x,
                      std::uint8_t* labels) = 0;

  /// Computes c = op(a) op(b) + beta c, row-major. op(a): [m x k], op(b): [k x n], c: [m x n]. m, n
  /// > 0. If k == 0, c becomes beta c. If beta == 0, c is not read. c overlaps neither a nor b.
  virtual void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                    std::size_t k, const T* a, const T* b, T beta, T* c) = 0;

  /// Computes y = x w + bias, then max(y, 0) if with_relu, with the same bits as relu(). x: [n x
  /// inputs], w: [inputs x outputs], bias: [outputs], y: [n x outputs]. n > 0.
  virtual void dense(std::size_t n, std::size_t inputs, std::size_t outputs, const T* x, const T* w,
                     const T* bias, bool with_relu, T* y) = 0;

  /// Computes sums[j] = sum over i of x[i, j]. x: [n x width], sums: [width]. If n == 0, the sums
  /// are 0.
  virtual void sum_columns(const T* x, T* sums, std::size_t n, std::size_t width) = 0;

  /// Computes y = max(x, 0), element by element. x, y: [count]; they may be the same array.
  virtual void relu(const T* x, T* y, std::size_t count) = 0;

  /// Computes dx = dy where y > 0, else 0 (the derivative at 0 is defined as 0). y, dy, dx:
  /// [count]; dy and dx may be the same array.
  virtual void relu_backward(const T* y, const T* dy, T* dx, std::size_t count) = 0;

  /// Computes the softmax cross-entropy of logits [n x classes] against labels [n]. Adds the sum of
  /// the losses to totals[0] and the number of right answers to totals[1]. An answer is right if
  /// the logit of the label is the largest; of several equally large logits, the first counts. If
  /// gradient, [n x classes], is not nullptr, also computes
  ///   gradient[i, j] = (softmax(logits[i])[j] - (j == labels[i])) * scale.
  virtual void softmax_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                                     std::size_t classes, T scale, T* gradient, T* totals) = 0;

  /// Applies a formula of an optimizer to each element of the arrays, in place (optim/formulas.h).
  virtual void update(const Update<T>& formula, const UpdateArrays<T>& arrays) = 0;

  /// Computes y = 0. y: [count].
  virtual void zero(T* y, std::size_t count) = 0;

  /// Computes y += scale * x. x, y: [count].
  virtual void add_scaled(T* y, T scale, const T* x, std::size_t count) = 0;

  /// Computes sums[i] = sum of x[j]^2 over the range tensors[i]. Adds in double, in an order that
  /// depends on neither threads nor instruction set, so that ranks on different processors get the
  /// same bits. x: on the device; tensors, sums: host memory, equally long. Calls
  /// copy_to_host(), and so waits for the device.
  virtual void sums_of_squares(const T* x, std::span<const TensorRange> tensors, double* sums) = 0;

 protected:
  Kernels() = default;
};

/// An array on a device. Move-only.
template <typename T>
class Array {
 public:
  Array() = default;
  /// Allocates zeroed memory of the device.
  template <typename Device>
  Array(Device& device, std::size_t count)
      : memory_(device.allocate(count * sizeof(T))), count_(count) {}
  /// Takes ownership of memory that the device can use, with room for at least `count` elements,
  /// and keeps its content.
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

/// Creates the CPU's kernels: oneDNN's matrix product for float, plain loops for double. `threads`
/// must be above 0. The calling thread's later OpenMP loops use `threads` threads. For float, the
/// calling thread and these `threads` threads also treat denormal numbers as zero from now on.
template <typename T>
[[nodiscard]] std::unique_ptr<Kernels<T>> make_cpu_kernels(int threads);

/// Gives the calling thread the settings that make_cpu_kernels<float>(1) gives it: one thread in
/// OpenMP loops, and denormal numbers are zero. The destructor restores the thread's earlier
/// settings. Use it when kernels run in a thread that belongs to a user's program.
class ScopedCpuKernelSettings {
 public:
  ScopedCpuKernelSettings();
  ~ScopedCpuKernelSettings();
  ScopedCpuKernelSettings(const ScopedCpuKernelSettings&) = delete;
  ScopedCpuKernelSettings& operator=(const ScopedCpuKernelSettings&) = delete;

 private:
  int threads_;             ///< earlier number of threads of OpenMP loops
  unsigned denormal_bits_;  ///< earlier bits of the processor's control register
};

/// Creates the kernels of this rank's GPU. The first call loads lib/dlrun/dlrun-trainer-cuda.so,
/// which needs CUDA's libraries. Fails with kUnavailable if dlrun was built without CUDA, a library
/// is missing (the message names it), the module is from another build, or there is no usable GPU.
/// Fails with kInternal if a call of CUDA fails.
[[nodiscard]] Result<std::unique_ptr<Kernels<float>>> make_cuda_kernels(
    int local_rank, const GpuOptions& options = {});

}  // namespace dlrun::trainer
