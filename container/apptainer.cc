// The backend for apptainer. Every task starts its own container. By default a container has the
// host's variables, /tmp and devices. dlrun does not mount the current directory, and mounts the
// home directory only if container.mount_home is set.

#include <algorithm>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "container/backends.h"
#include "container/image_name.h"
#include "container/mounts.h"
#include "container/script_template.h"

namespace dlrun {
namespace {

constexpr std::string_view kEnterApptainer =
    R"sh(enter_container() { # IMAGE APPTAINER-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_image=$1 dlrun_options=()
  if ! type -P apptainer >/dev/null; then echo "dlrun: container: apptainer is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi
  shift
  # apptainer passes on all variables of the job. The variables below also override the image's variables.
  for dlrun_name in @NAMES@; do
    if [[ -v $dlrun_name ]]; then export "APPTAINERENV_$dlrun_name=${!dlrun_name}"; fi
  done
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--bind "$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  cd / # apptainer would mount the home directory if a task started in it
  exec apptainer @VERB@ "${dlrun_options[@]}" "$dlrun_image" "${@:2}"
}
)sh";

class Apptainer final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "apptainer"; }

  [[nodiscard]] std::vector<VersionCommand> version_commands() const override {
    return {{"apptainer", "--version"}, {"singularity", "--version"}};
  }

  [[nodiscard]] ExampleImage example_image(const std::string& name) const override {
    return {"./image.sif", fmt::format("apptainer pull image.sif docker://{}", name)};
  }

  [[nodiscard]] std::string native_image_name(const std::string& name) const override {
    return apptainer_image_name(name);
  }

  [[nodiscard]] std::string why_unusable(ImageKind kind, std::string_view path) const override {
    const bool needs_sif = kind != ImageKind::kFolder && path.ends_with(".sif");
    return needs_sif && kind != ImageKind::kSif ? "it is not a SIF file" : "";
  }

  [[nodiscard]] GpuDriverSource gpu_driver_source() const override {
    return GpuDriverSource::kByOption;
  }

  [[nodiscard]] std::string_view unmountable_characters() const override { return ",:\\"; }

  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec& spec) const override {
    std::vector<ContainerProblem> found = mount_problems(spec, *this);
    const auto add = [&](std::string key, std::string message, bool is_warning = false) {
      found.push_back({std::move(key), std::move(message), is_warning});
    };
    for (std::size_t i = 0; i < spec.mounts.size(); ++i) {
      for (const std::string& flag : spec.mounts[i].flags) {
        if (flag == "ro" || flag == "rw") continue;
        add(fmt::format("container.mounts[{}]", i),
            fmt::format("container.mounts: apptainer supports the flags ro and rw, not '{}'",
                        printable(flag)));
      }
    }
    if (spec.image) add_image_problems(*spec.image, add);
    if (!spec.image && spec.name)
      add("container.name",
          "container.name: apptainer keeps no containers; set container.image instead");
    if (spec.image && spec.name)
      add("container.name", "container.name: apptainer keeps no containers; remove container.name");
    if (spec.save)
      add("container.save",
          "container.save: apptainer cannot save a container; build an image instead");
    return found;
  }

  [[nodiscard]] ContainerEnterScript enter_script(const StepContainer& container) const override {
    const ContainerSpec& spec = container.spec;
    std::vector<std::string> names = container.exported_names;
    names.insert(names.end(), {"DLRUN_RUN", "DLRUN_JOB"});
    ContainerEnterScript enter_script;
    enter_script.batch = fmt::format(
        "# container.runtime: apptainer. Every task starts its own container.\ndlrun_image={}  # "
        "container.image\n",
        shell_quote(spec.image.value_or("")));
    enter_script.batch +=
        filled(kEnterApptainer, {{"@NAMES@", join(names, " ")},
                                 {"@VERB@", spec.entrypoint.value_or(false) ? "run" : "exec"}});
    enter_script.session = enter_script.attach = enter_script.batch;
    const auto add = [&](std::string text, std::string comment) {
      enter_script.words.push_back({std::move(text), std::move(comment)});
    };
    add("bash -c \"$(declare -f enter_container); enter_container \\\"\\$@\\\"\" enter_container "
        "\"$dlrun_image\"",
        "container.runtime");
    for (const Mount& mount : all_mounts(container)) {
      std::string text = mount.source + ":" + mount.target;
      if (!mount.flags.empty()) text += ":" + join(mount.flags, ",");
      add("--bind " + shell_quote(text),
          mount.is_from_dlrun ? "folders that dlrun mounts" : "container.mounts");
    }
    if (!spec.mount_home.value_or(false)) add("--no-home", "container.mount_home");
    if (spec.remap_root.value_or(false)) add("--fakeroot", "container.remap_root");
    if (spec.writable.value_or(false)) add("--writable-tmpfs", "container.writable");
    if (container.may_have_gpus) add("--nv", "NVIDIA's driver, where the node has one");
    add("--pwd " + shell_quote(spec.workdir.value_or("/")), "container.workdir");
    add("--", "");
    return enter_script;
  }

 private:
  template <typename Add>
  static void add_image_problems(const std::string& image, const Add& add) {
    const auto scheme = image.find("://");
    if (scheme != std::string::npos && scheme + 3 == image.size()) {
      add("container.image", fmt::format("container.image: '{}' names no image", printable(image)));
    } else if (image.starts_with("docker://") && image.find('#') != std::string::npos) {
      const std::string name = apptainer_image_name(image);
      add("container.image",
          fmt::format(
              "container.image: '#' after a registry is enroot's form; apptainer expects {}",
              name == image ? "docker://REGISTRY/IMAGE:TAG" : name));
    } else if (scheme != std::string::npos) {
      add("container.image",
          fmt::format("container.image: every task would fetch '{0}' separately; run `apptainer "
                      "pull image.sif {0}` once, and set container.image to ./image.sif",
                      printable(image)),
          true);
    } else if (image.front() != '/') {
      add("container.image",
          fmt::format("container.image: apptainer would look for the file '{}' in "
                      "its current directory; write ./FILE for a file beside "
                      "the spec, or docker://NAME for an image in a registry",
                      printable(image)));
    }
  }
};

}  // namespace

const ContainerBackend& apptainer_backend() {
  static const Apptainer backend;
  return backend;
}

}  // namespace dlrun
