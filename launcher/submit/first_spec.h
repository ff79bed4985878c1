#pragma once
// The first spec of a user (`dlrun init`): made from answers or from a job script, checked like
// every spec, and written.

#include <optional>
#include <string>

#include "launcher/spec/init_spec.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// The options of `dlrun init` that decide what the spec contains.
struct FirstSpecOptions {
  InitAnswers answers;
  std::optional<std::string> gpus, nodes, tasks, cpus;  ///< answers that are not parsed yet
  std::string from;                                     ///< a job script; empty: none
};

/// Returns the answers, with the parsed numbers. Fails with kUsage if a number is wrong.
[[nodiscard]] Result<InitAnswers> answers_of(const FirstSpecOptions& options);

/// Returns the text of the spec. Reports the problems of the answers, and fails with kInvalid if
/// one is an error, such as an answer that exceeds the site's limits. Fails with kUsage if there is
/// an image and no container runtime, or if the program is a job script with #SBATCH lines. file:
/// the name of the spec in messages.
[[nodiscard]] Result<std::string> make_first_spec(const Context& context, Reporter& reporter,
                                                  InitAnswers answers, const SiteProfile& site,
                                                  const std::string& file);

/// Returns the text of the spec that is made from the job script options.from, which is relative to
/// the current folder; only the site and the command of the answers replace those of the script.
/// Runs nothing of the script. Reports each line of the script that the spec cannot express, and
/// the warnings of the spec. Fails with kUsage if any other answer is given, and as require_site(),
/// read_untrusted() and import_script() do. file: the name of the spec in messages.
[[nodiscard]] Result<std::string> import_first_spec(const Context& context, Reporter& reporter,
                                                    const FirstSpecOptions& options,
                                                    const std::string& file);

/// Writes the spec to a file, relative to the current folder. Fails with kUsage if the file exists,
/// unless `force` is set.
[[nodiscard]] Result<> write_first_spec(const Context& context, const std::string& file,
                                        const std::string& text, bool force);

}  // namespace dlrun
