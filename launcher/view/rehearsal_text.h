#pragma once
// Describes as text what the rehearsal of a run predicts about the run.

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

/// Returns what the figures of the rehearsal predict about the run.
[[nodiscard]] Predictions predictions(const Rehearsal& rehearsal);

/// Reads the files of a run's rehearsal and returns its predictions. Returns nullopt if the run has
/// no rehearsal. If a file cannot be read, `rehearsal` is the error's message.
[[nodiscard]] std::optional<Predictions> predictions_for(const std::filesystem::path& run);

}  // namespace dlrun
