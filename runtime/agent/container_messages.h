#pragma once
// Recognises the error messages that pyxis, enroot, apptainer, Charliecloud and dlrun's own job
// script print when a container cannot be made, entered or saved. No I/O.

#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/retry.h"

namespace dlrun::agent {

/// The reason why a container could not be made or entered.
struct ContainerFailure {
  Cause cause = Cause::kContainer;  ///< kImage: the image itself is the reason
  std::string sentence;             ///< the message of the container tool
};

/// Finds the messages about the container in the output of a step. Callers must leave out lines
/// that a rank's program printed.
class ContainerMessages {
 public:
  /// Handles a line of the step's standard error. Returns false if it is not about the container.
  bool handle_line(std::string_view line);
  /// Returns the first reported failure to make or enter the container; nullopt: none.
  [[nodiscard]] std::optional<ContainerFailure> failure() const;
  /// Returns pyxis's message about a container that it could not save; empty if there is none.
  [[nodiscard]] const std::string& container_save_error() const { return container_save_error_; }

 private:
  /// Handles an error message of a tool other than pyxis. Keeps only the first message of all
  /// tools. blames_image: the message says that the image itself is the reason.
  void handle_tool_message(std::string_view words, bool blames_image);
  void handle_pyxis_message(std::string_view words);
  /// Returns the words, followed by the detail if enroot's log had one. Cuts the text to 512 bytes.
  [[nodiscard]] std::string with_detail(std::string_view words) const;

  std::string sentence_;            ///< the first message of pyxis or of another tool
  std::string detail_;              ///< a line of enroot's log, which pyxis quotes
  bool is_detail_certain_ = false;  ///< enroot marked the detail as an error
  bool sentence_blames_image_ = false;
  std::string container_save_error_;
};

/// Classifies the output of a command that failed to make a container, such as
/// "[ERROR] Invalid image format: /a.sqsh".
[[nodiscard]] ContainerFailure classify_container_error(std::string_view words);

}  // namespace dlrun::agent
