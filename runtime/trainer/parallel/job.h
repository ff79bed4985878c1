#pragma once
// Data parallelism for a training program of one's own, in five steps.
// configs/examples/five_steps.cc is one.
//
//   1. Job::initialise     who am I, of how many, and a way to the others: from Slurm's, MPI's or
//   dlrun's environment
//   2. job.gpu             which of the GPUs that this process sees is this rank's
//   3. job.scaled          the learning rate for so many ranks
//   4. DistributedOptimizer  steps by the mean of all ranks' gradients
//   5. job.broadcast       rank 0's first values for everybody
//
// Files are written by rank 0 alone: job.on_root tells everybody how that went. Every call but
// rank(), size() and the like is a collective: all ranks make the same ones in the same order. A
// Job belongs to one thread; what is made of it does not outlive it.

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

/// This machine's name, for messages.
[[nodiscard]] std::string host_name();

class Job {
 public:
  /// Connects to the other ranks; alone where nothing of a launcher is set. backend: as
  /// make_communicator takes it. Fails as that and read_world do.
  [[nodiscard]] static Result<Job> initialise(std::string_view backend = "auto",
                                              const Env& env = Env::of_process());

  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] int rank() const { return world_.rank; }
  [[nodiscard]] int size() const { return world_.size; }
  [[nodiscard]] bool is_root() const { return world_.rank == 0; }
  [[nodiscard]] const std::string& host() const { return host_; }

  /// The index of this rank's GPU among `visible` ones, for cudaSetDevice: by local rank, or 0
  /// where Slurm has bound one.
  [[nodiscard]] int gpu(int visible) const { return visible > 0 ? world_.local_rank % visible : 0; }

  /// What learning_rate, that of one rank, is for all of them.
  [[nodiscard]] double scaled(double learning_rate, LrScaling scaling = LrScaling::kLinear) const;

  /// Rank 0's values in place on every rank.
  [[nodiscard]] Result<> broadcast(std::span<float> values) {
    return communicator_->broadcast(values, 0);
  }
  /// The mean over all ranks, in place.
  [[nodiscard]] Result<> average(std::span<double> values);

  /// work on rank 0 alone; its outcome on every rank, with rank and host before its message. Not
  /// called where rank 0's collectives have failed: what it would write may be of partial sums.
  [[nodiscard]] Result<> on_root(const std::function<Result<>()>& work);

  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  [[nodiscard]] Store* store() { return store_.get(); }  ///< nullptr where the launcher gives none

 private:
  Job() = default;

  World world_;
  std::string host_;
  std::unique_ptr<Store> store_;  // outlives the communicator
  std::unique_ptr<Communicator> communicator_;
};

/// An optimizer whose step takes the mean of all ranks' gradients. On the CPU, one thread.
class DistributedOptimizer {
 public:
  /// Of `count` parameters, which make up tensors; without any, they are one weight. Fails with
  /// kUsage as resolve() does.
  [[nodiscard]] static Result<DistributedOptimizer> wrap(Job& job, const OptimizerOptions& options,
                                                         std::size_t count,
                                                         std::vector<TensorPart> tensors = {});

  /// One step, in place. parameters, gradients: [count]; gradients are the mean over this rank's
  /// samples, and of no use afterwards. Fails with kShape where the sizes differ, and as all_reduce
  /// does.
  [[nodiscard]] Result<> step(std::span<float> parameters, std::span<float> gradients,
                              double learning_rate);

 private:
  DistributedOptimizer(Job& job, std::unique_ptr<Optimizer<float>> rule,
                       std::vector<TensorPart> tensors, std::size_t count);

  Job* job_;
  std::unique_ptr<Kernels<float>> kernels_;
  std::unique_ptr<Optimizer<float>> rule_;
  std::vector<TensorPart> tensors_;
  std::size_t count_;
  std::vector<std::vector<float>> states_;
  std::uint64_t steps_ = 0;
};

}  // namespace dlrun::trainer
