#include "launcher/forward/ssh_session.h"

#include "common/files.h"
#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/scrub.h"
#include "launcher/submit/session_folder.h"

namespace dlrun {
namespace {

/// Returns true if the agent's answer says that the node has no sshd. Programs of the site, such as
/// a prolog of tasks, may print other lines.
bool lacks_sshd(std::string_view answer) {
  for (const std::string_view line : split(answer, '\n')) {
    const auto json = json_read::object_of(line);
    if (json && json->contains("sshd") && json->at("sshd").is_null()) return true;
  }
  return false;
}

}  // namespace

Result<> check_sshd(const Env& env, const AttachTarget& target,
                    const std::filesystem::path& agent) {
  Command command;
  command.argv = relay_command(target, agent.string());
  command.argv.pop_back();  // the agent's command `relay`
  command.argv.insert(command.argv.end(), {"sshd", "--check"});
  command.env = scrubbed_for_slurm(env, munge_is_available());
  DLRUN_TRY_ASSIGN(const auto done, run_command(command));
  if (done.exit_code != 0) {
    const std::string_view messages = trim(done.err);
    return fail(Errc::kRefused, "dlrun could not look for sshd on {} (srun ended with code {}){}{}",
                target.node, done.exit_code, messages.empty() ? "" : ": ", messages);
  }
  if (lacks_sshd(done.out)) {
    return fail(Errc::kNotFound,
                "{} has no sshd, the program that serves ssh connections (package "
                "openssh-server); `dlrun attach` and `dlrun forward` work without it",
                target.node);
  }
  return {};
}

Result<ForwardingOutcome> connect_to_sshd(const Env& env, const LaunchPlan& plan,
                                          const AttachTarget& target, const SshKeys& keys,
                                          const std::filesystem::path& agent,
                                          const std::filesystem::path& runs_dir,
                                          const std::filesystem::path& start_folder,
                                          const std::function<void(std::string_view)>& on_message) {
  DLRUN_TRY_ASSIGN(const auto session_folder, SessionFolder::make(runs_dir));
  const auto script = session_folder.path() / "session.sh";
  auto session = render_piped_command(
      plan, target, {agent.string(), "sshd", "--folder", keys.folder.string()}, script.string());
  session.argv.insert(session.argv.begin() + 1, "--chdir=" + start_folder.string());
  DLRUN_TRY(write_file_atomic(script, session.script, 0700));
  return run_with_inherited_input_and_output(session.argv, env, on_message);
}

}  // namespace dlrun
