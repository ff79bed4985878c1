#pragma once
// Training on ranks that are threads of this process.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/trainer/loop/trainer.h"

namespace dlrun::trainer {

/// body(rank's communicator) on size threads. A rank that cannot connect fails the test.
void on_ranks(int size, const std::function<void(Communicator&)>& body,
              std::string_view backend = "gloo");

struct Trained {
  Result<Outcome> outcome = fail(Errc::kInternal, "did not run");
  std::vector<float> parameters;
};

/// Two epochs of batches of 28 through 784 - 24 - 10, two buckets, no checkpoints.
[[nodiscard]] TrainOptions small_options();

/// Drawn digits, by default 300 to train and 50 to test.
[[nodiscard]] Split drawn_data(std::size_t samples = 300);
[[nodiscard]] const Split& small_data();

/// What every rank got. change: this rank's options and session, if they are to differ.
[[nodiscard]] std::vector<Trained> train(
    int size, const TrainOptions& options,
    const std::function<void(int, TrainOptions&, Session&)>& change = {},
    std::string_view backend = "gloo", const Split& data = small_data());

/// Two ranks that go on from step 7 end with the bits of those that never stopped.
void check_that_it_resumes(TrainOptions options);

/// At 2, 4 and 7 ranks with a global batch of 28 all ranks end with the same parameters, by less
/// than tolerance other than those of one rank, which has learned something: its test loss is below
/// `learned`.
void check_that_ranks_train_as_one(TrainOptions options, double tolerance,
                                   const Split& data = small_data(),
                                   double learned = 2.29);  // by chance log 10

[[nodiscard]] double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
[[nodiscard]] std::string message_of(const Trained& trained);
[[nodiscard]] bool has(const std::string& text, std::string_view part);

}  // namespace dlrun::trainer
