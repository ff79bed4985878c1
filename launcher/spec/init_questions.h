#pragma once
// The questions of `dlrun init`, as data. The calling code decides how and where to ask them.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"
#include "launcher/spec/init_spec.h"

namespace dlrun {

struct InitQuestion {
  std::string text;
  /// The text that is shown as the default, which an empty answer selects; empty: none is shown.
  std::string fallback;
  std::vector<std::pair<std::string, std::string>> choices;  ///< names and help texts
  /// Stores a non-empty answer. Fails with the reason if the answer is invalid. The function refers
  /// to the arguments of InitQuestions, which must outlive it.
  std::function<Result<>(const std::string& answer)> store;
};

/// The questions for the missing answers, in order. A later question can depend on earlier answers.
class InitQuestions {
 public:
  /// Both arguments must outlive this object, which writes the answers into `answers`.
  InitQuestions(InitAnswers& answers, const SiteProfile& site) : answers_(answers), site_(site) {}

  /// Returns the next question; nullopt if none is left.
  [[nodiscard]] std::optional<InitQuestion> next();

 private:
  InitAnswers& answers_;
  const SiteProfile& site_;
  std::size_t next_index_ = 0;
};

}  // namespace dlrun
