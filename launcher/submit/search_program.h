#pragma once
// sweep.ask: a program of the user that chooses the points of a sweep. dlrun writes one JSON object
// per line to its standard input and reads its answers from its standard output; docs/sweeps.md
// describes the lines.

#include <sys/types.h>

#include <chrono>
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

/// Reads a line of the search program. Fails with kInvalid and the reason if it is not an answer,
/// or if its point does not fit the sweep's parameters.
[[nodiscard]] Result<Proposal> read_proposal(std::string_view line, const SweepSpec& sweep);

/// Returns the first line for the search program: {"start": {"parameters": {...}}}.
[[nodiscard]] nlohmann::ordered_json start_message(const SweepSpec& sweep);

/// Returns the values of a point as JSON.
[[nodiscard]] nlohmann::ordered_json values_json(const SweepPoint& point);

/// The running program. Its standard error is dlrun's.
class SearchProgram {
 public:
  /// Starts the program. timeout: how long it may take for an answer.
  [[nodiscard]] static Result<std::unique_ptr<SearchProgram>> start(
      const std::vector<std::string>& argv, const Env& env, const std::string& directory,
      std::chrono::seconds timeout);
  /// Closes the program's input. Kills the program if it does not end within two seconds.
  ~SearchProgram();
  SearchProgram(const SearchProgram&) = delete;
  SearchProgram& operator=(const SearchProgram&) = delete;

  /// Writes one line. Fails with kPeer if the program has ended or does not read.
  [[nodiscard]] Result<> tell(const nlohmann::ordered_json& message);
  /// Writes one line and returns the line that the program answers. Fails with kTimeout if there is
  /// none in time, and with kPeer if the program has ended.
  [[nodiscard]] Result<std::string> ask(const nlohmann::ordered_json& message);

 private:
  SearchProgram(std::string name, pid_t child, UniqueFd channel, std::chrono::seconds timeout)
      : name_(std::move(name)), child_(child), channel_(std::move(channel)), timeout_(timeout) {}

  /// Returns the error for a program that has closed its output, with its exit code.
  [[nodiscard]] Error ended();

  std::string name_;
  pid_t child_;       ///< -1: reaped
  UniqueFd channel_;  ///< a socket that is the program's input and output
  std::chrono::seconds timeout_;
  std::string unread_;  ///< output after the last line that was taken
};

}  // namespace dlrun
