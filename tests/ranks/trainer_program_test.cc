// Tests the trainer program, as one process and as several under mpirun: its output, its files, its
// exit codes.

#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "common/env.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/trainer/checkpoint/safetensors.h"
#include "runtime/trainer/data/dataset.h"
#include "tests/contains.h"
#include "tests/ranks/run_program.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

const std::string kProgram = DLRUN_BINARY_DIR "/bin/dlrun-trainer";

Words concatenated(Words first, const Words& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

#ifdef DLRUN_MPIEXEC
Words trainer_under_mpirun(int size) {
  return {DLRUN_MPIEXEC, "--oversubscribe",    "--bind-to", "none",
          "-n",          std::to_string(size), kProgram};
}
#endif

/// Returns the word after the key in the last line that starts with the key; "" if no line does.
/// The first line of the text is ignored.
std::string value_of(const std::string& text, const std::string& key) {
  const std::size_t at = text.rfind("\n" + key + " ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find_first_of(" ,\n", begin) - begin);
}

/// Returns all arrays of a safetensors file, concatenated in the order of their names.
std::vector<float> read_concatenated_arrays(const fs::path& path) {
  const auto text = read_file(path, 1U << 30U);
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  const auto parsed = parse_safetensors(
      path.string(), {reinterpret_cast<const std::uint8_t*>(text->data()), text->size()});
  REQUIRE(parsed.has_value());
  std::vector<float> values;
  for (const auto& [name, tensor] : parsed->tensors) {
    const std::size_t at = values.size();
    values.resize(at + tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data() + at, tensor.bytes.data(), tensor.bytes.size());
  }
  return values;
}

/// Options for two epochs. With the default batch of 32, an epoch has ten steps.
const Words kSmallOptions{"--train-samples", "300", "--test-samples", "100", "--hidden", "32",
                          "--epochs",        "2",   "--optimizer",    "sgd", "--lr",     "0.05"};

}  // namespace

#ifdef DLRUN_MPIEXEC
TEST_CASE("N ranks under mpirun train like one process with the whole batch") {
  const TemporaryDirectory folder;
  const auto one =
      run(concatenated({kProgram, "--batch", "28", "--checkpoint-dir", "one"}, kSmallOptions),
          folder.path());
  REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  const auto expected = read_concatenated_arrays(folder / "one/step-00000022/model.safetensors");
  for (const auto& [backend, size] :
       {std::pair("mpi", 1), {"mpi", 2}, {"mpi", 4}, {"mpi", 7}, {"gloo", 2}}) {
    CAPTURE(backend);
    CAPTURE(size);
    const std::string dir = backend + std::to_string(size);
    const auto many =
        run(concatenated(concatenated(trainer_under_mpirun(size),
                                      {"--backend", backend, "--batch", std::to_string(28 / size),
                                       "--checkpoint-dir", dir}),
                         kSmallOptions),
            folder.path());
    REQUIRE_MESSAGE(many.exit_code == 0, many.err);
    CHECK(has(many.out, fmt::format("; {}; cpu", backend)));
    CHECK(has(many.out, "equal on " + std::to_string(size) + " rank"));
    const auto got = read_concatenated_arrays(folder / dir / "step-00000022/model.safetensors");
    REQUIRE(got.size() == expected.size());
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::abs(double{got[i]} - double{expected[i]}));
    CHECK(largest < 1e-6);  // 22 steps add the same floats in another order
  }
}

TEST_CASE(
    "a missing partition, which only one rank reads, ends all ranks with an error that names rank "
    "and file") {
  const TemporaryDirectory folder;
  REQUIRE(
      run({kProgram, "digits", "--out", "d", "--train", "300", "--test", "50", "--partitions", "4"},
          folder.path())
          .exit_code == 0);
  const Words by_file{"--dataset",         "arrays", "--data",   "d", "--shard",  "file",
                      "--backend",         "mpi",    "--epochs", "1", "--hidden", "8",
                      "--checkpoint-keep", "0"};
  const auto whole = run(concatenated(trainer_under_mpirun(3), by_file), folder.path());
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  CHECK(has(whole.out, "data: d; 300 training and 50 test samples"));
  // Rank 0 has two partitions of 75 samples, in batches of 32.
  CHECK(has(whole.out, "after 5 steps"));
  fs::remove(folder / "d/train-00001-of-00004.safetensors");
  const auto missing = run(concatenated(trainer_under_mpirun(3), by_file), folder.path());
  CHECK(missing.exit_code == 66);
  CHECK(has(missing.err, "rank 1 on "));
  CHECK(has(missing.err, "d/train-00001-of-00004.safetensors: "));
}

TEST_CASE("two ranks learn the generated digits to a test accuracy of 0.95") {
  const TemporaryDirectory folder;
  const auto done =
      run(concatenated(trainer_under_mpirun(2), {"--dataset", "digits"}), folder.path());
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(parse_double(value_of(done.out, "test accuracy")).value_or(0) >= 0.95);
}

TEST_CASE("a missing or damaged data file ends all ranks with an error that names the file") {
  const TemporaryDirectory folder;
  REQUIRE(write_digits(folder / "d", 30, 20, 1));
  const Words data{"--dataset", "idx", "--data", (folder / "d").string()};
  fs::resize_file(folder / "d/train-images-idx3-ubyte", 1000);
  const auto cut = run(concatenated(trainer_under_mpirun(2), data), folder.path());
  CHECK(cut.exit_code == 65);
  CHECK(has(cut.err, "rank 0 on "));
  CHECK(has(cut.err,
            "d/train-images-idx3-ubyte: truncated: expected 23536 bytes for 30 items of 784 "
            "bytes, found 1000"));
  fs::remove(folder / "d/t10k-labels-idx1-ubyte");
  fs::remove(folder / "d/train-images-idx3-ubyte");
  const auto missing = run(concatenated(trainer_under_mpirun(2), data), folder.path());
  CHECK(missing.exit_code == 66);
  CHECK(has(missing.err, "has none of these files: train-images-idx3-ubyte"));
}
#endif

TEST_CASE(
    "training prints its result, and writes metrics and a checkpoint in the safetensors layout") {
  const TemporaryDirectory folder;
  const auto done =
      run(concatenated({kProgram, "--metrics", "m.jsonl"}, kSmallOptions), folder.path());
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(has(done.out, "epoch 2/2  loss "));
  CHECK(value_of(done.out, "parameters").size() == 16);
  CHECK_FALSE(has(done.out, "\r"));  // stdout is no terminal, so there is no progress line
  const auto metrics = read_file(folder / "m.jsonl", 1U << 20U);
  REQUIRE(metrics.has_value());
  CHECK(has(*metrics, "\"test_accuracy\":"));
  CHECK(read_concatenated_arrays(folder / "ckpt/step-00000020/model.safetensors").size() ==
        784 * 32 + 32 + 32 * 10 + 10);
}

TEST_CASE(
    "a process that resumes from the newest undamaged checkpoint ends with the same bits as "
    "without interruption") {
  const TemporaryDirectory folder;
  const Words options = concatenated(
      {kProgram, "--checkpoint-every", "3", "--checkpoint-keep", "100"}, kSmallOptions);
  const auto whole = run(concatenated(options, {"--checkpoint-dir", "whole"}), folder.path());
  REQUIRE_MESSAGE(whole.exit_code == 0, whole.err);
  fs::create_directory(folder / "cut");
  for (const char* step : {"step-00000006", "step-00000009"}) {
    fs::copy(folder / "whole" / step, folder / "cut" / step, fs::copy_options::recursive);
  }
  fs::resize_file(folder / "cut/step-00000009/model.safetensors", 5000);
  const auto resumed =
      run(concatenated(options, {"--checkpoint-dir", "cut", "--resume"}), folder.path());
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(has(resumed.out,
            "damaged checkpoint: cut/step-00000009/model.safetensors: has 5000 bytes, its manifest "
            "says "));
  CHECK(has(resumed.out, "resumed from cut at step 6"));
  CHECK(value_of(resumed.out, "parameters") == value_of(whole.out, "parameters"));
  CHECK(*read_file(folder / "cut/step-00000020/model.safetensors", 1U << 30U) ==
        *read_file(folder / "whole/step-00000020/model.safetensors", 1U << 30U));
}

TEST_CASE(
    "a trainer whose run belongs to a later attempt commits no checkpoint, and ends with exit code "
    "78") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder / "attempt", "1\n"));
  for (const char* attempt : {"0", "1"}) {
    const bool is_owner = std::string_view(attempt) == "1";
    const std::string run_variable = "DLRUN_RUN=" + folder.path().string();
    const auto done = run(concatenated({"/usr/bin/env", run_variable,
                                        std::string("DLRUN_ATTEMPT=") + attempt, kProgram},
                                       kSmallOptions),
                          folder.path());
    CHECK(done.exit_code == (is_owner ? 0 : 78));
    CHECK(has(done.err, "belongs to attempt 1, this is attempt 0") == !is_owner);
    CHECK(fs::exists(folder / "ckpt/step-00000020") == is_owner);
  }
}

TEST_CASE(
    "a full disk ends the run with an error that names the file, and the previous checkpoint is "
    "kept") {
  const TemporaryDirectory folder;
  REQUIRE(run(concatenated({kProgram, "--checkpoint-every", "15"}, kSmallOptions), folder.path())
              .exit_code == 0);
  fs::remove_all(folder / "ckpt/step-00000020");
  // A size limit on files makes a write fail as on a full disk, and needs no privileges.
  const auto full =
      run(concatenated({"/usr/bin/prlimit", "--fsize=60000", kProgram, "--resume"}, kSmallOptions),
          folder.path());
  CHECK(full.exit_code == 74);
  CHECK(has(
      full.err,
      "cannot save a checkpoint: ckpt/step-00000020/model.safetensors: File too large (EFBIG)"));
  const auto again = run(concatenated({kProgram, "--resume"}, kSmallOptions), folder.path());
  CHECK(again.exit_code == 0);
  CHECK(has(again.out, "resumed from ckpt at step 15"));
}

TEST_CASE("USR1 saves a checkpoint after the next step, and training continues to its end") {
  const TemporaryDirectory folder;
  // The signal is blocked and pending before the program starts. The program unblocks the signal
  // when its handler is installed.
  const auto done =
      run(concatenated({"/usr/bin/env", "--block-signal=USR1", "/bin/sh", "-c",
                        "kill -USR1 $$; exec \"$0\" \"$@\"", kProgram, "--checkpoint-keep", "9"},
                       kSmallOptions),
          folder.path());
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(read_concatenated_arrays(folder / "ckpt/step-00000001/model.safetensors").size() > 0);
  CHECK(fs::exists(folder / "ckpt/step-00000001/manifest.json"));
  CHECK(fs::exists(folder / "ckpt/step-00000020/manifest.json"));
}

TEST_CASE(
    "for an unknown option the program suggests the nearest name and ends with code 64, and --help "
    "lists options") {
  const TemporaryDirectory folder;
  const auto unknown = run({kProgram, "--epoch", "3"}, folder.path());
  CHECK(unknown.exit_code == 64);
  CHECK(unknown.err ==
        "dlrun-trainer: unknown option '--epoch'; did you mean '--epochs'?; --help lists all\n");
  const auto help = run({kProgram, "--help"}, folder.path());
  CHECK(help.exit_code == 0);
  CHECK(has(help.out, "--checkpoint-every"));
}

TEST_CASE(
    "training on files of the digits command gives the same parameters as training on generated "
    "digits") {
  const TemporaryDirectory folder;
  const auto written =
      run({kProgram, "digits", "--out", "d", "--train", "300", "--test", "100"}, folder.path());
  REQUIRE_MESSAGE(written.exit_code == 0, written.err);
  const auto from_files =
      run(concatenated({kProgram, "--dataset", "mnist", "--data", "d", "--checkpoint-keep", "0"},
                       kSmallOptions),
          folder.path());
  const auto from_memory =
      run(concatenated({kProgram, "--dataset", "digits", "--checkpoint-keep", "0"}, kSmallOptions),
          folder.path());
  REQUIRE_MESSAGE(from_files.exit_code == 0, from_files.err);
  CHECK(value_of(from_files.out, "parameters") == value_of(from_memory.out, "parameters"));
}

// DLRUN_TEST_MNIST is the folder with MNIST's four IDX files. If it is unset, the test is skipped.
TEST_CASE("real MNIST: four epochs of the mlp reach 0.978 on one rank" *
          doctest::skip(std::getenv("DLRUN_TEST_MNIST") == nullptr)) {
  const TemporaryDirectory folder;
  const auto done = run({kProgram, "--dataset", "mnist", "--data", std::getenv("DLRUN_TEST_MNIST"),
                         "--checkpoint-keep", "0"},
                        folder.path());
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(parse_double(value_of(done.out, "test accuracy")).value_or(0) >= 0.978);
}

}  // namespace dlrun::trainer
