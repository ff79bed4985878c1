#include "launcher/view/exit_code.h"

#include "launcher/runs/status.h"

namespace dlrun {

int exit_code_of(Errc code) {
  switch (code) {
    case Errc::kInvalid:
    case Errc::kUsage:
      return kExitUsage;
    case Errc::kNotFound:
      return kExitNotFound;
    case Errc::kRefused:
      return kExitRefused;
    case Errc::kUnavailable:
    case Errc::kTimeout:
      return kExitUnavailable;
    case Errc::kPeer:
      return kExitRunFailed;
    case Errc::kInterrupted:
      return kExitInterrupted;
    case Errc::kIo:
    case Errc::kShape:
    case Errc::kInternal:
      return kExitFault;
  }
  return kExitFault;
}

int exit_code_of_state(const RunStatus& status) {
  switch (status.state) {
    case RunState::kCompleted:
      return kExitOk;
    case RunState::kFailed:
    case RunState::kCancelled:
    case RunState::kTimeout:
      return kExitRunFailed;
    case RunState::kRefused:
      return kExitRefused;
    case RunState::kNotSubmitted:
    case RunState::kUnknown:
      return is_unreachable(status) ? kExitUnavailable : kExitNotFound;
    case RunState::kPending:
    case RunState::kRunning:
      return is_unreachable(status) ? kExitUnavailable : kExitOk;
  }
  return kExitFault;
}

}  // namespace dlrun
