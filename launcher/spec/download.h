#pragma once
// What train.data.download may name.

#include <string_view>

#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// The download with its file's name, taken from the url where it is not given, and a checksum in
/// small letters. Fails with kInvalid on what is missing or malformed; with kRefused, and a message
/// without the url, where that holds a user or password: it would stand in the record of every run.
[[nodiscard]] Result<Download> checked_download(Download download);

/// In place of a line that is not to be repeated.
inline constexpr const char* kLineNotShown = "(not shown)";

/// Whether a url within the text, a line of a spec, has a user or a password: that line is not to
/// be repeated.
[[nodiscard]] bool shows_password(std::string_view text);

}  // namespace dlrun
