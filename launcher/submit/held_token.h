#pragma once
// The token of a submission that another machine requests over ssh. If the connection is cut, that
// machine repeats the request with the same token, and the job is still submitted only once.

#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Holds the lock of a token and remembers the token's run. A second dlrun with the same token
/// waits for the first one. If the first dlrun was killed, the second also waits for the sbatch
/// that the first one started.
class HeldToken {
 public:
  /// Takes the token. Waits up to two minutes for another dlrun that holds the token, and fails
  /// with kUnavailable if that dlrun still runs. Fails with kInvalid if the token is not 32
  /// hexadecimal digits.
  [[nodiscard]] static Result<HeldToken> take(const Env& env, const std::string& token);

  [[nodiscard]] const std::string& text() const { return token_; }
  /// Returns the run that an earlier call recorded or resubmitted; empty: there is none.
  [[nodiscard]] const std::filesystem::path& run() const { return run_; }
  /// Returns true if a submission with this token created run().
  [[nodiscard]] bool has_created_run() const { return has_created_run_; }
  /// Writes the path of the token's run to a file. Call this before anything is submitted. An empty
  /// path means that the token has no run. has_created: false for a sweep that existed before and
  /// is resubmitted.
  [[nodiscard]] Result<> store_run(const std::filesystem::path& run, bool has_created);

 private:
  HeldToken(std::string token, std::filesystem::path file, UniqueFd lock)
      : token_(std::move(token)), file_(std::move(file)), lock_(std::move(lock)) {}

  std::string token_;
  std::filesystem::path file_, run_;
  bool has_created_run_ = false;
  UniqueFd lock_;
};

/// The variable with the token. `dlrun --remote` sets it for the command that it starts.
inline constexpr char kTokenVariable[] = "DLRUN_SUBMISSION_TOKEN";
/// The variable with the path of a file that describes the git repository of the code on the user's
/// machine; see git_state_bytes() in provenance.h. `dlrun --remote` sets it for `submit`.
inline constexpr char kGitStateVariable[] = "DLRUN_GIT_STATE";

/// Takes the token in kTokenVariable. Removes the variable, so that no job inherits it. Returns
/// nullopt if it is not set. Fails as HeldToken::take() does.
[[nodiscard]] Result<std::optional<HeldToken>> take_submission_token(Env& env);

}  // namespace dlrun
