// Saves checkpoints and resumes from them.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/trainer/loop/parts.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {
namespace {

/// Formats text such as "2 ranks with files of 200, 100 samples".
std::string rank_files_text(const std::vector<std::size_t>& samples) {
  constexpr std::size_t kMost = 8;
  if (samples.empty()) return "ranks without files of their own";
  const auto shown = std::span(samples).first(std::min(samples.size(), kMost));
  return fmt::format("{} rank{} with files of {}{} samples", samples.size(),
                     samples.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     samples.size() > kMost ? ", ..." : "");
}

std::vector<std::string> names_of(std::span<const StateArrayInfo> states) {
  std::vector<std::string> names;
  for (const StateArrayInfo& state : states) names.emplace_back(state.name);
  return names;
}

CheckpointLayout layout_of(const Network<float>& network, std::span<const StateArrayInfo> states) {
  CheckpointLayout layout{network.tensors(), network.running_tensors()};
  for (const StateArrayInfo& state : states) {
    if (state.is_per_tensor) layout.per_tensor_arrays.emplace_back(state.name);
  }
  return layout;
}

/// Returns true if all numbers are finite. The loss of a step is computed before the step's update,
/// so a finite loss does not show that all parameters are finite after the update.
bool is_finite(const TrainingState& state) {
  const auto are_finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  return are_finite(state.parameters) && are_finite(state.running_statistics) &&
         std::ranges::all_of(state.optimizer_arrays, are_finite);
}

}  // namespace

std::uint64_t Trainer::epoch_sequence_count() const {
  return options_.sharding == Sharding::kEpoch
             ? static_cast<std::uint64_t>(session_.communicator.size())
             : 1;
}

Result<std::optional<TrainingState>> Trainer::load_checkpoint() {
  Parts& p = *parts_;
  std::vector<std::string> skip_messages;
  auto saved = p.checkpoints.load_newest(layout_of(p.network, p.optimizer->states()),
                                         options_.optimizer.name, names_of(p.optimizer->states()),
                                         skip_messages);
  for (const std::string& message : skip_messages) session_.reporter.note(message);
  if (!saved || !saved->has_value()) return saved;
  if ((*saved)->seed != options_.seed) {
    return fail(Errc::kInvalid,
                "{}: its checkpoints were made with --seed {}, this run has {}: the order of "
                "samples would not be continued",
                p.checkpoints.path().string(), (*saved)->seed, options_.seed);
  }
  if ((*saved)->position.offset > 0 && (*saved)->rank_samples != rank_samples_) {
    return fail(
        Errc::kInvalid,
        "{}: its newest checkpoint, of step {}, was made in the middle of epoch {} by {}; this run "
        "has {}, so it is unknown which samples of that epoch remain. Use the same ranks and files "
        "again. To continue from the end of an earlier epoch instead, move away all newer "
        "checkpoints",
        p.checkpoints.path().string(), (*saved)->position.step, (*saved)->position.epoch + 1,
        rank_files_text((*saved)->rank_samples), rank_files_text(rank_samples_));
  }
  return saved;
}

Result<> Trainer::check_that_no_checkpoints_exist() const {
  const CheckpointFolder& checkpoints = parts_->checkpoints;
  DLRUN_TRY_ASSIGN(const auto names, checkpoints.names());
  if (names.empty()) return {};
  return fail(Errc::kRefused,
              "{}: holds checkpoints of another run ({}): give --resume (checkpoint.resume: true) "
              "to continue from them, "
              "or another --checkpoint-dir",
              checkpoints.path().string(), names.front());
}

Result<> Trainer::start_or_resume() {
  Parts& p = *parts_;
  Communicator& communicator = session_.communicator;
  std::optional<TrainingState> saved;
  Result<> mine;
  if (communicator.rank() == 0 && options_.should_resume) {
    auto loaded = load_checkpoint();
    if (loaded) {
      saved = std::move(*loaded);
    } else {
      mine = tl::unexpected(loaded.error());
    }
  } else if (communicator.rank() == 0 && options_.checkpoint_keep > 0) {
    mine = check_that_no_checkpoints_exist();
  }
  DLRUN_TRY(agree(communicator, session_.host, mine));

  // Broadcast rank 0's initial values, or those of its checkpoint. The other ranks need no access
  // to the checkpoint directory.
  if (communicator.rank() == 0) p.network.initialise(options_.seed);
  std::array<std::uint64_t, 4> start{};  // step, epoch, offset; 1 if there is a checkpoint
  if (saved) {
    const EpochPosition at =
        redistributed({saved->position.epoch, saved->position.offset}, p.sampler.epoch_length(),
                      saved->epoch_sequence_count, epoch_sequence_count());
    start = {saved->position.step, at.epoch, at.offset, 1};
    session_.kernels.copy_from_host(p.network.parameters().data(), saved->parameters.data(),
                                    p.network.parameters().size_bytes());
    session_.kernels.copy_from_host(p.network.running_statistics().data(),
                                    saved->running_statistics.data(),
                                    p.network.running_statistics().size_bytes());
    session_.reporter.note(fmt::format("resumed from {} at step {}", p.checkpoints.path().string(),
                                       saved->position.step));
  }
  DLRUN_TRY(communicator.broadcast(std::span(start), 0));
  p.position = {start[0], start[1], start[2]};
  if (!p.shared.is_shared())
    DLRUN_TRY(broadcast_array(communicator, session_.kernels, p.network.parameters(), 0));
  DLRUN_TRY(broadcast_array(communicator, session_.kernels, p.network.running_statistics(), 0));
  return p.optimizer_state.restore(saved ? &saved->optimizer_arrays : nullptr, start[3] == 1);
}

Result<> Trainer::save() {
  if (options_.checkpoint_keep == 0) return {};
  Parts& p = *parts_;
  const Trace::Span span(p.trace.get(), "checkpoint", "step", p.position.step);
  DLRUN_TRY_ASSIGN(auto states, p.optimizer_state.gather());
  Result<> mine;
  if (session_.communicator.rank() == 0) {
    TrainingState state;
    state.position = p.position;
    state.seed = options_.seed;
    state.rank_samples = rank_samples_;
    state.epoch_sequence_count = epoch_sequence_count();
    state.optimizer = options_.optimizer.name;
    state.optimizer_array_names = names_of(p.optimizer->states());
    state.parameters = parameters();
    state.running_statistics = to_host(session_.kernels, p.network.running_statistics());
    state.optimizer_arrays = std::move(states);
    if (is_finite(state)) {
      mine = p.checkpoints.save(state, layout_of(p.network, p.optimizer->states()));
    } else {
      mine = fail(
          Errc::kInvalid,
          "{}: a parameter, or the optimizer's state for a parameter, is not finite after step "
          "{} (epoch {}): the learning rate is too high, or the data contain invalid values; "
          "earlier checkpoints are kept",
          data_.source, p.position.step, p.position.epoch + (p.position.offset > 0 ? 1 : 0));
    }
  }
  DLRUN_TRY(agree(session_.communicator, session_.host, mine));
  session_.reporter.report_checkpoint(p.position.step);
  return {};
}

}  // namespace dlrun::trainer
