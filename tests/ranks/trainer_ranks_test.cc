// Tests data-parallel training over gloo and shm with ranks as threads: the result equals that of a
// single rank, and all ranks end in the same way.

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/parallel/agreement.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {

namespace fs = std::filesystem;

/// An optimizer with a rate at which it learns the small data. tolerance: how much the parameters
/// of several ranks may differ from those of one rank. Several ranks add the same numbers in
/// another order, which gives errors of a few units of 2^-24 in each of 22 steps. Optimizers that
/// divide by a root mean square amplify the error if a gradient is nearly 0.
struct OptimizerCase {
  const char* optimizer;
  double learning_rate;
  double tolerance;
};
using OptimizerCases = std::vector<OptimizerCase>;
const OptimizerCases kDescent{{"sgd", 0.05, 1e-6}, {"nesterov", 0.05, 1e-6}};
const OptimizerCases kMeanSquares{
    {"adam", 0.005, 2e-4}, {"adamw", 0.005, 2e-4}, {"rmsprop", 0.002, 2e-4}};
const OptimizerCases kLayerWise{{"lars", 20, 4e-6}, {"lamb", 0.02, 2e-4}, {"novograd", 0.01, 4e-6}};
/// In each step, lion moves every parameter by the whole rate, so its rate is smaller than adam's.
/// An error can change the sign of a number near 0. The parameter then differs by twice the rate:
/// the tolerance allows that for one step.
const OptimizerCases kSignSteps{{"lion", 0.001, 2.1e-3}};
const std::array kAllCases{&kDescent, &kMeanSquares, &kLayerWise, &kSignSteps};

/// Trains with each optimizer on one rank and on 2, 4 and 7 ranks with the same global batch of 28.
/// All ranks must end with equal parameters, which are those of the single rank within the
/// tolerance.
void check_that_ranks_train_as_one_with_each(const OptimizerCases& cases,
                                             std::string_view backend = "gloo") {
  // 300 samples in batches of 28 leave a last batch of 20. With 7 ranks of 4 samples each, its
  // samples are divided as 3 3 3 3 3 3 2.
  for (const OptimizerCase& one_case : cases) {
    TrainOptions options = small_options();
    options.optimizer.name = one_case.optimizer;
    options.learning_rate = one_case.learning_rate;
    options.clip_norm = 0.5;
    const auto one = train(1, options);
    REQUIRE(one[0].outcome.has_value());
    // The network has learned; guessing gives log 10.
    CHECK_MESSAGE(one[0].outcome->test_loss < 2.25, one_case.optimizer);
    for (const int size : {2, 4, 7}) {
      CAPTURE(one_case.optimizer);
      CAPTURE(size);
      options.batch = 28 / static_cast<std::size_t>(size);
      const auto many = train(size, options, {}, backend);
      for (const Trained& rank : many) {
        REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
        CHECK(rank.parameters == many[0].parameters);
        CHECK(rank.outcome->steps == one[0].outcome->steps);
        CHECK(rank.outcome->parameters_hash == many[0].outcome->parameters_hash);
      }
      CHECK(largest_difference(many[0].parameters, one[0].parameters) < one_case.tolerance);
      CHECK(many[0].outcome->test_loss == doctest::Approx(one[0].outcome->test_loss).epsilon(1e-3));
    }
  }
}

TEST_CASE("N ranks with batch B train like one rank with batch N * B: sgd and nesterov") {
  check_that_ranks_train_as_one_with_each(kDescent);
}
TEST_CASE("N ranks with batch B train like one rank with batch N * B: adam, adamw and rmsprop") {
  check_that_ranks_train_as_one_with_each(kMeanSquares);
}
TEST_CASE("N ranks with batch B train like one rank with batch N * B: lars, lamb and novograd") {
  check_that_ranks_train_as_one_with_each(kLayerWise);
}

TEST_CASE("N ranks with batch B train like one rank with batch N * B: lion") {
  check_that_ranks_train_as_one_with_each(kSignSteps);
}
TEST_CASE("every optimizer is in one of the lists of this file") {
  for (const auto name : split(optimizer_names(), '|')) {
    const bool is_listed =
        std::any_of(kAllCases.begin(), kAllCases.end(), [&](const OptimizerCases* cases) {
          return std::any_of(cases->begin(), cases->end(), [&](const OptimizerCase& one_case) {
            return one_case.optimizer == name;
          });
        });
    CHECK_MESSAGE(
        is_listed, "add a row for ", std::string(name),
        " to the list whose optimizers are most like it: kDescent, kMeanSquares, kLayerWise "
        "or kSignSteps");
  }
}

TEST_CASE("N ranks with batch B train like one rank with batch N * B: over shared memory") {
  check_that_ranks_train_as_one_with_each({kDescent[0], kMeanSquares[0], kLayerWise[1]}, "shm");
}
TEST_CASE(
    "N ranks with batch B train a convolutional network with dropout like one rank with batch N * "
    "B") {
  TrainOptions options = small_options();
  options.layers = {"conv2d 4 5 stride 2",
                    "relu",
                    "dropout 0.25",
                    "maxpool 2",
                    "residual: conv2d 4 3 same; tanh; conv2d 4 3 same",
                    "avgpool 2",
                    "dropout 0.1",
                    "dense 10"};
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  // The sums of the same numbers are added in another order, through 22 steps.
  check_that_ranks_train_as_one(options, 1e-5);
}

TEST_CASE(
    "N ranks whose batches go through the network in parts train like one rank, and resume to the "
    "same bits") {
  // 32 channels of 24 x 24 within 1.25 MiB (nn/cpu_layer_kernels.cc) give parts of 17 samples: a
  // single rank's 28 or 20 samples are two parts, 14 samples are one.
  TrainOptions options = small_options();
  options.layers = {"conv2d 32 5", "relu", "maxpool 4", "dropout 0.25", "dense 10"};
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  check_that_ranks_train_as_one(options, 1e-5);  // the tolerance of the test above
  check_that_training_resumes(options);          // two ranks with 28 samples each
}

TEST_CASE("a convolutional network with dropout resumes to the same bits") {
  TrainOptions options = small_options();
  options.layers = {"conv2d 4 5 stride 2", "relu", "dropout 0.25", "maxpool 2", "dense 10"};
  check_that_training_resumes(options);
}

TEST_CASE(
    "the gradients of micro-batches add up to the batch's gradient, and training resumes to the "
    "same bits") {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  const auto one = train(1, options);
  REQUIRE(one[0].outcome.has_value());
  for (const int size : {1, 2, 4, 7}) {
    CAPTURE(size);
    options.batch = 28 / static_cast<std::size_t>(size);
    options.micro_batch = 3;  // divides neither the batches nor the remainder at an epoch's end
    const auto many = train(size, options);
    for (const Trained& rank : many) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.parameters == many[0].parameters);
      CHECK(rank.outcome->steps == one[0].outcome->steps);
    }
    // Sums of the same numbers in another order, through 22 steps with errors of a few units
    // of 2^-24.
    CHECK(largest_difference(many[0].parameters, one[0].parameters) < 1e-6);
  }

  options.batch = 14;
  check_that_training_resumes(options);
}

TEST_CASE("the tolerance of sgd is small enough to notice that the last batch was left out") {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  const auto all = train(1, options);
  // 280 samples are the 300 without the last, smaller batch of each epoch.
  const auto without = train(1, options, {}, "single", generated_data(280));
  CHECK(largest_difference(all[0].parameters, without[0].parameters) > 1e-3);
}

TEST_CASE(
    "with --shard epoch, all ranks end with the same parameters after their share of the epochs") {
  TrainOptions options = small_options();
  options.sharding = Sharding::kEpoch;
  options.epochs = 5;
  const auto ranks = train(4, options);
  for (const Trained& rank : ranks) {
    REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
    CHECK(rank.parameters == ranks[0].parameters);
    CHECK(rank.outcome->steps == 2 * 11);  // ceil(5 / 4) epochs of ceil(300 / 28) steps
  }
}

TEST_CASE("training works if the last step has fewer samples than there are ranks") {
  TrainOptions options = small_options();
  options.batch = 14;  // 3 steps of 98 samples and one of 6
  options.epochs = 1;
  for (const Trained& rank : train(7, options)) {
    REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
    CHECK(rank.outcome->steps == 4);
  }
}

TEST_CASE(
    "a batch larger than the largest shard, and a rank without samples, are refused, and the "
    "message names the rank") {
  TrainOptions options = small_options();
  options.batch = 43;  // 300 samples on 7 ranks: each has 43 or 42
  options.epochs = 1;
  CHECK(train(7, options)[6].outcome.has_value());
  options.batch = 44;
  for (const Trained& rank : train(7, options)) {
    CHECK(message_of(rank) ==
          "generated digits: --batch 44 is larger than a rank's shard: rank 0 has 43 of 300 "
          "training samples");
  }
  options.sharding = Sharding::kEpoch;
  options.batch = 301;
  CHECK(has(message_of(train(2, options)[1]),
            "--batch 301 is larger than a rank's shard: rank 0 has 300 of 300"));
  options.sharding = Sharding::kSample;
  options.batch = 1;
  CHECK(train(4, options, {}, "gloo", generated_data(4))[3].outcome.has_value());
  for (const Trained& rank : train(4, options, {}, "gloo", generated_data(3)))
    CHECK(message_of(rank) == "generated digits: 3 training samples for 4 ranks: rank 3 has none");
}

TEST_CASE("different options on one rank are an error before training") {
  const auto ranks = train(4, small_options(), [](int rank, TrainOptions& options, Session&) {
    if (rank == 2) options.learning_rate = 0.5;
  });
  for (const Trained& rank : ranks) {
    CHECK(message_of(rank) ==
          "rank 2 on host2: options or data differ: --lr is 0.5 here and 0.003 on rank 0");
  }
}

/// Checks for each optimizer that two ranks that resume from step 5 or 10 end with the bits of an
/// uninterrupted run.
void check_that_each_optimizer_resumes(const OptimizerCases& cases) {
  for (const OptimizerCase& one_case : cases) {
    CAPTURE(one_case.optimizer);
    const TemporaryDirectory folder;
    TrainOptions options = small_options();
    options.optimizer.name = one_case.optimizer;
    // Momentum adds rmsprop's second state array.
    if (one_case.optimizer == std::string("rmsprop")) options.optimizer.momentum = 0.5;
    options.learning_rate = one_case.learning_rate;
    options.checkpoint_every = 5;
    options.checkpoint_keep = 100;
    options.checkpoint_dir = folder.path() / "whole";
    const auto whole = train(2, options);
    REQUIRE(whole[0].outcome.has_value());

    // Each pass resumes from a copy of one checkpoint, as if the run had been killed after it.
    for (const char* step : {"step-00000005", "step-00000010"}) {
      CAPTURE(step);
      options.checkpoint_dir = folder.path() / (std::string("resumed-") + step);
      fs::create_directories(options.checkpoint_dir);
      fs::copy(folder.path() / "whole" / step, options.checkpoint_dir / step,
               fs::copy_options::recursive);
      options.should_resume = true;
      const auto resumed = train(2, options);
      REQUIRE_MESSAGE(resumed[0].outcome.has_value(), message_of(resumed[0]));
      CHECK(resumed[0].parameters == whole[0].parameters);
      CHECK(resumed[1].parameters == whole[0].parameters);
      CHECK(resumed[0].outcome->steps == whole[0].outcome->steps);
    }
  }
}

TEST_CASE("resuming gives the same bits as never having stopped, with every optimizer") {
  for (const OptimizerCases* cases : kAllCases) check_that_each_optimizer_resumes(*cases);
}

TEST_CASE("a run resumes from its newest checkpoint with another number of ranks") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  const auto whole = train(1, options);
  options.checkpoint_keep = 100;
  options.checkpoint_every = 4;
  options.checkpoint_dir = folder.path();
  options.batch = 14;
  REQUIRE(train(2, options)[0].outcome.has_value());
  for (const char* later : {"step-00000022", "step-00000020", "step-00000016"})
    fs::remove_all(folder.path() / later);
  options.batch = 7;
  options.should_resume = true;
  const auto resumed = train(4, options);
  REQUIRE_MESSAGE(resumed[0].outcome.has_value(), message_of(resumed[0]));
  CHECK(resumed[3].outcome->steps == 22);
  // The tolerance is the same as in kDescent.
  CHECK(largest_difference(resumed[3].parameters, whole[0].parameters) < 1e-6);
}

TEST_CASE(
    "with --shard epoch, a run that resumes with another number of ranks keeps its total number of "
    "epochs") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.sharding = Sharding::kEpoch;
  options.epochs = 4;
  options.checkpoint_keep = 100;
  options.checkpoint_every = 16;
  options.checkpoint_dir = folder / "two";
  const auto whole = train(2, options);  // two epochs of 11 steps on each rank
  REQUIRE_MESSAGE(whole[0].outcome.has_value(), message_of(whole[0]));
  CHECK(whole[0].outcome->steps == 22);
  options.should_resume = true;
  // After 16 steps each of the two ranks has taken 300 + 140 samples, together 880 of 1,200; 320
  // are left.
  for (const auto& [size, steps] : {std::pair(1, 16 + 1 + 11), {2, 22}, {4, 16 + 3}}) {
    CAPTURE(size);
    options.checkpoint_dir = folder / std::to_string(size);
    fs::create_directories(options.checkpoint_dir);
    fs::copy(folder / "two/step-00000016", options.checkpoint_dir / "step-00000016",
             fs::copy_options::recursive);
    for (const Trained& rank : train(size, options)) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.outcome->steps == steps);
      CHECK((size != 2 || rank.parameters == whole[0].parameters));
    }
  }
}

TEST_CASE("a finished run that is resumed reports its result again") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.checkpoint_dir = folder.path();
  options.checkpoint_keep = 1;
  const auto first = train(2, options);
  options.should_resume = true;
  const auto again = train(2, options);
  REQUIRE(again[1].outcome.has_value());
  CHECK(again[1].parameters == first[1].parameters);
  CHECK(again[1].outcome->test_accuracy == first[1].outcome->test_accuracy);
}

TEST_CASE(
    "a folder with checkpoints is refused unless the run resumes from them with the same seed") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.checkpoint_dir = folder.path();
  options.checkpoint_keep = 1;
  REQUIRE(train(1, options)[0].outcome.has_value());
  for (const Trained& rank : train(2, options)) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(rank.outcome.error().code == Errc::kRefused);
    CHECK(has(message_of(rank),
              "holds checkpoints of another run (step-00000022): give --resume "
              "(checkpoint.resume: true)"));
  }
  options.should_resume = true;
  options.seed = 8;
  for (const Trained& rank : train(2, options))
    CHECK(has(message_of(rank), "made with --seed 1, this run has 8"));
}

TEST_CASE(
    "a signal on a single rank saves a checkpoint after the next step, and training goes on") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.checkpoint_dir = folder.path();
  options.checkpoint_keep = 100;
  std::atomic<bool> requested{true};
  const auto ranks = train(4, options, [&](int rank, TrainOptions&, Session& session) {
    if (rank == 3) session.save_requested = &requested;
  });
  REQUIRE_MESSAGE(ranks[0].outcome.has_value(), message_of(ranks[0]));
  CHECK_FALSE(requested);
  CHECK(fs::exists(folder.path() / "step-00000001/manifest.json"));
  CHECK(fs::exists(folder.path() / "step-00000006/manifest.json"));  // two epochs of 3 steps
}

TEST_CASE(
    "a checkpoint folder that rank 0 cannot write or list ends all ranks with an error that names "
    "rank and file") {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "file") << "not a folder";
  fs::create_symlink(folder.path() / "gone" / "away", folder.path() / "link");
  TrainOptions options = small_options();
  options.checkpoint_keep = 1;
  for (const auto& [where, what] :
       {std::pair("link", "cannot save a checkpoint: "),
        std::pair("file/ckpt", "ckpt: cannot list its checkpoints: ")}) {
    options.checkpoint_dir = folder.path() / where;
    for (const Trained& rank : train(4, options)) {
      REQUIRE_FALSE(rank.outcome.has_value());
      CHECK(rank.outcome.error().code == Errc::kIo);
      const auto message = message_of(rank);
      CHECK_MESSAGE(message.starts_with("rank 0 on host0: "), message);
      CHECK_MESSAGE(has(message, what), message);
      CHECK_MESSAGE(has(message, options.checkpoint_dir.string()), message);
    }
  }
}

TEST_CASE("a loss that is not finite ends all ranks") {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 1e9;
  for (const Trained& rank : train(2, options)) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(rank.outcome.error().code == Errc::kInvalid);
    CHECK(has(message_of(rank), "the loss is "));
  }
}

TEST_CASE(
    "a step after which parameters are not finite is not saved, even if its loss was finite") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.epochs = 1;
  options.checkpoint_dir = folder.path();
  options.checkpoint_keep = 1;
  for (const Trained& rank : train(2, options))
    REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
  const std::string good = "step-00000006";  // the end of an epoch
  REQUIRE(read_file(folder.path() / "latest", 100).value() == good + "\n");

  options.should_resume = true;
  options.epochs = 2;
  options.checkpoint_every = 1;
  options.learning_rate = 1e3;
  options.optimizer.weight_decay = 1e38;  // times a parameter, times the learning rate: not finite
  for (const Trained& rank : train(2, options)) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(rank.outcome.error().code == Errc::kInvalid);
    const auto message = message_of(rank);
    CHECK_MESSAGE(has(message,
                      "rank 0 on host0: generated digits: a parameter, or the optimizer's state "
                      "for a parameter, is not finite "),
                  message);
  }
  CHECK(fs::exists(folder.path() / good / "manifest.json"));
  CHECK(read_file(folder.path() / "latest", 100).value() == good + "\n");
}

TEST_CASE("a test loss that is not finite is an error") {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 1e3;
  options.optimizer.weight_decay = 1e38;
  options.epochs = 1;
  // The run has one step. Its loss is that of the initial parameters.
  options.batch = small_data().train.size();
  const Trained alone = train(1, options).front();
  REQUIRE_FALSE(alone.outcome.has_value());
  CHECK(alone.outcome.error().code == Errc::kInvalid);
  CHECK_MESSAGE(has(message_of(alone), "generated digits: the test loss is "), message_of(alone));
}

TEST_CASE(
    "the error of the lowest rank that has one becomes the error of all ranks, with rank and "
    "host") {
  on_ranks(4, [](Communicator& communicator) {
    const auto without_errors = agree(communicator, "h", Result<>());
    CHECK(without_errors.has_value());
    const Result<> mine = communicator.rank() >= 2
                              ? Result<>(fail(Errc::kNotFound, "/d/x: no such file"))
                              : Result<>();
    const auto common = agree(communicator, "h" + std::to_string(communicator.rank()), mine);
    REQUIRE_FALSE(common.has_value());
    CHECK(common.error().code == Errc::kNotFound);
    CHECK(common.error().message == "rank 2 on h2: /d/x: no such file");
    CHECK(common.error().agreed_rank == 2);
    CHECK(message_without_rank(common.error()) == "/d/x: no such file");
    const Error not_agreed{Errc::kPeer, "rank 2 on h2: no"};
    CHECK(not_agreed.agreed_rank == -1);
    CHECK(message_without_rank(not_agreed) == "rank 2 on h2: no");
  });
}

TEST_CASE("common_hash() names the ranks whose bytes differ from those of rank 0") {
  on_ranks(7, [](Communicator& communicator) {
    std::vector<std::uint8_t> bytes(1000, 7);
    const auto equal = common_hash(communicator, "parameters", bytes);
    REQUIRE(equal.has_value());
    CHECK(*equal == blake2b_hex(bytes));
    if (communicator.rank() == 3 || communicator.rank() == 5) bytes[999] = 8;
    const auto different = common_hash(communicator, "parameters", bytes);
    REQUIRE_FALSE(different.has_value());
    CHECK(different.error().message == "parameters differ: ranks 3,5 of 7 differ from rank 0");
  });
}

}  // namespace dlrun::trainer
