#include "tests/ranks/trainer_on_ranks.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {

namespace fs = std::filesystem;

void on_ranks(int size, const std::function<void(Communicator&)>& body, std::string_view backend) {
  MemoryStore store;
  std::vector<std::thread> ranks;
  std::vector<std::string> connect_errors(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.world = {.rank = rank, .size = size, .local_rank = rank, .local_size = size};
      options.store = &store;
      options.timeout = std::chrono::seconds(60);
      auto communicator = make_communicator(size == 1 ? "single" : backend, options);
      if (!communicator) {
        connect_errors[static_cast<std::size_t>(rank)] = communicator.error().message;
        return;
      }
      body(**communicator);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& reason : connect_errors) REQUIRE_MESSAGE(reason.empty(), reason);
}

TrainOptions small_options() {
  TrainOptions options;
  options.hidden_widths = {24};
  options.batch = 28;
  options.epochs = 2;
  options.checkpoint_keep = 0;
  options.learning_rate = 0.003;
  options.bucket_options.first_bucket_bytes = 64;  // makes two buckets
  options.bucket_options.bucket_bytes = 64;
  return options;
}

Split generated_data(std::size_t training_samples) {
  return {generate_digits(training_samples, 1, false), generate_digits(50, 1, true),
          "generated digits"};
}

const Split& small_data() {
  static const Split kData = generated_data();
  return kData;
}

std::vector<Trained> train(int size, const TrainOptions& options,
                           const std::function<void(int, TrainOptions&, Session&)>& change,
                           std::string_view backend, const Split& data) {
  std::vector<Trained> trained(static_cast<std::size_t>(size));
  on_ranks(
      size,
      [&](Communicator& communicator) {
        auto kernels = make_cpu_kernels<float>(1);
        TrainingReporter::Options silent;
        silent.is_main = false;
        auto reporter = TrainingReporter::open(silent);
        if (!reporter) return;
        Session session{communicator, *kernels, *reporter,
                        "host" + std::to_string(communicator.rank())};
        TrainOptions mine = options;
        if (change) change(communicator.rank(), mine, session);
        Trainer trainer(mine, data, session);
        Trained& result = trained[static_cast<std::size_t>(communicator.rank())];
        result.outcome = trainer.run();
        if (result.outcome) result.parameters = trainer.parameters();
      },
      backend);
  return trained;
}

void check_that_training_resumes(TrainOptions options) {
  const TemporaryDirectory folder;
  options.checkpoint_every = 7;
  options.checkpoint_keep = 100;
  options.checkpoint_dir = folder.path() / "whole";
  const auto whole = train(2, options);
  REQUIRE_MESSAGE(whole[0].outcome.has_value(), message_of(whole[0]));
  options.checkpoint_dir = folder.path() / "resumed";
  fs::create_directories(options.checkpoint_dir);
  fs::copy(folder.path() / "whole" / "step-00000007", options.checkpoint_dir / "step-00000007",
           fs::copy_options::recursive);
  options.should_resume = true;
  const auto resumed = train(2, options);
  REQUIRE_MESSAGE(resumed[0].outcome.has_value(), message_of(resumed[0]));
  CHECK(resumed[0].parameters == whole[0].parameters);
  // The hash includes the running statistics.
  CHECK(resumed[0].outcome->parameters_hash == whole[0].outcome->parameters_hash);
}

void check_that_ranks_train_as_one(TrainOptions options, double tolerance, const Split& data,
                                   double largest_test_loss) {
  const auto one = train(1, options, {}, "single", data);
  REQUIRE_MESSAGE(one[0].outcome.has_value(), message_of(one[0]));
  CHECK(one[0].outcome->test_loss < largest_test_loss);
  for (const int size : {2, 4, 7}) {
    CAPTURE(size);
    options.batch = 28 / static_cast<std::size_t>(size);
    const auto many = train(size, options, {}, "gloo", data);
    for (const Trained& rank : many) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.parameters == many[0].parameters);
      CHECK(rank.outcome->steps == one[0].outcome->steps);
    }
    CHECK(largest_difference(many[0].parameters, one[0].parameters) < tolerance);
    CHECK(many[0].outcome->test_loss == doctest::Approx(one[0].outcome->test_loss).epsilon(1e-3));
  }
}

std::size_t count_committed_checkpoints(const fs::path& folder) {
  std::size_t count = 0;
  if (!fs::exists(folder)) return 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    count += entry.path().filename() == "manifest.json" ? 1 : 0;
  return count;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

std::string message_of(const Trained& trained) {
  return trained.outcome ? "succeeded" : trained.outcome.error().message;
}

}  // namespace dlrun::trainer
