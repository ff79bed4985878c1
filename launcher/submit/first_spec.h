#pragma once
// The first spec of a user (`dlrun init`): made from answers, checked like every spec, and written.

#include <filesystem>
#include <string>

#include "launcher/spec/init_spec.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Returns the text of the spec. Reports the problems of the answers, and fails with kInvalid if
/// one is an error, such as an answer that exceeds the site's limits. Fails with kUsage if there is
/// an image and no container runtime. file: the name of the spec in messages.
[[nodiscard]] Result<std::string> make_first_spec(const Context& context, Reporter& reporter,
                                                  InitAnswers answers, const SiteProfile& site,
                                                  const std::string& file);

/// Writes the spec to a file, relative to the current folder. Fails with kUsage if the file exists,
/// unless `force` is set.
[[nodiscard]] Result<> write_first_spec(const Context& context, const std::string& file,
                                        const std::string& text, bool force);

}  // namespace dlrun
