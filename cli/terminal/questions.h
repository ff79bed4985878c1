#pragma once
// Asks the questions of `dlrun init`.

#include <functional>
#include <iosfwd>

#include "cli/terminal/printed_text.h"
#include "common/result.h"
#include "launcher/spec/init_spec.h"

namespace dlrun {

/// Asks for each answer that no flag sets, with the default in brackets. An empty line means the
/// default. Repeats a question after an invalid answer. Fails with kInterrupted if the input ends
/// before the last answer. say: prints text and flushes it.
[[nodiscard]] Result<> ask_questions(InitAnswers& answers, const SiteProfile& site,
                                     std::istream& in, const std::function<void(const Text&)>& say);

}  // namespace dlrun
