#include "launcher/spec/spec_keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/units.h"

namespace dlrun {
namespace {

// clang-format off
#define FIELD(member) .field = +[](JobSpec& s) -> decltype((s.member)) { return s.member; }

constexpr double kMany = 1e9;

constexpr KeyRow kKeys[] = {
  {.path = "name", FIELD(name), .format = Format::kSlug, .option = "--job-name",
   .help = "The run's and the Slurm job's name.", .fallback = "the file's name without its ending", .example = "mnist-mlp"},
  {.path = "site", FIELD(site), .format = Format::kSlug,
   .help = "The cluster's profile: configs/sites/NAME.yaml.", .fallback = "$DLRUN_SITE, else by the cluster's name, else 'generic'", .example = "juwels"},
  {.path = "base", FIELD(base), .format = Format::kPath, .help = "Another spec that this one inherits from: maps merge, lists and values replace. `KEY: null` takes an inherited value away.", .example = "../common.yaml"},

  // resources: in the order of the script's #SBATCH lines
  {.path = "resources.clusters", FIELD(resources.clusters), .option = "--clusters", .help = "The cluster to submit to (sbatch -M).", .example = "inter"},
  {.path = "resources.partition", FIELD(resources.partition), .option = "--partition", .help = "The partition, or several separated by commas.", .example = "develgpus"},
  {.path = "resources.account", FIELD(resources.account), .option = "--account", .help = "The account to charge.", .fallback = "$SBATCH_ACCOUNT", .example = "proj-1"},
  {.path = "resources.qos", FIELD(resources.qos), .option = "--qos", .help = "The quality of service.", .example = "high"},
  {.path = "resources.reservation", FIELD(resources.reservation), .option = "--reservation", .help = "The reservation to run in.", .example = "course"},
  {.path = "resources.nodes", FIELD(resources.nodes), .option = "--nodes", .help = "Nodes: 2, or \"2-4\" for Slurm's range.", .fallback = "1, or Slurm's choice where ntasks is given", .example = "2"},
  {.path = "resources.spare_nodes", FIELD(resources.spare_nodes), .min = 1, .max = 1e6, .help = "Nodes to allocate beyond resources.nodes. They are idle until a node is lost; the next attempt then runs on a spare one, with the same number of ranks (retry.on: node_failure). They count in what the job costs.", .fallback = "0", .example = "1"},
  {.path = "resources.ntasks", FIELD(resources.ntasks), .min = 1, .max = kMany, .option = "--ntasks", .help = "Ranks of the whole job.", .example = "8"},
  {.path = "resources.tasks_per_node", FIELD(resources.tasks_per_node), .min = 1, .max = 1e6, .option = "--ntasks-per-node", .help = "Ranks on each node.", .fallback = "gpus_per_node, or 1", .example = "4"},
  {.path = "resources.cpus_per_task", FIELD(resources.cpus_per_task), .min = 1, .max = 1e6, .option = "--cpus-per-task", .help = "CPUs of each rank, for sbatch and for srun.", .fallback = "the node's allocated CPUs, shared evenly", .example = "10"},
  {.path = "resources.gpus_per_node", FIELD(resources.gpus_per_node), .option = "--gpus-per-node", .help = "GPUs of each node: 4, a100:4 or {type: a100, count: 4}; 0 for none. Becomes --gres where the site wants it.", .example = "{type: a100, count: 4}"},
  {.path = "resources.gpus", FIELD(resources.gpus), .option = "--gpus", .help = "GPUs of the whole job.", .example = "8"},
  {.path = "resources.gpus_per_task", FIELD(resources.gpus_per_task), .option = "--gpus-per-task", .help = "GPUs of each rank.", .example = "1"},
  {.path = "resources.cpus_per_gpu", FIELD(resources.cpus_per_gpu), .min = 1, .max = 1e6, .option = "--cpus-per-gpu", .help = "CPUs of each GPU, in place of cpus_per_task.", .example = "8"},
  {.path = "resources.gres", FIELD(resources.gres), .option = "--gres", .help = "Generic resources in Slurm's raw form: gpu:a100:4. Not together with gpus_per_node.", .example = "gpu:a100:4"},
  {.path = "resources.mem", FIELD(resources.mem), .format = Format::kMemory, .option = "--mem", .help = "Memory of each node: 64G; 0 for all of it.", .example = "64G"},
  {.path = "resources.mem_per_cpu", FIELD(resources.mem_per_cpu), .format = Format::kMemory, .option = "--mem-per-cpu", .help = "Memory of each CPU, in place of mem.", .example = "4G"},
  {.path = "resources.mem_per_gpu", FIELD(resources.mem_per_gpu), .format = Format::kMemory, .option = "--mem-per-gpu", .help = "Memory of each GPU, in place of mem.", .example = "32G"},
  {.path = "resources.time", FIELD(resources.time), .format = Format::kTime, .option = "--time", .help = "The time limit: 00:10:00, 1-12:00:00, 10m, 1h30m, 2d; a bare number is minutes.", .example = "1h30m"},
  {.path = "resources.begin", FIELD(resources.begin), .option = "--begin", .help = "Not before this time, in Slurm's forms.", .example = "now+1hour"},
  {.path = "resources.constraint", FIELD(resources.constraint), .option = "--constraint", .help = "Node features.", .example = "a100"},
  {.path = "resources.nodelist", FIELD(resources.nodelist), .format = Format::kHosts, .option = "--nodelist", .help = "Nodes that the job must have, no more of them than resources.nodes: n[1-3].", .example = "n[1-3]"},
  {.path = "resources.exclude", FIELD(resources.exclude), .format = Format::kHosts, .option = "--exclude", .help = "Nodes that it must not have.", .example = "n7"},
  {.path = "resources.exclusive", FIELD(resources.exclusive), .format = Format::kFlag, .option = "--exclusive", .help = "Share no node: true, user or mcs.", .example = "true"},
  {.path = "resources.licenses", FIELD(resources.licenses), .option = "--licenses", .help = "Licences.", .example = "foo:2"},
  {.path = "resources.hint", FIELD(resources.hint), .format = Format::kChoice, .choices = "compute_bound memory_bound multithread nomultithread", .option = "--hint", .help = "Binding hint.", .example = "nomultithread"},
  {.path = "resources.threads_per_core", FIELD(resources.threads_per_core), .min = 1, .max = 1024, .option = "--threads-per-core", .help = "Hardware threads to use of each core.", .example = "1"},
  {.path = "resources.distribution", FIELD(resources.distribution), .option = "--distribution", .help = "How ranks are laid over nodes, sockets and cores.", .example = "block:cyclic"},
  {.path = "resources.output", FIELD(resources.output), .format = Format::kPattern, .option = "--output", .help = "The job's own output, with Slurm's % patterns.", .fallback = "in the run's directory", .example = "logs/%j.out"},
  {.path = "resources.error", FIELD(resources.error), .format = Format::kPattern, .option = "--error", .help = "Its standard error, where that is to be apart.", .example = "logs/%j.err"},
  {.path = "resources.signal", FIELD(resources.signal), .option = "--signal", .help = "A signal before the time limit, in Slurm's form. See checkpoint.signal_before.", .example = "B:USR1@120"},
  {.path = "slurm", FIELD(slurm), .help = "Any other option of sbatch by its long name: {mail-type: ALL}.", .example = "{mail-type: ALL, mail-user: me@example.org}"},

  {.path = "environment.modules.purge", FIELD(environment.modules_purge), .help = "module purge first.", .fallback = "false", .example = "true"},
  {.path = "environment.modules.use", FIELD(environment.modules_use), .format = Format::kPath, .help = "Folders for module use.", .example = "[./modulefiles]"},
  {.path = "environment.modules.load", FIELD(environment.modules_load), .help = "Modules to load, in order.", .example = "[GCC/8.3.0, CUDA]"},
  {.path = "environment.conda.module", FIELD(environment.conda_module), .help = "The module that brings conda.", .example = "anaconda3/2021.05"},
  {.path = "environment.conda.name", FIELD(environment.conda_name), .format = Format::kMaybePath, .help = "The conda environment: a name or a prefix.", .example = "custom-env"},
  {.path = "environment.venv", FIELD(environment.venv), .format = Format::kPath, .help = "A Python virtual environment.", .example = "./venv"},
  {.path = "environment.vars", FIELD(environment.vars), .format = Format::kLines, .help = "Variables of the job; every value arrives byte for byte.", .example = "{OMP_NUM_THREADS: 4}"},
  {.path = "environment.secrets", FIELD(environment.secrets), .help = "Variables that only the program sees: NAME takes its value from your environment at submission, {name, file} from a file. Never in the script, an argument, a log or what Slurm stores.", .example = "[WANDB_API_KEY, {name: HF_TOKEN, file: ~/.cache/huggingface/token}]"},
  {.path = "environment.setup", FIELD(environment.setup), .format = Format::kLines, .help = "Shell lines that run once, on the first node, before the ranks. A line that fails ends the job.", .example = "nvidia-smi -L"},
  {.path = "environment.setup_node", FIELD(environment.setup_node), .format = Format::kLines, .help = "Shell lines that run once on every node before the ranks, such as staging to the node's own disk. A line that fails ends the job.", .example = "cp -r $SCRATCH/data $TMPDIR/"},

  {.path = "container.runtime", FIELD(container.runtime), .format = Format::kChoice, .choices = "auto pyxis enroot apptainer none", .help = "How the image is run.", .fallback = "auto, the site's", .example = "pyxis"},
  {.path = "container.image", FIELD(container.image), .format = Format::kImage, .option = "--container-image", .help = "A path of an image, .sqsh for pyxis and enroot, .sif for apptainer; or a name in a registry, which pyxis fetches on every node and apptainer for every task: docker://nvcr.io/nvidia/pytorch:24.05-py3, for pyxis also in enroot's form, nvcr.io#nvidia/pytorch:24.05-py3. `dlrun container import` makes a .sqsh of such a name, once.", .example = "nvcr.io#nvidia/pytorch:24.05-py3"},
  {.path = "container.mounts", FIELD(container.mounts), .option = "--container-mounts", .help = "SOURCE:TARGET[:FLAGS], or {source, target, flags}; an absolute SOURCE alone is its TARGET, too. FLAGS are enroot's, with + between them: ro, nosuid, nodev, noexec, rprivate, nofail, ...", .example = "[./data:/data:ro]"},
  {.path = "container.workdir", FIELD(container.workdir), .format = Format::kInside, .option = "--container-workdir", .help = "The working directory inside.", .example = "/workspace"},
  {.path = "container.writable", FIELD(container.writable), .option = "--container-writable", .help = "Whether the image's file system can be written.", .fallback = "false", .example = "true"},
  {.path = "container.mount_home", FIELD(container.mount_home), .option = "--container-mount-home", .help = "Whether the home directory is mounted.", .fallback = "false", .example = "true"},
  {.path = "container.remap_root", FIELD(container.remap_root), .option = "--container-remap-root", .help = "Whether the user is root inside.", .fallback = "false", .example = "true"},
  {.path = "container.entrypoint", FIELD(container.entrypoint), .option = "--container-entrypoint", .help = "Whether the image's entry point runs first.", .fallback = "false", .example = "true"},
  {.path = "container.name", FIELD(container.name), .format = Format::kSlug, .option = "--container-name", .help = "A named container, kept between the steps of a job and, where the site keeps them, between jobs.", .example = "my-container"},
  {.path = "container.save", FIELD(container.save), .format = Format::kPath, .option = "--container-save", .help = "Save the container's file system to this .sqsh at the end; for a job of one node.", .example = "out.sqsh"},

  {.path = "launch.preset", FIELD(launch.preset), .format = Format::kSlug, .help = "How the framework wants to be started: trainer, torch, torchrun, accelerate, deepspeed, lightning, horovod, tensorflow, jax, mpi, plain, or a file of the user's presets folder.", .fallback = "plain; trainer where there is no command", .example = "torch"},
  {.path = "launch.command", FIELD(launch.command), .format = Format::kLines, .help = "The program and its arguments, one word an item.", .example = "[python, -u, train.py, --epochs, 12]"},
  {.path = "launch.nproc_per_node", FIELD(launch.nproc_per_node), .min = 1, .max = 4096, .help = "Ranks that a preset's own launcher (torchrun) starts on each node.", .fallback = "the GPUs of a node, or 1", .example = "4"},
  {.path = "launch.roles.chief", FIELD(launch.chief), .min = 0, .max = 1, .help = "TensorFlow: 1 makes the first rank the chief.", .fallback = "0: worker 0 is it", .example = "1"},
  {.path = "launch.roles.ps", FIELD(launch.ps), .min = 0, .max = 1e6, .help = "TensorFlow: how many ranks are parameter servers, after the workers.", .fallback = "0", .example = "2"},
  {.path = "launch.roles.evaluator", FIELD(launch.evaluator), .min = 0, .max = 1, .help = "TensorFlow: 1 makes the last rank the evaluator.", .fallback = "0", .example = "1"},
  {.path = "launch.mpi", FIELD(launch.mpi), .option = "--mpi", .help = "srun's MPI plugin: pmix, pmi2, none.", .fallback = "the site's where the preset wants MPI", .example = "pmix"},
  {.path = "launch.cpu_bind", FIELD(launch.cpu_bind), .option = "--cpu-bind", .help = "srun's CPU binding.", .example = "cores"},
  {.path = "launch.gpu_bind", FIELD(launch.gpu_bind), .option = "--gpu-bind", .help = "srun's GPU binding.", .example = "closest"},
  {.path = "launch.agent", FIELD(launch.agent), .help = "false: a plain script that needs nothing of dlrun on the nodes; for presets whose variables a shell knows.", .fallback = "true", .example = "true"},
  {.path = "launch.srun", FIELD(launch.srun), .help = "Any other option of srun by its long name.", .example = "{unbuffered: true}"},

  {.path = "train.data.dataset", FIELD(train.dataset), .format = Format::kChoice, .choices = "mnist idx cifar10 arrays digits", .option = "--dataset", .help = "What the data is: mnist (IDX files by MNIST's names), idx, cifar10 (its binary version), arrays (safetensors files with images and labels), or digits, which the trainer makes itself.", .fallback = "digits", .example = "mnist"},
  {.path = "train.data.path", FIELD(train.data_path), .format = Format::kPath, .option = "--data", .help = "The folder that holds it.", .example = "./data"},
  {.path = "train.data.download", FIELD(train.downloads), .help = "Files that dlrun fetches into train.data.path before the job is queued, over https or http, each with the SHA-256 that it must have (sha256sum FILE prints one) and, where given, its bytes; file names it where the url's last part does not. What is there already is checked and not fetched again; a file with another checksum is refused, never written over. Archives are not unpacked. url and checksum stand in the run's record: no passwords in a url.", .example = "[{url: \"https://example.org/mnist/t10k-labels-idx1-ubyte.gz\", sha256: f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6}]"},
  {.path = "train.data.train_samples", FIELD(train.train_samples), .min = 0, .max = kMany, .option = "--train-samples", .help = "Train on the first so many samples only; 0: all.", .fallback = "0", .example = "10000"},
  {.path = "train.data.test_samples", FIELD(train.test_samples), .min = 0, .max = kMany, .option = "--test-samples", .help = "Test on the first so many samples only; 0: all.", .fallback = "0", .example = "1000"},
  {.path = "train.model", FIELD(train.model), .format = Format::kChoice, .choices = "mlp cnn resnet18", .option = "--model", .help = "The network: mlp (784-512-10), cnn (3x3 convolutions of 32 and 64 channels, maxpool 2, dropout, dense 128 and 10), or resnet18 for small images such as CIFAR-10's.", .fallback = "mlp", .example = "cnn"},
  {.path = "train.hidden", FIELD(train.hidden), .format = Format::kCount, .option = "--hidden", .help = "The widths of mlp's hidden layers: 512, or [512, 256].", .fallback = "512", .example = "[512, 256]"},
  {.path = "train.layers", FIELD(train.layers), .option = "--layers", .help = "Any other network, layer by layer: dense N; conv2d CHANNELS SIZE [stride S] [same]; maxpool, avgpool SIZE [stride S]; relu, tanh, sigmoid; dropout RATE; flatten; batchnorm [sync]; 'residual: LAYER; LAYER [; shortcut; LAYER]'.", .example = "[conv2d 16 5 stride 2, relu, maxpool 2, dropout 0.5, dense 10]"},
  {.path = "train.loss", FIELD(train.loss), .format = Format::kChoice, .choices = "softmax sigmoid", .option = "--loss", .help = "softmax: each sample is of one class. sigmoid: any number of classes apply, its labels are 0 or 1 for each.", .fallback = "softmax", .example = "softmax"},
  {.path = "train.optimizer.name", FIELD(train.optimizer), .format = Format::kChoice, .choices = "adam adamw sgd nesterov rmsprop lars lamb", .option = "--optimizer", .help = "The optimizer.", .fallback = "adam", .example = "lamb"},
  {.path = "train.optimizer.momentum", FIELD(train.momentum), .min = 0, .max = 0.999999, .option = "--momentum", .help = "The momentum of sgd, nesterov, lars and rmsprop.", .fallback = "0.9; rmsprop 0", .example = "0.9"},
  {.path = "train.optimizer.weight_decay", FIELD(train.weight_decay), .min = 0, .max = 1, .option = "--weight-decay", .help = "Weight decay: of the gradient; with adamw and lamb, of the step itself.", .fallback = "0; lars 1e-4; adamw and lamb 0.01", .example = "1e-4"},
  {.path = "train.optimizer.beta1", FIELD(train.beta1), .min = 0, .max = 0.999999, .option = "--beta1", .help = "adam, adamw, lamb: what the mean gradient keeps of itself.", .fallback = "0.9", .example = "0.9"},
  {.path = "train.optimizer.beta2", FIELD(train.beta2), .min = 0, .max = 0.999999999, .option = "--beta2", .help = "adam, adamw, lamb: what the mean square keeps of itself.", .fallback = "0.999", .example = "0.98"},
  {.path = "train.optimizer.epsilon", FIELD(train.epsilon), .min = 0, .max = 1, .option = "--epsilon", .help = "Added where adam, adamw, rmsprop and lamb divide.", .fallback = "1e-8; lamb 1e-6", .example = "1e-7"},
  {.path = "train.optimizer.alpha", FIELD(train.alpha), .min = 0, .max = 0.999999999, .option = "--alpha", .help = "rmsprop: what the mean square keeps of itself.", .fallback = "0.99", .example = "0.9"},
  {.path = "train.optimizer.trust", FIELD(train.trust), .min = 0, .max = 1e6, .option = "--trust", .help = "lars: its trust coefficient.", .fallback = "0.001", .example = "0.02"},
  {.path = "train.optimizer.state", FIELD(train.optimizer_state), .format = Format::kChoice, .choices = "whole sharded", .option = "--optimizer-state", .help = "sharded (ZeRO-1): each rank keeps its part of the optimizer's arrays only and updates that part of the parameters; not with lars or lamb.", .fallback = "whole", .example = "sharded"},
  {.path = "train.compression", FIELD(train.compression), .format = Format::kChoice, .choices = "none bf16 fp16", .option = "--compression", .help = "Gradients travel and are added in 16 bits: half the bytes; bf16 has float's range, fp16 three more bits.", .fallback = "none", .example = "bf16"},
  {.path = "train.local_steps", FIELD(train.local_steps), .min = 1, .max = 1e6, .option = "--local-steps", .help = "Post-local SGD: each rank steps by its own gradients, and every so many steps the ranks average parameters and optimizer arrays, instead of the gradients of each step; not with optimizer.state: sharded.", .fallback = "gradients are averaged at each step", .example = "8"},
  {.path = "train.local_after", FIELD(train.local_after), .min = 0, .max = 1e6, .option = "--local-after", .help = "With local_steps: the epochs of common steps before them.", .fallback = "0", .example = "2"},
  {.path = "train.clip_norm", FIELD(train.clip_norm), .min = 0, .max = 1e6, .option = "--clip-norm", .help = "Hold the global norm of the gradients to this; 0 leaves it.", .fallback = "0", .example = "1.0"},
  {.path = "train.lr", FIELD(train.lr), .min = 1e-12, .max = 1e6, .option = "--lr", .help = "The learning rate of one rank; see lr_scaling.", .fallback = "0.001", .example = "0.001"},
  {.path = "train.lr_scaling", FIELD(train.lr_scaling), .format = Format::kChoice, .choices = "none linear sqrt", .option = "--lr-scaling", .help = "How lr grows with the number of ranks.", .fallback = "none", .example = "sqrt"},
  {.path = "train.lr_decay", FIELD(train.lr_decay), .format = Format::kChoice, .choices = "constant linear cosine step polynomial", .option = "--lr-decay", .help = "How lr falls over the run: to 0 at its end, by steps, or not at all.", .fallback = "linear", .example = "cosine"},
  {.path = "train.lr_steps", FIELD(train.lr_steps), .format = Format::kCount, .option = "--lr-steps", .help = "With lr_decay: step, the epochs after which lr falls.", .example = "[30, 60, 80]"},
  {.path = "train.lr_step_factor", FIELD(train.lr_step_factor), .min = 0, .max = 1, .option = "--lr-step-factor", .help = "By what lr is multiplied at each of lr_steps.", .fallback = "0.1", .example = "0.2"},
  {.path = "train.lr_power", FIELD(train.lr_power), .min = 0, .max = 100, .option = "--lr-power", .help = "With lr_decay: polynomial, the power of the part of the run that is left.", .fallback = "2", .example = "1"},
  {.path = "train.warmup_epochs", FIELD(train.warmup_epochs), .min = 0, .max = 1e6, .option = "--warmup-epochs", .help = "lr first rises over this many epochs: from one rank's to the scaled one, and without lr_scaling from 0.", .fallback = "0", .example = "1"},
  {.path = "train.batch", FIELD(train.batch), .min = 1, .max = 1048576, .option = "--batch", .help = "Samples of a step on each rank: the global batch is this times the ranks.", .fallback = "32", .example = "32"},
  {.path = "train.micro_batch", FIELD(train.micro_batch), .min = 1, .max = 1048576, .option = "--micro-batch", .help = "At most so many of a rank's samples go through the network at once; gradients are accumulated until the batch is whole.", .fallback = "the whole batch", .example = "8"},
  {.path = "train.epochs", FIELD(train.epochs), .min = 1, .max = 1e6, .option = "--epochs", .help = "Passes over the data.", .fallback = "4", .example = "4"},
  {.path = "train.shard", FIELD(train.shard), .format = Format::kChoice, .choices = "sample file epoch", .option = "--shard", .help = "What ranks divide: each epoch's samples; the files, of which each rank reads its own (dataset: arrays, in partitions); or the epochs.", .fallback = "sample", .example = "epoch"},
  {.path = "train.seed", FIELD(train.seed), .min = 0, .max = 4294967295.0, .option = "--seed", .help = "Seeds the parameters and the order of samples.", .fallback = "1", .example = "1"},
  {.path = "train.backend", FIELD(train.backend), .format = Format::kChoice, .choices = "auto mpi gloo shm nccl single", .option = "--backend", .help = "The collectives; shm: shared memory, for the ranks of one node.", .fallback = "auto: shm on one node, mpi where srun starts MPI, else gloo", .example = "gloo"},
  {.path = "train.device", FIELD(train.device), .format = Format::kChoice, .choices = "cpu cuda", .option = "--device", .help = "Where it computes; cuda: on the GPU of each rank, the same networks and checkpoints.", .fallback = "cpu", .example = "cuda"},
  {.path = "train.precision", FIELD(train.precision), .format = Format::kChoice, .choices = "float32 bf16", .option = "--precision", .help = "bf16, with train.device: cuda: matrix products and convolutions take their inputs rounded to bfloat16 and add up in float32; what a convolution gives is rounded, too. Parameters, gradients' sums, the optimizer, normalisation, the loss and checkpoints stay float32.", .fallback = "float32", .example = "bf16"},
  {.path = "train.cuda_graphs", FIELD(train.cuda_graphs), .option = "--cuda-graphs", .help = "With train.device: cuda and one rank, a step's operations go to the GPU as one (a CUDA graph), which small networks gain by; the results are the same to the bit. Steps of several ranks, and what follows a norm that is waited for (clip_norm, lars, lamb), go one by one, which is said.", .fallback = "false", .example = "true"},
  {.path = "train.trace_steps", FIELD(train.trace_steps), .min = 0, .max = 100000, .option = "--trace-steps", .help = "Put the first so many steps of each attempt on a timeline, in trace/ of the run's directory, which ui.perfetto.dev and chrome://tracing open: data, forward, backward, each bucket's all-reduce, optimizer, checkpoints of every rank.", .fallback = "0", .example = "20"},
  {.path = "train.threads", FIELD(train.threads), .min = 1, .max = 1024, .option = "--threads", .help = "Compute threads of each rank.", .fallback = "1", .example = "2"},

  {.path = "checkpoint.dir", FIELD(checkpoint.dir), .option = "--checkpoint-dir", .help = "The checkpoints' folder: absolute, or below the run's directory.", .fallback = "ckpt", .example = "ckpt"},
  {.path = "checkpoint.every", FIELD(checkpoint.every), .format = Format::kInterval, .option = "--checkpoint-every", .help = "How often: '500 steps', or '1 epoch'.", .fallback = "1 epoch", .example = "500 steps"},
  {.path = "checkpoint.keep", FIELD(checkpoint.keep), .min = 0, .max = 1e6, .option = "--checkpoint-keep", .help = "How many of the newest are kept; 0: none is written.", .fallback = "3", .example = "3"},
  {.path = "checkpoint.signal_before", FIELD(checkpoint.signal_before), .format = Format::kDuration, .help = "USR1 reaches the program this long before the time limit, so that it can save. With retry the job is queued again then; without it an exit with 0 after that is told as one after the warning.", .example = "120s"},

  {.path = "retry.max", FIELD(retry.max), .min = 0, .max = 1000, .help = "How often a run that failed starts again: in its allocation where that still stands, else in Slurm's queue. Its program goes on from its checkpoint; DLRUN_ATTEMPT counts the starts.", .fallback = "3 where another key of retry is given, else 0: never", .example = "3"},
  {.path = "retry.on", FIELD(retry.on), .format = Format::kChoice, .choices = "timeout preemption node_failure hang oom failure", .help = "The causes that it starts again for. timeout: shortly before the limit it saves a checkpoint and is queued again (checkpoint.signal_before), also where the program then leaves with 0, unless it has said through $DLRUN_PROGRESS that it is done. failure: a rank ended of itself, or was killed.", .fallback = "all of them; timeout only with checkpoint.signal_before", .example = "[preemption, node_failure, hang]"},
  {.path = "retry.exclude_bad_nodes", FIELD(retry.exclude_bad_nodes), .help = "Keep off nodes that failed, or whose rank hung.", .fallback = "false", .example = "true"},
  {.path = "retry.no_progress", FIELD(retry.no_progress), .min = 1, .max = 1000, .help = "Give up after this many attempts in a row that got no further than the best before them: by the steps that the trainer, or any program through $DLRUN_PROGRESS, reports. Of a program that never reports nobody can tell; attempts that ended before it was started count.", .fallback = "3", .example = "2"},
  {.path = "health.preflight", FIELD(health.preflight), .format = Format::kChoice, .choices = "gpu nccl gloo disk clock", .help = "Checks of every node before any rank's program starts; a node that is not fit is named, and for retry.on it is a node_failure; where all of several nodes fail alike the run ends, since another start would not help (code 80). gpu: nvidia-smi lists every GPU that the rank sees, without uncorrected memory errors. disk: the run's folder, $TMPDIR and /dev/shm take a file. clock: within five seconds of the first node's. nccl: all ranks together, each on its GPU, all-reduce four MiB over NCCL within a minute, and the sums are right; a rank that does not come is named with its node. gloo: the same on processors and the network alone. dlrun bench collectives measures them.", .example = "[gpu, nccl, disk, clock]"},
  {.path = "health.hang_after", FIELD(health.hang_after), .format = Format::kDuration, .help = "A run that shows no progress for this long hangs: it is ended, and starts again where retry.on has hang. Progress is what the program reports (the trainer does; any other as {\"step\": 120, \"steps\": 5000, \"loss\": 0.5}, written whole each time, in place (no rename), into the file that rank 0 finds in $DLRUN_PROGRESS), else what any rank prints. A rank whose process is stopped hangs too.", .fallback = "30 minutes for programs that report progress, 1 minute for stopped processes", .example = "15m"},
  {.path = "health.idle_gpu_after", FIELD(health.idle_gpu_after), .format = Format::kDuration, .help = "A GPU that has not worked for this long is idle: its node is named. nvidia-smi tells it of every GPU of the job, every five seconds.", .fallback = "nobody asks", .example = "30m"},
  {.path = "health.idle_gpu", FIELD(health.idle_gpu), .format = Format::kChoice, .choices = "warn end", .help = "With idle_gpu_after, what follows: a warning, in the log and in `dlrun status`, or the end of the run (code 81), which then does not start again.", .fallback = "warn", .example = "end"},
  {.path = "health.known_bad.file", FIELD(health.known_bad_file), .format = Format::kPath, .help = "The file in which runs remember bad nodes, for all who use the same file: nodes that were lost, that hung, or that failed health.preflight. `dlrun nodes` lists them and forgets them.", .fallback = "known-bad.jsonl in the runs folder", .example = "~/known-bad.jsonl"},
  {.path = "health.known_bad.for", FIELD(health.known_bad_for), .format = Format::kDuration, .help = "How long a bad node is remembered. A submission adds the nodes that are remembered to resources.exclude and says which; a node of resources.nodelist stays. `known_bad: 7d` is short for this key.", .fallback = "7d, once another key of known_bad is given", .example = "7d"},

  {.path = "after.ok", FIELD(after.ok), .help = "Start when these have succeeded: runs by name, id or path, or Slurm job ids. A job whose wait can never end is cancelled.", .example = "[preprocess, \"4711\"]"},
  {.path = "after.any", FIELD(after.any), .help = "Start when these have ended, however they did.", .example = "last"},
  {.path = "after.notok", FIELD(after.notok), .help = "Start when these have failed.", .example = "[train]"},

  {.path = "code.snapshot", FIELD(code_snapshot), .help = "Copy the source tree into the run and start the job there, so that editing on does not change a job that waits: of a git repository what git does not ignore, else the spec's folder (slurm.chdir where it is given). Commit and diff are recorded in any case. `dlrun resubmit` runs the copy again; submitting a run's resolved.yaml takes a new one.", .fallback = "false", .example = "true"},

  {.path = "sweep.parameters", FIELD(sweep.parameters), .help = "A sweep, one job array: keys of this page and the values to try, each combination a run of its own; the last key changes fastest. With random a key may have {min, max} instead of a list, and log: true.", .example = "{train.lr: [0.1, 0.01], train.batch: [32, 256]}"},
  {.path = "sweep.points", FIELD(sweep.points), .help = "In place of parameters: the combinations themselves.", .example = "[{train.lr: 0.1, train.batch: 32}, {train.lr: 0.01, train.batch: 256}]"},
  {.path = "sweep.random", FIELD(sweep.random), .min = 1, .max = 10000, .help = "That many random points of parameters, no two alike, in place of all combinations.", .example = "20"},
  {.path = "sweep.seed", FIELD(sweep.seed), .min = 0, .max = 4294967295.0, .help = "Seeds the random points: the same seed gives the same points.", .fallback = "1", .example = "1"},
  {.path = "sweep.max_parallel", FIELD(sweep.max_parallel), .min = 1, .max = 1e6, .help = "How many points run at once.", .fallback = "as many as Slurm starts", .example = "4"},
  {.path = "submit.via", FIELD(submit.via), .format = Format::kChoice, .choices = "sbatch slurmrestd", .help = "How the job gets to Slurm: sbatch, or Slurm's REST API. Everything about the run goes the same way; dlrun interactive needs salloc.", .fallback = "sbatch", .example = "sbatch"},
  {.path = "submit.url", FIELD(submit.url), .help = "Where slurmrestd listens: unix:/PATH, http://127.0.0.1:PORT or https://HOST[:PORT].", .example = "unix:/run/slurmrestd/socket"},
  {.path = "submit.token_file", FIELD(submit.token_file), .format = Format::kPath, .help = "A file of mode 0600 with the token that `scontrol token` prints; a socket needs none.", .example = "~/.config/dlrun/token"},

  // Reserved keys of parts that do not exist yet: refused by name, so that they are not
  // reported as spelling errors.
  {.path = "notify.webhook", .help = "Where to send notifications."},
  {.path = "notify.on", .help = "What to notify of."},
  {.path = "track.mlflow", .help = "An MLflow server."},
  {.path = "track.tensorboard", .help = "Write TensorBoard events."},
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
