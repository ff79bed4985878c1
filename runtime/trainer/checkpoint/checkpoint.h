#pragma once
// Checkpoints in a directory. Each checkpoint is a sub-directory:
//
//   step-00001875/model.safetensors      parameters ("layers.0.weight" [784, 512] ...) and
//                                        running statistics
//   step-00001875/optimizer.safetensors  the optimizer's arrays: "m.layers.0.weight" ...
//   step-00001875/manifest.json          sizes and checksums of the two files, the position in
//                                        training, and a checksum of the manifest itself
//   latest                               name of the checkpoint that was written last, for users
//                                        and scripts
//
// The manifest is written last and atomically; a directory without a manifest is not a checkpoint.
// Both data files are synced to disk (fsync) before the manifest is written. A crash or a full disk
// at any time therefore leaves no incomplete checkpoint that looks valid, and does not damage
// earlier checkpoints. Only rank 0 accesses the directory.

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

/// The position of a checkpoint in training. It determines the next samples and the learning rate:
/// sampler and schedule have no other state that a checkpoint must keep.
struct Position {
  std::uint64_t step = 0;    ///< optimizer steps done
  std::uint64_t epoch = 0;   ///< current epoch, from 0
  std::uint64_t offset = 0;  ///< samples of the current epoch that are done

  friend bool operator==(const Position&, const Position&) = default;
};

/// Names, shapes and offsets of the tensors in the flat arrays.
struct CheckpointLayout {
  std::vector<TensorLocation> parameters;
  std::vector<TensorLocation> running_statistics = {};
  /// Names of the optimizer's arrays that have one element for each tensor. The optimizer's other
  /// arrays have the layout of the parameters.
  std::vector<std::string> per_tensor_arrays = {};
};

/// The state of training after a step, in host memory. Arrays are flat; CheckpointLayout describes
/// the tensors in them.
struct TrainingState {
  Position position;
  std::uint64_t seed = 0;
  std::string optimizer;                           ///< name of the optimizer
  std::vector<std::string> optimizer_array_names;  ///< names of the optimizer's arrays
  std::vector<float> parameters;
  std::vector<float> running_statistics;
  /// One array per name, as long as `parameters`, or with one element per tensor.
  std::vector<std::vector<float>> optimizer_arrays;
  /// Empty unless every rank reads its own files (Sharding::kFile). With such files: the number of
  /// samples of each rank. An offset within an epoch is then valid only for the same ranks and
  /// files.
  std::vector<std::size_t> rank_samples = {};
  /// The number of sequences of epochs; `epoch_ranks` in the manifest. 1 unless Sharding::kEpoch is
  /// used. With kEpoch: the number of ranks when this checkpoint was saved. Each rank then runs
  /// through epochs of its own, and `position` is the same on all ranks.
  std::uint64_t epoch_sequence_count = 1;
};

/// Checks that this process may still write checkpoints. The file `attempt` in the run's directory
/// holds the number of the attempt that owns the run. An older attempt, for example on a node that
/// was unreachable, must not write any more. Fails with kRefused and both numbers if another
/// attempt owns the run, and as read_file() does if the file cannot be read. Succeeds outside a
/// run: without DLRUN_RUN or DLRUN_ATTEMPT.
[[nodiscard]] Result<> check_attempt_owns_run(const Env& env);

class CheckpointFolder {
 public:
  /// `keep` is the number of checkpoints to keep: the new checkpoint and the newest others; 0
  /// counts as 1. `check_may_commit` is called before files are removed, and directly before a
  /// checkpoint becomes valid; if it fails, save() fails.
  CheckpointFolder(std::filesystem::path path, std::size_t keep,
                   std::function<Result<>()> check_may_commit);

  /// Writes a checkpoint, which replaces an existing checkpoint of the same step. Then removes
  /// unfinished checkpoints, and the oldest checkpoints if there are more than `keep`.
  ///
  /// Fails with kIo (the message names the file and the reason), with the error of
  /// check_may_commit, or with kInvalid if load_newest() would not accept the checkpoint, for
  /// example because the model has too many tensors. After these failures the checkpoints of other
  /// steps are unchanged, and the new checkpoint is removed, with one exception: if
  /// check_may_commit fails, its directory remains, because the directory may belong to another
  /// attempt. If only writing `latest` or listing the older checkpoints failed, the new checkpoint
  /// remains, and the message says so.
  [[nodiscard]] Result<> save(const TrainingState& state, const CheckpointLayout& layout) const;

  /// Returns the newest undamaged checkpoint, or nothing. Adds a message to `skip_messages` for
  /// each newer checkpoint that is damaged or unfinished. array_names: the names of the optimizer's
  /// arrays. Fails with kInvalid if the checkpoint's model or optimizer differs from the arguments.
  /// Fails with kIo if memory runs out, or if the directory or a file of a checkpoint cannot be
  /// read: this checkpoint may be undamaged, and to resume from an older one would lose work.
  [[nodiscard]] Result<std::optional<TrainingState>> load_newest(
      const CheckpointLayout& layout, const std::string& optimizer,
      const std::vector<std::string>& array_names, std::vector<std::string>& skip_messages) const;

  /// Returns the names of the directory's entries that look like checkpoints (step-NUMBER), valid
  /// or not, newest first; none if the directory is missing. Fails with kIo if the directory cannot
  /// be read.
  [[nodiscard]] Result<std::vector<std::string>> names() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  /// Like load_newest(), but std::bad_alloc may pass through it.
  [[nodiscard]] Result<std::optional<TrainingState>> load_newest_unguarded(
      const CheckpointLayout& layout, const std::string& optimizer,
      const std::vector<std::string>& array_names, std::vector<std::string>& skip_messages) const;
  [[nodiscard]] Result<> write(const std::filesystem::path& folder, const TrainingState& state,
                               const CheckpointLayout& layout) const;

  std::filesystem::path path_;
  std::size_t keep_;
  std::function<Result<>()> check_may_commit_;
};

}  // namespace dlrun::trainer
