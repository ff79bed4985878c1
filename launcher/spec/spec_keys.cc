#include "launcher/spec/spec_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/joined.h"
#include "common/text.h"
#include "container/backends.h"
#include "launcher/spec/slurm_units.h"

namespace dlrun {
namespace {

// clang-format off
#define FIELD(member) .field = +[](JobSpec& s) -> decltype((s.member)) { return s.member; }

constexpr double kMany = 1e9;

constexpr auto kContainerRuntimes = [] {
  std::array<std::string_view, kContainerBackends.size() + 1> names{"auto"};
  for (std::size_t i = 0; i < kContainerBackends.size(); ++i)
    names[i + 1] = kContainerBackends[i].name;
  return names;
}();

constexpr KeyRow kKeys[] = {
  {.path = "name", FIELD(name), .format = Format::kSlug, .option = "--job-name",
   .help = "The run and its Slurm job have this name.",
   .fallback = "the file's name without its ending", .example = "mnist-mlp"},
  {.path = "site", FIELD(site), .format = Format::kSlug,
   .help = "The site file NAME.yaml with this name describes the cluster. `dlrun site list` shows "
           "all names.",
   .fallback = "$DLRUN_SITE, else the site of this cluster, else 'generic'", .example = "juwels"},
  {.path = "base", FIELD(base), .format = Format::kPath,
   .help = "This spec inherits from another one: maps merge, lists and values replace. `KEY: null` removes an inherited value.",
   .example = "../common.yaml"},

  // resources: in the order of the script's #SBATCH lines
  {.path = "resources.clusters", FIELD(resources.clusters), .option = "--clusters",
   .help = "The job runs on this Slurm cluster (sbatch -M).",
   .example = "inter"},
  {.path = "resources.partition", FIELD(resources.partition), .option = "--partition",
   .help = "The job runs in this partition, or in one of several that commas separate.",
   .example = "develgpus"},
  {.path = "resources.account", FIELD(resources.account), .option = "--account",
   .help = "Slurm charges the job to this account.",
   .fallback = "$SBATCH_ACCOUNT", .example = "proj-1"},
  {.path = "resources.qos", FIELD(resources.qos), .option = "--qos",
   .help = "The job has this quality of service (QOS).",
   .example = "high"},
  {.path = "resources.reservation", FIELD(resources.reservation), .option = "--reservation",
   .help = "The job runs in this reservation.",
   .example = "course"},
  {.path = "resources.nodes", FIELD(resources.nodes), .option = "--nodes",
   .help = "The job runs on this number of nodes: 2, or \"2-4\" for Slurm's range.",
   .fallback = "1, or Slurm's choice if ntasks is given", .example = "2"},
  {.path = "resources.spare_nodes", FIELD(resources.spare_nodes), .min = 1, .max = 1e6,
   .help = "The job allocates this number of nodes beyond resources.nodes. A spare node is idle "
           "until a node is lost. The next attempt then runs on the spare node, with the same "
           "number of ranks (retry.on: node_failure). The cost of the job includes spare nodes.",
   .fallback = "0", .example = "1"},
  {.path = "resources.ntasks", FIELD(resources.ntasks), .min = 1, .max = kMany,
   .option = "--ntasks",
   .help = "The whole job has this number of ranks.",
   .example = "8"},
  {.path = "resources.tasks_per_node", FIELD(resources.tasks_per_node), .min = 1, .max = 1e6,
   .option = "--ntasks-per-node",
   .help = "Ranks on each node. Slurm calls a rank a task.",
   .fallback = "gpus_per_node, or 1", .example = "4"},
  {.path = "resources.cpus_per_task", FIELD(resources.cpus_per_task), .min = 1, .max = 1e6,
   .option = "--cpus-per-task",
   .help = "Each rank has this number of CPUs. sbatch and srun both get this option.",
   .fallback = "the node's allocated CPUs, shared evenly", .example = "10"},
  {.path = "resources.gpus_per_node", FIELD(resources.gpus_per_node), .option = "--gpus-per-node",
   .help = "Each node provides this number of GPUs: 4, a100:4 or {type: a100, count: 4}; 0 for "
           "none. The script uses --gres if the site wants that.",
   .example = "{type: a100, count: 4}"},
  {.path = "resources.gpus", FIELD(resources.gpus), .option = "--gpus",
   .help = "The whole job has this number of GPUs.",
   .example = "8"},
  {.path = "resources.gpus_per_task", FIELD(resources.gpus_per_task), .option = "--gpus-per-task",
   .help = "Each rank has this number of GPUs.",
   .example = "1"},
  {.path = "resources.cpus_per_gpu", FIELD(resources.cpus_per_gpu), .min = 1, .max = 1e6,
   .option = "--cpus-per-gpu",
   .help = "Each GPU comes with this number of CPUs. This key excludes cpus_per_task.",
   .example = "8"},
  {.path = "resources.gres", FIELD(resources.gres), .option = "--gres",
   .help = "Each node provides these generic resources, in Slurm's own form: gpu:a100:4. This key "
           "excludes gpus_per_node.",
   .example = "gpu:a100:4"},
  {.path = "resources.mem", FIELD(resources.mem), .format = Format::kMemory, .option = "--mem",
   .help = "Each node provides this memory: 64G; 0 for all of its memory.",
   .example = "64G"},
  {.path = "resources.mem_per_cpu", FIELD(resources.mem_per_cpu), .format = Format::kMemory,
   .option = "--mem-per-cpu",
   .help = "Each CPU comes with this memory. This key excludes mem.",
   .example = "4G"},
  {.path = "resources.mem_per_gpu", FIELD(resources.mem_per_gpu), .format = Format::kMemory,
   .option = "--mem-per-gpu",
   .help = "Each GPU comes with this memory. This key excludes mem and mem_per_cpu.",
   .example = "32G"},
  {.path = "resources.time", FIELD(resources.time), .format = Format::kTime, .option = "--time",
   .help = "Slurm ends the job after this time: 00:10:00, 1-12:00:00, 10m, 1h30m, 2d. A number "
           "without a unit is in minutes.",
   .example = "1h30m"},
  {.path = "resources.begin", FIELD(resources.begin), .option = "--begin",
   .help = "The job does not start before this time, which has one of Slurm's forms.",
   .example = "now+1hour"},
  {.path = "resources.constraint", FIELD(resources.constraint), .option = "--constraint",
   .help = "The job runs only on nodes with these features.",
   .example = "a100"},
  {.path = "resources.nodelist", FIELD(resources.nodelist), .format = Format::kHosts,
   .option = "--nodelist",
   .help = "The job must have all of these nodes: n[1-3]. The list may not be longer than "
           "resources.nodes.",
   .example = "n[1-3]"},
  {.path = "resources.exclude", FIELD(resources.exclude), .format = Format::kHosts,
   .option = "--exclude",
   .help = "The job must not have any of these nodes.",
   .example = "n7"},
  {.path = "resources.exclusive", FIELD(resources.exclusive), .format = Format::kFlag,
   .option = "--exclusive",
   .help = "The job shares its nodes with no other job (true), or only with jobs of the same user "
           "(user) or the same MCS label (mcs).",
   .example = "true"},
  {.path = "resources.licenses", FIELD(resources.licenses), .option = "--licenses",
   .help = "The job needs these licences.",
   .example = "foo:2"},
  {.path = "resources.hint", FIELD(resources.hint), .format = Format::kChoice,
   .choices = "compute_bound memory_bound multithread nomultithread", .option = "--hint",
   .help = "Slurm binds ranks to CPUs according to this hint.",
   .example = "nomultithread"},
  {.path = "resources.threads_per_core", FIELD(resources.threads_per_core), .min = 1, .max = 1024,
   .option = "--threads-per-core",
   .help = "The job uses this number of hardware threads of each core.",
   .example = "1"},
  {.path = "resources.distribution", FIELD(resources.distribution), .option = "--distribution",
   .help = "Slurm distributes the ranks over nodes, sockets and cores in this way.",
   .example = "block:cyclic"},
  {.path = "resources.output", FIELD(resources.output), .format = Format::kPattern,
   .option = "--output",
   .help = "Slurm writes the job's own output to this file. Slurm's % patterns are allowed.",
   .fallback = "in the run's directory", .example = "logs/%j.out"},
  {.path = "resources.error", FIELD(resources.error), .format = Format::kPattern,
   .option = "--error",
   .help = "Slurm writes the job's standard error to this file, apart from the output.",
   .example = "logs/%j.err"},
  {.path = "resources.signal", FIELD(resources.signal), .option = "--signal",
   .help = "Slurm sends this signal before the time limit. The form is Slurm's. See also "
           "checkpoint.signal_before.",
   .example = "B:USR1@120"},
  {.path = "slurm", FIELD(slurm),
   .help = "sbatch gets these other options by their long names: {mail-type: ALL}.",
   .example = "{mail-type: ALL, mail-user: me@example.org}"},

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
   .help = "This module provides conda.",
   .example = "anaconda3/2021.05"},
  {.path = "environment.conda.name", FIELD(environment.conda_name), .format = Format::kMaybePath,
   .help = "The job activates this conda environment: a name or a prefix.",
   .example = "custom-env"},
  {.path = "environment.venv", FIELD(environment.venv), .format = Format::kPath,
   .help = "The job activates this Python virtual environment.",
   .example = "./venv"},
  {.path = "environment.vars", FIELD(environment.vars), .format = Format::kLines,
   .help = "The job has these variables. Every value arrives unchanged, byte for byte.",
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
   .help = "These shell lines run once on every node before the ranks, for example to copy data to the node's own disk. A line that fails ends the job.",
   .example = "cp -r $SCRATCH/data $TMPDIR/"},

  {.path = "container.runtime", FIELD(container.runtime), .format = Format::kChoice,
   .choices = kJoined<kContainerRuntimes>,
   .help = "This tool runs the image. With none the job has no container.",
   .fallback = "auto: the site's tool", .example = "pyxis"},
  {.path = "container.image", FIELD(container.image), .format = Format::kImage,
   .option = "--container-image",
   .help = "The ranks run in this image: a path of a file (.sqsh for pyxis and enroot, .sif for "
           "apptainer, a folder or a squashfs file for charliecloud), or a name in a registry "
           "(pyxis and apptainer only). A name has the form "
           "docker://nvcr.io/nvidia/pytorch:24.05-py3; pyxis also takes enroot's form, "
           "nvcr.io#nvidia/pytorch:24.05-py3. pyxis fetches a name on every node, apptainer for "
           "every task. `dlrun container import` fetches a name once and makes a .sqsh file.",
   .example = "nvcr.io#nvidia/pytorch:24.05-py3"},
  {.path = "container.mounts", FIELD(container.mounts), .option = "--container-mounts",
   .help = "The container sees these folders: SOURCE:TARGET[:FLAGS], or {source, target, flags}. "
           "An absolute SOURCE alone is also the TARGET. + separates FLAGS. enroot and pyxis know "
           "ro, nosuid, nodev, noexec, rprivate, nofail and others; apptainer knows ro and rw; "
           "charliecloud knows none.",
   .example = "[./data:/data:ro]"},
  {.path = "container.workdir", FIELD(container.workdir), .format = Format::kInside,
   .option = "--container-workdir",
   .help = "The program starts in this folder of the container.",
   .example = "/workspace"},
  {.path = "container.writable", FIELD(container.writable), .option = "--container-writable",
   .help = "With true the program can write to the image's file system.",
   .fallback = "false", .example = "true"},
  {.path = "container.mount_home", FIELD(container.mount_home), .option = "--container-mount-home",
   .help = "With true the container sees the home directory.",
   .fallback = "false", .example = "true"},
  {.path = "container.remap_root", FIELD(container.remap_root), .option = "--container-remap-root",
   .help = "With true the user is root inside the container.",
   .fallback = "false", .example = "true"},
  {.path = "container.entrypoint", FIELD(container.entrypoint), .option = "--container-entrypoint",
   .help = "With true the image's entry point runs first.",
   .fallback = "false", .example = "true"},
  {.path = "container.name", FIELD(container.name), .format = Format::kSlug,
   .option = "--container-name",
   .help = "The container has this name. It stays between the steps of a job and, if the site "
           "keeps containers, between jobs. apptainer and charliecloud do not support names.",
   .example = "my-container"},
  {.path = "container.save", FIELD(container.save), .format = Format::kPath,
   .option = "--container-save",
   .help = "pyxis saves the container's file system to this .sqsh file at the end of the job. The "
           "job must have one node.",
   .example = "out.sqsh"},

  {.path = "launch.preset", FIELD(launch.preset), .format = Format::kSlug,
   .help = "The preset starts the program in the way that its framework expects: trainer, torch, "
           "torchrun, accelerate, deepspeed, lightning, horovod, tensorflow, jax, mpi, plain, or a file in your presets folder.",
   .fallback = "plain; trainer if there is no command", .example = "torch"},
  {.path = "launch.command", FIELD(launch.command), .format = Format::kLines,
   .help = "The job runs this program with these arguments, one word per item.",
   .example = "[python, -u, train.py, --epochs, 12]"},
  {.path = "launch.nproc_per_node", FIELD(launch.nproc_per_node), .min = 1, .max = 4096,
   .help = "The preset's own launcher (torchrun) starts this number of ranks on each node.",
   .fallback = "gpus_per_task, else the GPUs of a node, or 1", .example = "4"},
  {.path = "launch.roles.chief", FIELD(launch.chief), .min = 0, .max = 1,
   .help = "TensorFlow: with 1 the first rank is the chief.",
   .fallback = "0: worker 0 is the chief", .example = "1"},
  {.path = "launch.roles.ps", FIELD(launch.ps), .min = 0, .max = 1e6,
   .help = "TensorFlow: this number of ranks, after the workers, are parameter servers.",
   .fallback = "0", .example = "2"},
  {.path = "launch.roles.evaluator", FIELD(launch.evaluator), .min = 0, .max = 1,
   .help = "TensorFlow: with 1 the last rank is the evaluator.",
   .fallback = "0", .example = "1"},
  {.path = "launch.mpi", FIELD(launch.mpi), .option = "--mpi",
   .help = "srun uses this MPI plugin: for example pmix, pmi2 or none.",
   .fallback = "the site's plugin, else pmix, if the preset needs MPI", .example = "pmix"},
  {.path = "launch.cpu_bind", FIELD(launch.cpu_bind), .option = "--cpu-bind",
   .help = "srun binds ranks to CPUs in this way.",
   .example = "cores"},
  {.path = "launch.gpu_bind", FIELD(launch.gpu_bind), .option = "--gpu-bind",
   .help = "srun binds ranks to GPUs in this way.",
   .example = "closest"},
  {.path = "launch.agent", FIELD(launch.agent),
   .help = "With false the script needs nothing of dlrun on the nodes. The preset may then use "
           "only variables that a shell can set, and the spec may not use retry, health or "
           "environment.secrets.",
   .fallback = "true", .example = "true"},
  {.path = "launch.srun", FIELD(launch.srun),
   .help = "srun gets these other options by their long names.",
   .example = "{unbuffered: true}"},

  {.path = "train.data.dataset", FIELD(train.dataset), .format = Format::kChoice,
   .choices = "mnist idx cifar10 arrays digits patches", .option = "--dataset",
   .help = "The files in train.data.path have this format: mnist (IDX files with MNIST's names), "
           "idx (images of any size, with the same names), cifar10 (its binary version), or arrays (safetensors files with images and labels). digits are IDX files, too; without "
           "train.data.path the trainer draws the images itself. patches are drawn, too: land cover in "
           "the shape of BigEarthNet, with 12 bands and 19 labels, for loss: sigmoid.",
   .fallback = "digits", .example = "mnist"},
  {.path = "train.data.path", FIELD(train.data_path), .format = Format::kPath, .option = "--data",
   .help = "This folder contains the data.",
   .example = "./data"},
  {.path = "train.data.download", FIELD(train.downloads),
   .help = "dlrun fetches these files over https or http into train.data.path before the job is "
           "queued. sha256 is the checksum that the file must have (`sha256sum FILE` prints it). "
           "file is the name of the file; the default is the last part of the url. bytes is the "
           "size, if you know it. dlrun checks an existing file and does not fetch it again. It "
           "refuses a file with another checksum and never overwrites it. dlrun does not unpack "
           "archives. The run's record contains url and checksum, so a url must not contain a "
           "password.",
   .example = "[{url: \"https://example.org/mnist/t10k-labels-idx1-ubyte.gz\", sha256: "
              "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6}]"},
  {.path = "train.data.train_samples", FIELD(train.train_samples), .min = 0, .max = kMany,
   .option = "--train-samples",
   .help = "The trainer uses only this number of training samples, the first ones; 0 means all.",
   .fallback = "0", .example = "10000"},
  {.path = "train.data.test_samples", FIELD(train.test_samples), .min = 0, .max = kMany,
   .option = "--test-samples",
   .help = "The trainer uses only this number of test samples, the first ones; 0 means all.",
   .fallback = "0", .example = "1000"},
  {.path = "train.data.patch_size", FIELD(train.patch_size), .min = 8, .max = 1024,
   .option = "--patch-size",
   .help = "With dataset: patches, each image has this number of pixels per row and per column.",
   .fallback = "120", .example = "32"},
  {.path = "train.model", FIELD(train.model), .format = Format::kChoice,
   .choices = "mlp cnn resnet18 resnet50 efficientnet-b0", .option = "--model",
   .help = "The network is mlp (784-512-10), cnn (3x3 convolutions of 32 and 64 channels, maxpool "
           "2, dropout, dense 128 and 10), resnet18 for small images such as those of CIFAR-10, or "
           "resnet50 or efficientnet-b0 for images of any size.",
   .fallback = "mlp", .example = "cnn"},
  {.path = "train.hidden", FIELD(train.hidden), .format = Format::kCount, .option = "--hidden",
   .help = "The hidden layers of mlp have these widths: 512, or [512, 256].",
   .fallback = "512", .example = "[512, 256]"},
  {.path = "train.layers", FIELD(train.layers), .option = "--layers",
   .help = "These layers make up any other network: dense N; conv2d CHANNELS SIZE [stride S] "
           "[same] [nobias]; depthwise SIZE [stride S] [same] [nobias]; maxpool SIZE [stride S] "
           "[same]; avgpool SIZE [stride S]; avgpool all; relu, tanh, sigmoid, silu; "
           "squeeze-excite N; dropout RATE; flatten; batchnorm [sync]; 'residual: LAYER; LAYER [; shortcut; LAYER]'.",
   .example = "[conv2d 16 5 stride 2, relu, maxpool 2, dropout 0.5, dense 10]"},
  {.path = "train.loss", FIELD(train.loss), .format = Format::kChoice,
   .choices = "softmax sigmoid", .option = "--loss",
   .help = "softmax: each sample belongs to one class. sigmoid: each sample belongs to any number "
           "of classes, with a label of 0 or 1 for each class.",
   .fallback = "softmax", .example = "softmax"},
  {.path = "train.optimizer.name", FIELD(train.optimizer), .format = Format::kChoice,
   .choices = "adam adamw sgd nesterov rmsprop lars lamb novograd", .option = "--optimizer",
   .help = "The trainer uses this optimizer.",
   .fallback = "adam", .example = "lamb"},
  {.path = "train.optimizer.momentum", FIELD(train.momentum), .min = 0, .max = 0.999999,
   .option = "--momentum",
   .help = "sgd, nesterov, lars and rmsprop use this momentum.",
   .fallback = "0.9; rmsprop 0", .example = "0.9"},
  {.path = "train.optimizer.weight_decay", FIELD(train.weight_decay), .min = 0, .max = 1,
   .option = "--weight-decay",
   .help = "This weight decay acts on the gradient. With adamw, lamb and novograd it acts on the step itself.",
   .fallback = "0; lars 1e-4; adamw and lamb 0.01", .example = "1e-4"},
  {.path = "train.optimizer.beta1", FIELD(train.beta1), .min = 0, .max = 0.999999,
   .option = "--beta1",
   .help = "adam, adamw, lamb and novograd use this decay rate for the mean gradient.",
   .fallback = "0.9; novograd 0.95", .example = "0.9"},
  {.path = "train.optimizer.beta2", FIELD(train.beta2), .min = 0, .max = 0.999999999,
   .option = "--beta2",
   .help = "adam, adamw, lamb and novograd use this decay rate for the mean squared gradient.",
   .fallback = "0.999; novograd 0.98", .example = "0.98"},
  {.path = "train.optimizer.epsilon", FIELD(train.epsilon), .min = 0, .max = 1,
   .option = "--epsilon",
   .help = "adam, adamw, rmsprop, lamb and novograd add this number to the divisor.",
   .fallback = "1e-8; lamb 1e-6", .example = "1e-7"},
  {.path = "train.optimizer.alpha", FIELD(train.alpha), .min = 0, .max = 0.999999999,
   .option = "--alpha",
   .help = "rmsprop uses this decay rate for the mean squared gradient.",
   .fallback = "0.99", .example = "0.9"},
  {.path = "train.optimizer.trust", FIELD(train.trust), .min = 0, .max = 1e6, .option = "--trust",
   .help = "lars uses this trust coefficient.",
   .fallback = "0.001", .example = "0.02"},
  {.path = "train.optimizer.state", FIELD(train.optimizer_state), .format = Format::kChoice,
   .choices = "whole sharded", .option = "--optimizer-state",
   .help = "sharded (ZeRO-1): each rank keeps only its part of the optimizer's arrays, and updates that part of the parameters. lars, lamb and novograd do not support it. "
           "With train.device: cuda it needs train.backend: nccl.",
   .fallback = "whole", .example = "sharded"},
  {.path = "train.compression", FIELD(train.compression), .format = Format::kChoice,
   .choices = "none bf16 fp16", .option = "--compression",
   .help = "The ranks send and add gradients in 16 bits, which halves the bytes. bf16 has the "
           "range of float32; fp16 has three more bits of precision. The backend nccl and "
           "optimizer.state: sharded do not support it.",
   .fallback = "none", .example = "bf16"},
  {.path = "train.local_steps", FIELD(train.local_steps), .min = 1, .max = 1e6,
   .option = "--local-steps",
   .help = "Post-local SGD: each rank steps with its own gradients. After this number of steps, "
           "and at the end of an epoch, the ranks average parameters and optimizer arrays. This "
           "replaces the average of gradients at each step. optimizer.state: sharded does not "
           "support it.",
   .fallback = "the ranks average gradients at each step", .example = "8"},
  {.path = "train.local_after", FIELD(train.local_after), .min = 0, .max = 1e6,
   .option = "--local-after",
   .help = "With local_steps: local steps begin after this number of epochs of common steps.",
   .fallback = "0", .example = "2"},
  {.path = "train.clip_norm", FIELD(train.clip_norm), .min = 0, .max = 1e6,
   .option = "--clip-norm",
   .help = "The trainer limits the global norm of the gradients to this value; 0 means no limit.",
   .fallback = "0", .example = "1.0"},
  {.path = "train.lr", FIELD(train.lr), .min = 1e-12, .max = 1e6, .option = "--lr",
   .help = "This is the learning rate of one rank; see lr_scaling.",
   .fallback = "0.001", .example = "0.001"},
  {.path = "train.lr_scaling", FIELD(train.lr_scaling), .format = Format::kChoice,
   .choices = "none linear sqrt", .option = "--lr-scaling",
   .help = "The learning rate grows in proportion to the number of ranks (linear) or to its square root (sqrt), or stays equal (none).",
   .fallback = "none", .example = "sqrt"},
  {.path = "train.lr_decay", FIELD(train.lr_decay), .format = Format::kChoice,
   .choices = "constant linear cosine step polynomial", .option = "--lr-decay",
   .help = "The learning rate falls to 0 over the run (linear, cosine, polynomial), falls at "
           "lr_steps (step), or stays equal (constant).",
   .fallback = "linear", .example = "cosine"},
  {.path = "train.lr_steps", FIELD(train.lr_steps), .format = Format::kCount,
   .option = "--lr-steps",
   .help = "With lr_decay: step, the learning rate falls after each of these epochs.",
   .example = "[30, 60, 80]"},
  {.path = "train.lr_step_factor", FIELD(train.lr_step_factor), .min = 0, .max = 1,
   .option = "--lr-step-factor",
   .help = "The trainer multiplies the learning rate by this factor at each of lr_steps.",
   .fallback = "0.1", .example = "0.2"},
  {.path = "train.lr_power", FIELD(train.lr_power), .min = 0, .max = 100, .option = "--lr-power",
   .help = "With lr_decay: polynomial, the learning rate is proportional to the part of the run "
           "that is left, raised to this power.",
   .fallback = "2", .example = "1"},
  {.path = "train.warmup_epochs", FIELD(train.warmup_epochs), .min = 0, .max = 1e6,
   .option = "--warmup-epochs",
   .help = "The learning rate first rises over this number of epochs: from the rate of one rank to the scaled rate, or from 0 without lr_scaling.",
   .fallback = "0", .example = "1"},
  {.path = "train.batch", FIELD(train.batch), .min = 1, .max = 1048576, .option = "--batch",
   .help = "Each rank processes this number of samples in a step. The global batch is this number "
           "times the number of ranks.",
   .fallback = "32", .example = "32"},
  {.path = "train.micro_batch", FIELD(train.micro_batch), .min = 1, .max = 1048576,
   .option = "--micro-batch",
   .help = "At most this number of a rank's samples go through the network at once. The trainer "
           "accumulates gradients until the batch is complete.",
   .fallback = "the whole batch", .example = "8"},
  {.path = "train.epochs", FIELD(train.epochs), .min = 1, .max = 1e6, .option = "--epochs",
   .help = "The trainer passes over the data this number of times.",
   .fallback = "4", .example = "4"},
  {.path = "train.augment", FIELD(train.augment), .option = "--augment",
   .help = "The trainer changes training images at random, differently in each epoch: flip mirrors "
           "left and right, rotate turns by 0, 90, 180 or 270 degrees (square images only), shift "
           "[PIXELS] moves by up to 4 or this number of pixels and fills with 0. The changes "
           "depend on seed, epoch and sample only: they are the same for any number of ranks and "
           "after a restart. Test images stay as they are.",
   .fallback = "none", .example = "[flip, rotate, shift 8]"},
  {.path = "train.shard", FIELD(train.shard), .format = Format::kChoice,
   .choices = "sample file epoch", .option = "--shard",
   .help = "The ranks divide the samples of each epoch (sample), the files (file: each rank reads "
           "its own partitions of dataset: arrays), or the epochs (epoch).",
   .fallback = "sample", .example = "epoch"},
  {.path = "train.seed", FIELD(train.seed), .min = 0, .max = 4294967295.0, .option = "--seed",
   .help = "This number seeds the parameters, the order of samples and the drawn digits.",
   .fallback = "1", .example = "1"},
  {.path = "train.backend", FIELD(train.backend), .format = Format::kChoice,
   .choices = "auto mpi gloo shm nccl single", .option = "--backend",
   .help = "The ranks communicate through this backend. shm is shared memory, for ranks on one "
           "node.",
   .fallback = "auto: shm on one node, mpi if srun starts MPI, else gloo", .example = "gloo"},
  {.path = "train.device", FIELD(train.device), .format = Format::kChoice, .choices = "cpu cuda",
   .option = "--device",
   .help = "The ranks compute on the CPU, or with cuda each on its GPU. Networks and checkpoints "
           "are the same.",
   .fallback = "cpu", .example = "cuda"},
  {.path = "train.precision", FIELD(train.precision), .format = Format::kChoice,
   .choices = "float32 bf16", .option = "--precision",
   .help = "bf16 needs train.device: cuda. Matrix products and convolutions then round their "
           "inputs to bfloat16 and add up in float32. The outputs of convolutions are rounded, "
           "too. Parameters, sums of gradients, the optimizer, normalisation, the loss and "
           "checkpoints stay float32.",
   .fallback = "float32", .example = "bf16"},
  {.path = "train.cuda_graphs", FIELD(train.cuda_graphs), .option = "--cuda-graphs",
   .help = "With train.device: cuda and one rank, the trainer sends a step to the GPU as one "
           "operation (a CUDA graph). Small networks become faster; the results are equal to the "
           "bit. The operations after a norm (clip_norm, lars, lamb, novograd) stay outside the graph. With "
           "several ranks the trainer uses no graph and prints that.",
   .fallback = "false", .example = "true"},
  {.path = "train.trace_steps", FIELD(train.trace_steps), .min = 0, .max = 100000,
   .option = "--trace-steps",
   .help = "The trainer records a timeline of this number of steps at the start of each attempt, "
           "in trace/ of the run's directory. ui.perfetto.dev and chrome://tracing open it. It "
           "shows data, forward, backward, the all-reduce of each bucket, optimizer and "
           "checkpoints of every rank.",
   .fallback = "0", .example = "20"},
  {.path = "train.threads", FIELD(train.threads), .min = 1, .max = 1024, .option = "--threads",
   .help = "Each rank computes with this number of threads.",
   .fallback = "1", .example = "2"},

  {.path = "checkpoint.dir", FIELD(checkpoint.dir), .option = "--checkpoint-dir",
   .help = "The trainer saves checkpoints in this folder: an absolute path, or one below the run's directory.",
   .fallback = "ckpt", .example = "ckpt"},
  {.path = "checkpoint.every", FIELD(checkpoint.every), .format = Format::kInterval,
   .option = "--checkpoint-every",
   .help = "The trainer saves a checkpoint at this interval: '500 steps', or '1 epoch'.",
   .fallback = "1 epoch", .example = "500 steps"},
  {.path = "checkpoint.keep", FIELD(checkpoint.keep), .min = 0, .max = 1e6,
   .option = "--checkpoint-keep",
   .help = "The trainer keeps this number of the newest checkpoints; 0 means that it saves none.",
   .fallback = "3", .example = "3"},
  {.path = "checkpoint.signal_before", FIELD(checkpoint.signal_before),
   .format = Format::kDuration,
   .help = "The program gets USR1 this long before the time limit, so that it can save a "
           "checkpoint. With timeout in retry.on the job is then queued again. Otherwise the run "
           "is completed if the program then exits with 0, and the run's message mentions the "
           "signal.",
   .example = "120s"},

  {.path = "retry.max", FIELD(retry.max), .min = 0, .max = 1000,
   .help = "A failed run restarts at most this number of times: in its allocation while that "
           "exists, else from Slurm's queue. The program continues from its checkpoint. "
           "DLRUN_ATTEMPT counts the starts from 0.",
   .fallback = "3 if another key of retry is given, else 0 (no restart)", .example = "3"},
  {.path = "retry.on", FIELD(retry.on), .format = Format::kChoice,
   .choices = "timeout preemption node_failure hang oom failure",
   .help = "The run restarts after these causes. timeout: the program saves a checkpoint shortly "
           "before the time limit, and the job is queued again (checkpoint.signal_before). This "
           "also happens if the program exits with 0, unless it has reported through "
           "$DLRUN_PROGRESS that it is done. failure: a rank failed, or was killed, for any other "
           "reason.",
   .fallback = "all causes; timeout only with checkpoint.signal_before",
   .example = "[preemption, node_failure, hang]"},
  {.path = "retry.exclude_bad_nodes", FIELD(retry.exclude_bad_nodes),
   .help = "With true the next attempt avoids nodes that failed or whose rank hung.",
   .fallback = "false", .example = "true"},
  {.path = "retry.no_progress", FIELD(retry.no_progress), .min = 1, .max = 1000,
   .help = "The run ends after this number of attempts in a row that got no further than the best "
           "attempt before them. The trainer reports its steps, and any program can report them "
           "through $DLRUN_PROGRESS. If a program never reports a step, only attempts that ended "
           "before the program started count.",
   .fallback = "3", .example = "2"},
  {.path = "health.preflight", FIELD(health.preflight), .format = Format::kChoice,
   .choices = "gpu nccl gloo disk clock",
   .help = "These checks examine every node before any program starts. dlrun names a node that "
           "fails, and retry.on treats the failure as a node_failure. If all of several nodes fail for the same reason, the run ends with code 80 and does not restart. gpu: "
           "nvidia-smi lists every GPU that the rank sees, without uncorrected memory errors. "
           "disk: the run's folder, $TMPDIR and /dev/shm accept a file. clock: the clock is within five seconds of the first node's clock. nccl: all ranks together, each on its "
           "GPU, all-reduce four MiB over NCCL within a minute with correct sums; dlrun names a "
           "rank that does not arrive, and its node. gloo: the same check with CPUs and the "
           "network only. `dlrun bench collectives` measures the speed of collectives.",
   .example = "[gpu, nccl, disk, clock]"},
  {.path = "health.hang_after", FIELD(health.hang_after), .format = Format::kDuration,
   .help = "A run hangs if it shows no progress for this long. dlrun then ends it, and restarts it if retry.on contains hang. Progress is what the program reports. The trainer "
           "reports by itself. Another program writes {\"step\": 120, \"steps\": 5000, \"loss\": "
           "0.5} into the file that rank 0 finds in $DLRUN_PROGRESS: the whole object each time, "
           "in place, without a rename. If a program reports nothing, output of any rank is "
           "progress. A rank whose process is stopped hangs, too.",
   .fallback = "30 minutes for programs that report progress, 1 minute for stopped processes",
   .example = "15m"},
  {.path = "health.idle_gpu_after", FIELD(health.idle_gpu_after), .format = Format::kDuration,
   .help = "A GPU that has not worked for this long is idle, and dlrun names its node. nvidia-smi "
           "reports every GPU of the job every five seconds.",
   .fallback = "no check", .example = "30m"},
  {.path = "health.idle_gpu", FIELD(health.idle_gpu), .format = Format::kChoice,
   .choices = "warn end",
   .help = "dlrun warns about an idle GPU (idle_gpu_after) in the log and in `dlrun status`. With "
           "end, the run ends with code 81 and does not restart.",
   .fallback = "warn", .example = "end"},
  {.path = "health.known_bad.file", FIELD(health.known_bad_file), .format = Format::kPath,
   .help = "Runs remember bad nodes in this file, for all runs that use the same file. A node is "
           "bad if it was lost, if it hung, or if it failed health.preflight. `dlrun nodes` lists "
           "and forgets bad nodes.",
   .fallback = "known-bad.jsonl in the runs folder", .example = "~/known-bad.jsonl"},
  {.path = "health.known_bad.for", FIELD(health.known_bad_for), .format = Format::kDuration,
   .help = "Runs remember a bad node for this long. A submission adds these nodes to "
           "resources.exclude and prints them. A node of resources.nodelist is not excluded. "
           "`known_bad: 7d` is short for this key.",
   .fallback = "7d if another key of known_bad is given", .example = "7d"},

  {.path = "after.ok", FIELD(after.ok),
   .help = "The job starts when these have succeeded: runs by name, id or path, or Slurm job ids. "
           "Slurm cancels a job that can never start.",
   .example = "[preprocess, \"4711\"]"},
  {.path = "after.any", FIELD(after.any),
   .help = "The job starts when these have ended, whether they succeeded or failed.",
   .example = "last"},
  {.path = "after.notok", FIELD(after.notok),
   .help = "The job starts when these have failed.",
   .example = "[train]"},

  {.path = "code.snapshot", FIELD(code_snapshot),
   .help = "With true dlrun copies the source tree into the run, and the job starts in the copy. "
           "Later edits then do not change a job that waits. The copy contains the files of the "
           "git repository that git does not ignore; without git it contains the spec's folder (or slurm.chdir). dlrun records commit and diff in any case. `dlrun resubmit` runs "
           "the same copy again; a submission of the run's resolved.yaml makes a new copy.",
   .fallback = "false", .example = "true"},

  {.path = "sweep.parameters", FIELD(sweep.parameters),
   .help = "dlrun submits a sweep as a job array. This map has names and the values to try; each "
           "combination is a run of its own. The last name changes fastest. A name is a key of "
           "the spec, or a parameter of your own program: its value replaces {NAME} in "
           "launch.command and environment.vars, where a literal brace is then written twice. "
           "With sweep.random a name may have {min, max} instead of a list, and log: true. "
           "Whole numbers as min and max of your own parameter give whole numbers.",
   .example = "{lr: [0.1, 0.01], depth: [4, 8]}"},
  {.path = "sweep.points", FIELD(sweep.points),
   .help = "The sweep has exactly these combinations. This key excludes parameters and random.",
   .example = "[{lr: 0.1, depth: 4}, {lr: 0.01, depth: 8}]"},
  {.path = "sweep.random", FIELD(sweep.random), .min = 1, .max = 10000,
   .help = "The sweep tries this number of random points of parameters, all different, instead of "
           "all combinations.",
   .example = "20"},
  {.path = "sweep.seed", FIELD(sweep.seed), .min = 0, .max = 4294967295.0,
   .help = "This number seeds the random points. The same seed gives the same points.",
   .fallback = "1", .example = "1"},
  {.path = "sweep.max_parallel", FIELD(sweep.max_parallel), .min = 1, .max = 1e6,
   .help = "At most this number of points run at once.",
   .fallback = "as many as Slurm starts", .example = "4"},
  {.path = "sweep.pack", FIELD(sweep.pack), .min = 1, .max = 256,
   .help = "One job runs this number of points side by side on one node. The job asks for the "
           "resources of all of them; each point has its own GPUs, cores, memory, logs and end.",
   .fallback = "1", .example = "4"},
  {.path = "sweep.ask", FIELD(sweep.ask), .format = Format::kLines,
   .help = "This program chooses the points, one after the other, by the results of earlier ones. "
           "`dlrun submit` starts it in the spec's folder, asks it over JSON lines on its standard "
           "input and output, and stays until the search is over.",
   .example = "[python, search.py]"},
  {.path = "sweep.ask_timeout", FIELD(sweep.ask_timeout), .format = Format::kDuration,
   .help = "The search program has this time for an answer.",
   .fallback = "60s", .example = "5m"},
  {.path = "sweep.max_points", FIELD(sweep.max_points), .min = 1, .max = 10000,
   .help = "The search ends after this number of points, even if its program would propose more.",
   .fallback = "until the search program is done", .example = "50"},
  {.path = "sweep.stop_early.metric", FIELD(sweep.stop_metric),
   .help = "A point ends early if this number of its reports (DLRUN_PROGRESS) is worse than those "
           "of the other points. A smaller number is better if the name contains loss, error, "
           "perplexity or seconds, otherwise a larger one.",
   .example = "loss"},
  {.path = "sweep.stop_early.rule", FIELD(sweep.stop_rule), .format = Format::kChoice,
   .choices = "median",
   .help = "The point ends if its best value is worse than the median of the best values that at "
           "least three other points had at the same epoch or step.",
   .fallback = "median", .example = "median"},
  {.path = "sweep.stop_early.after", FIELD(sweep.stop_after), .min = 1, .max = 1e9,
   .help = "Every point runs at least to this epoch; to this step, if its program reports no epoch.",
   .fallback = "1", .example = "5"},
  {.path = "submit.via", FIELD(submit.via), .format = Format::kChoice,
   .choices = "sbatch slurmrestd",
   .help = "dlrun submits the job with sbatch, or through Slurm's REST API (slurmrestd). It uses "
           "the same way for everything else about the run. `dlrun interactive` needs salloc.",
   .fallback = "sbatch", .example = "sbatch"},
  {.path = "submit.url", FIELD(submit.url),
   .help = "slurmrestd listens at this address: unix:/PATH, http://127.0.0.1:PORT or "
           "https://HOST[:PORT].",
   .example = "unix:/run/slurmrestd/socket"},
  {.path = "submit.token_file", FIELD(submit.token_file), .format = Format::kPath,
   .help = "This file of mode 0600 contains the token that `scontrol token` prints. A socket needs no token.",
   .example = "~/.config/dlrun/token"},

  // Reserved keys of parts that do not exist yet: refused by name, so that they are not
  // reported as spelling errors.
  {.path = "notify.webhook",
   .help = "dlrun sends notifications to this address."},
  {.path = "notify.on",
   .help = "dlrun sends notifications about these events."},
  {.path = "track.mlflow",
   .help = "dlrun records the run on this MLflow server."},
  {.path = "track.tensorboard",
   .help = "dlrun writes TensorBoard events."},
};
#undef FIELD
// clang-format on

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kShorthands{{
    {"environment.modules", "environment.modules.load"},
    {"environment.conda", "environment.conda.name"},
    {"train.optimizer", "train.optimizer.name"},
    {"train.data", "train.data.path"},
    {"health.known_bad", "health.known_bad.for"},
}};

[[nodiscard]] bool is_below(std::string_view path, std::string_view section) {
  return section.empty() ||
         (path.size() > section.size() && path.substr(0, section.size()) == section &&
          path[section.size()] == '.');
}

struct TextOf {
  JobSpec& spec;
  using Text = std::optional<std::string>;
  Text operator()(std::monostate) const { return std::nullopt; }
  Text operator()(Access<std::optional<std::string>> get) const { return get(spec); }
  Text operator()(Access<std::optional<std::int64_t>> get) const { return number(get(spec)); }
  Text operator()(Access<std::optional<double>> get) const { return number(get(spec)); }
  Text operator()(Access<std::optional<bool>> get) const {
    return get(spec) ? Text(*get(spec) ? "true" : "false") : std::nullopt;
  }
  Text operator()(Access<std::optional<NodeRange>> get) const {
    return get(spec) ? Text(format_nodes(*get(spec))) : std::nullopt;
  }
  Text operator()(Access<std::optional<Gpus>> get) const {
    return get(spec) ? Text(format_gpus(*get(spec))) : std::nullopt;
  }
  Text operator()(Access<std::vector<std::string>> get) const {
    return get(spec).empty() ? std::nullopt : Text(join(get(spec), ","));
  }
  template <typename List>
  Text operator()(Access<List>) const {
    return std::nullopt;
  }

  template <typename Number>
  [[nodiscard]] static Text number(const std::optional<Number>& value) {
    return value ? Text(fmt::format("{}", *value)) : std::nullopt;
  }
};

}  // namespace

std::span<const KeyRow> spec_keys() {
  return kKeys;
}

const KeyRow* find_key(std::string_view path) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const KeyRow& row) { return row.path == path; });
  return found == std::end(kKeys) ? nullptr : found;
}

bool is_section(std::string_view path) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const KeyRow& row) { return is_below(row.path, path); });
}

std::string_view section_shorthand(std::string_view section) {
  for (const auto& [name, key] : kShorthands) {
    if (name == section) return key;
  }
  return {};
}

std::vector<std::string_view> names_in_section(std::string_view section) {
  std::vector<std::string_view> names;
  for (const KeyRow& row : kKeys) {
    if (!is_below(row.path, section)) continue;
    std::string_view rest = section.empty() ? row.path : row.path.substr(section.size() + 1);
    rest = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), rest) == names.end()) names.push_back(rest);
  }
  return names;
}

std::optional<std::string> option_text(const KeyRow& row, const JobSpec& spec) {
  // Access takes a mutable spec because loading writes through it; this code only reads.
  return std::visit(TextOf{const_cast<JobSpec&>(spec)},
                    row.field);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace dlrun
