#pragma once
// The request that dlrun sends to the dlrun on a host, as one word that no shell changes, and the
// frames that follow it on standard input. docs/decisions/0039 has the reasons.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "common/text.h"

namespace dlrun {

/// The action of dlrun on the host.
enum class RemoteMode {
  kCommand,   ///< runs a command of dlrun, and ends it when the connection ends
  kTerminal,  ///< becomes the command, which ends when its terminal closes
  kMirror,    ///< locks the mirror, sends its path, and runs the command after a kGo frame
  kPipe,      ///< becomes another program, with the connection as its standard streams
};

struct RemoteRequest {
  RemoteMode mode = RemoteMode::kCommand;
  std::string nonce;      ///< in the marker between the output of the shell and the answer
  std::string root;       ///< the folder of mirrors: `root` of hosts/NAME.yaml, unexpanded
  std::string mirror;     ///< the mirror's name below root; empty: there is none
  std::string subfolder;  ///< the folder below the mirror where the command starts
  /// Identifies a submission of `submit` or `resubmit` (launcher/submit/held_token.h); else empty.
  std::string token;
  std::string git_state;   ///< git_state_bytes() of the code; empty: unknown
  std::string code_state;  ///< kMirror: state_of_files() of the code; empty: rsync must run
  std::string file_list;   ///< in a kGo frame: for write_file_list(); empty: the old list stays
  bool colour_out = false, colour_err = false;  ///< colours on the user's standard output, error
  bool has_input = false;                       ///< the command reads standard input
  /// kMirror: absolute paths that exist on the user's machine. The host answers which of them it
  /// lacks.
  std::vector<std::string> paths;
  std::vector<std::string> argv;  ///< the command, without "dlrun"; kPipe: the whole argv
};

/// Returns the request as one word of letters, digits, '-' and '_'.
[[nodiscard]] std::string word_of(const RemoteRequest& request);
/// Decodes a word of word_of(). Fails with kInvalid if it is no request of this version.
[[nodiscard]] Result<RemoteRequest> parse_request(std::string_view word);

/// Encodes bytes as base64url without padding (RFC 4648, section 5).
[[nodiscard]] std::string base64url(std::string_view bytes);
/// Decodes base64url without padding. Returns nullopt for any other text.
[[nodiscard]] std::optional<std::string> from_base64url(std::string_view text);

/// Returns the line that dlrun on the host prints before anything else: "<dlrun NONCE VERSION>\n".
[[nodiscard]] std::string marker_of(std::string_view nonce, std::string_view version);

/// Drops everything before the marker. Accepts the bytes in pieces.
class MarkerFilter {
 public:
  explicit MarkerFilter(std::string_view nonce)
      : marker_start_("<dlrun " + std::string(nonce) + " ") {}
  /// Returns those of the new bytes that come after the marker; empty until the marker has come.
  /// Fails with kInvalid after more than a mebibyte without a marker.
  [[nodiscard]] Result<std::string> pass(std::string_view bytes);
  /// Returns true if the marker has come, so that the answer has begun.
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  [[nodiscard]] const std::string& version() const { return version_; }
  /// Returns the bytes before the marker.
  [[nodiscard]] std::string noise() const { return with_unix_line_ends(noise_); }

 private:
  std::string marker_start_, noise_, version_;
  bool has_begun_ = false;
};

/// A message to dlrun on the host, before or while a command runs there.
struct RemoteFrame {
  enum class Kind : char {
    kInput = 'i',     ///< bytes for the command's standard input
    kInputEnd = 'e',  ///< the standard input ends
    kSignal = 's',    ///< a signal's number, in decimal, for the command
    kGo = 'g',        ///< kMirror: the word of the request to run under the lock
  };
  Kind kind = Kind::kInput;
  std::string bytes;
};
/// Returns the bytes of a frame, which FrameReader reads back.
[[nodiscard]] std::string encode(const RemoteFrame& frame);

/// Takes frames out of a stream of bytes.
class FrameReader {
 public:
  void add(std::string_view bytes) { waiting_ += bytes; }
  /// Returns the next frame; nullopt if no whole frame has come yet. Fails with kInvalid for an
  /// unknown kind and for a frame of more than 16 MiB.
  [[nodiscard]] Result<std::optional<RemoteFrame>> next();

 private:
  std::string waiting_;
};

}  // namespace dlrun
