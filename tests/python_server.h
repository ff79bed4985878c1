#pragma once
// Starts a Python server of tests/ for one test: a real HTTP server on loopback. By default this is
// file_server.py, which serves a folder, with faults on request.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/temporary_directory.h"

/// A running server. The arguments of `script` are a new folder and the path of a file, to which
/// `script` writes its port. The constructor waits until the server listens, for at most 30 s.
/// `script` must exit when its standard input is closed.
class PythonServer {
 public:
  explicit PythonServer(const std::string& script = "file_server.py") {
    const std::string program = DLRUN_SOURCE_DIR "/tests/" + script;
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[0], STDIN_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execlp("python3", "python3", program.c_str(), folder_.path().c_str(), port_file().c_str(),
               nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    stdin_end_ = ends[1];
    for (int tries = 0; tries < 3000 && port_.empty(); ++tries) {
      std::ifstream(port_file()) >> port_;
      if (port_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (port_.empty()) throw std::runtime_error("the server did not start within 30 s");
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;
  ~PythonServer() { stop(); }

  /// Ends the server. The destructor calls this, too.
  void stop() {
    if (pid_ <= 0) return;
    ::close(stdin_end_);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  /// The server's folder.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// Puts a file into the server's folder.
  void serve(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  [[nodiscard]] std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + port_ + "/" + path;
  }

  /// Returns the lines of the server's log, one for each request so far, such as "/cut/f from 5" of
  /// file_server.py.
  [[nodiscard]] std::vector<std::string> requests() const {
    std::vector<std::string> lines;
    std::ifstream log(port_file() + ".log");
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }

 private:
  [[nodiscard]] std::string port_file() const { return (port_folder_ / "port").string(); }

  TemporaryDirectory folder_, port_folder_;
  std::string port_;
  pid_t pid_ = 0;
  /// The writing end of the server's standard input. When it is closed, the server ends.
  int stdin_end_ = -1;
};
