#pragma once
// What a function that can fail returns. Nothing here throws; a library's exceptions are caught
// where it is called.

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <tl/expected.hpp>

namespace dlrun {

/// The kind of a failure: what a caller may act on. The message is for people.
enum class Errc {
  kInvalid,      ///< the input is wrong; the user must change it
  kUsage,        ///< the command line is wrong
  kNotFound,     ///< a file, run, job or program does not exist
  kRefused,      ///< Slurm answered, and said no
  kUnavailable,  ///< a controller, peer or service did not answer
  kTimeout,      ///< a bound on time ran out
  kIo,           ///< the operating system failed a read, write, fsync or rename
  kShape,        ///< sizes or types of arrays do not fit together
  kPeer,         ///< another rank failed or disagrees
  kInterrupted,  ///< a signal asked to stop
  kInternal,     ///< a fault of dlrun's own
};

/// message: where, which value, what was expected and what to do; no trailing newline.
struct Error {
  Errc code = Errc::kInternal;
  std::string message;
};

template <typename T = void>
using Result = tl::expected<T, Error>;

/// return fail(Errc::kNotFound, "{}: no such run", name);
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// The same error, with where it happened put before its message.
[[nodiscard]] inline tl::unexpected<Error> within(std::string_view where, const Error& error) {
  return tl::unexpected<Error>(Error{error.code, fmt::format("{}: {}", where, error.message)});
}

}  // namespace dlrun

/// Leave the function with the error of a Result<> expression that failed.
#define DLRUN_TRY(expression)                                                     \
  do {                                                                            \
    if (auto dlrun_try_result = (expression); !dlrun_try_result) {                \
      return tl::unexpected<::dlrun::Error>(std::move(dlrun_try_result.error())); \
    }                                                                             \
  } while (false)
