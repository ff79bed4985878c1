#pragma once
// Trains on ranks that are threads of this process.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/trainer/loop/trainer.h"
#include "tests/contains.h"

namespace dlrun::trainer {

/// Runs `body` with each rank's communicator on `size` threads. A single rank uses the backend
/// "single". Fails the test if a rank cannot connect.
void on_ranks(int size, const std::function<void(Communicator&)>& body,
              std::string_view backend = "gloo");

/// The result of one rank. After an error, `parameters` is empty.
struct Trained {
  Result<Outcome> outcome = fail(Errc::kInternal, "did not run");
  std::vector<float> parameters;
};

/// Returns options for two epochs of batches of 28 through a 784-24-10 network, with two buckets
/// and no checkpoints.
[[nodiscard]] TrainOptions small_options();

/// Returns generated digits: `training_samples` to train on, and 50 to test.
[[nodiscard]] Split generated_data(std::size_t training_samples = 300);
/// Returns the result of generated_data(), which the first call generates and all calls share.
[[nodiscard]] const Split& small_data();

/// Trains on `size` ranks, whose hosts are host0, host1 and so on, and returns every rank's result.
/// change: called on each rank's thread with the rank's number; may modify the rank's options and
/// session. A single rank uses the backend "single".
[[nodiscard]] std::vector<Trained> train(
    int size, const TrainOptions& options,
    const std::function<void(int, TrainOptions&, Session&)>& change = {},
    std::string_view backend = "gloo", const Split& data = small_data());

/// Checks that two ranks that resume from step 7 end with the bits of an uninterrupted run.
/// Sets the checkpoint options itself.
void check_that_training_resumes(TrainOptions options);

/// Trains at 2, 4 and 7 ranks with a global batch of 28, and on a single rank with options.batch,
/// which must be 28. All ranks must end with equal parameters, which differ from those of the
/// single rank by less than `tolerance`. The single rank must have learned: its test loss is below
/// `largest_test_loss`.
void check_that_ranks_train_as_one(TrainOptions options, double tolerance,
                                   const Split& data = small_data(),
                                   double largest_test_loss = 2.29);  // guessing gives log 10

/// Returns the number of complete checkpoints below `folder`.
[[nodiscard]] std::size_t count_committed_checkpoints(const std::filesystem::path& folder);

/// Returns the largest absolute difference of two elements with the same index.
[[nodiscard]] double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
/// Returns the message of the rank's error, or "succeeded".
[[nodiscard]] std::string message_of(const Trained& trained);
}  // namespace dlrun::trainer
