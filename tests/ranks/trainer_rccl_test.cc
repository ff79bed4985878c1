// Tests that a trainer over the rccl backend commits no checkpoint after it has lost a rank. The
// backend runs on the stand-in for librccl.so.1.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ranks/forwarding_communicator.h"
#include "tests/ranks/run_ranks.h"
#include "tests/ranks/stand_in_rccl.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

constexpr int kRanks = 3;
constexpr int kRankToLose = 1;

/// Sums in device memory, so that wait() does not wait for the device. The rank is lost at its call
/// number `lost_at_call` of start_all_reduce(), and never if lost_at_call is 0.
class DeviceCommunicator final : public ForwardingCommunicator {
 public:
  DeviceCommunicator(Communicator& inner, const StandIn& stand_in, int lost_at_call)
      : ForwardingCommunicator(inner), stand_in_(stand_in), lost_at_call_(lost_at_call) {}

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    if (++calls_ == lost_at_call_) {
      stand_in_.hang_this_rank();
      return fail(Errc::kPeer, "this rank is lost");
    }
    auto sum = std::make_unique<Sum>(stand_in_, data);
    const Buffer on_device(sum->memory.data(), data.count, data.type);
    DLRUN_TRY_ASSIGN(sum->request, ForwardingCommunicator::start_all_reduce(on_device, op));
    return Request(std::move(sum));
  }

  [[nodiscard]] int calls() const { return calls_; }

 private:
  struct Sum final : public Request::State {
    Sum(const StandIn& stand_in, Buffer data) : memory(stand_in, data.size_bytes()), host(data) {
      std::memcpy(memory.data(), host.data, host.size_bytes());
    }
    Result<> finish() override {
      DLRUN_TRY(request.wait());
      std::memcpy(host.data, memory.data(), host.size_bytes());
      return {};
    }

    DeviceMemory memory;
    Buffer host;
    Request request;
  };

  const StandIn& stand_in_;
  int lost_at_call_;
  int calls_ = 0;
};

/// The result of a run that trains for one epoch and saves one checkpoint, after its last step.
struct RcclRun {
  std::vector<std::string> errors = std::vector<std::string>(kRanks);  ///< empty: success
  int calls = 0;                ///< the number of calls of start_all_reduce() on kRankToLose
  std::size_t checkpoints = 0;  ///< the number of committed checkpoints
};

RcclRun train_over_rccl(const StandIn& stand_in, int lost_at_call) {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.epochs = 1;
  options.checkpoint_keep = 10;
  options.checkpoint_dir = folder / "checkpoints";
  RcclRun run;
  const auto train_rank = [&](Communicator& communicator) -> std::vector<std::string> {
    const bool is_rank_to_lose = communicator.rank() == kRankToLose;
    DeviceCommunicator wrapped(communicator, stand_in, is_rank_to_lose ? lost_at_call : 0);
    auto kernels = make_cpu_kernels<float>(1);
    TrainingReporter::Options silent;
    silent.is_main = false;
    auto reporter = TrainingReporter::open(silent);
    if (!reporter) return {reporter.error().message};
    Trainer trainer(options, small_data(), {wrapped, *kernels, *reporter, "host"});
    const auto outcome = trainer.run();
    if (!outcome)
      run.errors[static_cast<std::size_t>(communicator.rank())] = outcome.error().message;
    if (is_rank_to_lose) run.calls = wrapped.calls();
    return {};
  };
  expect_no_failures(on_threads("rccl", kRanks, train_rank, set_options_for_lost_rank));
  run.checkpoints = count_committed_checkpoints(folder.path());
  return run;
}

}  // namespace

TEST_CASE_FIXTURE(StandIn,
                  "rccl: no checkpoint of a step is committed if a rank is lost while the "
                  "gradients of that step are summed") {
  const RcclRun undisturbed = train_over_rccl(*this, 0);
  CHECK(undisturbed.errors == std::vector<std::string>(kRanks));
  CHECK(undisturbed.checkpoints == 1);
  REQUIRE(undisturbed.calls > 1);

  // The last call sums gradients of the last step, and the checkpoint follows.
  const RcclRun disturbed = train_over_rccl(*this, undisturbed.calls);
  CHECK(disturbed.calls == undisturbed.calls);
  CHECK(disturbed.checkpoints == 0);
  CHECK(has(disturbed.errors[0], lost_or_stuck_message()));
  CHECK(has(disturbed.errors[kRankToLose], "this rank is lost"));
  CHECK(has(disturbed.errors[2], lost_or_stuck_message()));
}

}  // namespace dlrun::trainer
