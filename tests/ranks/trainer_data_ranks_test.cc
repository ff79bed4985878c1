// Tests several ranks on data spread over files, and on samples with several classes each.

#include <filesystem>

#include <doctest/doctest.h>

#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

/// Trains with ranks that read their own partitions of `folder`.
std::vector<Trained> train_by_file(int size, const fs::path& folder, TrainOptions options) {
  options.sharding = Sharding::kFile;
  std::vector<Trained> trained(static_cast<std::size_t>(size));
  on_ranks(size, [&](Communicator& communicator) {
    DataOptions data;
    data.dataset = "arrays";
    data.path = folder;
    data.reads_own_partitions = true;
    data.rank = communicator.rank();
    data.ranks = size;
    const auto split = load_data(data);
    auto kernels = make_cpu_kernels<float>(1);
    TrainingReporter::Options silent;
    silent.is_main = false;
    auto reporter = TrainingReporter::open(silent);
    Trained& result = trained[static_cast<std::size_t>(communicator.rank())];
    if (!split || !reporter) return;
    Trainer trainer(options, *split, Session{communicator, *kernels, *reporter, "host"});
    result.outcome = trainer.run();
    if (result.outcome) result.parameters = trainer.parameters();
  });
  return trained;
}

TrainOptions small_sgd_options() {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  return options;
}

}  // namespace

TEST_CASE(
    "a step over all partitions equals a step over all data, however the files are distributed "
    "over the ranks") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder.path(), 300, 50, 1, 7));
  TrainOptions options = small_sgd_options();
  options.epochs = 6;
  options.batch = 300;
  const auto want = train(1, options);
  REQUIRE_MESSAGE(want[0].outcome.has_value(), message_of(want[0]));
  // largest_shard: in samples. Six of the seven partitions have 43 samples, and one has 42. With 2
  // ranks, one rank has four partitions, 171 samples.
  for (const auto& [size, largest_shard] : {std::pair(1, 300), {2, 171}, {4, 86}, {7, 43}}) {
    CAPTURE(size);
    options.batch = static_cast<std::size_t>(largest_shard);
    for (const Trained& rank : train_by_file(size, folder.path(), options)) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.outcome->steps == 6);
      // 6 steps of the same sums in another order
      CHECK(largest_difference(rank.parameters, want[0].parameters) < 1e-6);
    }
  }
}

TEST_CASE(
    "a batch larger than every rank's shard is refused, and the message shows the rank with the "
    "largest shard") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder.path(), 300, 50, 1, 3));
  TrainOptions options = small_sgd_options();
  options.batch = 201;
  for (const Trained& rank : train_by_file(2, folder.path(), options)) {
    CHECK(message_of(rank) ==
          folder.path().string() +
              ": --batch 201 is larger than a rank's shard: rank 0 has 200 of " +
              "300 training samples, and no other has more");
  }
}

TEST_CASE("training with partitions of different sizes learns, and resumes to the same bits") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder / "data", 300, 50, 1, 3));  // rank 0 has 200 samples, rank 1 has 100
  TrainOptions options = small_sgd_options();
  options.batch = 14;
  options.checkpoint_every = 10;
  options.checkpoint_keep = 100;
  options.checkpoint_dir = folder / "whole";
  const auto whole = train_by_file(2, folder / "data", options);
  REQUIRE_MESSAGE(whole[0].outcome.has_value(), message_of(whole[0]));
  CHECK(whole[0].outcome->steps == 2 * 15);
  CHECK(whole[0].outcome->test_loss < 2.25);
  CHECK(whole[1].parameters == whole[0].parameters);
  options.checkpoint_dir = folder / "resumed";
  fs::create_directories(options.checkpoint_dir);
  fs::copy(folder / "whole/step-00000010", options.checkpoint_dir / "step-00000010",
           fs::copy_options::recursive);
  options.should_resume = true;
  const auto resumed = train_by_file(2, folder / "data", options);
  REQUIRE_MESSAGE(resumed[1].outcome.has_value(), message_of(resumed[1]));
  CHECK(resumed[1].parameters == whole[0].parameters);
}

TEST_CASE(
    "a run whose ranks get other files than before can resume from the end of an epoch, but not "
    "from its middle") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder / "data", 300, 50, 1, 3));
  TrainOptions options = small_sgd_options();
  options.batch = 14;
  options.checkpoint_every = 10;
  options.checkpoint_keep = 100;
  options.checkpoint_dir = folder / "ckpt";
  const auto whole = train_by_file(2, folder / "data", options);  // 15 steps per epoch
  REQUIRE_MESSAGE(whole[0].outcome.has_value(), message_of(whole[0]));
  fs::remove_all(folder / "ckpt/step-00000030");
  options.should_resume = true;
  for (const Trained& rank : train_by_file(3, folder / "data", options)) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(rank.outcome.error().code == Errc::kInvalid);
    CHECK(has(message_of(rank),
              "its newest checkpoint, of step 20, was made in the middle of epoch 2 by 2 ranks "
              "with files of 200, 100 samples; this run has 3 ranks with files of 100, 100, 100 "
              "samples, so it is unknown which samples of that epoch remain"));
  }
  // With Sharding::kSample, the samples of each epoch are divided among the ranks, so a position
  // within an epoch has another meaning there.
  TrainOptions by_sample = options;
  by_sample.sharding = Sharding::kSample;
  CHECK(has(message_of(train(2, by_sample)[1]), "this run has ranks without files of their own"));
  CHECK(train_by_file(2, folder / "data", options)[0].parameters == whole[0].parameters);

  options.checkpoint_every = 0;
  options.checkpoint_dir = folder / "epochs";
  options.should_resume = false;
  REQUIRE(train_by_file(2, folder / "data", options)[0].outcome.has_value());
  fs::remove_all(folder / "epochs/step-00000030");
  options.should_resume = true;
  const auto resumed = train_by_file(3, folder / "data", options);
  REQUIRE_MESSAGE(resumed[0].outcome.has_value(), message_of(resumed[0]));
  CHECK(resumed[0].outcome->steps == 15 + 8);  // 100 samples per rank in batches of 14
}

TEST_CASE(
    "samples with several classes train on N ranks as on one, and each loss refuses the other's "
    "labels") {
  Split data = generated_data();
  for (Dataset* part : {&data.train, &data.test}) {
    std::vector<std::uint8_t> labels;
    for (const std::uint8_t digit : part->labels)
      for (const bool has_label :
           {digit % 2 == 0, digit >= 5, digit % 3 == 0, digit == 0 || digit == 8})
        labels.push_back(has_label ? 1 : 0);
    part->labels = std::move(labels);
    part->label_width = part->classes = 4;
  }
  TrainOptions options = small_sgd_options();
  options.loss = Loss::kSigmoid;
  options.learning_rate = 0.5;
  // Guessing gives the loss log 2. The ranks add the same numbers in another order, in 22 steps.
  check_that_ranks_train_as_one(options, 1e-5, data, 0.6);
  options.loss = Loss::kSoftmax;
  CHECK(has(message_of(train(1, options, {}, "single", data)[0]), "they need --loss sigmoid"));
  options.loss = Loss::kSigmoid;
  CHECK(has(message_of(train(1, options)[0]),
            "generated digits: its labels are classes that exclude each other"));
}

}  // namespace dlrun::trainer
