// Fuzzes the code that reads a checkpoint: the file with the arrays, and the manifest with the
// checksums. If the first byte of the input is 'm', the rest is read as the manifest, otherwise as
// the file with the arrays.

#include "runtime/trainer/checkpoint/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "runtime/trainer/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_directory.h"

namespace {

using namespace dlrun;
using namespace dlrun::trainer;

void read_arrays(std::span<const std::uint8_t> bytes) {
  const auto parsed = parse_safetensors("model.safetensors", bytes);
  if (!parsed) return;
  for (const auto& [name, tensor] : parsed->tensors) {
    const bool is_inside = tensor.bytes.empty() || (tensor.bytes.data() >= bytes.data() &&
                                                    tensor.bytes.data() + tensor.bytes.size() <=
                                                        bytes.data() + bytes.size());
    fuzz::expect(is_inside, "an array lies inside its file");
  }
}

/// Writes the text as the manifest of a checkpoint with valid arrays, and loads this checkpoint.
void read_manifest(std::string_view text) {
  namespace fs = std::filesystem;
  static const TemporaryDirectory folder;
  const fs::path& root = folder.path();
  static const CheckpointLayout layout{{{"layers.0.weight", {2}, 0}}};
  static const auto check_may_commit = [] { return Result<>(); };
  static const bool is_saved = [&] {
    TrainingState state;
    state.position.step = 1;
    state.optimizer = "sgd";
    state.parameters = {1.0F, 2.0F};
    return CheckpointFolder(root, 1, check_may_commit).save(state, layout).has_value();
  }();
  fuzz::expect(is_saved, "the checkpoint with valid arrays can be saved");
  std::ofstream(root / "step-00000001" / "manifest.json") << text;
  std::vector<std::string> damaged;
  const auto state =
      CheckpointFolder(root, 1, check_may_commit).load_newest(layout, "sgd", {}, damaged);
  if (state && *state)
    fuzz::expect((*state)->parameters.size() == 2,
                 "a loaded checkpoint has as many parameters as the model");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] == 'm') {
    read_manifest(fuzz::text_of(data + 1, size - 1));
  } else {
    read_arrays({data + 1, size - 1});
  }
  return 0;
}
