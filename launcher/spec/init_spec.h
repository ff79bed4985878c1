#pragma once
// Writes a first spec from a few answers and the site's profile (`dlrun init`).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// Answers for a first spec. answers_with_defaults() sets some absent answers. For each other
/// absent answer, init_spec_text() writes a default that works on every cluster, a comment, or
/// nothing (`site` and `runtime`).
struct InitAnswers {
  std::optional<std::string> name, partition, account, time, mem, image, runtime, conda, venv,
      preset;
  /// The site to write into the spec. If absent, dlrun finds the site by the cluster's name.
  std::optional<std::string> site;
  std::optional<std::int64_t> nodes, tasks_per_node, cpus_per_task;
  std::optional<Gpus> gpus_per_node;
  std::vector<std::string> modules, command;
};

/// Sets missing answers: the name "hello", one node, the partition's GPUs (one MIG slice if they
/// are divided into slices), and a time of one hour, or the partition's time limit if that is
/// shorter. Converts the name of an image in a registry to the form that the runtime expects.
[[nodiscard]] InitAnswers answers_with_defaults(InitAnswers answers, const SiteProfile& site);

/// Returns the container runtime of the answers. If they have none or "auto", returns the site's
/// runtime, which may be "none".
[[nodiscard]] std::string runtime_of(const InitAnswers& answers, const SiteProfile& site);

/// Returns the spec's text: the answers with short remarks, and as comments the keys that users
/// often add next. completed: the result of answers_with_defaults(). The text loads without errors
/// or warnings if the answers are valid and within the site's limits.
[[nodiscard]] std::string init_spec_text(const InitAnswers& completed, const SiteProfile& site);

}  // namespace dlrun
