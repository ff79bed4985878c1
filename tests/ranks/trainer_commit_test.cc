// Tests that no checkpoint is committed after a failed collective.

#include <mutex>
#include <string>

#include <doctest/doctest.h>

#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

/// A communicator on a device that was cut off after the last wait() returned. Every call succeeds,
/// but the sums are partial.
class CutOff final : public Communicator {
 public:
  explicit CutOff(Communicator& whole) : whole_(whole) {}
  [[nodiscard]] std::string_view name() const override { return whole_.name(); }
  [[nodiscard]] int rank() const override { return whole_.rank(); }
  [[nodiscard]] int size() const override { return whole_.size(); }
  Result<> all_reduce(Buffer data, ReduceOp op) override { return whole_.all_reduce(data, op); }
  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    return whole_.start_all_reduce(data, op);
  }
  Result<> broadcast(Buffer data, int root) override { return whole_.broadcast(data, root); }
  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    return whole_.all_gather(mine, all);
  }
  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    return whole_.reduce_scatter(all, mine, op);
  }
  Result<> barrier() override { return whole_.barrier(); }
  Result<> check_settled() override { return fail(Errc::kPeer, "a collective was cut off"); }
  void abandon() override { whole_.abandon(); }

 private:
  Communicator& whole_;
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
        CutOff cut_off(communicator);
        auto kernels = make_cpu_kernels<float>(1);
        TrainingReporter::Options silent;
        silent.is_silent = true;
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
