// save() writes both data files, syncs them, calls check_may_commit, then writes the manifest
// atomically. load_newest() tries the checkpoints from the newest to the oldest, until all
// checksums of one match.

#include "runtime/trainer/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/bounded_json.h"
#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/trainer/checkpoint/safetensors.h"
#include "runtime/trainer/parallel/agreement.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "dlrun-checkpoint-1";
constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kManifestFile = "manifest.json";
constexpr std::size_t kMaxManifestBytes = 1U << 20U;
/// A file of arrays may be read up to this number of bytes even if the manifest gives a smaller
/// size. The message about the damage can then give both sizes.
constexpr std::size_t kMinArraysLimit = std::size_t{64} << 30U;

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

void add_arrays(std::vector<NamedArray>& arrays, const std::string& prefix,
                const std::vector<float>& flat, const std::vector<TensorLocation>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : flat.size();
    arrays.push_back({prefix + tensors[i].name, tensors[i].shape,
                      std::span(flat).subspan(tensors[i].offset, end - tensors[i].offset)});
  }
}

/// Copies the arrays named prefix + tensor.name from a parsed file into a flat array. Fails
/// with kInvalid if an array is missing or has another shape: the file is undamaged but
/// belongs to another model.
Result<std::vector<float>> to_flat(const fs::path& file, const ParsedTensors& parsed,
                                   const std::string& prefix,
                                   const std::vector<TensorLocation>& tensors) {
  std::vector<float> flat;
  for (const TensorLocation& tensor : tensors) {
    const auto found = parsed.tensors.find(prefix + tensor.name);
    if (found == parsed.tensors.end()) {
      return fail(Errc::kInvalid, "{}: has no array {}{}: it is a checkpoint of another model",
                  file.string(), prefix, tensor.name);
    }
    if (found->second.dtype != "F32" || found->second.shape != tensor.shape) {
      return fail(
          Errc::kInvalid,
          "{}: {}{} is {} [{}], this model needs F32 [{}]: it is a checkpoint of another model",
          file.string(), prefix, tensor.name, found->second.dtype,
          fmt::join(found->second.shape, " x "), fmt::join(tensor.shape, " x "));
    }
    const std::size_t at = flat.size();
    flat.resize(at + found->second.bytes.size() / sizeof(float));
    std::memcpy(flat.data() + at, found->second.bytes.data(), found->second.bytes.size());
  }
  return flat;
}

/// Returns the tensors of one of the optimizer's arrays.
std::vector<TensorLocation> tensors_of(const CheckpointLayout& layout,
                                       const std::string& array_name) {
  std::vector<TensorLocation> tensors = layout.parameters;
  if (std::ranges::find(layout.per_tensor_arrays, array_name) == layout.per_tensor_arrays.end())
    return tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].shape = {1};
    tensors[i].offset = i;
  }
  return tensors;
}

/// The content of a checkpoint's three files.
struct StoredCheckpoint {
  ordered_json manifest;
  std::string model;
  std::string optimizer;
};

/// Returns the checksum of a manifest, computed without the field that holds this checksum.
std::string checksum_of(ordered_json manifest) {
  manifest.erase("blake2b");
  return blake2b_hex(bytes_of(manifest.dump()));
}

/// Parses the manifest of the checkpoint in `folder`. Fails with kInvalid.
Result<ordered_json> parse_manifest(const fs::path& folder, std::string_view text) {
  ordered_json manifest = parse_json(text);
  const auto are_counts = [](const ordered_json& list) {
    return list.is_array() &&
           std::ranges::all_of(list, [](const auto& value) { return value.is_number_unsigned(); });
  };
  const auto has_count = [&](const char* key) {
    return manifest.contains(key) && manifest[key].is_number_unsigned();
  };
  if (!manifest.is_object() || !manifest.contains("format") || manifest["format"] != kFormat ||
      !has_count("step") || !has_count("epoch") || !has_count("offset") || !has_count("seed") ||
      !manifest.contains("optimizer") || !manifest["optimizer"].is_string() ||
      !manifest.contains("files") || !manifest["files"].is_object() ||
      !are_counts(manifest.value("rank_samples", ordered_json::array())) ||
      (manifest.contains("epoch_ranks") &&
       (!has_count("epoch_ranks") || manifest["epoch_ranks"] == 0))) {
    return fail(Errc::kInvalid, "{}: is not a manifest of {}", (folder / kManifestFile).string(),
                kFormat);
  }
  // The first version of the format had no checksum.
  if (manifest.contains("blake2b") && manifest["blake2b"] != checksum_of(manifest)) {
    return fail(Errc::kInvalid, "{}: the checksum in the file does not match its content",
                (folder / kManifestFile).string());
  }
  return manifest;
}

/// Reads a checkpoint's three files. Fails with kIo if a file cannot be read, and with kNotFound or
/// kInvalid if a file is missing or damaged.
Result<StoredCheckpoint> read_stored(const fs::path& folder) {
  DLRUN_TRY_ASSIGN(const auto text,
                   read_untrusted(folder / kManifestFile, kMaxManifestBytes, Links::kFollow));
  StoredCheckpoint stored;
  DLRUN_TRY_ASSIGN(stored.manifest, parse_manifest(folder, text));
  const ordered_json& manifest = stored.manifest;
  for (const auto& [name, content] :
       {std::pair(kModelFile, &stored.model), std::pair(kOptimizerFile, &stored.optimizer)}) {
    const fs::path path = folder / name;
    const ordered_json entry = manifest["files"].value(name, ordered_json());
    if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned() ||
        !entry.contains("blake2b") || !entry["blake2b"].is_string()) {
      return fail(Errc::kInvalid, "{}: lacks the size or the checksum of {}",
                  (folder / kManifestFile).string(), name);
    }
    const auto declared = entry["bytes"].get<std::size_t>();
    DLRUN_TRY_ASSIGN(auto bytes, read_file(path, std::max(declared, kMinArraysLimit)));
    if (bytes.size() != declared) {
      return fail(Errc::kInvalid, "{}: has {} bytes, its manifest says {}", path.string(),
                  bytes.size(), declared);
    }
    if (blake2b_hex(bytes_of(bytes)) != entry["blake2b"].get<std::string>()) {
      return fail(Errc::kInvalid, "{}: its checksum differs from the one in the manifest",
                  path.string());
    }
    *content = std::move(bytes);
  }
  return stored;
}

/// Checks that load_newest() would accept a manifest that is about to be written.
Result<> check_manifest(const fs::path& folder, std::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return fail(Errc::kInvalid, "{}: would have {} bytes, at most {} can be read again",
                (folder / kManifestFile).string(), text.size(), kMaxManifestBytes);
  }
  DLRUN_TRY(parse_manifest(folder, text));
  return {};
}

}  // namespace

Result<> check_attempt_owns_run(const Env& env) {
  const auto run = env.get("DLRUN_RUN");
  const auto attempt = env.get("DLRUN_ATTEMPT");
  if (!run || run->empty() || !attempt || attempt->empty()) return {};
  const fs::path path = fs::path(*run) / "attempt";
  auto text = read_file(path, 64);
  if (!text) return within("cannot tell which attempt owns this run", text.error());
  if (trim(*text) == *attempt) return {};
  return fail(
      Errc::kRefused,
      "{}: the run belongs to attempt {}, this is attempt {}: another start of this run has "
      "taken over; this attempt saves no checkpoint any more",
      path.string(), printable(trim(*text)), *attempt);
}

CheckpointFolder::CheckpointFolder(fs::path path, std::size_t keep,
                                   std::function<Result<>()> check_may_commit)
    : path_(std::move(path)),
      keep_(std::max<std::size_t>(keep, 1)),
      check_may_commit_(std::move(check_may_commit)) {}

Result<> CheckpointFolder::save(const TrainingState& state, const CheckpointLayout& layout) const {
  // Check before removing files: an attempt that no longer owns the run must not change anything.
  DLRUN_TRY(check_may_commit_());
  const std::string name = fmt::format("{}{:08}", kStepPrefix, state.position.step);
  const fs::path folder = path_ / name;
  std::error_code ignored;
  // Remove a damaged or unfinished checkpoint that an earlier attempt left at this step.
  fs::remove(folder / kManifestFile, ignored);
  fs::remove_all(folder, ignored);
  const auto start = std::chrono::steady_clock::now();
  auto written = write(folder, state, layout);
  log_info("writing a checkpoint has ended", {{"folder", folder},
                                              {"step", state.position.step},
                                              {"seconds", std::chrono::steady_clock::now() - start},
                                              {"error", written ? "" : written.error().message}});
  if (!written) {
    // If another attempt has taken over, this directory may already be a checkpoint of that
    // attempt.
    if (check_may_commit_()) fs::remove_all(folder, ignored);
    return within("cannot save a checkpoint", written.error());
  }
  if (auto latest = write_file_atomic(path_ / "latest", name + "\n"); !latest) {
    return within(
        fmt::format("{} is saved, but the file `latest` could not be written", folder.string()),
        latest.error());
  }

  const auto all = names();
  if (!all) {
    return within(
        fmt::format("{} is saved, but older checkpoints could not be removed", folder.string()),
        all.error());
  }
  // Count this checkpoint first. It need not be the first in the list: an earlier attempt may have
  // left checkpoints of later steps.
  std::size_t kept = 1;
  for (const std::string& other : *all) {
    if (other == name) continue;
    if (kept < keep_ && fs::exists(path_ / other / kManifestFile, ignored)) {
      ++kept;
      continue;
    }
    // Remove the manifest first, so that a partly removed checkpoint does not look valid.
    fs::remove(path_ / other / kManifestFile, ignored);
    fs::remove_all(path_ / other, ignored);
  }
  return {};
}

Result<> CheckpointFolder::write(const fs::path& folder, const TrainingState& state,
                                 const CheckpointLayout& layout) const {
  std::vector<NamedArray> model;
  std::vector<NamedArray> optimizer;
  add_arrays(model, "", state.parameters, layout.parameters);
  add_arrays(model, "", state.running_statistics, layout.running_statistics);
  for (std::size_t i = 0; i < state.optimizer_arrays.size(); ++i) {
    const std::string& name = state.optimizer_array_names[i];
    add_arrays(optimizer, name + ".", state.optimizer_arrays[i], tensors_of(layout, name));
  }

  DLRUN_TRY(make_private_directories(folder));
  ordered_json manifest{{"format", kFormat},
                        {"step", state.position.step},
                        {"epoch", state.position.epoch},
                        {"offset", state.position.offset},
                        {"seed", state.seed},
                        {"optimizer", state.optimizer},
                        {"files", ordered_json::object()}};
  if (!state.rank_samples.empty()) manifest["rank_samples"] = state.rank_samples;
  if (state.epoch_sequence_count > 1) manifest["epoch_ranks"] = state.epoch_sequence_count;
  const std::map<std::string, std::string, std::less<>> metadata{
      {"format", std::string(kFormat)}, {"step", fmt::format("{}", state.position.step)}};
  for (const auto& [name, arrays] :
       {std::pair(kModelFile, &model), std::pair(kOptimizerFile, &optimizer)}) {
    const std::string content = to_safetensors(*arrays, metadata);
    // Fail now if the file cannot be read again. Otherwise the checkpoint would count as damaged
    // after a restart, and training would continue from an older one.
    DLRUN_TRY(parse_safetensors((folder / name).string(), bytes_of(content)));
    DLRUN_TRY(create_file_exclusive(folder / name, content));
    manifest["files"][name] = {{"bytes", content.size()},
                               {"blake2b", blake2b_hex(bytes_of(content))}};
  }
  manifest["blake2b"] = checksum_of(manifest);
  const std::string text = manifest.dump(2) + "\n";
  DLRUN_TRY(check_manifest(folder, text));
  DLRUN_TRY(check_may_commit_());
  return write_file_atomic(folder / kManifestFile, text);
}

Result<std::optional<TrainingState>> CheckpointFolder::load_newest(
    const CheckpointLayout& layout, const std::string& optimizer,
    const std::vector<std::string>& array_names, std::vector<std::string>& skip_messages) const {
  try {
    return load_newest_unguarded(layout, optimizer, array_names, skip_messages);
  } catch (const std::bad_alloc&) {
    return fail(
        Errc::kIo,
        "{}: not enough memory to read a checkpoint; the limit may be ulimit -v or resources.mem",
        path_.string());
  }
}

Result<std::optional<TrainingState>> CheckpointFolder::load_newest_unguarded(
    const CheckpointLayout& layout, const std::string& optimizer,
    const std::vector<std::string>& array_names, std::vector<std::string>& skip_messages) const {
  DLRUN_TRY_ASSIGN(const auto all, names());
  for (const std::string& name : all) {
    const fs::path folder = path_ / name;
    const char* const consequence =
        name == all.back() ? "there is no earlier checkpoint: training starts from the beginning"
                           : "using the previous checkpoint";
    std::error_code ignored;
    if (!fs::exists(folder / kManifestFile, ignored) && !ignored) {  // the manifest is written last
      skip_messages.push_back(fmt::format(
          "unfinished checkpoint: {}: its attempt ended before the checkpoint was complete; {}",
          folder.string(), consequence));
      continue;
    }
    auto stored = read_stored(folder);
    auto model = stored ? parse_safetensors((folder / kModelFile).string(), bytes_of(stored->model))
                        : tl::unexpected(stored.error());
    auto parsed_optimizer =
        stored ? parse_safetensors((folder / kOptimizerFile).string(), bytes_of(stored->optimizer))
               : tl::unexpected(stored.error());
    if (const auto& parsed = model ? parsed_optimizer : model;
        !parsed && parsed.error().code == Errc::kIo) {
      // The checkpoint may be undamaged. Do not resume from an older one, because that would lose
      // work.
      return fail(
          Errc::kIo,
          "cannot read a checkpoint: {}; start the run again when the checkpoint can be read",
          parsed.error().message);
    }
    if (!model || !parsed_optimizer) {
      skip_messages.push_back(fmt::format("damaged checkpoint: {}; {}",
                                          (model ? parsed_optimizer : model).error().message,
                                          consequence));
      continue;
    }
    TrainingState state;
    state.position = {stored->manifest["step"], stored->manifest["epoch"],
                      stored->manifest["offset"]};
    state.seed = stored->manifest["seed"];
    if (const auto samples = stored->manifest.find("rank_samples");
        samples != stored->manifest.end())
      state.rank_samples = samples->get<std::vector<std::size_t>>();
    state.epoch_sequence_count = stored->manifest.value("epoch_ranks", std::uint64_t{1});
    state.optimizer = stored->manifest["optimizer"];
    state.optimizer_array_names = array_names;
    if (state.optimizer != optimizer) {
      return fail(Errc::kInvalid, "{}: was saved with optimizer {}, this run has {}",
                  folder.string(), printable(state.optimizer), optimizer);
    }
    DLRUN_TRY_ASSIGN(state.parameters, to_flat(folder / kModelFile, *model, "", layout.parameters));
    DLRUN_TRY_ASSIGN(state.running_statistics,
                     to_flat(folder / kModelFile, *model, "", layout.running_statistics));
    for (const std::string& array_name : array_names) {
      DLRUN_TRY_ASSIGN(auto flat, to_flat(folder / kOptimizerFile, *parsed_optimizer,
                                          array_name + ".", tensors_of(layout, array_name)));
      state.optimizer_arrays.push_back(std::move(flat));
    }
    return state;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> CheckpointFolder::names() const {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kStepPrefix)) continue;
    const auto step = parse_int(std::string_view(name).substr(kStepPrefix.size()));
    if (step && *step >= 0) found.emplace_back(*step, name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return fail(Errc::kIo, "{}: cannot list its checkpoints: {}", path_.string(), error.message());
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto& [step, name] : found) names.push_back(std::move(name));
  return names;
}

}  // namespace dlrun::trainer
