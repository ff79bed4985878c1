// Tests reading shortened replies of a slurmrestd 22.05.8, and the token file.

#include <sys/stat.h>

#include <ctime>
#include <string>

#include <doctest/doctest.h>
#include <sodium.h>

#include "common/files.h"
#include "launcher/executors/rest_reply.h"
#include "launcher/executors/rest_token.h"
#include "tests/temporary_directory.h"

namespace {

using namespace dlrun;

constexpr std::string_view kUnknownJob =
    R"({"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [
        {"description": "Unable to find JobId=99999", "error_number": 2017,
         "error": "Invalid job id specified", "source": "slurm_load_job"}], "jobs": []})";
constexpr std::string_view kJobs =
    R"({"errors": [], "jobs": [
        {"job_id": 7, "array_job_id": 0, "array_task_id": null, "user_id": 1000,
         "job_state": "COMPLETED", "exit_code": 768, "state_reason": "None", "nodes": "n[1-2]",
         "start_time": 1795291489, "comment": "dlrun:aa mine", "name": "x"},
        {"job_id": 9, "array_job_id": 8, "array_task_id": 3, "user_id": 1000,
         "job_state": "FAILED", "exit_code": 9},
        {"job_id": 8, "array_job_id": 8, "array_task_id": null,
         "array_task_string": "4,6-10:2,20,30,4...%3", "user_id": 1000,
         "job_state": "PENDING", "state_reason": "Priority", "start_time": 0, "exit_code": 0},
        {"job_id": 10, "user_id": 1001, "job_state": "RUNNING"}]})";

std::string token_with(std::string_view claims) {
  std::string text(
      sodium_base64_encoded_len(claims.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(claims.data()),
                    claims.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  text.resize(text.size() - 1);
  return "eyJhbGciOiJIUzI1NiJ9." + text + ".c2ln";
}

}  // namespace

TEST_CASE("error texts are Slurm's messages with their numbers, or the body if it is not JSON") {
  CHECK(rest_errors(kUnknownJob) == "Invalid job id specified: Unable to find JobId=99999 (2017)");
  CHECK(rest_errors(
            R"({"errors": [{"error_code": 2000, "error": "Invalid partition name specified"}]})") ==
        "Invalid partition name specified (2000)");
  CHECK(rest_errors("Authentication failure") == "Authentication failure");
  CHECK(rest_errors(R"({"errors": []})").empty());
  CHECK(rest_errors("\x1b[31m").find('\x1b') == std::string::npos);
  CHECK(rest_says_unknown_job(kUnknownJob));
  CHECK_FALSE(rest_says_unknown_job(kJobs));
}

TEST_CASE(
    "the user's jobs are read (phase, exit code, signal, array tasks), and other users' jobs are "
    "not") {
  const auto jobs = rest_jobs(kJobs, 1000);
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 8);
  CHECK((*jobs)[0].job.id == "7");
  CHECK((*jobs)[0].phase == JobPhase::kEnded);
  CHECK((*jobs)[0].exit_code == 3);
  CHECK((*jobs)[0].comment == "dlrun:aa mine");
  CHECK((*jobs)[0].reason.empty());
  CHECK((*jobs)[1].job.id == "8_3");
  CHECK((*jobs)[1].signal == 9);
  std::string waiting;  // one record of several tasks counts for each task
  for (std::size_t i = 2; i < jobs->size(); ++i) waiting += " " + (*jobs)[i].job.id;
  CHECK(waiting == " 8_4 8_6 8_8 8_10 8_20 8_30");
  CHECK((*jobs)[2].phase == JobPhase::kPending);
  CHECK((*jobs)[2].start.empty());
  const auto kept = rest_jobs(reduced_rest_jobs(kJobs, 1000), 1000);
  REQUIRE(kept);
  REQUIRE(kept->size() == 8);
  CHECK((*kept)[0].nodes == "n[1-2]");
  CHECK(reduced_rest_jobs(kJobs, 1000).find("name") == std::string::npos);
  CHECK_FALSE(rest_jobs("<html>", 1000));
  CHECK_FALSE(rest_jobs("[]", 1000));
}

TEST_CASE("API versions are read from the paths for submitting jobs") {
  CHECK(rest_versions(R"({"paths": {"/slurm/v0.0.38/job/submit": {}, "/slurm/v0.0.38/jobs": {},
      "/slurmdb/v0.0.38/jobs": {}, "/slurm/v0.0.40/job/submit": {}}})") ==
        std::vector<std::string>{"v0.0.38", "v0.0.40"});
  CHECK(rest_versions("nothing").empty());
  CHECK(rest_versions(R"({"paths": []})").empty());
}

TEST_CASE("a submission's job id and a controller's ping are read") {
  CHECK(rest_job_id(R"({"errors": [], "job_id": 42})") == "42");
  CHECK_FALSE(rest_job_id(R"({"job_id": 0})"));
  CHECK_FALSE(rest_job_id("{}"));
  CHECK(rest_has_controller(R"({"pings": [{"ping": "DOWN"}, {"ping": "UP"}]})"));
  CHECK_FALSE(rest_has_controller(R"({"pings": [{"ping": "DOWN"}]})"));
  CHECK(rest_release(kUnknownJob) == "22.05.8");
}

TEST_CASE("a token is read only from a private file of the user") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "token";
  const auto write = [&](const std::string& text, mode_t mode) {
    REQUIRE(write_file_atomic(path, text, 0600));
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  };
  CHECK(read_token(path).error().code == Errc::kNotFound);
  const std::string fresh =
      token_with(fmt::format(R"({{"exp":{},"sun":"me"}})", ::time(nullptr) + 100));
  write("SLURM_JWT=" + fresh + "\n", 0600);
  CHECK(read_token(path).value_or("") == fresh);
  for (const mode_t mode : {0640, 0604, 0620}) {
    write(fresh, mode);
    const auto token = read_token(path);
    REQUIRE_FALSE(token);
    CHECK(token.error().code == Errc::kInvalid);
    CHECK(token.error().message.find(fresh) == std::string::npos);
  }
  for (const std::string& bad : {std::string(), std::string("two words"), fresh + "\r\nX-Evil: 1",
                                 std::string(20000, 'a'), token_with(R"({"exp":1000})")}) {
    write(bad, 0600);
    CHECK_FALSE(read_token(path));
  }
  CHECK_FALSE(read_token(folder.path()));
}
