// The GPU's implementation of nn/kernels.h, on one stream: cuBLAS and cuBLASLt for products,
// step_kernels.cu for the other functions, cuda_layer_kernels.h for convolutional networks. This
// file is part of the module dlrun-trainer-cuda.so.

#include <algorithm>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "runtime/trainer/cuda/bfloat16_buffer.h"
#include "runtime/trainer/cuda/cuda_layer_kernels.h"
#include "runtime/trainer/cuda/dense_forward.h"
#include "runtime/trainer/cuda/device_status.h"
#include "runtime/trainer/cuda/layer_loops.h"
#include "runtime/trainer/cuda/step_graphs.h"
#include "runtime/trainer/cuda/step_kernels.h"
#include "runtime/trainer/cuda/uploads.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/nn/device_module.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {
namespace {

/// The size that NVIDIA recommends for cuBLAS's workspace on Hopper.
constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20U;

class CudaKernels final : public Kernels<float> {
 public:
  CudaKernels(int device, const GpuOptions& options)
      : device_(device), options_(options), status_(device), dense_(*this, options.precision) {}
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;
  ~CudaKernels() override {
    launch_captured();
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    layer_kernels_.reset();
    if (blas_ != nullptr) cublasDestroy(blas_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  /// Does the part of construction that can fail.
  [[nodiscard]] Result<> prepare() {
    remember_error(cudaSetDevice(device_), "cudaSetDevice");
    remember_error(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    remember_error(cublasCreate(&blas_), "cublasCreate");
    if (status_.is_ok()) remember_error(cublasSetStream(blas_, stream_), "cublasSetStream");
    cudaDeviceProp properties{};
    remember_error(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    gpu_name_ = properties.name;
    if (status_.is_ok()) status_.remember_error(uploads_.prepare(stream_));
    if (status_.is_ok()) {
      // Without this workspace, cuBLAS would allocate one during a step, and possibly another one
      // while a step is captured.
      blas_workspace_ = allocate(kBlasWorkspaceBytes);
      remember_error(cublasSetWorkspace(blas_, blas_workspace_.get(), kBlasWorkspaceBytes),
                     "cublasSetWorkspace");
    }
    layer_kernels_ = cuda::make_cuda_layer_kernels(*this, status_);
    return status_.result();
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("cuda {} ({}){}", device_, gpu_name_, is_bfloat16() ? ", bf16" : "");
  }
  [[nodiscard]] Precision precision() const override { return options_.precision; }
  [[nodiscard]] bool uses_host_memory() const override { return false; }
  [[nodiscard]] void* stream() const override { return stream_; }
  [[nodiscard]] LayerKernels<float>& layer_kernels() override { return *layer_kernels_; }

  void begin_step(std::size_t kind) override {
    if (!options_.captures_steps || !status_.is_ok()) return;
    launch_captured();  // the previous step, if the host has not waited for its results
    status_.remember_error(graphs_.begin_step(kind, stream_));
    if (graphs_.is_capturing()) uploads_.note_capture();
  }
  [[nodiscard]] bool captures_steps() const override { return options_.captures_steps; }

  [[nodiscard]] Result<> synchronise() override {
    launch_captured();
    remember_error(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return status_.result();
  }

  [[nodiscard]] std::shared_ptr<void> allocate(std::size_t bytes) override {
    auto [memory, code] = allocate_raw(bytes);
    if (code == cudaErrorMemoryAllocation) {
      status_.remember_error(out_of_memory(bytes));
    } else {
      remember_error(code, "cudaMalloc");
    }
    if (memory != nullptr)
      remember_error(cudaMemsetAsync(memory.get(), 0, bytes, stream_), "cudaMemset");
    return std::move(memory);
  }

  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    status_.remember_error(uploads_.copy(to, from, bytes));
  }

  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    launch_captured();
    remember_error(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
                   "copy from the GPU");
    remember_error(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  [[nodiscard]] DeviceData upload(const Dataset& data) override {
    DeviceData result{nullptr, nullptr, data.size(), data.features, data.classes, data.label_width};
    if (data.images.size() + data.labels.size() <= data_limit_bytes()) {
      result.images = make_gpu_copy(data.images);
      result.labels = make_gpu_copy(data.labels);
    }
    result.is_streamed = result.images == nullptr || result.labels == nullptr;
    if (result.is_streamed) {
      result.images = {std::shared_ptr<void>(), data.images.data()};
      result.labels = {std::shared_ptr<void>(), data.labels.data()};
    }
    return result;
  }

  void gather(const DeviceData& data, std::span<const std::uint32_t> samples, float scale, float* x,
              std::uint8_t* labels) override {
    if (data.is_streamed) return gather_streamed(data, samples, scale, x, labels);
    if (samples.size() > samples_capacity_) {
      samples_ = std::static_pointer_cast<std::uint32_t>(allocate(samples.size_bytes()));
      samples_capacity_ = samples.size();
    }
    if (samples_ == nullptr) return;  // no samples, or status_ holds the error
    copy_from_host(samples_.get(), samples.data(), samples.size_bytes());
    cuda::gather(data.images.get(), data.labels.get(), samples_.get(), samples.size(),
                 data.features, data.label_width, scale, x, labels, stream_);
    remember_launch_error("gather");
  }

  void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
            std::size_t k, const float* a, const float* b, float beta, float* c) override {
    if (k == 0) {
      // An empty product: cuBLAS requires leading dimensions above 0 even for
      // arrays it does not read.
      const auto size = [](std::size_t value) { return static_cast<int>(value); };
      const float one = 1;
      remember_error(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, size(n), size(m), 0, &one, b,
                                 size(n), a, 1, &beta, c, size(n)),
                     "cublasSgemm");
      return;
    }
    const Operands ab = operands(a, m * k, b, k * n);
    if (ab.a != nullptr && ab.b != nullptr) product(transpose_a, transpose_b, m, n, k, ab, beta, c);
  }

  void dense(std::size_t n, std::size_t inputs, std::size_t outputs, const float* x, const float* w,
             const float* bias, bool with_relu, float* y) override {
    const Operands xw = operands(x, n * inputs, w, inputs * outputs);
    if (xw.a == nullptr || xw.b == nullptr) return;  // status_ holds the error
    const auto done = dense_.run(n, inputs, outputs, xw.a, xw.b, bias, with_relu, y);
    if (!done) status_.remember_error(tl::unexpected(done.error()));
    if (!done || *done) return;
    product(Transpose::kNo, Transpose::kNo, n, outputs, inputs, xw, 0, y);
    cuda::add_channel_bias(y, bias, n, outputs, with_relu, stream_);
    remember_launch_error("add_channel_bias");
  }

  void sum_columns(const float* x, float* sums, std::size_t n, std::size_t width) override {
    const std::size_t needed = cuda::count_of_partials(n, width);
    if (needed > partials_.size()) partials_ = Array<double>(*this, needed);
    if (partials_.data() == nullptr) return;  // status_ holds the error
    cuda::channel_sums(x, n, width, partials_.data(), sums, stream_);
    remember_launch_error("sum_columns");
  }

  void relu(const float* x, float* y, std::size_t count) override {
    cuda::relu(x, y, count, stream_);
    remember_launch_error("relu");
  }

  void relu_backward(const float* y, const float* dy, float* dx, std::size_t count) override {
    cuda::relu_backward(y, dy, dx, count, stream_);
    remember_launch_error("relu_backward");
  }

  void softmax_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                             std::size_t classes, float scale, float* gradient,
                             float* totals) override {
    cuda::softmax_cross_entropy(logits, labels, n, classes, scale, gradient, totals, stream_);
    remember_launch_error("softmax_cross_entropy");
  }

  void update(const Update<float>& formula, const UpdateArrays<float>& arrays) override {
    cuda::update(formula, arrays, stream_);
    remember_launch_error("update");
  }

  void zero(float* y, std::size_t count) override {
    if (count > 0)
      remember_error(cudaMemsetAsync(y, 0, count * sizeof(float), stream_), "cudaMemset");
  }

  void add_scaled(float* y, float scale, const float* x, std::size_t count) override {
    cuda::add_scaled(y, scale, x, count, stream_);
    remember_launch_error("add_scaled");
  }

  void sums_of_squares(const float* x, std::span<const TensorRange> tensors,
                       double* sums) override {
    std::vector<std::size_t> ranges;
    for (const TensorRange& tensor : tensors)
      ranges.insert(ranges.end(), {tensor.begin, tensor.count});
    if (tensors.size() > sums_capacity_) {
      ranges_ =
          std::static_pointer_cast<std::size_t>(allocate(ranges.size() * sizeof(std::size_t)));
      sums_ = std::static_pointer_cast<double>(allocate(tensors.size() * sizeof(double)));
      sums_capacity_ = tensors.size();
    }
    if (ranges_ == nullptr || sums_ == nullptr) {  // status_ holds the error
      std::fill_n(sums, tensors.size(), 0.0);
      return;
    }
    copy_from_host(ranges_.get(), ranges.data(), ranges.size() * sizeof(std::size_t));
    cuda::sums_of_squares(x, ranges_.get(), tensors.size(), sums_.get(), stream_);
    remember_launch_error("sums_of_squares");
    copy_to_host(sums, sums_.get(), tensors.size() * sizeof(double));
  }

 private:
  /// Allocated memory (not zeroed, aligned to 256 bytes), or nullptr and the error.
  struct RawMemory {
    std::shared_ptr<void> memory;
    cudaError_t code = cudaSuccess;
  };
  RawMemory allocate_raw(std::size_t bytes) {
    // The caller may free an older array after this call. Launch the captured operations that use
    // it first.
    launch_captured();
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
    return {{memory, [](void* at) { cudaFree(at); }}, code};
  }

  /// Returns the error for an array that does not fit into the GPU's memory.
  [[nodiscard]] static Result<> out_of_memory(std::size_t bytes) {
    cudaGetLastError();  // clear the error, or the next launch would report it
    std::size_t free = 0;
    std::size_t total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    constexpr double kMiB = 1 << 20;
    return fail(
        Errc::kIo,
        "an array of {:.0f} MiB does not fit into the GPU's memory, of which {:.0f} of "
        "{:.0f} MiB are free; in training, a smaller --batch or --micro-batch needs less memory",
        static_cast<double>(bytes) / kMiB, static_cast<double>(free) / kMiB,
        static_cast<double>(total) / kMiB);
  }

  /// Ends the stream capture, if there is one, and sends the captured operations to the GPU.
  void launch_captured() {
    if (!graphs_.is_capturing()) return;
    status_.remember_error(graphs_.launch());
    status_.remember_error(uploads_.note_launch());
  }

  [[nodiscard]] bool is_bfloat16() const { return options_.precision == Precision::kBfloat16; }

  /// The two inputs of a product in the product's number format; nullptr if out of memory (status_
  /// then holds the error).
  struct Operands {
    const void* a;
    const void* b;
  };
  [[nodiscard]] Operands operands(const float* a, std::size_t a_count, const float* b,
                                  std::size_t b_count) {
    if (!is_bfloat16()) return {a, b};
    const Operands rounded{bfloat16_a_.rounded(a, a_count), bfloat16_b_.rounded(b, b_count)};
    remember_launch_error("round_to_bfloat16");
    return rounded;
  }

  /// Computes gemm() for converted inputs; k > 0.
  void product(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
               std::size_t k, const Operands& ab, float beta, float* c) {
    // cuBLAS is column-major, so a row-major array is read as its transpose: c^T = op(b)^T op(a)^T.
    const auto op = [](Transpose transpose) {
      return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    const auto size = [](std::size_t value) { return static_cast<int>(value); };
    const int row_length_a = size(transpose_a == Transpose::kYes ? m : k);
    const int row_length_b = size(transpose_b == Transpose::kYes ? k : n);
    const float one = 1;
    if (is_bfloat16()) {
      remember_error(
          cublasGemmEx(blas_, op(transpose_b), op(transpose_a), size(n), size(m), size(k), &one,
                       ab.b, CUDA_R_16BF, row_length_b, ab.a, CUDA_R_16BF, row_length_a, &beta, c,
                       CUDA_R_32F, size(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
      return;
    }
    remember_error(cublasSgemm(blas_, op(transpose_b), op(transpose_a), size(n), size(m), size(k),
                               &one, static_cast<const float*>(ab.b), row_length_b,
                               static_cast<const float*>(ab.a), row_length_a, &beta, c, size(n)),
                   "cublasSgemm");
  }

  /// Returns the number of bytes of free memory that data sets may use. The rest is for the
  /// optimizer's arrays and the libraries' workspaces, which are allocated later.
  [[nodiscard]] std::size_t data_limit_bytes() {
    std::size_t free = 0;
    std::size_t total = 0;
    remember_error(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return std::min(free - std::min(free, total / 4), options_.max_data_bytes);
  }

  /// Allocates memory on the GPU and copies data to it. Returns nullptr if not enough memory is
  /// free any more, for example because another process has allocated it; this is no error. Also
  /// returns nullptr after any other failure, which status_ then holds.
  [[nodiscard]] std::shared_ptr<std::uint8_t> make_gpu_copy(
      const std::vector<std::uint8_t>& bytes) {
    auto [memory, code] = allocate_raw(bytes.size());
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clear the error, or the next launch would report it
    } else {
      remember_error(code, "cudaMalloc");
    }
    if (memory != nullptr) copy_from_host(memory.get(), bytes.data(), bytes.size());
    return std::static_pointer_cast<std::uint8_t>(memory);
  }

  /// Computes gather() for data in host memory: sends the rows as bytes and converts them on the
  /// GPU.
  void gather_streamed(const DeviceData& data, std::span<const std::uint32_t> samples, float scale,
                       float* x, std::uint8_t* labels) {
    const std::size_t bytes = samples.size() * data.features;
    if (bytes > rows_.size()) rows_ = Array<std::uint8_t>(*this, bytes);
    if (bytes > 0 && rows_.data() == nullptr) return;  // status_ holds the error
    status_.remember_error(
        uploads_.copy_rows(rows_.data(), data.images.get(), samples, data.features));
    status_.remember_error(
        uploads_.copy_rows(labels, data.labels.get(), samples, data.label_width));
    cuda::gather(rows_.data(), nullptr, nullptr, samples.size(), data.features, 0, scale, x,
                 nullptr, stream_);
    remember_launch_error("gather");
  }

  template <typename Code>
  void remember_error(Code code, const char* what) {
    status_.remember_error(code, what);
  }
  void remember_launch_error(const char* what) { status_.remember_launch_error(what); }

  int device_;
  GpuOptions options_;
  std::string gpu_name_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  std::shared_ptr<std::uint32_t> samples_;  // sample indices for gather()
  std::size_t samples_capacity_ = 0;        // number of indices for which there is memory
  cuda::Uploads uploads_;
  cuda::StepGraphs graphs_;
  std::shared_ptr<void> blas_workspace_;
  Array<std::uint8_t> rows_;             // for gather_streamed()
  std::shared_ptr<std::size_t> ranges_;  // for sums_of_squares(), like sums_ and sums_capacity_
  std::shared_ptr<double> sums_;
  std::size_t sums_capacity_ = 0;  // number of sums for which there is memory
  Array<double> partials_;         // for sum_columns()
  cuda::DeviceStatus status_;
  cuda::DenseForward dense_;
  cuda::Bfloat16Buffer bfloat16_a_{*this};  // for operands(), like bfloat16_b_
  cuda::Bfloat16Buffer bfloat16_b_{*this};
  std::unique_ptr<LayerKernels<float>> layer_kernels_;
};

Result<std::unique_ptr<Kernels<float>>> make(int local_rank, const GpuOptions& options) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess || count == 0) {
    return fail(
        Errc::kUnavailable,
        "no GPU can be used: {}; ask for GPUs (resources.gpus_per_node), check the node's driver "
        "with nvidia-smi, or use the CPU",
        code != cudaSuccess ? fmt::format("cudaGetDeviceCount: {}", cudaGetErrorString(code))
                            : "there is none");
  }
  // The local rank may exceed the number of visible GPUs: if Slurm has bound a GPU to the task,
  // only that GPU is visible, and without NCCL several ranks may share a GPU.
  auto kernels = std::make_unique<CudaKernels>(local_rank % count, options);
  DLRUN_TRY(kernels->prepare());
  return kernels;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const DeviceModule dlrun_trainer_device;
const DeviceModule dlrun_trainer_device{DLRUN_DEVICE_INTERFACE, make};

}  // namespace dlrun::trainer
