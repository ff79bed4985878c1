#pragma once
// The return type of functions that can fail. dlrun's own functions do not throw, except
// random_hex(). Code that calls a library catches the library's exceptions.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <tl/expected.hpp>

#include "common/diagnostic.h"

namespace dlrun {

/// The kind of a failure, for callers that react to it. The message is for people.
enum class Errc {
  kInvalid,      ///< the input is wrong and the user must change it
  kUsage,        ///< the command line is wrong
  kNotFound,     ///< a file, run, job or program does not exist
  kRefused,      ///< Slurm, or a check of dlrun's own, refused; the function's comment says when
  kUnavailable,  ///< a controller, peer or service did not answer
  kTimeout,      ///< a time limit expired
  kIo,           ///< a system call such as read, write, fsync or rename failed
  kShape,        ///< sizes or types of arrays do not fit
  kPeer,         ///< a rank or a search program failed, or ranks called different operations
  kInterrupted,  ///< a signal, or the user's answer to a question, stopped the work
  kInternal,     ///< a bug in dlrun
};

/// The reason for which Slurm refused a request, as far as callers react to it.
enum class SlurmRefusal {
  kOther,      ///< another reason, or the error is no refusal of Slurm
  kPartition,  ///< the partition does not exist
  kAccount,    ///< the account does not exist, or not together with the partition
  kQos,        ///< the QOS does not exist
  /// The nodes or the partition are not available now. Slurm may queue a job that it has refused
  /// for this reason in a dry run (--test-only).
  kNodesUnavailable,
};

/// The message says where the error is, which value is wrong, what was expected and what to do. It
/// has no newline at its end.
struct Error {
  Errc code = Errc::kInternal;
  std::string message{};
  /// Problems of a spec, each with its place in a file or on the command line. They are printed
  /// before the message, which may then be empty.
  DiagnosticList diagnostics{};
  SlurmRefusal refusal = SlurmRefusal::kOther;
  /// True if a gateway instead of Slurm may have refused the submission. Slurm may then have
  /// accepted the job.
  bool is_unconfirmed = false;
  /// The rank whose error this is, if all ranks have agreed on that; the message then begins with
  /// "rank R on HOST: ". -1: the ranks have not agreed.
  int agreed_rank = -1;
};

template <typename T = void>
using Result = tl::expected<T, Error>;

/// Makes an error from a format string: return fail(Errc::kNotFound, "{}: no such run", name);
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Makes an error from the problems of a spec. The message of the error is empty.
[[nodiscard]] inline tl::unexpected<Error> fail(Errc code, std::vector<Diagnostic> diagnostics) {
  return tl::unexpected<Error>(Error{code, {}, std::move(diagnostics)});
}

/// Returns the error with `where` and a colon before its message, without is_unconfirmed and
/// agreed_rank.
[[nodiscard]] inline tl::unexpected<Error> within(std::string_view where, const Error& error) {
  return tl::unexpected<Error>(Error{error.code, fmt::format("{}: {}", where, error.message),
                                     error.diagnostics, error.refusal});
}

}  // namespace dlrun

/// Evaluates an expression of type Result<T>. If it failed, returns its error from the enclosing
/// function; otherwise discards its value.
#define DLRUN_TRY(expression)                                                     \
  do {                                                                            \
    if (auto dlrun_try_result = (expression); !dlrun_try_result) {                \
      return tl::unexpected<::dlrun::Error>(std::move(dlrun_try_result.error())); \
    }                                                                             \
  } while (false)

/// Evaluates an expression of type Result<T>. If it failed, returns its error from the enclosing
/// function; otherwise moves its value into the target:
///
///   DLRUN_TRY_ASSIGN(const auto run, find_run(name));  // a new variable
///   DLRUN_TRY_ASSIGN(job.script, read_file(path));     // an existing one
///
/// The macro is several statements, so it needs braces as the body of an `if` or a loop.
#define DLRUN_TRY_ASSIGN(target, ...) DLRUN_TRY_ASSIGN_TO(target, __COUNTER__, __VA_ARGS__)
#define DLRUN_TRY_ASSIGN_TO(target, number, ...) DLRUN_TRY_ASSIGN_AS(target, number, __VA_ARGS__)
#define DLRUN_TRY_ASSIGN_AS(target, number, ...)                         \
  auto dlrun_tried_##number = (__VA_ARGS__);                             \
  if (!dlrun_tried_##number) {                                           \
    return tl::make_unexpected(std::move(dlrun_tried_##number.error())); \
  }                                                                      \
  target = std::move(*dlrun_tried_##number)
