#include "runtime/trainer/parallel/distributed_job.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "runtime/comm/make_communicator.h"
#include "runtime/trainer/parallel/agreement.h"

namespace dlrun::trainer {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Result<DistributedJob> DistributedJob::initialise(std::string_view backend, const Env& env) {
  DistributedJob job;
  job.host_ = host_name();
  DLRUN_TRY_ASSIGN(job.world_, read_world(env, ProcessKind::kProgram));
  DLRUN_TRY_ASSIGN(job.store_, open_store_for(backend, job.world_, env));
  CommunicatorOptions options;
  options.world = job.world_;
  options.is_under_mpi_launcher = is_under_mpi_launcher(env);
  options.store = job.store_.get();
  options.address = env.get_or("DLRUN_ADDR", "");
  DLRUN_TRY_ASSIGN(job.communicator_, make_communicator(backend, options));
  return job;
}

double DistributedJob::scaled(double rate, LrScaling scaling) const {
  Schedule schedule;
  schedule.base_rate = rate;
  schedule.scaling = scaling;
  schedule.rank_count = size();
  return learning_rate(schedule, 0);
}

Result<> DistributedJob::average(std::span<double> values) {
  DLRUN_TRY(communicator_->all_reduce(values, ReduceOp::kSum));
  for (double& value : values) value /= size();
  return {};
}

Result<> DistributedJob::on_root(const std::function<Result<>()>& work) {
  const auto work_after_check = [&]() -> Result<> {
    DLRUN_TRY(communicator_->check_results());
    return work();
  };
  return agree(*communicator_, host_, is_root() ? work_after_check() : Result<>());
}

DistributedOptimizer::DistributedOptimizer(DistributedJob& job,
                                           std::unique_ptr<Optimizer<float>> optimizer,
                                           std::vector<TensorRange> tensors, std::size_t count)
    : job_(&job),
      kernels_(make_cpu_kernels<float>(1)),
      optimizer_(std::move(optimizer)),
      tensors_(std::move(tensors)),
      count_(count) {
  if (tensors_.empty()) tensors_.push_back({0, count, true});
  for (const StateArrayInfo& state : optimizer_->states())
    states_.emplace_back(state.is_per_tensor ? tensors_.size() : count);
}

Result<DistributedOptimizer> DistributedOptimizer::create(DistributedJob& job,
                                                          const OptimizerOptions& options,
                                                          std::size_t count,
                                                          std::vector<TensorRange> tensors) {
  // DistributedOptimizer() makes kernels, which change this thread's settings.
  const ScopedCpuKernelSettings settings;
  DLRUN_TRY_ASSIGN(auto optimizer, make_optimizer<float>(options));
  return DistributedOptimizer(job, std::move(optimizer), std::move(tensors), count);
}

Result<> DistributedOptimizer::step(std::span<float> parameters, std::span<float> gradients,
                                    double learning_rate) {
  if (parameters.size() != count_ || gradients.size() != count_) {
    return fail(Errc::kShape,
                "got {} parameters and {} gradients, but the optimizer was made for {} of each",
                parameters.size(), gradients.size(), count_);
  }
  DLRUN_TRY(job_->communicator().all_reduce(gradients, ReduceOp::kSum));
  const ScopedCpuKernelSettings settings;
  std::vector<float*> states;
  for (std::vector<float>& state : states_) states.push_back(state.data());
  optimizer_->step(*kernels_, {parameters.data(), gradients.data(), states, count_, tensors_},
                   {learning_rate, ++steps_, 1.0 / job_->size()});
  return kernels_->synchronise();
}

}  // namespace dlrun::trainer
