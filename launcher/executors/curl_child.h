#pragma once
// A running program `curl`, which does the transfers of the portable dlrun. Only
// curl_library_portable.cc and tests use it.

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"

namespace dlrun {

/// Descriptors in the process curl: the body of the request, and the pipe for the body of the
/// response. curl's settings contain these numbers.
inline constexpr int kCurlBodyFd = 3, kCurlResponseFd = 4;

/// One transfer. The destructor ends curl. If dlrun is killed, curl ends at its next write, because
/// nobody reads its pipes, or at the time limit in its settings. Not thread-safe.
class CurlChild {
 public:
  CurlChild() = default;
  CurlChild(const CurlChild&) = delete;
  CurlChild& operator=(const CurlChild&) = delete;
  ~CurlChild();

  /// Starts curl. settings: the text that curl reads from its standard input. body: the body of the
  /// request; empty: none. Returns false if curl is not in PATH, or if memory or descriptors run
  /// out.
  [[nodiscard]] bool start(std::string_view settings, std::string_view body);

  /// How read_to_end() ended.
  enum class Outcome {
    kReadToEnd,  ///< curl has closed its outputs
    kNotTaken,   ///< take() returned false
    kStopped,    ///< go_on() returned false, or the outputs cannot be read
  };
  /// Reads curl's outputs to their end. Calls take() for each piece of the response, and go_on() at
  /// least ten times a second.
  [[nodiscard]] Outcome read_to_end(const std::function<bool(char* bytes, std::size_t size)>& take,
                                    const std::function<bool()>& go_on);

  /// Waits for the end of curl. Returns its exit code; nullopt if a signal has ended it, or if the
  /// code is not known, because this process ignores SIGCHLD.
  [[nodiscard]] std::optional<int> wait();

  /// Return the start of curl's standard output and of its standard error, each less than 128 KiB.
  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] const std::string& errors() const { return errors_; }

 private:
  struct Pipe {
    UniqueFd read_end{}, write_end{};
    [[nodiscard]] bool open();
  };
  /// Reads a block from curl, and appends the bytes to `into`. Discards the bytes if `into` already
  /// has 64 KiB or more.
  void append_output(UniqueFd& from, std::string& into);

  pid_t pid_ = 0;
  Pipe response_pipe_, output_pipe_, errors_pipe_;
  std::string output_, errors_;
  std::array<char, 64U << 10U> block_{};
};

}  // namespace dlrun
