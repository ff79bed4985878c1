#pragma once
// Describes the predictions of a run's rehearsal as text.

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/runs/rehearsal.h"

namespace dlrun {

/// Sentences about a run, from the record of its rehearsal. "": nothing is known.
struct Predictions {
  std::string rehearsal;  ///< the id and the state of the rehearsal
  std::string memory, gpu, time;
};

/// Returns the predictions that follow from the figures of the rehearsal.
[[nodiscard]] Predictions predictions(const Rehearsal& rehearsal);

/// Reads the files of a run's rehearsal and returns its predictions. Returns nullopt if the run has
/// no rehearsal. If a file cannot be read, `rehearsal` is the error's message.
[[nodiscard]] std::optional<Predictions> predictions_for(const std::filesystem::path& run);

}  // namespace dlrun
