#pragma once
// sweep.ask: a program of the user that chooses the points of a sweep. dlrun writes JSON objects,
// one per line, to the program's standard input, and reads the answers from its standard output.
// docs/search.md describes the lines.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// The answer to {"ask": N}.
struct Proposal {
  enum class Kind {
    kPoint,  ///< the next point of the sweep
    kWait,   ///< no point until another result is known
    kDone,   ///< the search is over
  };
  Kind kind = Kind::kDone;
  SweepPoint point;  ///< for kPoint
};

/// Parses an answer of the search program. Fails with kInvalid if the line is not an answer, or if
/// the point does not fit the sweep's parameters.
[[nodiscard]] Result<Proposal> parse_proposal(std::string_view line, const SweepSpec& sweep);

/// Returns the first message to the search program: {"start": {"parameters": {...}}}.
[[nodiscard]] nlohmann::ordered_json start_message(const SweepSpec& sweep);

/// Returns the values of a point as JSON.
[[nodiscard]] nlohmann::ordered_json values_json(const SweepPoint& point);

/// The running search program, whose standard error is that of dlrun.
class SearchProgram {
 public:
  /// Starts the program. directory: its working directory, from which a relative path in argv[0]
  /// starts. timeout: the time limit for reading a line, and for each answer. Fails with kNotFound
  /// if there is no such program, and with kIo if no process can be made. If the process cannot
  /// execute the program, the process ends with exit code 127, and ask() fails with kPeer.
  [[nodiscard]] static Result<std::unique_ptr<SearchProgram>> start(
      const std::vector<std::string>& argv, const Env& env, const std::string& directory,
      std::chrono::seconds timeout);
  /// Closes the program's input. Kills the program if it does not end within two seconds.
  ~SearchProgram();
  SearchProgram(const SearchProgram&) = delete;
  SearchProgram& operator=(const SearchProgram&) = delete;

  /// Writes one line. Fails with kTimeout if the program does not read it in time, with kPeer if
  /// the program has ended, and with kInterrupted after a signal.
  [[nodiscard]] Result<> send(const nlohmann::ordered_json& message);
  /// Writes one line and returns the program's answer. Fails with kTimeout if there is no answer in
  /// time, with kInvalid if the answer is longer than 1 MiB, with kPeer if the program has ended,
  /// and with kInterrupted after a signal.
  [[nodiscard]] Result<std::string> ask(const nlohmann::ordered_json& message);
  /// Returns the number of lines that ask() has returned.
  [[nodiscard]] std::size_t line_count() const { return line_count_; }

 private:
  SearchProgram(std::string name, pid_t child, UniqueFd channel, std::chrono::seconds timeout)
      : name_(std::move(name)), child_(child), channel_(std::move(channel)), timeout_(timeout) {}

  /// Appends the available output to unread_. Returns the result of recv(). Does not wait.
  ssize_t read_some();
  /// Returns the error for a program that has closed its input and output. Waits up to a second for
  /// its exit code.
  [[nodiscard]] Error end_error();
  /// Returns the part of an error message about output that does not end with a newline; empty if
  /// there is none.
  [[nodiscard]] std::string unfinished_line_note() const;

  std::string name_;
  pid_t child_;       ///< -1 after its exit code was read
  UniqueFd channel_;  ///< dlrun's end of the socket that is the program's input and output
  std::chrono::seconds timeout_;
  std::size_t line_count_ = 0;
  std::string unread_;  ///< the program's output after the last line that ask() returned
};

}  // namespace dlrun
