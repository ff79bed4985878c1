#pragma once
// A token by which another machine asks for one submission, perhaps again after a cut connection.

#include <filesystem>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// Holds a token, so that of two calls with the same token the second waits for the first, also for
/// the sbatch of a first that was killed. Remembers the run that the token was used for.
class TokenClaim {
 public:
  /// Takes the token; waits up to two minutes for another call that holds it. Fails with kInvalid
  /// if it is not 32 hexadecimal digits, and with kUnavailable if the other call goes on.
  [[nodiscard]] static Result<TokenClaim> take(const Env& env, const std::string& token);

  [[nodiscard]] const std::string& token() const { return token_; }
  /// Returns the run that an earlier call made; empty: there is none.
  [[nodiscard]] const std::filesystem::path& run() const { return run_; }
  /// Writes the run to the disk, before anything is submitted. An empty path forgets it.
  [[nodiscard]] Result<> name_run(const std::filesystem::path& run);

 private:
  TokenClaim(std::string token, std::filesystem::path file, UniqueFd lock)
      : token_(std::move(token)), file_(std::move(file)), lock_(std::move(lock)) {}

  std::string token_;
  std::filesystem::path file_, run_;
  UniqueFd lock_;
};

/// The variable with the token, which `dlrun --remote` sets for the command that it starts.
inline constexpr char kTokenVariable[] = "DLRUN_SUBMISSION_TOKEN";

/// Takes the token of the environment, and removes it there, so that no job inherits it. Returns
/// nullopt if there is none. Fails as TokenClaim::take() does.
[[nodiscard]] Result<std::optional<TokenClaim>> take_claim(Env& env);

}  // namespace dlrun
