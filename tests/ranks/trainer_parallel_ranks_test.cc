// Tests compressed gradients, sharded optimizer states and arrays in memory that ranks share.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <doctest/doctest.h>

#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/parallel/gradient_exchange.h"
#include "runtime/trainer/parallel/gradient_reducer.h"
#include "runtime/trainer/parallel/optimizer_state.h"
#include "runtime/trainer/parallel/shared_arrays.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;
using Compression = GradientReducer::Compression;

TrainOptions clipped_sgd_options() {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  options.clip_norm = 0.5;
  return options;
}

TrainOptions adam_options() {
  TrainOptions options = small_options();
  options.learning_rate = 0.005;
  return options;
}

}  // namespace

TEST_CASE(
    "compressed buckets have the rounded sum, and the sums in Network::extra() are not "
    "compressed") {
  for (const Compression compression : {Compression::kBfloat16, Compression::kFloat16}) {
    for (const int size : {1, 2, 4, 7}) {
      CAPTURE(size);
      on_ranks(size, [&](Communicator& communicator) {
        auto kernels = make_cpu_kernels<float>(1);
        const std::vector<std::string> layers{"dense 3", "relu", "dense 2"};
        Network<float> network(*kernels, *make_layers<float>(layers, {1, 1, 5}, 2), 5, 1, 2);
        std::ranges::fill(network.gradients(), 1.0F / 3);
        std::ranges::fill(network.extra(), 100'003.0F);
        GradientReducer reducer(communicator, *kernels, network, {16, 16, compression});
        CHECK(reducer.bucket_count() == 3);
        for (std::size_t layer = 3; layer-- > 0;) reducer.layer_done(layer);
        REQUIRE(reducer.wait().has_value());
        for (const float sum : network.extra()) CHECK(sum == 100'003.0F * static_cast<float>(size));
        // Each of up to `size` roundings has an error of half a unit in the sum's last place.
        const double half_unit = compression == Compression::kFloat16 ? 0x1p-11 : 0x1p-8;
        for (const float gradient : network.gradients()) {
          CHECK(gradient == doctest::Approx(size / 3.0).epsilon(size * half_unit));
          CHECK(double{gradient} != size / 3.0);
          CHECK(gradient == network.gradients()[0]);
        }
      });
    }
  }
}

TEST_CASE(
    "training with compressed gradients is close to training without, and equal on all ranks") {
  for (const auto& [compression, tolerance] :
       {std::pair(Compression::kBfloat16, 0.02), {Compression::kFloat16, 0.002}}) {
    TrainOptions options = clipped_sgd_options();
    const auto one = train(1, options);
    REQUIRE_MESSAGE(one[0].outcome.has_value(), message_of(one[0]));
    options.bucket_options.compression = compression;
    for (const int size : {1, 2, 4, 7}) {
      for (const char* backend : {"gloo", "shm"}) {
        CAPTURE(size);
        options.batch = 28 / static_cast<std::size_t>(size);
        const auto many = train(size, options, {}, backend);
        for (const Trained& rank : many) {
          REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
          CHECK(rank.parameters == many[0].parameters);
          CHECK(rank.outcome->test_loss < 2.25);
        }
        const double difference = largest_difference(many[0].parameters, one[0].parameters);
        // 22 steps, each of at most 0.05 and with a relative error of up to 7 roundings
        CHECK(difference < tolerance);
        CHECK(difference > 1e-6);  // otherwise nothing was compressed
      }
    }
    options.batch = 14;
    check_that_training_resumes(options);
  }
}

TEST_CASE("N ranks with sharded optimizer states train like one rank") {
  TrainOptions options = clipped_sgd_options();
  options.has_sharded_state = true;
  // The ranks add the same numbers in another order, in 22 steps.
  check_that_ranks_train_as_one(options, 1e-6);
  options = adam_options();
  options.has_sharded_state = true;
  // Dividing by a root mean square amplifies small differences, with or without sharding.
  check_that_ranks_train_as_one(options, 2e-4);
}

TEST_CASE(
    "training with sharded states or with shared arrays ends with nearly the same parameters as "
    "with whole states") {
  for (const TrainOptions& whole : {clipped_sgd_options(), adam_options()}) {
    TrainOptions options = whole;
    options.batch = 7;
    const auto want = train(4, options, {}, "gloo");
    const auto shared = train(4, options, {}, "shm");
    REQUIRE_MESSAGE(shared[0].outcome.has_value(), message_of(shared[0]));
    CHECK(largest_difference(shared[0].parameters, want[0].parameters) < 2e-4);
    options.has_sharded_state = true;
    const auto got = train(4, options, {}, "gloo");
    REQUIRE_MESSAGE(got[0].outcome.has_value(), message_of(got[0]));
    CHECK(largest_difference(got[0].parameters, want[0].parameters) < 2e-4);
  }
}

TEST_CASE(
    "a checkpoint of sharded states resumes to the same bits, and to nearly the same numbers at "
    "another world size or unsharded") {
  TrainOptions options = adam_options();
  options.has_sharded_state = true;
  options.batch = 14;
  check_that_training_resumes(options);

  const TemporaryDirectory folder;
  TrainOptions saving = options;
  saving.checkpoint_every = 7;
  saving.checkpoint_keep = 100;
  saving.checkpoint_dir = folder / "two";
  const auto want = train(2, saving);
  REQUIRE_MESSAGE(want[0].outcome.has_value(), message_of(want[0]));
  for (const int size : {1, 4, 7}) {
    for (const bool is_sharded : {true, false}) {
      CAPTURE(size);
      TrainOptions later = saving;
      later.has_sharded_state = is_sharded;
      later.batch = 28 / static_cast<std::size_t>(size);
      later.should_resume = true;
      later.checkpoint_dir = folder / ("at" + std::to_string(size) + (is_sharded ? "s" : "w"));
      fs::create_directories(later.checkpoint_dir);
      fs::copy(folder / "two/step-00000007", later.checkpoint_dir / "step-00000007",
               fs::copy_options::recursive);
      const auto resumed = train(size, later);
      REQUIRE_MESSAGE(resumed[0].outcome.has_value(), message_of(resumed[0]));
      CHECK(resumed[0].outcome->steps == 22);
      CHECK(largest_difference(resumed[0].parameters, want[0].parameters) < 2e-4);
    }
  }
}

TEST_CASE(
    "the parts of all ranks form the whole parameters, and a sharded step equals plain descent") {
  CHECK(EvenParts::part_size(10, 1) == 10);
  CHECK(EvenParts::part_size(10, 4) == 3);
  CHECK(EvenParts::room(10, 4) == 12);
  CHECK(EvenParts::part_size(10, 7) == 2);  // the last two ranks have no part
  for (const int size : {1, 2, 4, 7}) {
    on_ranks(size, [&](Communicator& communicator) {
      auto kernels = make_cpu_kernels<float>(1);
      const EvenParts parts(communicator, *kernels, 10);
      std::vector<float> whole(10);
      std::iota(whole.begin(), whole.end(), 1.0F);
      std::vector<float> mine(parts.part_size(), -1);
      parts.copy_part(whole, mine);
      const auto gathered = parts.gather_whole(mine);
      REQUIRE(gathered.has_value());
      CHECK(*gathered == whole);

      // One step of plain descent, against the formula p - 0.5 * (sum of all ranks' gradients)
      // * scale.
      const auto optimizer = make_optimizer<float>({.name = "sgd", .momentum = 0});
      std::vector<float> parameters(EvenParts::room(10, size));
      std::vector<float> gradients(parameters.size(), 0.25F);
      std::copy(whole.begin(), whole.end(), parameters.begin());
      OptimizerState state(communicator, *kernels, **optimizer, 10, 1, true);
      std::array<float, 2> sums{1, 2};
      const double norm = 0.25 * size * std::sqrt(10.0);
      const auto exchange = make_sharded_exchange({.communicator = communicator,
                                                   .kernels = *kernels,
                                                   .optimizer = **optimizer,
                                                   .state = state,
                                                   .parameters = std::span(parameters).first(10),
                                                   .gradients = std::span(gradients).first(10),
                                                   .step_sums = sums,
                                                   .tensors = {},
                                                   .clip_norm = norm / 2});
      REQUIRE(exchange->update({0.5, 1, 1}).has_value());
      CHECK(sums[1] == 2.0F * static_cast<float>(size));
      for (std::size_t i = 0; i < 10; ++i)
        CHECK(parameters[i] == doctest::Approx(whole[i] - 0.5 * 0.25 * size / 2).epsilon(1e-6));
    });
  }
}

TEST_CASE(
    "ranks with shared arrays get the same bits as one rank that steps on the sum of the "
    "gradients") {
  // Several pieces per rank; most begin inside a cache line.
  constexpr std::size_t kCount = 100'003;
  for (const int size : {2, 3}) {
    on_ranks(
        size,
        [&](Communicator& communicator) {
          auto kernels = make_cpu_kernels<float>(1);
          const auto optimizer = make_optimizer<float>({.name = "adam"});
          const std::size_t room = EvenParts::room(kCount, size);
          SharedArrays shared(communicator, *kernels);
          const FlatMemory flat = shared.allocate(room * sizeof(float), room * sizeof(float));
          REQUIRE(shared.is_shared());
          auto* const parameters = static_cast<float*>(flat.parameters.get());
          auto* const gradients = static_cast<float*>(flat.gradients.get());
          OptimizerState state(communicator, *kernels, **optimizer, kCount, 1, true);
          std::array<float, 2> sums{1, 2};
          const auto exchange = make_shared_exchange({.communicator = communicator,
                                                      .kernels = *kernels,
                                                      .optimizer = **optimizer,
                                                      .state = state,
                                                      .parameters = {parameters, kCount},
                                                      .gradients = {gradients, kCount},
                                                      .step_sums = sums,
                                                      .tensors = {}},
                                                     shared);

          std::vector<float> expected(kCount);
          std::vector<std::vector<float>> expected_states(2, std::vector<float>(kCount));
          const std::vector<float*> expected_pointers{expected_states[0].data(),
                                                      expected_states[1].data()};
          const auto gradient = [](std::size_t i, int rank, std::uint64_t step) {
            // The sums are exact.
            return static_cast<float>((i * 7 + step) % 64) / 64 - 0.25F * static_cast<float>(rank);
          };
          for (std::uint64_t step = 1; step <= 3; ++step) {
            std::vector<float> sum(kCount);
            for (std::size_t i = 0; i < kCount; ++i) {
              gradients[i] = gradient(i, communicator.rank(), step);
              for (int rank = 0; rank < size; ++rank) sum[i] += gradient(i, rank, step);
            }
            (*optimizer)
                ->step(*kernels, {expected.data(), sum.data(), expected_pointers, kCount, {}},
                       {0.01, step, 1});
            REQUIRE(exchange->update({0.01, step, 1}).has_value());
            CHECK_MESSAGE(std::equal(expected.begin(), expected.end(), parameters), "step ", step);
            REQUIRE(communicator.barrier().has_value());
          }
        },
        "shm");
  }
}

TEST_CASE(
    "options that exclude sharding or compression are refused, and so are different values on the "
    "ranks") {
  TrainOptions options = small_options();
  options.has_sharded_state = true;
  options.optimizer.name = "lamb";
  CHECK(has(message_of(train(1, options)[0]), "lamb needs the norms of whole layers"));
  options.optimizer.name = "sgd";
  options.bucket_options.compression = Compression::kBfloat16;
  CHECK(has(message_of(train(2, options)[1]), "--compression cannot be combined with"));
  const auto ranks = train(4, small_options(), [](int rank, TrainOptions& mine, Session&) {
    if (rank == 1) mine.bucket_options.compression = Compression::kFloat16;
  });
  for (const Trained& rank : ranks)
    CHECK(has(
        message_of(rank),
        "rank 1 on host1: options or data differ: --compression is fp16 here and none on rank 0"));
}

}  // namespace dlrun::trainer
