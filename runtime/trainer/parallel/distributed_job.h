#pragma once
// Data parallelism for the user's own training program, in five changes.
// configs/examples/data_parallel.cc is an example.
//
//   1. DistributedJob::initialise   finds this rank, the number of ranks and the other ranks, from
//                                   the environment of Slurm, MPI or dlrun
//   2. job.gpu                      chooses this rank's GPU among the GPUs of the process
//   3. job.scaled                   scales the learning rate for the number of ranks
//   4. DistributedOptimizer         updates the parameters with the mean of all ranks' gradients
//   5. job.broadcast                copies rank 0's initial values to all ranks
//
// Let only rank 0 write files: job.on_root runs such work on rank 0, and returns its success or
// error on every rank. initialise(), broadcast(), average(), on_root() and
// DistributedOptimizer::step() are collectives: all ranks call them in the same order. A
// DistributedJob belongs to one thread. A DistributedOptimizer must not outlive its job.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/bootstrap/store.h"
#include "runtime/bootstrap/world.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/schedule.h"

namespace dlrun::trainer {

/// Returns this machine's name, for messages.
[[nodiscard]] std::string host_name();

class DistributedJob {
 public:
  /// Connects to the other ranks. The world has one rank if no launcher has set the environment.
  /// `backend` is a name for make_communicator(). If the program itself has called MPI_Init, the
  /// backend "mpi" uses the MPI of the program. The program must then also call MPI_Finalize
  /// itself, in the thread of the job. Fails as read_world(), open_store_for() and
  /// make_communicator() do.
  [[nodiscard]] static Result<DistributedJob> initialise(std::string_view backend = "auto",
                                                         const Env& env = Env::of_process());

  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] int rank() const { return world_.rank; }
  [[nodiscard]] int size() const { return world_.size; }
  [[nodiscard]] bool is_root() const { return world_.rank == 0; }
  [[nodiscard]] const std::string& host() const { return host_; }

  /// Returns the index of this rank's GPU, for cudaSetDevice, if the process sees visible_count
  /// GPUs. The local rank chooses the GPU; the index is 0 if Slurm has bound a single GPU, or if
  /// visible_count is 0.
  [[nodiscard]] int gpu(int visible_count) const {
    return visible_count > 0 ? world_.local_rank % visible_count : 0;
  }

  /// Returns the learning rate for size() ranks, where `learning_rate` is the rate for one rank.
  [[nodiscard]] double scaled(double learning_rate, LrScaling scaling = LrScaling::kLinear) const;

  /// Copies rank 0's values to every rank, in place. Fails as Communicator::broadcast() does.
  [[nodiscard]] Result<> broadcast(std::span<float> values) {
    return communicator_->broadcast(values, 0);
  }
  /// Replaces each value by its mean over all ranks. Fails as Communicator::all_reduce() does.
  [[nodiscard]] Result<> average(std::span<double> values);

  /// Runs `work` on rank 0 only. Every rank returns the result of `work`; if there are several
  /// ranks, the message of an error starts with rank 0 and its host. If a collective has failed on
  /// rank 0, the data may be partial sums: `work` then does not run, and every rank returns the
  /// collective's error.
  [[nodiscard]] Result<> on_root(const std::function<Result<>()>& work);

  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  [[nodiscard]] Store* store() { return store_.get(); }  ///< nullptr if the launcher provides none

 private:
  DistributedJob() = default;

  World world_;
  std::string host_;
  std::unique_ptr<Store> store_;  // must outlive the communicator
  std::unique_ptr<Communicator> communicator_;
};

/// An optimizer whose step uses the mean of all ranks' gradients. Runs on the CPU in one thread.
class DistributedOptimizer {
 public:
  /// Creates an optimizer for `count` parameters, divided into `tensors`. If `tensors` is empty,
  /// all parameters count as one tensor of weights. create() and step() restore the calling
  /// thread's number of OpenMP threads and its treatment of denormal numbers. Fails with kUsage as
  /// with_defaults() does.
  [[nodiscard]] static Result<DistributedOptimizer> create(DistributedJob& job,
                                                           const OptimizerOptions& options,
                                                           std::size_t count,
                                                           std::vector<TensorRange> tensors = {});

  /// Does one step in place. parameters, gradients: [count]; float32, host memory. The gradients
  /// are the mean over this rank's samples; step() overwrites them. Fails with kShape if the sizes
  /// differ. Other failures are those of all_reduce(). learning_rate: the rate of this step,
  /// already scheduled.
  [[nodiscard]] Result<> step(std::span<float> parameters, std::span<float> gradients,
                              double learning_rate);

 private:
  DistributedOptimizer(DistributedJob& job, std::unique_ptr<Optimizer<float>> optimizer,
                       std::vector<TensorRange> tensors, std::size_t count);

  DistributedJob* job_;
  std::unique_ptr<Kernels<float>> kernels_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  std::vector<TensorRange> tensors_;
  std::size_t count_;
  std::vector<std::vector<float>> states_;
  std::uint64_t steps_ = 0;
};

}  // namespace dlrun::trainer
