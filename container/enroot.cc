// enroot without pyxis. Every node makes the container once, before the ranks start, and holds it until the job is
// over; every task enters it with `enroot start`, which takes nothing of the task's environment along but what it is
// told by name.
//
// enroot reads mounts as lines of an fstab and variables as lines of a file: a value of several lines, or within
// quotes, does not arrive, so such values travel with the rank agent (carries()).

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "container/backends.h"
#include "container/image_name.h"
#include "container/mounts.h"

namespace dlrun {
namespace {

/// What a task may pass on besides the variables that the job names: Slurm's, MPI's, the agent's, and the devices'.
constexpr std::array<std::string_view, 11> kPassedOn{"SLURM*",
                                                     "PMI*",
                                                     "DLRUN_*",
                                                     "OMPI_*",
                                                     "UCX_*",
                                                     "NCCL_*",
                                                     "GLOO_*",
                                                     "CUDA_VISIBLE_DEVICES",
                                                     "NVIDIA_*",
                                                     "GPU_DEVICE_ORDINAL",
                                                     "ROCR_VISIBLE_DEVICES"};

[[nodiscard]] bool is_passed_on(std::string_view name) {
  return std::any_of(kPassedOn.begin(), kPassedOn.end(), [&](std::string_view pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
  });
}

/// The patterns of a shell's case.
[[nodiscard]] std::string passed_on(const std::vector<std::string>& job_names) {
  std::string text;
  for (const std::string_view pattern : kPassedOn) text += (text.empty() ? "" : " | ") + std::string(pattern);
  for (const std::string& name : job_names) {
    if (!is_passed_on(name)) text += " | " + name;
  }
  return text;
}

constexpr std::string_view kHold = R"sh(hold_container() { # IMAGE
  local name=@NAME@ jobs old
  trap 'kill -- "-$!" 2>/dev/null; wait; enroot remove --force "$name"; exit 143' TERM
  # What is left of jobs that were killed before they could remove it, and of this one's last attempt.
  if jobs=$(squeue --noheader --user="$(id -u)" --states=PD,CF,R,S,ST,CG --format=%A); then
    for old in $(enroot list </dev/null); do
      if [[ $old =~ ^dlrun-([0-9]+)-"$SLURMD_NODENAME"$ ]]; then
        if [[ $old == "$name" ]] || ! grep -qx "${BASH_REMATCH[1]}" <<<"$jobs"; then enroot remove --force "$old" </dev/null || true; fi
      fi
    done
  fi
  set -m # a process group of its own, to be ended whole
  enroot create --name "$name" "$1" </dev/null >&2 &
  set +m
  if ! wait "$!"; then
    enroot remove --force "$name" </dev/null >/dev/null 2>&1
    echo "failed on $SLURMD_NODENAME" && exit 1
  fi
  trap 'true' TERM
  echo ready
  cat <&0 >/dev/null & # until the job's last program has ended, or TERM
  wait "$!" || kill "$!" 2>/dev/null
  # Ranks may still be saving.
  while scontrol listpids "$SLURM_JOB_ID" | grep -Eqv "^ *(PID|[0-9]+ +[0-9]+ +($SLURM_STEP_ID|batch|extern|interactive) )"; do sleep 0.5; done
  enroot remove --force "$name"
}
)sh";

/// A container with a name stays for later jobs, and may be another's that starts on the node at the same time.
constexpr std::string_view kHoldNamed = R"sh(hold_container() { # IMAGE
  local name=@NAME@ locks=/tmp/dlrun-$UID
  mkdir -m 700 "$locks" 2>/dev/null || true
  if [[ ! -O $locks || -L $locks ]]; then echo "failed: $locks on $SLURMD_NODENAME is not yours" && exit 1; fi
  exec 9>"$locks/container-$name"
  flock 9
  if ! enroot list </dev/null | grep -Fqx -- "$name" && ! enroot create --name "$name" "$1" </dev/null >&2; then
    enroot remove --force "$name" </dev/null >/dev/null 2>&1
    echo "failed on $SLURMD_NODENAME" && exit 1
  fi
  exec 9>&-
  echo ready
}
)sh";

/// Runs in place of the image's entry point. In a file, since enroot closes every descriptor beyond the third.
constexpr std::string_view kCommandAlone = R"sh(
  # The command alone is started, not the image's entry point: container.entrypoint.
  local dlrun_own=/tmp/dlrun-$UID
  mkdir -m 700 "$dlrun_own" 2>/dev/null || true
  if [[ ! -O $dlrun_own || -L $dlrun_own ]]; then echo "dlrun: $dlrun_own on $SLURMD_NODENAME is not yours" >&2 && exit 1; fi
  if [[ ! -s $dlrun_own/rc ]]; then echo 'exec "$@"' >"$dlrun_own/rc.$$" && mv "$dlrun_own/rc.$$" "$dlrun_own/rc"; fi
  dlrun_options+=(--rc "$dlrun_own/rc"))sh";

constexpr std::string_view kEnter = R"sh(enter_container() { # ENROOT-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_options=()@RC@
  export ENROOT_MOUNT_HOME=@HOME@ ENROOT_REMAP_ROOT=@ROOT@ ENROOT_ROOTFS_WRITABLE=@WRITABLE@  # container.mount_home, remap_root, writable
  # The host's files that say this to PMIx are not in the image.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Each task has a user namespace of its own: none may read another's memory.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot takes nothing of the task's environment along but what is named.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    @PASSED@) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task's own MPI server.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" @NAME@ "${@:2}"
}
)sh";

constexpr std::string_view kBatch = R"sh(coproc dlrun_holders {
  # The job's own wishes for GPUs, which srun reads in its environment, would contradict --gres=none.
  unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK
  exec srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 \
    --mem=0 --gres=none --mpi=none --export=ALL bash -c "$(declare -f hold_container); hold_container \"\$@\"" hold_container "$dlrun_image"
}
# Their standard input stays open until the job's last program ends: opened anew, since a copy would be closed by exec.
# shellcheck disable=SC2034
exec {dlrun_made_on}<&"${dlrun_holders[0]}" {dlrun_held}>"/proc/self/fd/${dlrun_holders[1]}"
for ((dlrun_node = 0; dlrun_node < SLURM_JOB_NUM_NODES; dlrun_node++)); do
  dlrun_made=''
  read -r -u "$dlrun_made_on" dlrun_made || dlrun_made='srun ended'
  if [[ $dlrun_made != ready ]]; then echo "dlrun: the container could not be made: $dlrun_made" >&2 && exit 1; fi
done
exec {dlrun_made_on}<&-
)sh";

constexpr std::string_view kSession = R"sh(trap 'exit 129' HUP
trap 'exit 143' TERM
trap 'enroot remove --force @NAME@' EXIT
enroot create --name @NAME@ "$dlrun_image" </dev/null >&2
)sh";
constexpr std::string_view kSessionNamed = "(hold_container \"$dlrun_image\") >&2\n";

/// What an image is that is no path of a .sqsh file, and what to do.
[[nodiscard]] std::string instead(std::string_view image) {
  const bool is_file = image.find("://") == std::string_view::npos;
  if (is_file && image.ends_with(".sif")) return fmt::format("and '{}' is apptainer's", printable(image));
  if (is_file && image.ends_with(".sqsh"))
    return fmt::format("and reads '{0}' as no path: write ./{0}", printable(image));
  if (const auto uri = enroot_uri(image); !uri) return "and " + uri.error().message;
  return fmt::format("and '{0}' is none; `dlrun container import {0}` makes one of an image in a registry",
                     printable(image));
}

class Enroot final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "enroot"; }

  [[nodiscard]] std::string_view cannot_mount() const override { return ",:\\"; }

  [[nodiscard]] bool carries(std::string_view value) const override {
    const bool is_quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'');
    return value.find('\n') == std::string_view::npos && !is_quoted;
  }

  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec& spec) const override {
    std::vector<ContainerProblem> found = mount_problems(spec, *this);
    const auto refuse = [&](const char* key, std::string message) {
      found.push_back({key, std::move(message), false});
    };
    if (spec.image && (spec.image->front() != '/' || spec.image->ends_with(".sif"))) {
      refuse("container.image",
             fmt::format("container.image: enroot without pyxis makes containers from .sqsh files, {}",
                         instead(*spec.image)));
    }
    if (!spec.image && spec.name) {
      refuse("container.name",
             "container.name: enroot without pyxis needs container.image, to make it where it is not there");
    }
    if (spec.save) {
      refuse(
          "container.save",
          "container.save: enroot without pyxis cannot save at the end of a job; give container.name and call `enroot "
          "export` on its node, or use pyxis");
    }
    return found;
  }

  [[nodiscard]] ContainerEntry entry(const ContainerStep& step) const override {
    const ContainerSpec& spec = step.spec;
    const std::string name = spec.name ? shell_quote(*spec.name) : "\"dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME\"";
    const auto fill = [&](std::string_view text) {
      return filled(text, {{"@NAME@", name},
                           {"@HOME@", spec.mount_home.value_or(false) ? "y" : "n"},
                           {"@ROOT@", spec.remap_root.value_or(false) ? "y" : "n"},
                           {"@WRITABLE@", spec.writable.value_or(false) ? "y" : "n"},
                           {"@PASSED@", passed_on(step.job_names)},
                           {"@RC@", std::string(spec.entrypoint.value_or(false) ? "" : kCommandAlone)}});
    };
    const std::string image = fmt::format("dlrun_image={}  # container.image\n", shell_quote(spec.image.value_or("")));
    const std::string hold = fill(spec.name ? kHoldNamed : kHold);
    ContainerEntry entry;
    entry.batch =
        "# container.runtime: enroot without pyxis. Every node makes the container and holds it until the job is over; "
        "every\n"
        "# task enters it.\n" +
        image + hold + fill(kEnter) + std::string(kBatch);
    entry.join = fill(kEnter);
    entry.session = image + fill(kEnter) + (spec.name ? hold + std::string(kSessionNamed) : fill(kSession));
    entry.words.push_back({"bash -c \"$(declare -f enter_container); enter_container \\\"\\$@\\\"\" enter_container",
                           "container.runtime"});
    for (const Mount& mount : all_mounts(step)) {
      std::string text = fstab_path(mount.source) + ":" + fstab_path(mount.target);
      if (!mount.flags.empty()) text += ":x-create=auto,rbind," + join(mount.flags, ",");
      entry.words.push_back(
          {"--mount " + shell_quote(text), mount.is_own ? "the run's and the agent's folders" : "container.mounts"});
    }
    entry.words.push_back({"--", ""});
    if (spec.workdir) {
      entry.words.push_back({"sh -c 'cd \"$0\" && exec \"$@\"' " + shell_quote(*spec.workdir), "container.workdir"});
    }
    return entry;
  }
};

}  // namespace

const ContainerBackend& enroot_backend() {
  static const Enroot backend;
  return backend;
}

}  // namespace dlrun
