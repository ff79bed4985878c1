#include "cli/output.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "common/text.h"
#include "launcher/spec/diagnostic.h"

namespace dlrun {
namespace {

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kBold:
      return "\033[1m";
    case Colour::kDim:
      return "\033[2m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kBlue:
      return "\033[34m";
  }
  return "";
}

/// Columns on a terminal; good for what stands in our tables, where wide characters do not occur.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string of_total(std::string_view what, std::int64_t value, const std::optional<std::int64_t>& total) {
  return total ? fmt::format("{} {}/{}", what, value, *total) : fmt::format("{} {}", what, value);
}

}  // namespace

std::string paint(bool on, Colour colour, std::string_view text) {
  if (!on || colour == Colour::kNone) return std::string(text);
  return fmt::format("{}{}\033[0m", code_of(colour), text);
}

Colour colour_of(RunState state) {
  switch (state) {
    case RunState::kCompleted:
      return Colour::kGreen;
    case RunState::kRunning:
      return Colour::kBlue;
    case RunState::kPending:
      return Colour::kYellow;
    case RunState::kFailed:
    case RunState::kTimeout:
    case RunState::kRefused:
      return Colour::kRed;
    case RunState::kNotSubmitted:
    case RunState::kCancelled:
    case RunState::kUnknown:
      return Colour::kDim;
  }
  return Colour::kNone;
}

void print_error(const Cli& cli, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "dlrun: {} {}\n", paint(cli.colour_err, Colour::kRed, "error:"), message);
}

void print_warning(const Cli& cli, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "dlrun: {} {}\n", paint(cli.colour_err, Colour::kYellow, "warning:"), message);
}

void print_note(const Cli&, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "dlrun: {}\n", message);
}

void print_diagnostics(const Cli&, const std::vector<Diagnostic>& diagnostics) {
  std::fflush(stdout);
  fmt::print(stderr, "{}", format_diagnostics(diagnostics));
}

std::string bytes_text(double bytes) {
  constexpr double kStep = 1024;
  if (bytes < kStep * kStep) return fmt::format("{:.1f} KiB", bytes / kStep);
  const double mebibytes = bytes / kStep / kStep;
  return mebibytes < kStep ? fmt::format("{:.1f} MiB", mebibytes) : fmt::format("{:.1f} GiB", mebibytes / kStep);
}

std::string shortened(const std::string& text, std::size_t columns) {
  std::size_t seen = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
    if (starts && ++seen > columns) return text.substr(0, at) + "...";
  }
  return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows, bool colour) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      line += rows[r][i];
      if (i + 1 < rows[r].size()) line.append(widths[i] - width_of(rows[r][i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    text += r == 0 ? paint(colour, Colour::kBold, line) : line;
    text += '\n';
  }
  return text;
}

std::optional<double> gpu_hours(const Requested& requested) {
  if (!requested.gpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.gpus) * static_cast<double>(*requested.time_seconds) / 3600.0;
}

std::optional<double> core_hours(const Requested& requested) {
  if (!requested.cpus || !requested.time_seconds) return std::nullopt;
  return static_cast<double>(*requested.cpus) * static_cast<double>(*requested.time_seconds) / 3600.0;
}

std::string cost(const Requested& requested) {
  std::vector<std::string> parts;
  if (const auto hours = gpu_hours(requested); hours && *hours > 0)
    parts.push_back(fmt::format("{:.3g} GPU-hours", *hours));
  if (const auto hours = core_hours(requested)) parts.push_back(fmt::format("{:.3g} core-hours", *hours));
  return parts.empty() ? "" : "at most " + join(parts, ", ");
}

std::string progress_text(const Progress& progress) {
  std::vector<std::string> parts;
  if (progress.epoch) parts.push_back(of_total("epoch", *progress.epoch, progress.epochs));
  if (progress.step) parts.push_back(of_total("step", *progress.step, progress.steps));
  if (progress.loss) parts.push_back(fmt::format("loss {:.4g}", *progress.loss));
  if (progress.accuracy) parts.push_back(fmt::format("accuracy {:.4g}", *progress.accuracy));
  if (progress.samples_per_s) parts.push_back(fmt::format("{} samples/s", short_number(*progress.samples_per_s)));
  return join(parts, ", ");
}

std::string age(const std::string& utc) {
  std::tm parts{};
  if (::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return {};
  const auto then = std::chrono::system_clock::from_time_t(::timegm(&parts));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now() - then).count();
  if (seconds < 120) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

}  // namespace dlrun
