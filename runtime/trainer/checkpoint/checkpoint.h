#pragma once
// Checkpoints in a folder, one sub-folder each:
//
//   step-00001875/model.safetensors       parameters: "layers.0.weight" [784, 512] ..., and running
//   statistics step-00001875/optimizer.safetensors   the optimizer's arrays: "m.layers.0.weight"
//   ... step-00001875/manifest.json           sizes and checksums of the two, where in training
//   this is, and a checksum of
//                                         itself. Written last and whole: a folder without it is no
//                                         checkpoint
//   latest                                the newest one's name, for people and scripts
//
// A file is complete on disk (fsync) before the manifest that names it, so a crash or a full disk
// at any point leaves the checkpoints before valid. Only rank 0 touches the folder.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

/// Where in training a checkpoint was taken. Sampler and schedule need no more to go on.
struct Position {
  std::uint64_t step = 0;    ///< optimizer steps done
  std::uint64_t epoch = 0;   ///< epoch under way, from 0
  std::uint64_t offset = 0;  ///< samples of it that are done

  friend bool operator==(const Position&, const Position&) = default;
};

/// The names, shapes and places of what the flat arrays hold.
struct CheckpointLayout {
  std::vector<TensorView> parameters;
  std::vector<TensorView> running = {};  ///< the network's statistics
};

/// What training is at a step, in host memory. Arrays are flat, in the layout of tensors.
struct TrainingState {
  Position position;
  std::uint64_t seed = 0;
  std::string optimizer;                 ///< its name
  std::vector<std::string> state_names;  ///< of its arrays
  std::vector<float> parameters;
  std::vector<float> running;
  std::vector<std::vector<float>> states;  ///< one for each of state_names, as long as parameters
  /// Sampler::Options: where ranks read files of their own, a place within an epoch means something
  /// to the same ranks only. Empty elsewhere.
  std::vector<std::size_t> rank_samples = {};
  /// So many ranks had each taken what position says of epochs of their own; 1 where each epoch is
  /// everybody's.
  std::uint64_t epoch_ranks = 1;
};

/// May this process still write? A run's `attempt` file names the attempt that owns its
/// checkpoints: an older attempt whose node came back must not write beside the new one. Fails with
/// kRefused, saying both numbers. Succeeds outside of a run.
[[nodiscard]] Result<> check_attempt(const Env& env);

class CheckpointFolder {
 public:
  /// keep: how many stay, the one just saved and the newest others; > 0. may_commit is asked right
  /// before a checkpoint becomes valid.
  CheckpointFolder(std::filesystem::path path, std::size_t keep,
                   std::function<Result<>()> may_commit);

  /// Writes a checkpoint, and removes the oldest above keep and what was never finished. Fails with
  /// kIo (the file and why) or may_commit's error; then the checkpoints before are untouched. Of
  /// the new one nothing is left, unless it is valid and what failed is the writing of `latest`,
  /// which is said, or another attempt owns the folder.
  [[nodiscard]] Result<> save(const TrainingState& state, const CheckpointLayout& layout) const;

  /// The newest checkpoint whose files are whole, or nothing. Each newer one that is damaged, or
  /// was not finished, adds a sentence to passed_over. Fails with kInvalid when it is of another
  /// model or optimizer than layout, optimizer and state_names say, with kIo where the folder
  /// cannot be listed or a file of the newest not be read: that one may be whole, and the file
  /// system's error pass.
  [[nodiscard]] Result<std::optional<TrainingState>> load_newest(
      const CheckpointLayout& layout, const std::string& optimizer,
      const std::vector<std::string>& state_names, std::vector<std::string>& passed_over) const;

  /// Names of the sub-folders that look like checkpoints, valid or not, newest first; none without
  /// a folder. Fails with kIo where it cannot be listed.
  [[nodiscard]] Result<std::vector<std::string>> names() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  [[nodiscard]] Result<std::optional<TrainingState>> load(
      const CheckpointLayout& layout, const std::string& optimizer,
      const std::vector<std::string>& state_names, std::vector<std::string>& passed_over) const;
  [[nodiscard]] Result<> write(const std::filesystem::path& folder, const TrainingState& state,
                               const CheckpointLayout& layout) const;

  std::filesystem::path path_;
  std::size_t keep_;
  std::function<Result<>()> may_commit_;
};

}  // namespace dlrun::trainer
