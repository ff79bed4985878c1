// Submits on a host exactly once. dlrun makes a token, which identifies the submission, and writes
// the token to this machine's disk before it sends the token. After a cut connection dlrun asks
// again with the same token.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <optional>

#include "common/files.h"
#include "common/text.h"
#include "launcher/remote/host_command.h"
#include "launcher/remote/host_program.h"
#include "launcher/remote/unanswered_submission.h"
#include "launcher/runs/provenance.h"
#include "launcher/view/exit_code.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestSpecInput = 1U << 20U, kLargestPatch = 4U << 20U;  ///< bytes
/// The pauses before further attempts, 40 s in all.
constexpr std::array<std::chrono::milliseconds, 5> kPauses{
    std::chrono::milliseconds(200), std::chrono::milliseconds(1000),
    std::chrono::milliseconds(3000), std::chrono::milliseconds(9000),
    std::chrono::milliseconds(27000)};

/// The answer of the host to one attempt.
struct SubmissionAnswer : HostAnswer {
  /// The record to delete after the answer was printed; nullopt: no record is to be deleted.
  std::optional<UnansweredSubmission> record{};
};

/// Reads the whole spec from standard input, because it may have to be sent more than once.
Result<std::string> read_spec_input() {
  std::string text;
  std::array<char, 1U << 15U> buffer{};
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Errc::kIo, "standard input: {}", errno_text(errno));
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargestSpecInput)
      return fail(Errc::kInvalid, "standard input: the spec is larger than {} bytes",
                  kLargestSpecInput);
  }
}

/// Returns a text that is equal for two submissions if they have the same folder, arguments
/// (without --watch) and spec.
std::string identity_of(const Context& context, const HostCall& call, const std::string& input) {
  std::string text = context.current_dir.string() + '\0';
  for (const std::string& word : call.arguments) {
    if (word != "--watch") text += word + '\0';
  }
  const auto spec = call.spec.empty() || call.spec == "-"
                        ? Result<std::string>(input)
                        : read_file(context.current_dir / call.spec, kLargestSpecInput);
  return text + '\0' + spec.value_or("");
}

/// Returns the state of the code's repository, for the run's provenance on the host.
std::string git_state_to_send(const std::filesystem::path& top, const Env& env) {
  GitState state = git_state_of(top, env);
  if (state.patch.size() > kLargestPatch) {
    state.patch.clear();
    state.note = fmt::format("no diff: it is larger than {} bytes", kLargestPatch);
  }
  return git_state_bytes(state);
}

/// One submission, and the data that its attempts share.
class HostSubmission {
 public:
  HostSubmission(const HostCaller& caller, const Ssh& ssh, const HostCall& call,
                 RemoteRequest request, const CodeToCopy* code_to_copy, std::string input)
      : caller_(caller),
        ssh_(ssh),
        call_(call),
        request_(std::move(request)),
        code_to_copy_(code_to_copy),
        input_(std::move(input)),
        program_(program_on_host(caller.context, ssh.host())) {
    std::erase(request_.argv, "--watch");
    if (code_to_copy_ == nullptr) return;
    // git inspects the code while rsync copies it.
    git_state_ =
        std::async(std::launch::async, git_state_to_send, code_to_copy_->tree.top, ssh_.env());
  }

  /// Makes attempts until the host answers. Fails with kUnavailable if all attempts fail. Makes no
  /// second attempt if the first one fails before the token was sent.
  Result<SubmissionAnswer> submit_until_answered(const Interrupt& interrupt) {
    DLRUN_TRY_ASSIGN(auto unanswered,
                     UnansweredSubmission::find_or_make(caller_.context.env, ssh_.host().name,
                                                        identity_of(caller_.context, call_, input_),
                                                        join(call_.arguments, " ")));
    request_.token = unanswered.token();
    if (unanswered.is_from_earlier_call())
      caller_.reporter.note(
          fmt::format("an earlier call of this command got no answer from {}; "
                      "dlrun continues that submission",
                      ssh_.host().name));
    bool is_token_sent = unanswered.is_from_earlier_call();
    for (std::size_t attempt = 0;; ++attempt) {
      auto answer = make_attempt(interrupt, is_token_sent);
      const bool is_lost =
          !answer ? answer.error().code == Errc::kUnavailable : answer->end.exit_code == kSshFailed;
      // Slurm may have the job or not, so the record stays.
      const bool is_undecided = answer && answer->end.exit_code == kExitUnavailable;
      if (!is_lost || (!is_token_sent && attempt == 0)) {
        if (!is_token_sent) unanswered.remove();
        if (is_token_sent && answer && !is_undecided) answer->record.emplace(std::move(unanswered));
        return answer;
      }
      if (attempt == kPauses.size() || interrupt.requested())
        return no_answer_error(answer ? std::string(trim(answer->end.printed))
                                      : answer.error().message);
      interrupt.sleep(kPauses[attempt]);
    }
  }

  /// Returns the request that finds the same submission and follows the run.
  [[nodiscard]] RemoteRequest watch_request() const {
    RemoteRequest request = request_;
    request.nonce = random_hex(16);
    request.has_input = false;
    request.git_state.clear();
    request.file_list.clear();
    // Options of dlrun itself, such as -v, may stand before the command's name.
    const auto name = std::find(request.argv.begin(), request.argv.end(), call_.command);
    if (name != request.argv.end()) request.argv.insert(name + 1, "--watch");
    return request;
  }

 private:
  /// Makes one attempt: copies the code and sends the token. Sets is_token_sent before the token
  /// leaves this machine, and resets it if dlrun did not start on the host.
  Result<SubmissionAnswer> make_attempt(const Interrupt& interrupt, bool& is_token_sent) {
    const bool was_sent = is_token_sent;
    DLRUN_TRY(ssh_.open());
    request_.nonce = random_hex(16);
    request_.has_input = call_.spec == "-";
    if (code_to_copy_ == nullptr) is_token_sent = true;
    const auto start = [&]() -> Result<StartedProcess> {
      if (code_to_copy_ != nullptr)
        return copy_under_lock(ssh_, program_, *code_to_copy_, caller_.context.bin_dir / "dlrun",
                               interrupt);
      DLRUN_TRY_ASSIGN(auto started, start_on_host(ssh_, program_, request_));
      return StartedProcess{std::move(started), {}};
    };
    DLRUN_TRY_ASSIGN(auto started_process, start());
    RemoteProcess& process = started_process.process;
    if (code_to_copy_ != nullptr) {
      is_token_sent = true;
      if (git_state_.valid()) request_.git_state = git_state_.get();
      request_.file_list = std::move(started_process.file_list);
      process.send(RemoteFrame{RemoteFrame::Kind::kGo, word_of(request_)});
    }
    if (request_.has_input) {
      process.send(RemoteFrame{RemoteFrame::Kind::kInput, input_});
      process.send(RemoteFrame{RemoteFrame::Kind::kInputEnd, ""});
    }
    SubmissionAnswer answer;
    DLRUN_TRY_ASSIGN(answer.end, process.follow_to_end(answer_sink(answer.out),
                                                       answer_sink(answer.err), interrupt));
    if (!answer.end.has_begun && answer.end.exit_code != kSshFailed) {
      is_token_sent = was_sent;
      DLRUN_TRY(check_end(call_, ssh_, answer.end));
    }
    return answer;
  }

  /// Returns the error after the last attempt. reason: why the last attempt failed; empty if the
  /// connection was lost.
  [[nodiscard]] tl::unexpected<Error> no_answer_error(const std::string& reason) const {
    return fail(
        Errc::kUnavailable,
        "{}{}: the host has not answered, so it is unknown whether the job is submitted. Run "
        "the same command again: it continues this submission and queues no second job",
        reason.empty() ? "" : reason + "\n", ssh_.host().name);
  }

  const HostCaller& caller_;
  const Ssh& ssh_;
  const HostCall& call_;
  RemoteRequest request_;
  const CodeToCopy* code_to_copy_;
  std::string input_, program_;
  std::future<std::string> git_state_;  ///< valid() only until the state is sent
};

}  // namespace

Result<int> submit_on_host(const HostCaller& caller, const Ssh& ssh, const HostCall& call,
                           RemoteRequest request, const CodeToCopy* code_to_copy) {
  std::string input;
  if (call.spec == "-") {
    DLRUN_TRY_ASSIGN(input, read_spec_input());
  }
  HostSubmission submission(caller, ssh, call, std::move(request), code_to_copy, std::move(input));
  std::optional<UnansweredSubmission> record;
  {
    const Interrupt interrupt;
    DLRUN_TRY_ASSIGN(auto answer, submission.submit_until_answered(interrupt));
    HostOutput& output = caller.output;
    const bool watches = call.watches && answer.end.exit_code == kExitOk;
    output.err(answer.err);
    if (!watches || interrupt.requested()) {
      output.out(answer.out);
      output.finish();
      // The record is deleted only after the output. If this process is killed before the output,
      // the user can run the same command again, which then finds the job.
      if (answer.record) answer.record->remove();
      return watches ? int{kExitInterrupted} : answer.end.exit_code;
    }
    output.finish();
    record = std::move(answer.record);
  }
  return run_request(caller, ssh, call, submission.watch_request(), [&record] {
    if (record) record->remove();
  });
}

}  // namespace dlrun
