// A program that looks as if it is already dying, but whose end comes late, as on a busy machine.
// Its main thread exits immediately. Its other thread keeps the process alive, waits for SIGTERM,
// and kills the process half a second later.

#include <signal.h>
#include <unistd.h>

#include <thread>

#include <pthread.h>

int main() {
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminate, nullptr);
  std::thread([terminate] {
    int signal = 0;
    sigwait(&terminate, &signal);
    ::usleep(500'000);
    ::kill(::getpid(), SIGKILL);
  }).detach();
  pthread_exit(nullptr);
}
