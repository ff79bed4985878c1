#pragma once
// A part of the key table (launcher/spec/spec_keys.h): train and checkpoint, for the bundled
// trainer.

#include "launcher/spec/keys/key_row_parts.h"

namespace dlrun::keys {

// clang-format off
inline constexpr KeyRow kTrainKeys[] = {
  {.path = "train.data.dataset", FIELD(train.dataset), .format = Format::kChoice,
   .choices = "mnist idx cifar10 arrays digits patches", .option = trainer("--dataset"),
   .help = "The files in train.data.path have this format: mnist (IDX files with MNIST's names), "
           "idx (images of any size, with the same names), cifar10 (its binary version), or arrays "
           "(safetensors files with images and labels). digits: IDX files, or images that the "
           "trainer draws if train.data.path is missing. patches: images that the trainer always "
           "draws, of land cover in the shape of BigEarthNet, with 12 bands and 19 labels, for "
           "loss: sigmoid.",
   .fallback = "digits", .example = "mnist"},
  {.path = "train.data.path", FIELD(train.data_path), .format = Format::kPath,
   .option = trainer("--data"),
   .help = "This folder contains the data. Every dataset except digits and patches needs this key; "
           "patches does not accept it.",
   .example = "./data"},
  {.path = "train.data.download", FIELD(train.downloads),
   .help = "dlrun fetches these files over https or http into train.data.path before the job is "
           "queued. `sha256` is the checksum that the file must have (`sha256sum FILE` prints it). "
           "`file` is the name of the file; the default is the last part of the url. `bytes` is "
           "the size, if you know it. dlrun checks an existing file instead of fetching it again, "
           "refuses a file with another checksum, and never overwrites a file. dlrun does not "
           "unpack archives. The run's record contains url and checksum, so a url must not contain "
           "a password.",
   .example = "[{url: \"https://example.org/mnist/t10k-labels-idx1-ubyte.gz\", sha256: "
              "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6}]"},
  {.path = "train.data.train_samples", FIELD(train.train_samples), .min = 0, .max = kDefaultMax,
   .option = trainer("--train-samples"),
   .help = "The trainer uses only this number of training samples, the first ones; 0 means all.",
   .fallback = "0", .example = "10000"},
  {.path = "train.data.test_samples", FIELD(train.test_samples), .min = 0, .max = kDefaultMax,
   .option = trainer("--test-samples"),
   .help = "The trainer uses only this number of test samples, the first ones; 0 means all.",
   .fallback = "0", .example = "1000"},
  {.path = "train.data.patch_size", FIELD(train.patch_size), .min = 8, .max = 1024,
   .option = trainer("--patch-size"),
   .help = "With dataset: patches, each image has this number of pixels per row and per column.",
   .fallback = "120", .example = "32"},
  {.path = "train.model", FIELD(train.model), .format = Format::kChoice,
   .choices = "mlp cnn resnet18 resnet50 efficientnet-b0", .option = trainer("--model"),
   .help = "The network is mlp (784-512-10), cnn (3x3 convolutions of 32 and 64 channels, maxpool "
           "2, dropout, dense 128 and 10), resnet18 for small images such as those of CIFAR-10, or "
           "resnet50 or efficientnet-b0 for images of any size.",
   .fallback = "mlp", .example = "cnn"},
  {.path = "train.hidden", FIELD(train.hidden), .format = Format::kCount,
   .option = trainer("--hidden"),
   .help = "The hidden layers of mlp have these widths: 512, or [512, 256].",
   .fallback = "512", .example = "[512, 256]"},
  {.path = "train.layers", FIELD(train.layers), .option = trainer("--layers"),
   .help = "These layers define a network of your own, instead of train.model and train.hidden: "
           "dense N; conv2d CHANNELS SIZE [stride S] [same] [nobias]; depthwise SIZE [stride S] "
           "[same] [nobias]; maxpool SIZE [stride S] [same]; avgpool SIZE [stride S]; avgpool all; "
           "relu, tanh, sigmoid, silu; squeeze-excite N; dropout RATE; flatten; batchnorm [sync]; "
           "'residual: LAYER; LAYER [; shortcut; LAYER]'.",
   .example = "[conv2d 16 5 stride 2, relu, maxpool 2, dropout 0.5, dense 10]"},
  {.path = "train.loss", FIELD(train.loss), .format = Format::kChoice,
   .choices = "softmax sigmoid", .option = trainer("--loss"),
   .help = "softmax: each sample belongs to one class. sigmoid: each sample belongs to any number "
           "of classes, with a label of 0 or 1 for each class; it needs train.data.dataset: arrays "
           "or patches.",
   .fallback = "softmax", .example = "softmax"},
  {.path = "train.optimizer.name", FIELD(train.optimizer), .format = Format::kChoice,
   .choices = "adam adamw sgd nesterov rmsprop lars lamb novograd lion",
   .option = trainer("--optimizer"),
   .help = "The trainer uses this optimizer.",
   .fallback = "adam", .example = "lamb"},
  {.path = "train.optimizer.momentum", FIELD(train.momentum), .min = 0, .max = 0.999999,
   .option = trainer("--momentum"),
   .help = "sgd, nesterov, lars and rmsprop use this momentum.",
   .fallback = "0.9; rmsprop 0", .example = "0.9"},
  {.path = "train.optimizer.weight_decay", FIELD(train.weight_decay), .min = 0, .max = 1,
   .option = trainer("--weight-decay"),
   .help = "This weight decay acts on the gradient. With adamw, lamb and lion it acts on the step "
           "itself, with novograd on the normalised gradient.",
   .fallback = "0; lars 1e-4; adamw and lamb 0.01", .example = "1e-4"},
  {.path = "train.optimizer.beta1", FIELD(train.beta1), .min = 0, .max = 0.999999,
   .option = trainer("--beta1"),
   .help = "adam, adamw, lamb, novograd and lion use this decay rate for the mean gradient.",
   .fallback = "0.9; novograd 0.95", .example = "0.9"},
  {.path = "train.optimizer.beta2", FIELD(train.beta2), .min = 0, .max = 0.999999999,
   .option = trainer("--beta2"),
   .help = "adam, adamw, lamb and novograd use this decay rate for the mean squared gradient, and "
           "lion for its momentum.",
   .fallback = "0.999; novograd 0.98; lion 0.99", .example = "0.98"},
  {.path = "train.optimizer.epsilon", FIELD(train.epsilon), .min = 0, .max = 1,
   .option = trainer("--epsilon"),
   .help = "adam, adamw, rmsprop, lamb and novograd add this number to the divisor.",
   .fallback = "1e-8; lamb 1e-6", .example = "1e-7"},
  {.path = "train.optimizer.alpha", FIELD(train.alpha), .min = 0, .max = 0.999999999,
   .option = trainer("--alpha"),
   .help = "rmsprop uses this decay rate for the mean squared gradient.",
   .fallback = "0.99", .example = "0.9"},
  {.path = "train.optimizer.trust", FIELD(train.trust), .min = 0, .max = 1e6,
   .option = trainer("--trust"),
   .help = "lars uses this trust coefficient.",
   .fallback = "0.001", .example = "0.02"},
  {.path = "train.optimizer.state", FIELD(train.optimizer_state), .format = Format::kChoice,
   .choices = "whole sharded", .option = trainer("--optimizer-state"),
   .help = "sharded (ZeRO-1): each rank keeps only its part of the optimizer's arrays, and updates "
           "that part of the parameters. lars, lamb and novograd do not support it. "
           "With train.device: cuda it needs train.backend: nccl.",
   .fallback = "whole", .example = "sharded"},
  {.path = "train.compression", FIELD(train.compression), .format = Format::kChoice,
   .choices = "none bf16 fp16", .option = trainer("--compression"),
   .help = "The ranks send and add gradients in 16 bits, which halves the bytes. bf16 has the "
           "range of float32; fp16 has three more bits of precision. The backend nccl and "
           "optimizer.state: sharded do not support it.",
   .fallback = "none", .example = "bf16"},
  {.path = "train.local_steps", FIELD(train.local_steps), .min = 1, .max = 1e6,
   .option = trainer("--local-steps"),
   .help = "Post-local SGD: each rank steps with its own gradients. After this number of steps, "
           "and at the end of an epoch, the ranks average parameters and optimizer arrays. This "
           "replaces the average of gradients at each step. optimizer.state: sharded does not "
           "support it.",
   .fallback = "the ranks average gradients at each step", .example = "8"},
  {.path = "train.local_after", FIELD(train.local_after), .min = 0, .max = 1e6,
   .option = trainer("--local-after"),
   .help = "With local_steps: for this number of epochs the ranks first average gradients at each "
           "step; local steps begin afterwards.",
   .fallback = "0", .example = "2"},
  {.path = "train.clip_norm", FIELD(train.clip_norm), .min = 0, .max = 1e6,
   .option = trainer("--clip-norm"),
   .help = "The trainer limits the global norm of the gradients to this value; 0 means no limit.",
   .fallback = "0", .example = "1.0"},
  {.path = "train.lr", FIELD(train.lr), .min = 1e-12, .max = 1e6, .option = trainer("--lr"),
   .help = "This is the learning rate. With several ranks, lr_scaling can raise it.",
   .fallback = "0.001", .example = "0.001"},
  {.path = "train.lr_scaling", FIELD(train.lr_scaling), .format = Format::kChoice,
   .choices = "none linear sqrt", .option = trainer("--lr-scaling"),
   .help = "The learning rate grows in proportion to the number of ranks (linear) or to its square "
           "root (sqrt), or stays equal (none).",
   .fallback = "none", .example = "sqrt"},
  {.path = "train.lr_decay", FIELD(train.lr_decay), .format = Format::kChoice,
   .choices = "constant linear cosine step polynomial", .option = trainer("--lr-decay"),
   .help = "The learning rate falls to 0 over the run (linear, cosine, polynomial), falls at "
           "lr_steps (step, which needs lr_steps), or stays equal (constant).",
   .fallback = "linear", .example = "cosine"},
  {.path = "train.lr_steps", FIELD(train.lr_steps), .format = Format::kCount,
   .option = trainer("--lr-steps"),
   .help = "With lr_decay: step, the learning rate falls after each of these epochs.",
   .example = "[30, 60, 80]"},
  {.path = "train.lr_step_factor", FIELD(train.lr_step_factor), .min = 0, .max = 1,
   .option = trainer("--lr-step-factor"),
   .help = "The trainer multiplies the learning rate by this factor at each of lr_steps.",
   .fallback = "0.1", .example = "0.2"},
  {.path = "train.lr_power", FIELD(train.lr_power), .min = 0, .max = 100,
   .option = trainer("--lr-power"),
   .help = "With lr_decay: polynomial, the learning rate is proportional to the part of the run "
           "that is left, raised to this power.",
   .fallback = "2", .example = "1"},
  {.path = "train.warmup_epochs", FIELD(train.warmup_epochs), .min = 0, .max = 1e6,
   .option = trainer("--warmup-epochs"),
   .help = "The learning rate first rises over this number of epochs: from train.lr to the scaled "
           "rate, or from 0 without lr_scaling.",
   .fallback = "0", .example = "1"},
  {.path = "train.batch", FIELD(train.batch), .min = 1, .max = 1048576,
   .option = trainer("--batch"),
   .help = "Each rank processes this number of samples in a step. The global batch is this number "
           "times the number of ranks.",
   .fallback = "32", .example = "32"},
  {.path = "train.micro_batch", FIELD(train.micro_batch), .min = 1, .max = 1048576,
   .option = trainer("--micro-batch"),
   .help = "At most this number of a rank's samples go through the network in one pass. The "
           "trainer accumulates gradients until the batch is complete.",
   .fallback = "the whole batch", .example = "8"},
  {.path = "train.epochs", FIELD(train.epochs), .min = 1, .max = 1e6, .option = trainer("--epochs"),
   .help = "The trainer passes over the data this number of times.",
   .fallback = "4", .example = "4"},
  {.path = "train.augment", FIELD(train.augment), .option = trainer("--augment"),
   .help = "The trainer changes training images at random, differently in each epoch: flip mirrors "
           "left and right, rotate turns by 0, 90, 180 or 270 degrees (square images only), "
           "shift moves by up to 4 pixels (shift N: by up to N) and fills with 0. The changes "
           "depend on seed, epoch and sample only: they are the same for any number of ranks and "
           "after a restart. Test images stay as they are.",
   .fallback = "none", .example = "[flip, rotate, shift 8]"},
  {.path = "train.shard", FIELD(train.shard), .format = Format::kChoice,
   .choices = "sample file epoch", .option = trainer("--shard"),
   .help = "The ranks divide the samples of each epoch (sample), the files (file: each rank reads "
           "its own partitions of dataset: arrays), or the epochs (epoch: each rank trains its "
           "share of the epochs, each with all samples).",
   .fallback = "sample", .example = "epoch"},
  {.path = "train.seed", FIELD(train.seed), .min = 0, .max = 4294967295.0,
   .option = trainer("--seed"),
   .help = "This number seeds everything that is random in the trainer, such as the parameters, "
           "the order of samples and the augmentation.",
   .fallback = "1", .example = "1"},
  {.path = "train.backend", FIELD(train.backend), .format = Format::kChoice,
   .choices = "auto mpi gloo shm nccl single", .option = trainer("--backend"),
   .help = "The ranks communicate through this backend. shm is shared memory, for ranks on one "
           "node; single is one rank without communication. mpi uses the MPI library of the host, "
           "so it does not work in a container.",
   .fallback = "auto: shm on one node, mpi if srun starts MPI, else gloo", .example = "gloo"},
  {.path = "train.device", FIELD(train.device), .format = Format::kChoice, .choices = "cpu cuda",
   .option = trainer("--device"),
   .help = "The ranks compute on the CPU, or with cuda each on its GPU. Networks and checkpoints "
           "are the same.",
   .fallback = "cpu", .example = "cuda"},
  {.path = "train.precision", FIELD(train.precision), .format = Format::kChoice,
   .choices = "float32 bf16", .option = trainer("--precision"),
   .help = "bf16 needs train.device: cuda. Matrix products and convolutions then round their "
           "inputs to bfloat16 and add up in float32. The outputs of convolutions are rounded, "
           "too. Parameters, sums of gradients, the optimizer, normalisation, the loss and "
           "checkpoints stay float32.",
   .fallback = "float32", .example = "bf16"},
  {.path = "train.cuda_graphs", FIELD(train.cuda_graphs), .option = trainer("--cuda-graphs"),
   .help = "With train.device: cuda and one rank, the trainer sends a step to the GPU as one "
           "operation (a CUDA graph). Small networks become faster; the results are the same, bit "
           "for bit. Operations that need the norm of gradients or of a tensor (clip_norm, lars, "
           "lamb, novograd) stay outside the graph. With several ranks the trainer uses no graph "
           "and prints that.",
   .fallback = "false", .example = "true"},
  {.path = "train.trace_steps", FIELD(train.trace_steps), .min = 0, .max = 100000,
   .option = trainer("--trace-steps"),
   .help = "The trainer records a timeline of this number of steps at the start of each attempt, "
           "in trace/ of the run's directory. ui.perfetto.dev and chrome://tracing open the "
           "timeline. The timeline shows data, forward, backward, the all-reduce of each bucket, "
           "optimizer and checkpoints of every rank.",
   .fallback = "0", .example = "20"},
  {.path = "train.threads", FIELD(train.threads), .min = 1, .max = 1024,
   .option = trainer("--threads"),
   .help = "Each rank computes with this number of threads.",
   .fallback = "1", .example = "2"},

  {.path = "checkpoint.dir", FIELD(checkpoint.dir), .option = trainer("--checkpoint-dir"),
   .help = "The trainer saves checkpoints in this folder: an absolute path, or one below the run's "
           "directory.",
   .fallback = "ckpt", .example = "ckpt"},
  {.path = "checkpoint.every", FIELD(checkpoint.every), .format = Format::kInterval,
   .option = trainer("--checkpoint-every"),
   .help = "The trainer saves a checkpoint at this interval: '500 steps', or '1 epoch'.",
   .fallback = "1 epoch", .example = "500 steps"},
  {.path = "checkpoint.keep", FIELD(checkpoint.keep), .min = 0, .max = 1e6,
   .option = trainer("--checkpoint-keep"),
   .help = "The trainer keeps this number of the newest checkpoints; 0 means that it saves none.",
   .fallback = "3", .example = "3"},
  {.path = "checkpoint.resume", FIELD(checkpoint.resume), .option = trainer_switch("--resume"),
   .help = "With true, the trainer continues from the newest checkpoint in checkpoint.dir, also if "
           "another run saved it. With false, a new run refuses a folder that has checkpoints. "
           "Restarts of the run continue in both cases. true needs checkpoint.dir with an absolute "
           "path.",
   .fallback = "false", .example = "true"},
  {.path = "checkpoint.signal_before", FIELD(checkpoint.signal_before),
   .format = Format::kDuration,
   .help = "The program gets USR1 this long before the time limit, so that it can save a "
           "checkpoint. Slurm may send the signal up to a minute earlier. If retry.on contains "
           "`timeout`, the job is queued again. Without `timeout` in retry.on, a program that then "
           "exits with 0 completes the run, and the message of the run mentions the signal.",
   .example = "120s"},
};
// clang-format on

}  // namespace dlrun::keys
