// Checks of download, stage and outputs.

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/validator.h"

namespace dlrun {

void Validator::check_data() {
  check_download_section();
  if (!spec_.launch.agent.value_or(true)) {
    if (!spec_.stage.empty())
      error("launch.agent"_key,
            "launch.agent: false: only the agent can copy data to nodes (stage)");
    if (!spec_.outputs.empty())
      error("launch.agent"_key,
            "launch.agent: false: only the agent can copy data from nodes (outputs)");
  }
  if (container_runtime(spec_, site_) != "none") warn_of_unmounted_data_paths();
}

void Validator::check_download_section() {
  const bool has_files = !spec_.download.files.empty();
  if (has_files && !has("download.path"_key))
    error("download.files"_key,
          "download.files: download.path is missing; set it to the folder for the files");
  if (!has_files && has("download.path"_key) && !refused_.contains("download.files"_key))
    error("download.path"_key, "download.path: download.files is missing; list the files to fetch");
  const bool has_same_folder = preset_.is_trainer && !spec_.train.downloads.empty() &&
                               spec_.download.path && spec_.download.path == spec_.train.data_path;
  if (has_files && has_same_folder)
    error("download.path"_key,
          "download.path and train.data.path are the same folder; list all its files in "
          "train.data.download");
}

void Validator::warn_of_unmounted_data_paths() {
  const auto is_mounted = [&](std::string_view variable) {
    return std::any_of(spec_.environment.vars.begin(), spec_.environment.vars.end(),
                       [&](const auto& entry) {
                         return entry.first == variable &&
                                std::any_of(spec_.container.mounts.begin(),
                                            spec_.container.mounts.end(), [&](const Mount& mount) {
                                              return entry.second == mount.target ||
                                                     entry.second.starts_with(mount.target + "/");
                                            });
                       });
  };
  // subject_and_verb: the start of "... in the container's own file system", such as "the copies
  // are".
  const auto warn_unless_mounted = [&](const std::string& key, std::string_view path,
                                       std::string_view subject_and_verb) {
    const auto variable = path.substr(1, path.find('/') - 1);
    if (is_mounted(variable)) return;
    warn(key,
         fmt::format(
             "{}: the agent copies inside the container; unless ${} is a folder of the node "
             "that is mounted in the container, {} in the container's own file system. Set {} in "
             "environment.vars to a folder of container.mounts",
             key, variable, subject_and_verb, variable));
  };
  for (std::size_t i = 0; i < spec_.stage.size(); ++i)
    warn_unless_mounted(fmt::format("stage[{}]", i), spec_.stage[i].to, "the copies are");
  for (std::size_t i = 0; i < spec_.outputs.size(); ++i)
    warn_unless_mounted(fmt::format("outputs[{}]", i), spec_.outputs[i].from,
                        "the program's files are");
}

}  // namespace dlrun
