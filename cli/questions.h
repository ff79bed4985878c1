#pragma once
// The questions of `dlrun init`.

#include <functional>
#include <iosfwd>

#include "cli/terminal/text.h"
#include "common/result.h"
#include "launcher/spec/init_spec.h"

namespace dlrun {

/// Asks for what the flags left open, each with its default in brackets; an empty line takes it,
/// and a wrong answer is asked again. Fails with kInterrupted when the input ends before the last
/// answer. say: shows text at once.
[[nodiscard]] Result<> ask_questions(InitAnswers& answers, const SiteProfile& site,
                                     std::istream& in, const std::function<void(const Text&)>& say);

}  // namespace dlrun
