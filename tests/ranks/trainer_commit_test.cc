// Tests that no checkpoint is committed after a failed collective.

#include <mutex>
#include <string>

#include <doctest/doctest.h>

#include "tests/ranks/forwarding_communicator.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

/// Fails as a communicator whose last collective was aborted on the device after wait() had
/// returned: only check_results() fails. The sums, which would then be partial, are correct in this
/// test.
class CutOffCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Result<> check_results() override { return fail(Errc::kPeer, "a collective was cut off"); }
};

}  // namespace

TEST_CASE("no checkpoint is committed after a collective was cut off, on any number of ranks") {
  for (const int size : {1, 2, 4, 7}) {
    for (const bool is_cut_off : {false, true}) {
      CAPTURE(size);
      CAPTURE(is_cut_off);
      const TemporaryDirectory folder;
      TrainOptions options = small_options();
      options.epochs = 1;
      options.checkpoint_keep = 10;
      options.checkpoint_dir = folder / "checkpoints";
      std::mutex mutex;
      std::vector<std::string> errors;
      on_ranks(size, [&](Communicator& communicator) {
        CutOffCommunicator cut_off(communicator);
        auto kernels = make_cpu_kernels<float>(1);
        TrainingReporter::Options silent;
        silent.is_main = false;
        auto reporter = TrainingReporter::open(silent);
        if (!reporter) return;
        Trainer trainer(options, small_data(),
                        {is_cut_off ? static_cast<Communicator&>(cut_off) : communicator, *kernels,
                         *reporter, "host"});
        const auto outcome = trainer.run();
        const std::lock_guard lock(mutex);
        if (!outcome) errors.push_back(outcome.error().message);
      });
      CHECK(committed_checkpoints(folder.path()) == (is_cut_off ? 0 : 1));
      CHECK(errors.size() == (is_cut_off ? static_cast<std::size_t>(size) : 0));
      for (const std::string& error : errors) CHECK(has(error, "a collective was cut off"));
    }
  }
}

}  // namespace dlrun::trainer
