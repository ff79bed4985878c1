#include "launcher/runs/provenance.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "launcher/images/images.h"
#include "launcher/runs/git.h"

namespace dlrun {
namespace {

bool is_in_repository(std::filesystem::path folder) {
  std::error_code error;
  for (;;) {
    if (std::filesystem::exists(folder / ".git", error)) return true;
    if (!folder.has_parent_path() || folder == folder.parent_path()) return false;
    folder = folder.parent_path();
  }
}

GitState ask_git(const std::filesystem::path& folder, const Env& env) {
  constexpr std::chrono::seconds kPatience{5};
  GitState state;
  const auto head = run_git(folder, env, {"rev-parse", "--show-toplevel", "HEAD"}, kPatience);
  if (!head || head->exit_code != 0) {
    state.note = head ? std::string(trim(head->err)) : head.error().message;
    return state;
  }
  const auto lines = split(trim(head->out), '\n');
  if (lines.size() != 2) {
    state.note = "git's answer was not understood";
    return state;
  }
  state.root = lines[0];
  state.commit = lines[1];
  // A submodule has its own configuration, which could make git start programs. Only its commit is
  // compared.
  const auto diff = run_git(state.root, env,
                            {"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary",
                             "--ignore-submodules=dirty", "--submodule=short", "HEAD"},
                            kPatience);
  if (diff && diff->exit_code == 0) {
    state.patch = diff->out;
  } else {
    state.note = "no diff: " + (diff ? std::string(trim(diff->err)) : diff.error().message);
  }
  return state;
}

std::string user_name() {
  std::array<char, 4096> buffer{};
  struct passwd entry {};
  struct passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr)
    return found->pw_name;
  return std::to_string(::getuid());
}

nlohmann::ordered_json describe_image(const std::string& image) {
  nlohmann::ordered_json json{
      {"name", image}, {"digest", nullptr}, {"bytes", nullptr}, {"modified", nullptr}};
  struct stat file {};
  if (!image.starts_with('/') || ::stat(image.c_str(), &file) != 0) return json;
  json["bytes"] = file.st_size;
  json["modified"] = utc_timestamp(std::chrono::system_clock::from_time_t(file.st_mtime));
  if (const auto name = std::filesystem::path(image).stem().string(); is_image_digest(name))
    json["digest"] = name;
  return json;
}

}  // namespace

Provenance::Provenance(std::filesystem::path source_dir, Env env, std::vector<std::string> argv,
                       std::string tools_hash)
    : source_dir_(std::move(source_dir)),
      argv_(std::move(argv)),
      tools_hash_(std::move(tools_hash)) {
  if (is_in_repository(source_dir_)) {
    git_ = std::async(std::launch::async, ask_git, source_dir_, std::move(env));
  }
}

Result<> Provenance::write(const std::filesystem::path& run) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::error_code error;
  nlohmann::ordered_json json;
  json["dlrun"] = DLRUN_VERSION;
  json["tools"] = tools_hash_;
  json["user"] = user_name();
  json["host"] = host.data();
  json["time"] = utc_timestamp(std::chrono::system_clock::now());
  json["directory"] =
      (directory_.empty() ? std::filesystem::current_path(error) : directory_).string();
  json["argv"] = argv_;
  if (!repeats_.empty()) json["repeats"] = repeats_;
  if (!image_.empty()) json["image"] = describe_image(image_);
  if (git_.valid()) {
    const GitState state = git_.get();
    nlohmann::ordered_json git_json;
    git_json["root"] = state.root;
    git_json["commit"] = state.commit;
    git_json["dirty"] = !state.patch.empty();
    if (!state.patch.empty()) git_json["patch"] = "tree.patch";
    if (!state.note.empty()) git_json["note"] = state.note;
    json["git"] = git_json;
    if (!state.patch.empty()) DLRUN_TRY(write_file_atomic(run / "tree.patch", state.patch));
  } else {
    json["git"] = nullptr;
  }
  return write_file_atomic(run / "provenance.json", json_read::dump(json, 2) + "\n");
}

}  // namespace dlrun
