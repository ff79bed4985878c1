// connection_flood PORT THREADS RATE: floods 127.0.0.1:PORT with connections that do not come from
// ranks, at most RATE a second over all threads. Each connection is reset as soon as it is made, so
// that the ports do not run out. Prints "up" after the first 200,000. Ends on SIGTERM and prints
// the number of connections begun, in total and per second.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <tuple>
#include <vector>

namespace {

constexpr std::uint64_t kConnectionsUntilUp = 200'000;

std::atomic<bool> should_stop = false;
std::atomic<std::uint64_t> connections_begun = 0;

/// Begins connections until SIGTERM, at most `rate` a second.
void flood(std::uint16_t port, double rate) {
  constexpr std::uint64_t kClockInterval = 64;  // connections between two readings of the clock
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t begun_here = 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  while (!should_stop) {
    if (++begun_here % kClockInterval == 0)
      std::this_thread::sleep_until(
          began + std::chrono::duration<double>(static_cast<double>(begun_here) / rate));
    std::ignore = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    // Resets the connection, so that the socket can connect again. A connection thus needs only two
    // system calls.
    std::ignore = ::connect(socket, &nowhere, sizeof nowhere);
    if (++connections_begun != kConnectionsUntilUp) continue;
    std::puts("up");
    std::fflush(stdout);
  }
  ::close(socket);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: connection_flood PORT THREADS RATE\n");
    return 64;
  }
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  ::signal(SIGTERM, [](int) { should_stop = true; });
  std::vector<std::thread> threads;
  const auto began = std::chrono::steady_clock::now();
  const int thread_count = std::atoi(argv[2]);
  const double rate_of_each = std::atof(argv[3]) / thread_count;
  for (int i = 0; i < thread_count; ++i)
    threads.emplace_back([port, rate_of_each] { flood(port, rate_of_each); });
  for (auto& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%llu connections, %.0f a second\n",
              static_cast<unsigned long long>(connections_begun.load()),
              static_cast<double>(connections_begun.load()) / took.count());
  return 0;
}
