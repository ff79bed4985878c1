// Tests that no checkpoint is committed after a failed collective.

#include <mutex>
#include <string>

#include <doctest/doctest.h>

#include "tests/ranks/forwarding_communicator.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

/// Behaves like a communicator whose most recent collective was aborted on the device after wait()
/// had returned: only check_results() fails. The sums, which would then be partial, are correct in
/// this test.
class AbortedCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Result<> check_results() override { return fail(Errc::kPeer, "a collective was aborted"); }
};

}  // namespace

TEST_CASE("no checkpoint is committed after a collective was aborted, on any number of ranks") {
  for (const int size : {1, 2, 4, 7}) {
    for (const bool is_aborted : {false, true}) {
      CAPTURE(size);
      CAPTURE(is_aborted);
      const TemporaryDirectory folder;
      TrainOptions options = small_options();
      options.epochs = 1;
      options.checkpoint_keep = 10;
      options.checkpoint_dir = folder / "checkpoints";
      std::mutex mutex;
      std::vector<std::string> errors;
      on_ranks(size, [&](Communicator& communicator) {
        AbortedCommunicator aborted(communicator);
        auto kernels = make_cpu_kernels<float>(1);
        TrainingReporter::Options silent;
        silent.is_main = false;
        auto reporter = TrainingReporter::open(silent);
        if (!reporter) return;
        Trainer trainer(options, small_data(),
                        {is_aborted ? static_cast<Communicator&>(aborted) : communicator, *kernels,
                         *reporter, "host"});
        const auto outcome = trainer.run();
        const std::lock_guard lock(mutex);
        if (!outcome) errors.push_back(outcome.error().message);
      });
      CHECK(count_committed_checkpoints(folder.path()) == (is_aborted ? 0 : 1));
      CHECK(errors.size() == (is_aborted ? static_cast<std::size_t>(size) : 0));
      for (const std::string& error : errors) CHECK(has(error, "a collective was aborted"));
    }
  }
}

}  // namespace dlrun::trainer
