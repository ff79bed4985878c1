#pragma once
// The first spec of a user (`dlrun init`): made from answers or from a job script, checked like
// every spec, and written.

#include <filesystem>
#include <string>
#include <vector>

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

/// A job script from which a spec is made (`dlrun init --from`).
struct ScriptSource {
  std::string file;                  ///< the script, relative to the current folder
  std::string site;                  ///< the site to write into the spec; empty: none
  std::vector<std::string> command;  ///< the program and its arguments; empty: the script's
};

/// Returns the text of the spec. Runs nothing of the script. Reports each line that the spec does
/// not have, and the warnings of the spec. Fails as require_site(), read_untrusted() and
/// import_script() do. file: the name of the spec in messages.
[[nodiscard]] Result<std::string> import_first_spec(const Context& context, Reporter& reporter,
                                                    const ScriptSource& source,
                                                    const std::string& file);

/// Writes the spec to a file, relative to the current folder. Fails with kUsage if the file exists,
/// unless `force` is set.
[[nodiscard]] Result<> write_first_spec(const Context& context, const std::string& file,
                                        const std::string& text, bool force);

}  // namespace dlrun
