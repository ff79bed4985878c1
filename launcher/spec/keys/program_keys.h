#pragma once
// A part of the key table (launcher/spec/spec_keys.h): environment, container and launch.

#include <array>
#include <string_view>

#include "common/joined.h"
#include "container/backends.h"
#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
/// The choices of container.runtime: auto, and the names of the backends.
inline constexpr auto kRuntimeChoices = [] {
  std::array<std::string_view, kContainerBackends.size() + 1> names{"auto"};
  for (std::size_t i = 0; i < kContainerBackends.size(); ++i)
    names[i + 1] = kContainerBackends[i].name;
  return names;
}();

inline constexpr KeyRow kProgramKeys[] = {
  {.path = "environment.modules.purge", FIELD(environment.modules_purge),
   .help = "With true the job calls `module purge` before it loads modules.",
   .fallback = "false", .example = "true"},
  {.path = "environment.modules.use", FIELD(environment.modules_use), .format = Format::kPath,
   .help = "The job adds these folders with `module use`.",
   .example = "[./modulefiles]"},
  {.path = "environment.modules.load", FIELD(environment.modules_load),
   .help = "The job loads these modules, in this order.",
   .example = "[GCC/8.3.0, CUDA]"},
  {.path = "environment.conda.module", FIELD(environment.conda_module),
   .help = "This module provides conda. This key needs environment.conda.name.",
   .example = "anaconda3/2021.05"},
  {.path = "environment.conda.name", FIELD(environment.conda_name), .format = Format::kMaybePath,
   .help = "The job activates this conda environment: a name or a prefix. This key cannot be "
           "combined with venv, uv, pixi, spack or eessi.",
   .example = "custom-env"},
  {.path = "environment.venv", FIELD(environment.venv), .format = Format::kPath,
   .help = "The job activates this Python virtual environment. This key cannot be combined with "
           "conda, uv or pixi.",
   .example = "./venv"},
  {.path = "environment.uv.project", FIELD(environment.uv_project), .format = Format::kPath,
   .help = "The job activates the environment of this uv project, a folder with pyproject.toml. "
           "`dlrun submit` builds the environment from uv.lock before it queues the job, once for "
           "each uv.lock. `uv: .` is short for this key. This key cannot be combined with conda, "
           "venv, pixi or container.image.",
   .example = "."},
  {.path = "environment.pixi.project", FIELD(environment.pixi_project), .format = Format::kPath,
   .help = "The job activates an environment of this pixi project, a folder with pixi.toml or "
           "pyproject.toml. `dlrun submit` installs the environment from pixi.lock before it "
           "queues the job. `pixi: .` is short for this key. This key cannot be combined with "
           "conda, venv, uv, spack, eessi or container.image.",
   .example = "."},
  {.path = "environment.pixi.environment", FIELD(environment.pixi_environment),
   .format = Format::kSlug,
   .help = "The job activates this environment of the pixi project. This key needs "
           "environment.pixi.project.",
   .fallback = "default", .example = "cuda"},
  {.path = "environment.spack", FIELD(environment.spack), .format = Format::kMaybePath,
   .help = "The job activates this Spack environment: a name or a folder. `dlrun submit` "
           "concretizes and installs the environment before it queues the job. This key cannot be "
           "combined with conda, pixi, eessi or container.image.",
   .example = "training"},
  {.path = "environment.uenv.images", FIELD(environment.uenv_images),
   .option = sbatch("--uenv", kWholeJob),
   .help = "Slurm's uenv plugin mounts these images on every node. `dlrun submit` pulls missing "
           "images before it queues the job. `uenv: [...]` is short for this key. This key cannot "
           "be combined with eessi or container.image.",
   .example = "[\"prgenv-gnu/24.11:v1\"]"},
  {.path = "environment.uenv.views", FIELD(environment.uenv_views),
   .option = sbatch("--view", kWholeJob),
   .help = "The job activates these views of the uenv images. This key needs "
           "environment.uenv.images.",
   .example = "[default]"},
  {.path = "environment.eessi", FIELD(environment.eessi), .format = Format::kSlug,
   .help = "The job uses this version of EESSI, the software in /cvmfs/software.eessi.io. "
           "environment.modules.load can then name modules of EESSI. This key cannot be combined "
           "with conda, pixi, spack, uenv or container.image.",
   .example = "\"2023.06\""},
  {.path = "environment.vars", FIELD(environment.vars), .format = Format::kLines,
   .help = "The job has these variables. dlrun replaces ${NAME} in a value at submission. "
           "Otherwise every value arrives unchanged, byte for byte.",
   .example = "{OMP_NUM_THREADS: 4}"},
  {.path = "environment.secrets", FIELD(environment.secrets),
   .help = "Only the program sees these variables. NAME takes its value from your environment at "
           "submission; {name, file} takes it from a file. The values are never in the script, in "
           "an argument, in a log or in Slurm's records.",
   .example = "[WANDB_API_KEY, {name: HF_TOKEN, file: ~/.cache/huggingface/token}]"},
  {.path = "environment.setup", FIELD(environment.setup), .format = Format::kLines,
   .help = "These shell lines run once, on the first node, before the ranks. A line that fails "
           "ends the job.",
   .example = "nvidia-smi -L"},
  {.path = "environment.setup_node", FIELD(environment.setup_node), .format = Format::kLines,
   .help = "These shell lines run once on every node before the ranks, for example to copy data to "
           "the node's own disk. A line that fails ends the job.",
   .example = "cp -r $SCRATCH/data $TMPDIR/"},

  {.path = "container.runtime", FIELD(container.runtime), .format = Format::kChoice,
   .choices = kJoined<kRuntimeChoices>,
   .help = "This tool runs the image. With `none` the job has no container.",
   .fallback = "auto: the site's tool", .example = "pyxis"},
  {.path = "container.image", FIELD(container.image), .format = Format::kImage,
   .option = container("--container-image"),
   .help = "The ranks run in this image: a path of a file (.sqsh for pyxis and enroot, .sif for "
           "apptainer, a folder or a squashfs file for charliecloud), or a name in a registry "
           "(pyxis and apptainer only). A name has the form "
           "docker://nvcr.io/nvidia/pytorch:24.05-py3; pyxis also takes enroot's form, "
           "nvcr.io#nvidia/pytorch:24.05-py3. pyxis fetches an image of a registry on every "
           "node, apptainer for every task. `dlrun container import` fetches the image once and "
           "makes a .sqsh file.",
   .example = "nvcr.io#nvidia/pytorch:24.05-py3"},
  {.path = "container.mounts", FIELD(container.mounts), .option = container("--container-mounts"),
   .help = "The container sees these folders: SOURCE:TARGET[:FLAGS], or {source, target, flags}. "
           "An absolute SOURCE alone is also the TARGET. Several FLAGS are separated by +, as in "
           "ro+nosuid. enroot and pyxis know ro, nosuid, nodev, noexec, rprivate, nofail and "
           "others; apptainer knows ro and rw; charliecloud knows only rw.",
   .example = "[./data:/data:ro]"},
  {.path = "container.workdir", FIELD(container.workdir), .format = Format::kContainerPath,
   .option = container("--container-workdir"),
   .help = "The program starts in this folder of the container.",
   .example = "/workspace"},
  {.path = "container.writable", FIELD(container.writable),
   .option = container("--container-writable"),
   .help = "With true the program can write to the image's file system.",
   .fallback = "false", .example = "true"},
  {.path = "container.mount_home", FIELD(container.mount_home),
   .option = container("--container-mount-home"),
   .help = "With true the container sees the home directory.",
   .fallback = "false", .example = "true"},
  {.path = "container.remap_root", FIELD(container.remap_root),
   .option = container("--container-remap-root"),
   .help = "With true the user is root inside the container.",
   .fallback = "false", .example = "true"},
  {.path = "container.entrypoint", FIELD(container.entrypoint),
   .option = container("--container-entrypoint"),
   .help = "With true the image's entry point runs first.",
   .fallback = "false", .example = "true"},
  {.path = "container.name", FIELD(container.name), .format = Format::kSlug,
   .option = container("--container-name"),
   .help = "The container has this name. The container stays between the steps of a job and, if "
           "the site keeps containers, between jobs. apptainer and charliecloud do not support "
           "names.",
   .example = "my-container"},
  {.path = "container.save", FIELD(container.save), .format = Format::kPath,
   .option = container("--container-save"),
   .help = "pyxis saves the container's file system to this .sqsh file at the end of the job. The "
           "job must have one node.",
   .example = "out.sqsh"},

  {.path = "launch.preset", FIELD(launch.preset), .format = Format::kSlug,
   .help = "The preset starts the program in the way that its framework expects: trainer, torch, "
           "torchrun, accelerate, deepspeed, lightning, horovod, tensorflow, jax, mpi, ray, vllm, "
           "plain, or a file in your presets folder.",
   .fallback = "plain; trainer if there is no command", .example = "torch"},
  {.path = "launch.command", FIELD(launch.command), .format = Format::kLines,
   .help = "The job runs this program with these arguments, one word per item. No shell expands "
           "them: for $NAME, * or |, write [bash, -c, '...'].",
   .example = "[python, -u, train.py, --epochs, 12]"},
  {.path = "launch.nproc_per_node", FIELD(launch.nproc_per_node), .min = 1, .max = 4096,
   .help = "The preset's own launcher (torchrun) starts this number of processes on each node. "
           "Under vllm, a server uses this number of GPUs (--tensor-parallel-size).",
   .fallback = "gpus_per_task, else the GPUs of a node (1 without GPUs)", .example = "4"},
  {.path = "launch.roles.chief", FIELD(launch.chief), .min = 0, .max = 1,
   .help = "TensorFlow: with 1 the first rank is the chief.",
   .fallback = "0: worker 0 is the chief", .example = "1"},
  {.path = "launch.roles.ps", FIELD(launch.ps), .min = 0, .max = 1e6,
   .help = "TensorFlow: this number of ranks, after the workers, are parameter servers.",
   .fallback = "0", .example = "2"},
  {.path = "launch.roles.evaluator", FIELD(launch.evaluator), .min = 0, .max = 1,
   .help = "TensorFlow: with 1 the last rank is the evaluator.",
   .fallback = "0", .example = "1"},
  {.path = "launch.mpi", FIELD(launch.mpi), .option = srun("--mpi"),
   .help = "srun uses this MPI plugin: for example pmix, pmi2 or none.",
   .fallback = "Slurm's choice; if the preset needs MPI: the site's plugin, or pmix if the site "
               "names none",
   .example = "pmix"},
  {.path = "launch.cpu_bind", FIELD(launch.cpu_bind), .option = srun("--cpu-bind"),
   .help = "srun binds ranks to CPUs in this way. This key cannot be combined with resources.hint.",
   .example = "cores"},
  {.path = "launch.gpu_bind", FIELD(launch.gpu_bind), .option = srun("--gpu-bind"),
   .help = "srun binds ranks to GPUs in this way.",
   .example = "closest"},
  {.path = "launch.agent", FIELD(launch.agent),
   .help = "With false the script needs nothing of dlrun on the nodes. The preset may then use "
           "only variables that a shell can set, and the spec must not use components, "
           "environment.secrets, stage, outputs, retry, health, profile, notify, track, sweep.pack "
           "or sweep.stop_early.",
   .fallback = "true", .example = "true"},
  {.path = "launch.srun", FIELD(launch.srun), .option = srun(),
   .help = "Other options of srun, by their long names: {unbuffered: true}.",
   .example = "{unbuffered: true}"},
};
// clang-format on

}  // namespace dlrun::keys
