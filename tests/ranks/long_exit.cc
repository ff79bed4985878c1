// A program whose main thread has exited, like one that dies on a busy machine. Its other thread
// waits for SIGTERM and dies of SIGKILL half a second later.

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
