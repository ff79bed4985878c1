// Checks of the program that starts, and of the bundled trainer.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/text.h"
#include "container/container.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/validator.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {

void Validator::check_preset() {
  const auto per_node = ranks_per_node(spec_);
  if (preset_.is_node_launcher) {
    const bool counts_all_tasks =
        has("resources.ntasks"_key) && !has("resources.tasks_per_node"_key);
    const std::string_view key =
        counts_all_tasks ? "resources.ntasks"_key : "resources.tasks_per_node"_key;
    if (!per_node || *per_node != 1) {
      error(key, fmt::format("{}: the preset '{}' needs one task per node, in which it starts "
                             "launch.nproc_per_node processes",
                             key, preset_.name));
    } else if (!nproc_per_node(spec_)) {
      error("launch.nproc_per_node"_key,
            fmt::format(
                "launch.nproc_per_node is missing; set it to the number of processes that '{}' "
                "starts on each node",
                preset_.name));
    }
  } else if (spec_.launch.nproc_per_node) {
    warn("launch.nproc_per_node"_key,
         fmt::format("launch.nproc_per_node has no effect: the key is for presets that start the "
                     "processes of a node themselves, such as torchrun; with '{}' every task is a "
                     "rank (resources.tasks_per_node)",
                     preset_.name));
  }
  const Launch& l = spec_.launch;
  const auto non_workers = l.chief.value_or(0) + l.ps.value_or(0) + l.evaluator.value_or(0);
  if (non_workers == 0) return;
  const std::string_view key = l.ps      ? "launch.roles.ps"_key
                               : l.chief ? "launch.roles.chief"_key
                                         : "launch.roles.evaluator"_key;
  const auto& nodes = spec_.resources.nodes;
  const auto tasks = spec_.resources.ntasks ? spec_.resources.ntasks
                     : per_node && (!nodes || nodes->min == nodes->max)
                         ? std::optional(*per_node * (nodes ? nodes->min : 1))
                         : std::nullopt;
  if (!uses_roles(preset_)) {
    warn(key, fmt::format("launch.roles has no effect: the preset '{}' gives ranks no roles",
                          preset_.name));
  } else if (tasks && *tasks < non_workers) {
    error(key,
          fmt::format("launch.roles asks for {} ranks, but the job has {}", non_workers, *tasks));
  } else if (tasks && *tasks == non_workers && l.chief.value_or(0) == 0) {
    error(key, fmt::format(
                   "launch.roles: ps and evaluator take all {} ranks, so that no rank is a worker",
                   *tasks));
  }
}

void Validator::check_variables_in_command() {
  const auto& words = spec_.launch.command;
  // The word after -c or -lc is code for a shell or another interpreter, which expands variables.
  const auto is_code_option = [](const std::string& word) {
    return word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.back() == 'c';
  };
  if (std::any_of(words.begin(), words.end(), is_code_option)) return;
  const auto has_variable = [](const std::string& word) {
    for (auto at = word.find('$'); at != std::string::npos; at = word.find('$', at + 1)) {
      const auto name_at = word.find('{', at) == at + 1 ? at + 2 : at + 1;
      const char next = name_at < word.size() ? word[name_at] : '\0';
      if ((next >= 'A' && next <= 'Z') || (next >= 'a' && next <= 'z') || next == '_') return true;
    }
    return false;
  };
  const auto found = std::find_if(words.begin(), words.end(), has_variable);
  if (found == words.end()) return;
  warn("launch.command"_key,
       // The word may be a password, which a message must not show.
       fmt::format("launch.command: the program gets word {} as it is, with its '$', because no "
                   "shell runs the command. For the value of a variable, use a shell: [bash, -c, "
                   "'exec {} ...']",
                   found - words.begin() + 1, printable(words.front())));
}

void Validator::warn_of_torchrun() {
  const std::string& program = spec_.launch.command.front();
  const bool has_ranks_of_torch =
      std::any_of(preset_.env.begin(), preset_.env.end(),
                  [](const auto& variable) { return variable.first == "LOCAL_RANK"; });
  if (!has_ranks_of_torch || program.substr(program.rfind('/') + 1) != "torchrun") return;
  warn("launch.command"_key,
       fmt::format("launch.command: with the preset '{}', each rank would start a torchrun of its "
                   "own; give the program alone, or use the preset torchrun without the word "
                   "torchrun",
                   preset_.name));
}

void Validator::warn_of_unused_checkpoint_keys() {
  if (preset_.is_trainer) return;
  for (const std::string_view key : {"checkpoint.dir"_key, "checkpoint.every"_key,
                                     "checkpoint.keep"_key, "checkpoint.resume"_key}) {
    if (!spec_.origins.contains(key)) continue;
    warn(key,
         fmt::format("{} has no effect: the key is for the preset 'trainer', but the preset is "
                     "'{}'; your program saves checkpoints itself{}",
                     key, preset_.name,
                     spec_.launch.agent.value_or(true)
                         ? ", for example in the folder DLRUN_CHECKPOINT_DIR"
                         : ""));
  }
}

void Validator::check_launch() {
  if (preset_.is_trainer) {
    // For a preset that does not exist, preset_choice.cc sets is_trainer, but not
    // program_is_bundled.
    if (preset_.program_is_bundled && spec_.origins.contains("launch.command"_key))
      error(
          "launch.command"_key,
          fmt::format("launch.command: the preset '{}' has its own program; use the keys of train",
                      preset_.name));
  } else if (spec_.launch.command.empty()) {
    error("launch.command"_key, "launch.command is missing; set it to a program and its arguments");
  } else {
    const auto& words = spec_.launch.command;
    if (std::find(words.begin(), words.end(), ":") != words.end()) {
      error(
          "launch.command"_key,
          "launch.command: srun reads an argument ':' as the start of another part of the job, so "
          "that the program does not get it; use a shell: [bash, -c, 'program :']");
    }
    check_variables_in_command();
    warn_of_torchrun();
    for (const KeyRow& row : spec_keys()) {
      if (row.path.substr(0, 6) == "train." && spec_.origins.contains(row.path)) {
        warn(row.path,
             fmt::format(
                 "{} has no effect: the key is for the preset 'trainer', but the preset is '{}'",
                 row.path, preset_.name));
      }
    }
  }
  check_train_backend();
  check_trainer_settings();
  check_train_data();
  check_patches_and_augment();
  if (preset_.is_trainer && !spec_.train.downloads.empty()) check_train_downloads();
}

void Validator::check_train_backend() {
  const std::string mpi = spec_.launch.mpi.value_or("");
  if (spec_.train.backend == "mpi" && mpi == "none") {
    error("train.backend"_key,
          "train.backend is mpi, but launch.mpi is none: each rank would run alone, as a "
          "world of one rank");
  }
  if (spec_.train.backend == "mpi" && container_runtime(spec_, site_) != "none") {
    error("train.backend"_key,
          "train.backend: mpi needs the host's MPI library, which an image lacks; use gloo");
  }
  if (spec_.train.backend == "shm" && spec_.resources.nodes && spec_.resources.nodes->max > 1) {
    error("train.backend"_key, fmt::format("train.backend: shm reaches the ranks of one node, but "
                                           "resources.nodes is {}; use mpi or gloo",
                                           format_nodes(*spec_.resources.nodes)));
  }
}

void Validator::check_trainer_settings() {
  if (!spec_.train.layers.empty() && (spec_.train.model || !spec_.train.hidden.empty())) {
    error("train.layers"_key,
          "train.layers describes the whole network; remove train.model and train.hidden");
  }
  if (spec_.train.lr_decay == "step" && spec_.train.lr_steps.empty()) {
    error("train.lr_decay"_key,
          "train.lr_decay: step needs train.lr_steps, the epochs after which the learning rate "
          "falls");
  } else if (spec_.train.lr_decay != "step" && !spec_.train.lr_steps.empty()) {
    error(
        "train.lr_steps"_key,
        "train.lr_decay is not step, so train.lr_steps has no effect; set train.lr_decay: step, or "
        "remove train.lr_steps");
  }
  const std::string optimizer = spec_.train.optimizer.value_or("");
  if (spec_.train.optimizer_state == "sharded" &&
      (optimizer == "lars" || optimizer == "lamb" || optimizer == "novograd")) {
    error("train.optimizer.state"_key, fmt::format("train.optimizer.state: sharded does not work "
                                                   "with {}, which needs the norms of whole layers",
                                                   optimizer));
  }
  if (spec_.train.optimizer_state == "sharded" && spec_.train.local_steps) {
    error("train.local_steps"_key,
          "train.local_steps: each rank updates all parameters by itself, but with "
          "train.optimizer.state: sharded it updates only a part of them; remove one of the two "
          "keys");
  }
  if (spec_.train.local_after && !spec_.train.local_steps) {
    error("train.local_after"_key,
          "train.local_after needs train.local_steps, the steps between averages");
  }
  if (spec_.train.precision == "bf16" && spec_.train.device.value_or("cpu") != "cuda") {
    error("train.precision"_key,
          "train.precision: bf16 needs train.device: cuda; on the CPU, products are in float32");
  }
  if (spec_.train.cuda_graphs.value_or(false) && spec_.train.device.value_or("cpu") != "cuda") {
    error("train.cuda_graphs"_key,
          "train.cuda_graphs: true needs train.device: cuda; a CPU has no graphs");
  }
  if (spec_.checkpoint.resume.value_or(false) &&
      !spec_.checkpoint.dir.value_or("").starts_with('/')) {
    error("checkpoint.resume"_key,
          "checkpoint.resume: true needs checkpoint.dir, the absolute path of the folder with the "
          "checkpoints to continue from");
  }
}

void Validator::check_train_data() {
  if (preset_.is_trainer && spec_.train.loss == "sigmoid" && spec_.train.dataset != "patches" &&
      spec_.train.dataset.value_or("digits") != "arrays") {
    error("train.loss"_key,
          fmt::format("train.loss: sigmoid needs a label of 0 or 1 for each class, but "
                      "train.data.dataset: {} has one class per sample; use arrays or patches",
                      spec_.train.dataset.value_or("digits")));
  }
  if (spec_.train.shard == "file" && spec_.train.dataset != "arrays") {
    error("train.shard"_key,
          "train.shard is file, which needs train.data.dataset: arrays; the ranks divide the "
          "partitions of this dataset among themselves");
  }
  if (preset_.is_trainer && spec_.train.dataset && *spec_.train.dataset != "digits" &&
      *spec_.train.dataset != "patches" && !has("train.data.path"_key)) {
    error("train.data.dataset"_key,
          fmt::format("train.data.path is missing; set it to the folder with the files of '{}'",
                      *spec_.train.dataset));
  }
}

void Validator::check_patches_and_augment() {
  if (preset_.is_trainer && spec_.train.dataset == "patches" &&
      spec_.train.loss.value_or("softmax") != "sigmoid" &&
      !sweeps_over(spec_.sweep, "train.loss"_key)) {
    error("train.data.dataset"_key,
          "train.data.dataset is patches, which needs train.loss: sigmoid, because an image has "
          "several labels");
  }
  if (preset_.is_trainer && spec_.train.dataset == "patches" && has("train.data.path"_key)) {
    error("train.data.path"_key,
          "train.data.path: the trainer itself draws the images of train.data.dataset: patches; "
          "remove train.data.path");
  }
  if (spec_.train.patch_size && spec_.train.dataset != "patches") {
    error("train.data.patch_size"_key, "train.data.patch_size needs train.data.dataset: patches");
  }
  for (const std::string& word : spec_.train.augment) {
    if (word == "flip" || word == "rotate" || word == "shift") continue;
    if (word == "none") {
      if (spec_.train.augment.size() > 1)
        error(
            "train.augment"_key,
            "train.augment: 'none' cannot be combined with other changes; remove the word 'none', "
            "or give it alone");
      continue;
    }
    const auto pixels = word.starts_with("shift ") ? parse_int(trim(word.substr(6)))
                                                   : std::optional<std::int64_t>();
    if (pixels && *pixels >= 1 && *pixels <= 1024) continue;
    error("train.augment"_key,
          fmt::format("train.augment: '{}' is not flip, rotate, none, or shift [PIXELS] with 1 to "
                      "1024 pixels",
                      printable(word)));
  }
}

void Validator::check_train_downloads() {
  const std::string_view key = "train.data.download"_key;
  if (!has("train.data.path"_key))
    error(key,
          "train.data.download: train.data.path is missing; set it to the folder for the files");
  if (spec_.train.dataset.value_or("digits") == "digits" &&
      !refused_.contains("train.data.dataset"_key))
    error(
        key,
        "train.data.download does not support the dataset digits; set train.data.dataset to mnist, "
        "idx, cifar10 or arrays");
  if (sweeps_over(spec_.sweep, "train.data.path"_key))
    error(
        key,
        "train.data.download: the sweep sets several values of train.data.path, but dlrun fetches "
        "the files into one folder only");
}

}  // namespace dlrun
