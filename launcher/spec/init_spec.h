#pragma once
// A first spec from a few answers and what is known of the site.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/site_profile.h"
#include "launcher/spec/spec.h"

namespace dlrun {

/// What a first spec needs. Absent: the site's, or what every cluster takes.
struct InitAnswers {
  std::optional<std::string> name, partition, account, time, mem, image, runtime, conda, venv,
      preset;
  std::optional<std::string>
      site;  ///< written into the spec; else the spec finds its site by the cluster
  std::optional<std::int64_t> nodes, tasks_per_node, cpus_per_task;
  std::optional<Gpus> gpus_per_node;
  std::vector<std::string> modules, command;
};

/// The answers with what is missing taken from the site: the partition's GPUs, its longest time
/// where that is below an hour. An image's name in a registry gets the form that the runtime takes.
[[nodiscard]] InitAnswers complete(InitAnswers answers, const SiteProfile& site);

/// What runs the image: as asked, else the site's; "none" where neither says.
[[nodiscard]] std::string runtime_of(const InitAnswers& answers, const SiteProfile& site);

/// The spec's text: the answers, each with a word about it, and the keys one wants next as
/// comments. Loads without an error and without a warning where the answers are within the site's
/// limits.
[[nodiscard]] std::string init_spec(const InitAnswers& completed, const SiteProfile& site);

}  // namespace dlrun
