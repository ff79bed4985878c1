#include "runtime/agent/container_messages.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kSentenceLimitBytes = 512;
constexpr std::string_view kApptainerPrefix = "FATAL: ";

/// Returns the message of pyxis in a line that Slurm prints for it: WORDS in
/// "slurmstepd-n1: error: pyxis: WORDS", or, from Slurm 25.05 on, in "[TIME] error: pyxis: WORDS".
std::optional<std::string_view> message_of_pyxis(std::string_view line) {
  constexpr std::string_view kMark = "error: pyxis: ";
  const auto at = line.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const auto before = line.substr(0, at);
  const bool is_from_slurm = before.empty() || before.starts_with("slurmstepd") ||
                             before.starts_with("srun: ") || before.starts_with("[");
  return is_from_slurm ? std::optional(line.substr(at + kMark.size())) : std::nullopt;
}

/// Returns WORDS of a line of Charliecloud, "ch-run[PID]: error: WORDS".
std::optional<std::string_view> message_of_charliecloud(std::string_view line) {
  constexpr std::string_view kStart = "ch-run[", kMark = "]: error: ";
  if (!line.starts_with(kStart)) return std::nullopt;
  const auto at = line.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const auto pid = line.substr(kStart.size(), at - kStart.size());
  return parse_int(pid) ? std::optional(line.substr(at + kMark.size())) : std::nullopt;
}

/// Returns the error message in a line of enroot, apptainer, or dlrun's own job script.
std::optional<std::string_view> message_of_tool(std::string_view line) {
  constexpr std::array<std::string_view, 4> kStarts{"[ERROR] ", kApptainerPrefix,
                                                    "enroot-mount: ", "dlrun: container: "};
  for (const auto start : kStarts) {
    if (line.starts_with(start))
      return trim(line.substr(start == "enroot-mount: " ? 0 : start.size()));
  }
  return std::nullopt;
}

/// Returns true for lines of pyxis that add no information to its other lines.
bool is_noise(std::string_view words) {
  constexpr std::array<std::string_view, 6> kNoise{
      "child ",
      "printing enroot log file",
      "couldn't execute enroot command",
      "container was not started successfully by another task",
      "if the image has an unusual entrypoint",
      "could not remove squashfs"};
  return std::any_of(kNoise.begin(), kNoise.end(),
                     [&](std::string_view noise) { return words.starts_with(noise); });
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Returns true for messages about an image that cannot be unpacked.
bool is_about_bad_image(std::string_view words) {
  constexpr std::array<std::string_view, 5> kImageErrors{"Invalid image format",
                                                         "No such file or directory", "FATAL ERROR",
                                                         "uncompress", "returned error code"};
  // "ommand" matches "command" and "Command".
  constexpr std::array<std::string_view, 4> kNodeErrors{"No space left", "quota",
                                                        "ommand not found", "File already exists"};
  const auto has_one_of = [&](const auto& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view part) { return has(words, part); });
  };
  return has_one_of(kImageErrors) && !has_one_of(kNodeErrors);
}

}  // namespace

bool ContainerMessages::handle_line(std::string_view line) {
  if (const auto words = message_of_pyxis(line)) {
    handle_pyxis_message(*words);
    return true;
  }
  if (const auto words = message_of_charliecloud(line)) {
    handle_tool_message(*words, words->starts_with("can't stat: ") || has(*words, "image") ||
                                    has(*words, "FUSE") || has(*words, "SquashFS"));
    return true;
  }
  const auto words = message_of_tool(line);
  if (words) {
    handle_tool_message(*words, line.starts_with(kApptainerPrefix) &&
                                    (has(*words, "image") || has(*words, "extract")));
  }
  return words.has_value();
}

void ContainerMessages::handle_tool_message(std::string_view words, bool blames_image) {
  if (!sentence_.empty()) return;
  sentence_ = words;
  sentence_blames_image_ = blames_image;
}

void ContainerMessages::handle_pyxis_message(std::string_view words) {
  if (words.starts_with("failed to export container")) {
    if (container_save_error_.empty()) container_save_error_ = with_detail(words);
  } else if (words.starts_with("    ")) {  // a quoted line of enroot's log
    const auto error = message_of_tool(trim(words));
    if (!error && is_detail_certain_) return;
    is_detail_certain_ = error.has_value();
    detail_ = error.value_or(trim(words));
  } else if (sentence_.empty() && !is_noise(words)) {
    sentence_ = words;
  }
}

std::string ContainerMessages::with_detail(std::string_view words) const {
  const auto text = detail_.empty() || words.empty() ? fmt::format("{}{}", words, detail_)
                                                     : fmt::format("{}: {}", words, detail_);
  return printable(std::string_view(text).substr(0, kSentenceLimitBytes));
}

std::optional<ContainerFailure> ContainerMessages::failure() const {
  if (sentence_.empty() && detail_.empty()) return std::nullopt;
  const bool has_creation_failed = sentence_.starts_with("failed to create container filesystem");
  const bool is_image = sentence_blames_image_ ||
                        sentence_.starts_with("failed to import docker image") ||
                        (has_creation_failed && is_about_bad_image(detail_));
  return ContainerFailure{is_image ? Cause::kImage : Cause::kContainer, with_detail(sentence_)};
}

ContainerFailure classify_container_error(std::string_view words) {
  return {is_about_bad_image(words) ? Cause::kImage : Cause::kContainer,
          printable(words.substr(0, kSentenceLimitBytes))};
}

}  // namespace dlrun::agent
