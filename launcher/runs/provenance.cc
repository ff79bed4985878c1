#include "launcher/runs/provenance.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/unix_accounts.h"
#include "common/untrusted_file.h"
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

std::string user_name() {
  const auto account = unix_account_of(::getuid());
  return account ? account->name : std::to_string(::getuid());
}

nlohmann::ordered_json json_of_image(const std::string& image) {
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

nlohmann::ordered_json json_of_git(const GitState& state) {
  nlohmann::ordered_json json;
  json["root"] = state.root;
  json["commit"] = state.commit;
  json["dirty"] = !state.patch.empty();
  if (!state.patch.empty()) json["patch"] = "tree.patch";
  if (!state.note.empty()) json["note"] = state.note;
  return json;
}

}  // namespace

GitState git_state_of(const std::filesystem::path& folder, const Env& env) {
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

std::string git_state_bytes(const GitState& state) {
  return state.root + '\0' + state.commit + '\0' + state.note + '\0' + state.patch;
}

std::optional<GitState> parse_git_state(std::string_view bytes) {
  GitState state;
  for (std::string* field : {&state.root, &state.commit, &state.note}) {
    const auto end = bytes.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    *field = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
  }
  state.patch = bytes;
  return state;
}

Provenance::Provenance(std::filesystem::path source_dir, Env env, std::vector<std::string> argv,
                       std::string tools_hash, const std::filesystem::path& git_state_file)
    : source_dir_(std::move(source_dir)),
      argv_(std::move(argv)),
      tools_hash_(std::move(tools_hash)) {
  if (is_in_repository(source_dir_)) {
    git_ = std::async(std::launch::async, git_state_of, source_dir_, std::move(env));
  } else if (!git_state_file.empty()) {
    constexpr std::size_t kLargestStateBytes = 17U << 20U;
    if (const auto bytes = read_untrusted(git_state_file, kLargestStateBytes, Links::kRefuse))
      git_state_ = parse_git_state(*bytes);
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
      (submit_directory_.empty() ? std::filesystem::current_path(error) : submit_directory_)
          .string();
  json["argv"] = argv_;
  if (!repeated_run_.empty()) json["repeats"] = repeated_run_;
  if (!image_.empty()) json["image"] = json_of_image(image_);
  if (git_.valid()) git_state_ = git_.get();
  json["git"] = git_state_ ? json_of_git(*git_state_) : nlohmann::ordered_json(nullptr);
  if (git_state_ && !git_state_->patch.empty())
    DLRUN_TRY(write_file_atomic(run / "tree.patch", git_state_->patch));
  return write_file_atomic(run / "provenance.json", json_read::dump(json, 2) + "\n");
}

}  // namespace dlrun
