// The backend for enroot without pyxis. Every node creates the container once, before the ranks
// start, and keeps the container until the job ends; a container with a name stays. Every task
// enters the container with `enroot start`, which passes on only the variables that its options
// name.
//
// enroot reads mounts as lines of an fstab, and variables as lines of a file. enroot would change a
// variable's value that contains a newline or begins with a quote, so the rank agent sets such a
// variable (carries_value()).

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "container/backends.h"
#include "container/image_name.h"
#include "container/mounts.h"
#include "container/script_template.h"

namespace dlrun {
namespace {

/// Patterns of the variables that enroot passes on to every task, besides those that the job sets:
/// variables of Slurm, MPI, the agent and the devices.
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
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : name == pattern;
  });
}

/// Returns the variables that enroot passes on, as the patterns of a shell `case`.
[[nodiscard]] std::string passed_on_patterns(const std::vector<std::string>& exported_names) {
  std::string text;
  for (const std::string_view pattern : kPassedOn)
    text += (text.empty() ? "" : " | ") + std::string(pattern);
  for (const std::string& name : exported_names) {
    if (!is_passed_on(name)) text += " | " + name;
  }
  return text;
}

/// Prints enroot's messages about a failed container to stderr and the first error among them to
/// stdout. Then deletes the file of the messages, and exits.
constexpr std::string_view kTellFailure = R"sh(tell_failure() { # MESSAGES-FILE
  local dlrun_error
  dlrun_error=$(sed -n 's/^\[ERROR\] *//p' "$1" | head -n 1)
  cat "$1" >&2
  echo "failed on $SLURMD_NODENAME: ${dlrun_error:-$(tail -n 1 "$1")}"
  rm -f "$1"
  exit 1
}
)sh";

/// The script's comments on a container that ends with the job, and on a named one, which stays.
constexpr std::string_view kCommentOnHeld =
    R"sh(# container.runtime: enroot without pyxis. Every node makes the container and holds it until the job is over; every
# task enters it.
)sh";
constexpr std::string_view kCommentOnNamed =
    R"sh(# container.runtime: enroot without pyxis. Every node without the container makes it, and it stays; every task
# enters it.
)sh";

/// The program of a holder. Each node of the job has one holder: a process that creates the job's
/// container on this node, and removes it when the job ends.
constexpr std::string_view kHoldContainer = R"sh(hold_container() { # IMAGE
  local name=@NAME@ jobs old dlrun_messages
  # scontrol lists process -1 for a step without processes. The first grep removes that line, because kill would signal all processes.
  others() { scontrol listpids "$SLURM_JOB_ID" | grep -E "^ *[0-9]" | grep -Ev "^ *[0-9]+ +[0-9]+ +($SLURM_STEP_ID|batch|extern|interactive) "; }
  dlrun_messages=$(mktemp)
  trap 'trap "" TERM; kill -- "-$!" 2>/dev/null; wait; enroot remove --force "$name"; rm -f "$dlrun_messages"; exit 143' TERM
  # Remove containers that killed jobs left behind, and the container of an earlier attempt of this job.
  if jobs=$(squeue --noheader --user="$(id -u)" --states=PD,CF,R,S,ST,CG --format=%A); then
    for old in $(enroot list </dev/null); do
      if [[ $old =~ ^dlrun-([0-9]+)-"$SLURMD_NODENAME"$ ]]; then
        if [[ $old == "$name" ]] || ! grep -qx "${BASH_REMATCH[1]}" <<<"$jobs"; then enroot remove --force "$old" </dev/null || true; fi
      fi
    done
  fi
  set -m # starts enroot in a process group of its own, which the trap ends
  enroot create --name "$name" "$1" </dev/null >"$dlrun_messages" 2>&1 &
  set +m
  if ! wait "$!"; then
    enroot remove --force "$name" </dev/null >/dev/null 2>&1
    tell_failure "$dlrun_messages"
  fi
  rm -f "$dlrun_messages"
  trap '@ON_TERM@' TERM
  echo ready
  cat <&0 >/dev/null & # ends after the job's last program; TERM interrupts the wait
  wait "$!" || kill "$!" 2>/dev/null
  # Programs of the job may still be ending.
  while others >/dev/null; do sleep 0.5; done
  # Slurm may send TERM to enroot, too, which would then leave a part of the container.
  trap '' TERM
  enroot remove --force "$name"
}
)sh";

/// Commands that a holder runs on SIGTERM: none in a job, because the ranks' agents end the job's
/// programs. The programs of an interactive session have no agent, so kOnTermOfSession ends them.
constexpr std::string_view kOnTerm = "true";
constexpr std::string_view kOnTermOfSession =
    R"sh(trap "" TERM; others | sed "s/^ *//;s/ .*//" | xargs --no-run-if-empty kill -HUP; enroot remove --force "$name"; exit 143)sh";

/// The variant of kHoldContainer for a named container, which stays for later jobs: creates it, and
/// then ends without holding anything. Another job may create the same container at the same time,
/// on this node or on a node that shares enroot's data directory. Therefore the lock file is in the
/// data directory. The script reads the path of that directory from an error message of enroot,
/// because enroot prints the path nowhere else.
constexpr std::string_view kCreateNamedContainer = R"sh(hold_container() { # IMAGE
  local name=@NAME@ dlrun_data dlrun_messages dlrun_making
  dlrun_messages=$(mktemp)
  enroot remove --force dlrun-no-such-container </dev/null >"$dlrun_messages" 2>&1 || true
  dlrun_data=$(sed -n 's|^[^/]*\(/.*\)/dlrun-no-such-container$|\1|p' "$dlrun_messages")
  if [[ ! -d $dlrun_data ]]; then tell_failure "$dlrun_messages"; fi
  dlrun_making=$dlrun_data/.dlrun-making-$name
  if ! exec 9>"$dlrun_data/.dlrun-lock-$name" || ! flock 9 2>"$dlrun_messages"; then tell_failure "$dlrun_messages"; fi
  # Remove the half-made container of a job that was killed.
  if [[ -e $dlrun_making ]]; then enroot remove --force "$name" </dev/null >/dev/null 2>&1 || true; fi
  if ! enroot list </dev/null | grep -Fqx -- "$name"; then
    : >"$dlrun_making"
    if ! enroot create --name "$name" "$1" </dev/null >"$dlrun_messages" 2>&1; then
      enroot remove --force "$name" </dev/null >/dev/null 2>&1
      rm -f "$dlrun_making"
      tell_failure "$dlrun_messages"
    fi
  fi
  rm -f "$dlrun_making" "$dlrun_messages"
  exec 9>&-
  echo ready
}
)sh";

/// Makes the configuration for `enroot start`. The image's start-up script /etc/rc changes to the
/// image's working directory and then runs /etc/rc.local, which can run the command instead of the
/// entry point. A hook in the configuration writes /etc/rc.local. The configuration is in a file,
/// because enroot closes all descriptors above 2.
constexpr std::string_view kMakeConfiguration = R"sh(
  # container.entrypoint: the command @ENTRY@.
  local dlrun_own=/tmp/dlrun-$UID dlrun_conf
  mkdir -m 700 "$dlrun_own" 2>/dev/null || true
  if [[ ! -O $dlrun_own || -L $dlrun_own ]]; then echo "dlrun: container: $dlrun_own on $SLURMD_NODENAME is not yours" >&2 && exit 1; fi
  dlrun_conf=$dlrun_own/@CONF@
  if [[ ! -s $dlrun_conf ]]; then
    printf '%s\n' 'hooks() {' '  local rc=$ENROOT_ROOTFS/etc/rc.local own='\''exec "$@"'\''' @LINE@ '}' >"$dlrun_conf.$$" && mv "$dlrun_conf.$$" "$dlrun_conf"
  fi
  # enroot reads this configuration only for this start
  dlrun_options+=(--conf "$dlrun_conf"))sh";

constexpr std::string_view kEnterEnroot = R"sh(enter_container() { # ENROOT-OPTIONS... -- COMMAND...
  local dlrun_name dlrun_options=()
  if ! type -P enroot >/dev/null; then echo "dlrun: container: enroot is not installed on $SLURMD_NODENAME" >&2 && exit 127; fi@CONFIGURATION@@SAVE@
  export ENROOT_MOUNT_HOME=@HOME@ ENROOT_REMAP_ROOT=@ROOT@ ENROOT_ROOTFS_WRITABLE=@WRITABLE@  # container.mount_home, remap_root, writable
  # The image lacks the host's configuration of PMIx, so these variables select the same modules.
  if [[ -v PMIX_SECURITY_MODE ]]; then export PMIX_MCA_psec="${PMIX_MCA_psec:-$PMIX_SECURITY_MODE}"; fi
  if [[ -v PMIX_GDS_MODULE ]]; then export PMIX_MCA_gds="${PMIX_MCA_gds:-$PMIX_GDS_MODULE}"; fi
  if [[ -v PMIX_PTL_MODULE ]]; then export PMIX_MCA_ptl="${PMIX_MCA_ptl:-$PMIX_PTL_MODULE}"; fi
  # Tasks in separate user namespaces cannot read each other's memory: Open MPI 4 would wait forever for large messages.
  export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  # enroot passes on only the variables that --env names.
  for dlrun_name in $(compgen -e); do
    case $dlrun_name in
    @PASSED@) dlrun_options+=(--env "$dlrun_name") ;;
    esac
  done
  # The task reaches its PMIx server through this directory.
  if [[ -d ${PMIX_SERVER_TMPDIR:-} ]]; then dlrun_options+=(--mount "$PMIX_SERVER_TMPDIR:$PMIX_SERVER_TMPDIR"); fi
  while [[ $1 != -- ]]; do dlrun_options+=("$1") && shift; done
  exec enroot start "${dlrun_options[@]}" @NAME@ "${@:2}"
}
)sh";

/// Starts a step with one holder on each node, and waits until each holder has created its
/// container.
constexpr std::string_view kStartHolders = R"sh(coproc dlrun_holders {
  # srun reads the job's GPU requests from these variables, and they would contradict --gres=none.
  unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK
  exec srun --overlap @WHERE@ --cpus-per-task=1 \
    --mem=0 --gres=none --mpi=none --export=ALL bash -c "$(declare -f tell_failure hold_container); hold_container \"\$@\"" hold_container "$dlrun_image"
}
# Keeps the holders' standard input open until the job's last program ends. Opens it anew through /proc: bash closes copies of a coprocess's descriptors when the script calls exec.
# shellcheck disable=SC2034
exec {dlrun_made_on}<&"${dlrun_holders[0]}" {dlrun_held}>"/proc/self/fd/${dlrun_holders[1]}"
for ((dlrun_node = 0; dlrun_node < @COUNT@; dlrun_node++)); do
  dlrun_made=''
  read -r -u "$dlrun_made_on" dlrun_made || dlrun_made='srun ended'
  if [[ $dlrun_made != ready ]]; then
    # shellcheck disable=SC2034
    dlrun_container_error=$dlrun_made
    echo "dlrun: the container could not be made: $dlrun_made" >&2 && exit 1
  fi
done
exec {dlrun_made_on}<&-
)sh";
constexpr std::string_view kOnAllNodes =
    "--nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=\"$SLURM_JOB_NUM_NODES\" --ntasks-per-node=1";
constexpr std::string_view kOnThisNode = "--nodes=1 --ntasks=1 --nodelist=\"$SLURMD_NODENAME\"";

/// Bash line of an interactive session that creates the named container on the session's node.
constexpr std::string_view kCreateInSession = "(hold_container \"$dlrun_image\") >&2\n";

/// kSaveVariables saves the job's variables, and kRestoreVariables restores them after the entry
/// point, which may have changed them.
constexpr std::string_view kSaveVariables = R"sh(
  for dlrun_name in @NAMES@; do
    if [[ -v $dlrun_name ]]; then export "DLRUN_KEPT_$dlrun_name=${!dlrun_name}"; fi
  done)sh";
constexpr std::string_view kRestoreVariables =
    R"sh(for n in @NAMES@; do eval "[ -z \"\${DLRUN_KEPT_$n+x}\" ] || { export $n=\"\$DLRUN_KEPT_$n\"; unset DLRUN_KEPT_$n; }"; done; exec "$@")sh";

/// Returns the bash lines that make the configuration: with the image's entry point, or with the
/// command alone.
[[nodiscard]] std::string make_configuration(bool has_entrypoint) {
  // The content of entry-point.conf and of command-alone.conf must never change, because another
  // version of dlrun may use the same file at the same time.
  constexpr std::string_view kCommandAlone =
      R"sh('  [ "$(cat "$rc" 2>/dev/null)" = "$own" ] || { mkdir -p "${rc%/*}" && echo "$own" >"$rc"; }')sh";
  constexpr std::string_view kWithEntryPoint =
      R"sh('  [ "$(cat "$rc" 2>/dev/null)" != "$own" ] || : >"$rc"')sh";
  return filled(kMakeConfiguration,
                {{"@ENTRY@", has_entrypoint ? "is passed to the image's entry point"
                                            : "runs instead of the image's entry point"},
                 {"@CONF@", has_entrypoint ? "entry-point.conf" : "command-alone.conf"},
                 {"@LINE@", std::string(has_entrypoint ? kWithEntryPoint : kCommandAlone)}});
}

/// Returns the end of a message about an image that dlrun does not read as the path of a .sqsh
/// file: why not, and the remedy if there is one.
[[nodiscard]] std::string why_not_sqsh(std::string_view image) {
  const bool is_file = image.find("://") == std::string_view::npos;
  if (is_file && image.ends_with(".sif"))
    return fmt::format("and '{}' is an image of apptainer", printable(image));
  if (is_file && image.ends_with(".sqsh"))
    return fmt::format("and does not read '{0}' as a path; write ./{0}", printable(image));
  if (const auto uri = enroot_uri(image); !uri) return "and " + uri.error().message;
  return fmt::format(
      "and '{0}' is not one; `dlrun container import {0}` makes one from an image in a registry",
      printable(image));
}

class Enroot final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "enroot"; }

  [[nodiscard]] std::vector<VersionCommand> version_commands() const override {
    return {{"enroot", "version"}};
  }

  [[nodiscard]] ExampleImage example_image(const std::string& name) const override {
    const auto slash = name.find('/');
    return {"./image.sqsh", fmt::format("enroot import -o image.sqsh docker://{}#{}",
                                        name.substr(0, slash), name.substr(slash + 1))};
  }

  [[nodiscard]] std::string_view unmountable_characters() const override { return ",:\\"; }

  [[nodiscard]] bool carries_value(std::string_view value) const override {
    const bool begins_with_quote =
        value.size() >= 2 && (value.front() == '"' || value.front() == '\'');
    return value.find('\n') == std::string_view::npos && !begins_with_quote;
  }

  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec& spec) const override {
    std::vector<ContainerProblem> found = mount_problems(spec, *this);
    const auto refuse = [&](const char* key, std::string message) {
      found.push_back({key, std::move(message), false});
    };
    if (spec.image && (spec.image->front() != '/' || spec.image->ends_with(".sif"))) {
      refuse(
          "container.image",
          fmt::format("container.image: enroot without pyxis makes containers from .sqsh files, {}",
                      why_not_sqsh(*spec.image)));
    }
    if (!spec.image && spec.name) {
      refuse("container.name",
             "container.name: enroot without pyxis needs container.image, to create the "
             "container on nodes that do not have it");
    }
    if (spec.save) {
      refuse("container.save",
             "container.save: enroot without pyxis cannot save at the end of a job; give "
             "container.name and call `enroot export` on the container's node, or use pyxis");
    }
    return found;
  }

  [[nodiscard]] ContainerEnterScript enter_script(const StepContainer& container) const override {
    const ContainerSpec& spec = container.spec;
    const std::string name =
        spec.name ? shell_quote(*spec.name) : "\"dlrun-$SLURM_JOB_ID-$SLURMD_NODENAME\"";
    const bool has_entrypoint = spec.entrypoint.value_or(false);
    const std::string saved_variables = has_entrypoint ? join(container.exported_names, " ") : "";
    const auto fill = [&](std::string_view text, bool is_session = false) {
      return filled(text, {{"@NAME@", name},
                           {"@HOME@", spec.mount_home.value_or(false) ? "y" : "n"},
                           {"@ROOT@", spec.remap_root.value_or(false) ? "y" : "n"},
                           {"@WRITABLE@", spec.writable.value_or(false) ? "y" : "n"},
                           {"@PASSED@", passed_on_patterns(container.exported_names)},
                           {"@CONFIGURATION@", make_configuration(has_entrypoint)},
                           {"@SAVE@", saved_variables.empty()
                                          ? ""
                                          : filled(kSaveVariables, {{"@NAMES@", saved_variables}})},
                           {"@ON_TERM@", std::string(is_session ? kOnTermOfSession : kOnTerm)},
                           {"@WHERE@", std::string(is_session ? kOnThisNode : kOnAllNodes)},
                           {"@COUNT@", is_session ? "1" : "SLURM_JOB_NUM_NODES"}});
    };
    const std::string image =
        fmt::format("dlrun_image={}  # container.image\n", shell_quote(spec.image.value_or("")));
    const std::string_view hold = spec.name ? kCreateNamedContainer : kHoldContainer;
    ContainerEnterScript enter_script;
    enter_script.batch = std::string(spec.name ? kCommentOnNamed : kCommentOnHeld) + image +
                         std::string(kTellFailure) + fill(hold) + fill(kEnterEnroot) +
                         fill(kStartHolders);
    enter_script.reports_failure = true;
    enter_script.attach = fill(kEnterEnroot);
    enter_script.session = image + fill(kEnterEnroot) + std::string(kTellFailure) +
                           fill(hold, true) +
                           (spec.name ? std::string(kCreateInSession) : fill(kStartHolders, true));
    enter_script.words.push_back(
        {"bash -c \"$(declare -f enter_container); enter_container \\\"\\$@\\\"\" enter_container",
         "container.runtime"});
    for (const Mount& mount : all_mounts(container)) {
      std::string text = escaped_for_fstab(mount.source) + ":" + escaped_for_fstab(mount.target);
      if (!mount.flags.empty()) text += ":x-create=auto,rbind," + join(mount.flags, ",");
      enter_script.words.push_back(
          {"--mount " + shell_quote(text),
           mount.is_from_dlrun ? "folders that dlrun mounts" : "container.mounts"});
    }
    enter_script.words.push_back({"--", ""});
    if (!saved_variables.empty()) {
      enter_script.words.push_back(
          {fmt::format("sh -c {} sh",
                       shell_quote(filled(kRestoreVariables, {{"@NAMES@", saved_variables}}))),
           "container.entrypoint: the job's variables override the entry point's"});
    }
    if (spec.workdir) {
      enter_script.words.push_back(
          {"sh -c 'cd \"$0\" && exec \"$@\"' " + shell_quote(*spec.workdir), "container.workdir"});
    }
    return enter_script;
  }
};

}  // namespace

const ContainerBackend& enroot_backend() {
  static const Enroot backend;
  return backend;
}

}  // namespace dlrun
