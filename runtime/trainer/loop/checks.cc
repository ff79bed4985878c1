// Checks of data, options and ranks before training begins. All ranks report the same error.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/trainer/loop/parts.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/array_collectives.h"
#include "runtime/trainer/train_flags.h"

namespace dlrun::trainer {

Result<> Trainer::count_samples_and_classes() {
  classes_ = data_.train.classes;
  train_samples_ = data_.train.size();
  if (options_.sharding != Sharding::kFile) return {};
  const std::array<std::uint64_t, 2> mine{train_samples_, classes_};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(session_.communicator.size()));
  DLRUN_TRY(session_.communicator.all_gather(std::span(mine), std::span(all)));
  train_samples_ = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    rank_samples_.push_back(all[i]);
    train_samples_ += all[i];
    classes_ = std::max(classes_, static_cast<std::size_t>(all[i + 1]));
  }
  return {};
}

Result<> Trainer::check_parallelism(const Optimizer<float>& optimizer) const {
  if (options_.has_sharded_state && optimizer.needs_whole_tensors()) {
    return fail(
        Errc::kUsage,
        "{} needs the norms of whole layers; it cannot be used with --optimizer-state sharded",
        options_.optimizer.name);
  }
  if (options_.has_sharded_state && options_.local_steps > 0) {
    return fail(Errc::kUsage,
                "--local-steps needs the optimizer's whole state on each rank; remove "
                "--optimizer-state sharded");
  }
  const std::string_view backend = session_.communicator.name();
  if (options_.bucket_options.compression != GradientReducer::Compression::kNone &&
      (options_.has_sharded_state || backend == "nccl")) {
    return fail(
        Errc::kUsage,
        "--compression cannot be combined with --backend nccl or --optimizer-state sharded");
  }
  if (options_.has_sharded_state && !session_.kernels.uses_host_memory() && backend != "nccl") {
    return fail(Errc::kUsage,
                "--optimizer-state sharded with --device cuda needs --backend nccl, not {}",
                backend);
  }
  return {};
}

Result<> Trainer::check_shards() const {
  const auto size = static_cast<std::size_t>(session_.communicator.size());
  if (options_.sharding == Sharding::kSample && train_samples_ < size) {
    return fail(Errc::kInvalid, "{}: {} training sample{} for {} ranks: rank {} has none",
                data_.source, train_samples_, train_samples_ == 1 ? "" : "s", size, train_samples_);
  }
  // Check the rank with the most samples: ranks with fewer samples finish their epoch earlier and
  // then get empty batches.
  std::size_t shard_samples = train_samples_;
  std::size_t rank = 0;
  if (options_.sharding == Sharding::kSample) {
    shard_samples = (train_samples_ + size - 1) / size;
  } else if (options_.sharding == Sharding::kFile) {
    const auto largest = std::ranges::max_element(rank_samples_);
    shard_samples = *largest;
    rank = static_cast<std::size_t>(largest - rank_samples_.begin());
  }
  if (options_.batch <= shard_samples) return {};
  return fail(
      Errc::kInvalid,
      "{}: --batch {} is larger than a rank's shard: rank {} has {} of {} training samples{}",
      data_.source, options_.batch, rank, shard_samples, train_samples_,
      options_.sharding == Sharding::kFile ? ", and no other has more" : "");
}

Result<> Trainer::check_that_ranks_are_alike() const {
  TrainOptions options = options_;
  // Fill in defaults, so that a default equals the same value set by a flag.
  options.optimizer = with_defaults(options.optimizer).value_or(options.optimizer);
  std::vector<Setting> settings;
  for (const Flag<TrainOptions>& flag : train_flags()) {
    if (!flag.may_differ) settings.push_back({std::string(flag.name), flag.value.to_text(options)});
  }
  const bool reads_own_files = options.sharding == Sharding::kFile;
  const auto text_of = [](std::size_t value) { return fmt::format("{}", value); };
  const Dataset& data = data_.train;
  settings.insert(
      settings.end(),
      {{"the buckets' bytes", fmt::format("{} and {}", options.bucket_options.first_bucket_bytes,
                                          options.bucket_options.bucket_bytes)},
       {"--device", session_.kernels.uses_host_memory() ? "cpu" : "cuda"},
       {"--precision", std::string(name_of(session_.kernels.precision()))},
       {"the number of training samples", reads_own_files ? "its own" : text_of(data.size())},
       {"the number of test samples", text_of(data_.test.size())},
       {"the number of classes", reads_own_files ? "its own" : text_of(data.classes)},
       {"the number of bytes of an image", text_of(data.features)},
       {"the height and width of an image", fmt::format("{} x {}", data.height, data.width)},
       {"the number of labels of a sample", text_of(data.label_width)}});
  return check_same_on_all_ranks(session_.communicator, session_.host, settings);
}

}  // namespace dlrun::trainer
