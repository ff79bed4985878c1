#pragma once
// Asks the questions of `dlrun init`, and questions that the user answers with yes or no.

#include <functional>
#include <iosfwd>
#include <string_view>

#include "cli/terminal/printed_text.h"
#include "common/result.h"
#include "launcher/spec/init_spec.h"

namespace dlrun {

/// Asks for each answer that no option sets, and shows the default in brackets. An empty line means
/// the default. Repeats a question after an invalid answer. Fails with kInterrupted if the input
/// ends before the last answer. say: prints text and flushes it.
[[nodiscard]] Result<> ask_questions(InitAnswers& answers, const SiteProfile& site,
                                     std::istream& in, const std::function<void(const Text&)>& say);

/// Asks a question that is answered with y or n. Returns true for "y", "Y" and "yes". Every other
/// line, and the end of the input, mean no. say: prints text and flushes it.
[[nodiscard]] bool ask_yes_or_no(std::string_view question, std::istream& in,
                                 const std::function<void(const Text&)>& say);

}  // namespace dlrun
