// The backend for Charliecloud (ch-run). Every task starts its own container. A container has the
// host's variables, /tmp and devices. An image is a folder, or a squashfs file if the node has
// FUSE.
//
// dlrun supports ch-run from version 0.31 on. A mount needs a mount point in the image. If the
// image is a folder that the user may write to, the script makes the mount point. For other images,
// the option --write-fake of ch-run (version 0.36 and later) adds a writable layer.

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "container/backends.h"
#include "container/image_name.h"
#include "container/mounts.h"
#include "container/script_template.h"

namespace dlrun {
namespace {

constexpr std::string_view kEnterCharliecloud =
    R"sh(make_mount_point() { # IMAGE SOURCE TARGET: makes TARGET in the folder IMAGE; fails if that is not possible
  local dlrun_root dlrun_point
  dlrun_root=$(realpath -- "$1") dlrun_point=$(realpath -m -- "$1$3")
  if [[ ! -d $dlrun_root || $dlrun_point != "$dlrun_root"/* ]]; then return 1; fi # IMAGE is no folder, or a link leads out of it
  if [[ -e $dlrun_point ]]; then return; fi
  if [[ -d $2 ]]; then mkdir -p -- "$dlrun_point"; else mkdir -p -- "${dlrun_point%/*}" && : >>"$dlrun_point"; fi 2>/dev/null
}
enter_container() { # IMAGE CH-RUN-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_image=$1 dlrun_options=() dlrun_from dlrun_writable=@WRITABLE@ dlrun_needs_layer=@WRITABLE@
  if ! type -P ch-run >/dev/null; then echo "dlrun: container: charliecloud (ch-run) is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi
  shift
  export USER="${USER:-$(id -un)}" # ch-run does not start without it
  # Sets the image's variables, then the job's variables, which override them. Only the names of variables are on the command line, because other users can read command lines.
  if [[ ! -d $dlrun_image || -e $dlrun_image/ch/environment ]]; then dlrun_options+=(--set-env); fi
  for dlrun_name in @NAMES@; do
    if [[ -v $dlrun_name ]]; then
      export "DLRUN_KEPT_$dlrun_name=${!dlrun_name}"
      dlrun_options+=("--set-env=$dlrun_name=\$DLRUN_KEPT_$dlrun_name")
    fi
  done
  dlrun_options+=('--unset-env=DLRUN_KEPT_*')
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then set -- "--bind=${PMIX_SERVER_TMPDIR%/*}:${PMIX_SERVER_TMPDIR%/*}" "$@"; fi
  while [[ $1 != -- ]]; do
    dlrun_options+=("$1")
    if [[ $1 == --bind=* ]]; then
      dlrun_from=${1#--bind=}
      make_mount_point "$dlrun_image" "${dlrun_from%:*}" "${dlrun_from##*:}" || dlrun_needs_layer=y
    fi
    shift
  done
  if [[ $dlrun_needs_layer == y && $(ch-run --help 2>&1) == *--write-fake* ]]; then
    dlrun_options+=(--write-fake)
  elif [[ $dlrun_writable == y ]]; then
    echo "dlrun: container: container.writable needs charliecloud 0.36 or newer; $SLURMD_NODENAME has $(ch-run --version 2>&1)" >&2 && exit 127
  fi
  exec ch-run "${dlrun_options[@]}" "$dlrun_image" -- "${@:2}"
}
)sh";

/// Returns the name of a registry's image in the form of ch-image: [REGISTRY/]IMAGE[:TAG].
[[nodiscard]] std::string ch_image_name(const std::string& image) {
  constexpr std::string_view kScheme = "docker://";
  const std::string name = apptainer_image_name(image);
  return name.starts_with(kScheme) ? name.substr(kScheme.size()) : name;
}

class Charliecloud final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "charliecloud"; }

  [[nodiscard]] std::vector<VersionCommand> version_commands() const override {
    return {{"ch-run", "--version"}};
  }

  [[nodiscard]] ExampleImage example_image(const std::string& name) const override {
    return {"./image", fmt::format("ch-image pull {0}; ch-convert {0} ./image", name)};
  }

  [[nodiscard]] std::string why_unusable(ImageKind kind, std::string_view) const override {
    const bool is_usable = kind == ImageKind::kFolder || kind == ImageKind::kSquashfs;
    return is_usable ? "" : "it is neither a folder nor a squashfs file";
  }

  [[nodiscard]] GpuDriverSource gpu_driver_source() const override {
    return GpuDriverSource::kInImage;
  }

  [[nodiscard]] std::string_view unmountable_characters() const override { return ":"; }

  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec& spec) const override {
    std::vector<ContainerProblem> found = mount_problems(spec, *this);
    const auto refuse = [&](std::string key, std::string message) {
      found.push_back({std::move(key), std::move(message), false});
    };
    for (std::size_t i = 0; i < spec.mounts.size(); ++i) {
      for (const std::string& flag : spec.mounts[i].flags) {
        if (flag == "rw") continue;
        refuse(fmt::format("container.mounts[{}]", i),
               fmt::format("container.mounts: charliecloud supports only the flag rw, not '{}'",
                           printable(flag)));
      }
    }
    if (spec.image && spec.image->front() != '/') {
      refuse(
          "container.image",
          fmt::format(
              "container.image: charliecloud starts from a folder or a squashfs file; "
              "write ./NAME for one that is beside the spec. `ch-image pull {0}` and `ch-convert "
              "{0} ./image` make a folder from an image in a registry",
              printable(ch_image_name(*spec.image))));
    }
    if (spec.name)
      refuse("container.name",
             "container.name: charliecloud keeps no containers; set only container.image");
    if (spec.save) {
      refuse("container.save",
             "container.save: charliecloud cannot save a container; build an image instead");
    }
    if (spec.entrypoint.value_or(false)) {
      refuse("container.entrypoint",
             "container.entrypoint: charliecloud does not run an image's entry point; name it in "
             "launch.command");
    }
    return found;
  }

  [[nodiscard]] ContainerEnterScript enter_script(const StepContainer& container) const override {
    const ContainerSpec& spec = container.spec;
    std::vector<std::string> names = container.exported_names;
    names.insert(names.end(), {"DLRUN_RUN", "DLRUN_JOB"});
    ContainerEnterScript enter_script;
    enter_script.batch = fmt::format(
        "# container.runtime: charliecloud. Every task starts its own container.\ndlrun_image={}  "
        "# "
        "container.image\n",
        shell_quote(spec.image.value_or("")));
    enter_script.batch += filled(
        kEnterCharliecloud,
        {{"@NAMES@", join(names, " ")}, {"@WRITABLE@", spec.writable.value_or(false) ? "y" : "n"}});
    enter_script.session = enter_script.attach = enter_script.batch;
    const auto add = [&](std::string text, std::string comment) {
      enter_script.words.push_back({std::move(text), std::move(comment)});
    };
    add("bash -c \"$(declare -f make_mount_point enter_container); enter_container \\\"\\$@\\\"\" "
        "enter_container "
        "\"$dlrun_image\"",
        "container.runtime");
    for (const Mount& mount : all_mounts(container)) {
      add(shell_quote("--bind=" + mount.source + ":" + mount.target),
          mount.is_from_dlrun ? "folders that dlrun mounts" : "container.mounts");
    }
    if (spec.mount_home.value_or(false)) add("--home", "container.mount_home");
    if (spec.remap_root.value_or(false)) add("--uid=0 --gid=0", "container.remap_root");
    add(shell_quote("--cd=" + spec.workdir.value_or("/")), "container.workdir");
    add("--", "");
    return enter_script;
  }
};

}  // namespace

const ContainerBackend& charliecloud_backend() {
  static const Charliecloud backend;
  return backend;
}

}  // namespace dlrun
