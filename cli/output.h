#pragma once
// Words on the terminal: errors and warnings to stderr, colour only where a terminal reads it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "launcher/plan/plan.h"
#include "launcher/runs/status.h"

namespace dlrun {

enum class Colour { kNone, kBold, kDim, kRed, kGreen, kYellow, kBlue };
[[nodiscard]] std::string paint(bool on, Colour colour, std::string_view text);
[[nodiscard]] Colour colour_of(RunState state);

void print_error(const Cli& cli, std::string_view message);
void print_warning(const Cli& cli, std::string_view message);
/// A remark for people, on stderr: never part of what a script reads.
void print_note(const Cli& cli, std::string_view message);
void print_diagnostics(const Cli& cli, const std::vector<Diagnostic>& diagnostics);

/// text, cut to so many characters, with "..." behind what is left.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t columns);

/// Rows under their titles, columns as wide as they need to be.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, bool colour);

/// "at most 2.7 GPU-hours, 8.0 core-hours"; empty where the spec leaves it to Slurm.
[[nodiscard]] std::string cost(const Requested& requested);
[[nodiscard]] std::optional<double> gpu_hours(const Requested& requested);
[[nodiscard]] std::optional<double> core_hours(const Requested& requested);

/// "9.2 MiB", "1.5 GiB"
[[nodiscard]] std::string bytes_text(double bytes);

/// "epoch 2/4, step 350/938, loss 0.123, accuracy 0.981, 84.3k samples/s"
[[nodiscard]] std::string progress_text(const Progress& progress);

/// "12 s", "3 min", "2 h", "5 d": since a UTC timestamp of ours; empty where it is none.
[[nodiscard]] std::string age(const std::string& utc);

}  // namespace dlrun
