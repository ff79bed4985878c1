#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/text.h"
#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/checkpoint/safetensors.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

const CheckpointLayout kTensorLayout{{{"layers.0.weight", {3, 2}, 0}, {"layers.0.bias", {2}, 6}},
                                     {{"layers.1.running_mean", {2}, 0}}};
const std::vector<std::string> kStateNames{"m", "v"};

CheckpointFolder checkpoints_in(const TemporaryDirectory& folder, std::size_t keep = 3) {
  return {folder.path() / "ckpt", keep, [] { return Result<>(); }};
}

TrainingState state_at(std::uint64_t step) {
  TrainingState state;
  state.position = {step, step / 10, step % 10};
  state.seed = 77;
  state.optimizer = "adam";
  state.optimizer_array_names = kStateNames;
  for (int i = 0; i < 8; ++i)
    state.parameters.push_back(static_cast<float>(i) + static_cast<float>(step));
  state.running_statistics = {0.75F, static_cast<float>(step)};
  state.optimizer_arrays = {std::vector<float>(8, 0.5F), std::vector<float>(8, 0.25F)};
  return state;
}

/// Loads the newest undamaged checkpoint and returns its step, or -1 if there is none. Adds a
/// message to `skipped` for each newer checkpoint.
std::int64_t loaded_step(const CheckpointFolder& folder, std::vector<std::string>& skipped) {
  const auto loaded = folder.load_newest(kTensorLayout, "adam", kStateNames, skipped);
  REQUIRE(loaded.has_value());
  return loaded->has_value() ? static_cast<std::int64_t>((*loaded)->position.step) : -1;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Returns a safetensors file with this header and `data_bytes` zero bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, '\0');
}

}  // namespace

TEST_CASE("a checkpoint loads as it was saved") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(42), kTensorLayout));
  std::vector<std::string> skipped;
  const auto loaded =
      checkpoints_in(folder).load_newest(kTensorLayout, "adam", kStateNames, skipped);
  REQUIRE(loaded.has_value());
  REQUIRE(loaded->has_value());
  const TrainingState want = state_at(42);
  CHECK((*loaded)->position == want.position);
  CHECK((*loaded)->seed == 77);
  CHECK((*loaded)->parameters == want.parameters);
  CHECK((*loaded)->running_statistics == want.running_statistics);
  CHECK((*loaded)->optimizer_arrays == want.optimizer_arrays);
  CHECK(skipped.empty());
  CHECK(*read_file(folder.path() / "ckpt/latest", 100) == "step-00000042\n");
}

TEST_CASE(
    "an optimizer array of one number per tensor loads as saved, and is refused where a full array "
    "is needed") {
  const TemporaryDirectory folder;
  CheckpointLayout layout = kTensorLayout;
  layout.per_tensor_arrays = {"v"};
  TrainingState state = state_at(42);
  state.optimizer_arrays[1] = {0.25F, 0.125F};
  REQUIRE(checkpoints_in(folder).save(state, layout));
  std::vector<std::string> skipped;
  const auto loaded = checkpoints_in(folder).load_newest(layout, "adam", kStateNames, skipped);
  REQUIRE(loaded.has_value());
  REQUIRE(loaded->has_value());
  CHECK((*loaded)->optimizer_arrays == state.optimizer_arrays);
  const auto other =
      checkpoints_in(folder).load_newest(kTensorLayout, "adam", kStateNames, skipped);
  REQUIRE_FALSE(other.has_value());
  CHECK(has(other.error().message, "v.layers.0.weight is F32 [1], this model needs F32 [3 x 2]"));
}

TEST_CASE("the newest checkpoints are kept, and older ones are removed") {
  const TemporaryDirectory folder;
  for (const std::uint64_t step : {10U, 20U, 30U, 100'000'000U, 40U})
    REQUIRE(checkpoints_in(folder, 3).save(state_at(step), kTensorLayout));
  CHECK(checkpoints_in(folder).names().value() ==
        std::vector<std::string>{"step-100000000", "step-00000040", "step-00000030"});
}

TEST_CASE(
    "the checkpoint that was just saved is kept and loaded, even if checkpoints of later steps "
    "exist") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder, 1).save(state_at(100), kTensorLayout));
  // A process that is killed while it writes a checkpoint leaves such a folder.
  fs::create_directories(folder.path() / "ckpt/step-00000150");
  REQUIRE(checkpoints_in(folder, 1).save(state_at(120), kTensorLayout));
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == 120);
  CHECK(skipped.empty());
  CHECK(checkpoints_in(folder).names().value() == std::vector<std::string>{"step-00000120"});

  for (const std::uint64_t step : {200U, 300U}) {
    REQUIRE(checkpoints_in(folder, 2).save(state_at(step), kTensorLayout));
    fs::resize_file(folder.path() / fmt::format("ckpt/step-{:08}/model.safetensors", step), 10);
  }
  REQUIRE(checkpoints_in(folder, 2).save(state_at(130), kTensorLayout));
  CHECK(loaded_step(checkpoints_in(folder), skipped) == 130);
  CHECK(checkpoints_in(folder).names().value() ==
        std::vector<std::string>{"step-00000300", "step-00000130"});
}

TEST_CASE(
    "a manifest whose epoch was changed is damaged, and the message says that training starts from "
    "the beginning") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(42), kTensorLayout));
  const fs::path path = folder.path() / "ckpt/step-00000042/manifest.json";
  std::string text = *read_file(path, 1U << 20U);
  const std::string epoch_field = "\"epoch\": 4";
  REQUIRE(has(text, epoch_field));
  text.replace(text.find(epoch_field), epoch_field.size(), "\"epoch\": 9");
  std::ofstream(path) << text;
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == -1);
  REQUIRE(skipped.size() == 1);
  CHECK(has(skipped[0],
            "manifest.json: the checksum in the file does not match its content; there is no "
            "earlier checkpoint: training starts from the beginning"));
}

TEST_CASE(
    "a manifest or array header that is nested 100,000 deep counts as damaged, without a crash") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(42), kTensorLayout));
  const fs::path path = folder.path() / "ckpt/step-00000042/manifest.json";
  std::string text = *read_file(path, 1U << 20U);
  text.insert(1, "\"deep\":" + std::string(100'000, '[') + std::string(100'000, ']') + ",");
  std::ofstream(path) << text;
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == -1);
  CHECK(skipped.size() == 1);
  const std::string file =
      file_of("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0);
  CHECK_FALSE(
      parse_safetensors("f", {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()})
          .has_value());
}

TEST_CASE("a checkpoint folder that cannot be listed is an error") {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "ckpt") << "a file";
  std::vector<std::string> skipped;
  const auto loaded =
      checkpoints_in(folder).load_newest(kTensorLayout, "adam", kStateNames, skipped);
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code == Errc::kIo);
  CHECK(has(loaded.error().message, "ckpt: cannot list its checkpoints: "));
}

TEST_CASE("a missing checkpoint folder has no checkpoint") {
  const TemporaryDirectory folder;
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == -1);
  CHECK(skipped.empty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Checks that loading a checkpoint in a process with 1 GiB of memory fails with kIo.
void check_load_fails_with_little_memory(const TemporaryDirectory& folder) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);
    const rlimit little{std::size_t{1} << 30U, std::size_t{1} << 30U};
    ::setrlimit(RLIMIT_AS, &little);
    std::vector<std::string> skipped;
    const auto loaded =
        checkpoints_in(folder).load_newest(kTensorLayout, "adam", kStateNames, skipped);
    ::_exit(!loaded && loaded.error().code == Errc::kIo &&
                    has(loaded.error().message, "not enough memory")
                ? 0
                : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE(
    "a checkpoint that does not fit into memory is an error, not an abort, and no older one is "
    "loaded") {
  const TemporaryDirectory folder;
  for (const std::uint64_t step : {10U, 20U})
    REQUIRE(checkpoints_in(folder).save(state_at(step), kTensorLayout));
  fs::resize_file(folder.path() / "ckpt/step-00000020/model.safetensors", std::uintmax_t{3} << 30U);
  check_load_fails_with_little_memory(folder);
}

TEST_CASE("a file larger than 64 GiB does not count as damaged if the manifest declares its size") {
  const TemporaryDirectory folder;
  for (const std::uint64_t step : {10U, 20U})
    REQUIRE(checkpoints_in(folder).save(state_at(step), kTensorLayout));
  const auto newest = folder.path() / "ckpt/step-00000020";
  const std::uintmax_t bytes = std::uintmax_t{65} << 30U;
  fs::resize_file(newest / "model.safetensors", bytes);  // a sparse file
  auto manifest = nlohmann::ordered_json::parse(*read_file(newest / "manifest.json", 1U << 20U));
  // A manifest without a checksum is valid, because the first version of the format had none.
  manifest.erase("blake2b");
  manifest["files"]["model.safetensors"]["bytes"] = bytes;
  REQUIRE(write_file_atomic(newest / "manifest.json", manifest.dump()));
  check_load_fails_with_little_memory(folder);
}
#endif

TEST_CASE("a checkpoint that load_newest() would refuse is not saved, and the previous one stays") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder, 1).save(state_at(1), kTensorLayout));
  // The name of the tensor makes the header longer than the 64 MiB that a reader accepts.
  const CheckpointLayout layout{{{std::string(std::size_t{65} << 20U, 'x'), {8}, 0}}};
  auto state = state_at(2);
  state.running_statistics.clear();
  const auto saved = checkpoints_in(folder, 1).save(state, layout);
  REQUIRE_FALSE(saved.has_value());
  CHECK(saved.error().code == Errc::kInvalid);
  CHECK(has(saved.error().message, "cannot save a checkpoint: "));
  CHECK(has(saved.error().message, "at most 67108864 are allowed"));
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == 1);
  CHECK(skipped.empty());
}

TEST_CASE(
    "if any file of the newest checkpoint is damaged, the previous one is loaded, with a message") {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    for (const char* damage : {"cut", "flipped", "missing", "empty"}) {
      CAPTURE(name);
      CAPTURE(damage);
      const TemporaryDirectory folder;
      REQUIRE(checkpoints_in(folder).save(state_at(1), kTensorLayout));
      REQUIRE(checkpoints_in(folder).save(state_at(2), kTensorLayout));
      const fs::path path = folder.path() / "ckpt/step-00000002" / name;
      std::string bytes = *read_file(path, 1U << 20U);
      if (damage == std::string("flipped")) {
        // In the manifest, changes a digit of a checksum; in other files, the last byte of
        // an array.
        char& byte =
            name == std::string("manifest.json") ? bytes[bytes.find("blake2b") + 12] : bytes.back();
        byte = byte == '1' ? '2' : '1';
      }
      if (damage == std::string("cut")) bytes.resize(bytes.size() - 7);
      if (damage == std::string("empty")) bytes.clear();
      fs::remove(path);
      if (damage != std::string("missing")) std::ofstream(path, std::ios::binary) << bytes;

      std::vector<std::string> skipped;
      CHECK(loaded_step(checkpoints_in(folder), skipped) == 1);
      REQUIRE(skipped.size() == 1);
      CHECK(has(skipped[0], "step-00000002"));
      CHECK(has(skipped[0], "using the previous checkpoint"));
      // The manifest is written last. Without it the checkpoint is unfinished, not damaged.
      const bool is_unfinished =
          name == std::string("manifest.json") && damage == std::string("missing");
      CHECK(skipped[0].starts_with(is_unfinished ? "unfinished checkpoint: "
                                                 : "damaged checkpoint: "));
    }
  }
}

TEST_CASE("a checkpoint of another model or optimizer is refused, not skipped") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(1), kTensorLayout));
  std::vector<std::string> skipped;
  auto other = kTensorLayout;
  other.parameters[0].shape = {2, 3};
  const auto shape = checkpoints_in(folder).load_newest(other, "adam", kStateNames, skipped);
  REQUIRE_FALSE(shape.has_value());
  CHECK(has(shape.error().message, "layers.0.weight is F32 [3 x 2], this model needs F32 [2 x 3]"));
  other.parameters[0] = {"layers.9.weight", {3, 2}, 0};
  CHECK(has(checkpoints_in(folder).load_newest(other, "adam", kStateNames, skipped).error().message,
            "has no array layers.9.weight"));
  CHECK(has(checkpoints_in(folder).load_newest(kTensorLayout, "sgd", {}, skipped).error().message,
            "was saved with optimizer adam, this run has sgd"));
}

TEST_CASE("a process whose run belongs to another attempt commits nothing and removes nothing") {
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(1), kTensorLayout));
  Env env;
  env.set("DLRUN_RUN", folder.path().string());
  env.set("DLRUN_ATTEMPT", "0");
  CHECK_FALSE(check_attempt_owns_run(env));  // without an attempt file, the owner is unknown
  REQUIRE(write_file_atomic(folder.path() / "attempt", "0\n"));
  CHECK(check_attempt_owns_run(env));
  CHECK(check_attempt_owns_run(Env()));

  // The other attempt takes over while the stale attempt writes its files, between the two checks
  // of the owner.
  int check_count = 0;
  const CheckpointFolder stale(folder.path() / "ckpt", 1, [&]() -> Result<> {
    if (++check_count == 2) REQUIRE(write_file_atomic(folder.path() / "attempt", "1\n"));
    return check_attempt_owns_run(env);
  });
  const auto saved = stale.save(state_at(2), kTensorLayout);
  REQUIRE_FALSE(saved.has_value());
  CHECK(saved.error().code == Errc::kRefused);
  CHECK(has(saved.error().message, "belongs to attempt 1, this is attempt 0"));
  CHECK_FALSE(stale.save(state_at(1), kTensorLayout).has_value());
  std::vector<std::string> skipped;
  CHECK(loaded_step(checkpoints_in(folder), skipped) == 1);
  // The stale attempt leaves its files, because they may be the owner's by now. The owner's next
  // save removes them.
  REQUIRE(skipped.size() == 1);
  CHECK(
      has(skipped[0], "unfinished checkpoint: " + (folder.path() / "ckpt/step-00000002").string()));
  REQUIRE(checkpoints_in(folder).save(state_at(1), kTensorLayout));
  CHECK(checkpoints_in(folder).names().value() == std::vector<std::string>{"step-00000001"});

  // The stale attempt pauses during a save until the other attempt has saved the same step.
  REQUIRE(write_file_atomic(folder.path() / "attempt", "0\n"));
  check_count = 0;
  const CheckpointFolder late(folder.path() / "ckpt", 1, [&]() -> Result<> {
    if (++check_count == 2) {
      REQUIRE(write_file_atomic(folder.path() / "attempt", "1\n"));
      REQUIRE(checkpoints_in(folder).save(state_at(2), kTensorLayout));
    }
    return check_attempt_owns_run(env);
  });
  CHECK_FALSE(late.save(state_at(2), kTensorLayout).has_value());
  skipped.clear();
  CHECK(loaded_step(checkpoints_in(folder), skipped) == 2);
  CHECK(skipped.empty());
}

TEST_CASE(
    "if the disk becomes full during a save, the previous checkpoint stays valid, and the new one "
    "is removed") {
  // RLIMIT_FSIZE limits a file's size like a full disk. It is set in a child process, because it
  // cannot be raised again.
  const TemporaryDirectory folder;
  REQUIRE(checkpoints_in(folder).save(state_at(1), kTensorLayout));
  for (const rlim_t limit : {0U, 1U, 100U, 200U, 300U, 400U}) {
    CAPTURE(limit);
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit bound{limit, limit};
      setrlimit(RLIMIT_FSIZE, &bound);
      const auto saved = checkpoints_in(folder, 1).save(state_at(2), kTensorLayout);
      _exit(!saved && saved.error().code == Errc::kIo &&
                    has(saved.error().message, "step-00000002/")
                ? 0
                : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    std::vector<std::string> skipped;
    CHECK(loaded_step(checkpoints_in(folder), skipped) == 1);
    CHECK(skipped.empty());
    CHECK_FALSE(fs::exists(folder.path() / "ckpt/step-00000002"));
  }
}

TEST_CASE("safetensors files have the published layout") {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<NamedArray> arrays{{"a", {2, 2}, std::span(values).first(4)},
                                       {"b", {2}, std::span(values).subspan(4)}};
  const std::string file = to_safetensors(arrays, {{"format", "x"}});
  const std::string header =
      R"({"__metadata__":{"format":"x"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})";
  std::uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof length);
  CHECK(length % 8 == 0);
  CHECK(file.size() == 8 + length + 24);
  CHECK(trim(std::string_view(file).substr(8, length)) == header);
  float last = 0;
  file.copy(reinterpret_cast<char*>(&last), sizeof last, file.size() - sizeof last);
  CHECK(last == 6);
  const auto parsed = parse_safetensors("f", bytes_of(file));
  REQUIRE(parsed.has_value());
  CHECK(parsed->tensors.at("b").shape == std::vector<std::size_t>{2});
  CHECK(parsed->metadata.at("format") == "x");
}

TEST_CASE("hostile safetensors files are refused") {
  const auto refusal = [](const std::string& file) {
    const auto parsed = parse_safetensors("f", bytes_of(file));
    return parsed ? std::string() : parsed.error().message;
  };
  CHECK(has(refusal(""), "truncated"));
  CHECK(has(refusal(std::string(8, '\xff')), "truncated, or not a safetensors file"));
  CHECK(has(refusal(file_of("[1]", 0)), "not a JSON object"));
  CHECK(has(refusal(file_of("{", 0)), "not a JSON object"));
  CHECK(has(refusal(file_of(std::string(100'000, '['), 0)), "not a JSON object"));
  CHECK(has(refusal(file_of(R"({"a":1})", 0)), "are needed"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4)),
            "dtype is not known"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)),
            "shape is not possible"));
  CHECK(
      has(refusal(file_of(
              R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
          "shape is not possible"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)),
            "outside the file"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)),
            "outside the file"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
            "do not fit its shape"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)),
            "overlap or leave a hole"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                            4)),
            "overlap or leave a hole"));
  CHECK(has(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)),
            "end at byte 4, the file has 8"));
  CHECK(has(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)),
            "a value in __metadata__ is not text"));
}

}  // namespace dlrun::trainer
