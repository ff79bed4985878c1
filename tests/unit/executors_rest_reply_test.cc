// Tests how responses of slurmrestd (22.05.8 and 26.05.5, shortened) and the token file are read.

#include <sys/stat.h>

#include <ctime>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
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
  std::string waiting;  // one record of several tasks becomes a job for each task
  for (std::size_t i = 2; i < jobs->size(); ++i) waiting += " " + (*jobs)[i].job.id;
  CHECK(waiting == " 8_4 8_6 8_8 8_10 8_20 8_30");
  CHECK((*jobs)[2].phase == JobPhase::kPending);
  CHECK((*jobs)[2].start.empty());
  const auto reduced = rest_jobs(reduced_rest_jobs(kJobs, 1000), 1000);
  REQUIRE(reduced);
  REQUIRE(reduced->size() == 8);
  CHECK((*reduced)[0].nodes == "n[1-2]");
  CHECK(reduced_rest_jobs(kJobs, 1000).find("name") == std::string::npos);
  CHECK_FALSE(rest_jobs("<html>", 1000));
  CHECK_FALSE(rest_jobs("[]", 1000));
}

// The tests whose names begin with 26.05 read responses of slurmrestd 26.05.5 in v0.0.42 and, where
// it differs, v0.0.45.

TEST_CASE(
    "26.05: job states that are lists, and numbers and exit codes that are objects, are read") {
  constexpr std::string_view kJobsOf26 = R"({"jobs": [
      {"job_id": 1, "array_job_id": {"set": true, "infinite": false, "number": 0},
       "array_task_id": {"set": false, "infinite": false, "number": 0}, "array_task_string": "",
       "job_state": ["FAILED"], "state_reason": "NonZeroExitCode", "nodes": "n1",
       "start_time": {"set": true, "infinite": false, "number": 1795518064}, "dependency": "",
       "comment": "dlrun:aa mine", "exit_code": {"status": ["ERROR"],
         "return_code": {"set": true, "infinite": false, "number": 3},
         "signal": {"id": {"set": false, "infinite": false, "number": 0}, "name": ""}},
       "user_id": 1002},
      {"job_id": 3, "array_job_id": {"set": true, "infinite": false, "number": 2},
       "array_task_id": {"set": true, "infinite": false, "number": 0},
       "job_state": ["RUNNING", "COMPLETING"], "state_reason": "None", "nodes": "n1",
       "exit_code": {"status": ["SUCCESS"],
         "return_code": {"set": true, "infinite": false, "number": 0}}, "user_id": 1002},
      {"job_id": 2, "array_job_id": {"set": true, "infinite": false, "number": 2},
       "array_task_id": {"set": false, "infinite": false, "number": 0},
       "array_task_string": "3-5%1", "job_state": ["PENDING"], "state_reason": "JobArrayTaskLimit",
       "start_time": {"set": true, "infinite": true, "number": 0}, "user_id": 1002},
      {"job_id": 4, "job_state": ["CANCELLED"], "user_id": 1002, "exit_code": {
         "status": ["SIGNALED"], "return_code": {"set": false, "infinite": false, "number": 0},
         "signal": {"id": {"set": true, "infinite": false, "number": 15}, "name": "TERM"}}}],
    "meta": {"slurm": {"release": "26.05.5"}}, "errors": [], "warnings": []})";
  const auto jobs = rest_jobs(kJobsOf26, 1002);
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 6);
  CHECK((*jobs)[0].job.id == "1");
  CHECK((*jobs)[0].state == "FAILED");
  CHECK((*jobs)[0].phase == JobPhase::kEnded);
  CHECK((*jobs)[0].exit_code == 3);
  CHECK((*jobs)[0].signal == 0);
  CHECK_FALSE((*jobs)[0].start.empty());
  CHECK((*jobs)[1].job.id == "2_0");
  CHECK((*jobs)[1].state == "COMPLETING");
  CHECK((*jobs)[1].phase == JobPhase::kRunning);
  CHECK((*jobs)[2].job.id == "2_3");
  CHECK((*jobs)[2].phase == JobPhase::kPending);
  CHECK((*jobs)[2].start.empty());
  CHECK((*jobs)[5].signal == 15);
  CHECK((*jobs)[5].exit_code == 0);
  CHECK(rest_jobs(reduced_rest_jobs(kJobsOf26, 1002), 1002)->size() == 6);
  CHECK(rest_release(kJobsOf26) == "26.05.5");
}

TEST_CASE("26.05: a ping tells whether a controller responds") {
  CHECK(rest_has_controller(R"({"pings": [{"hostname": "vm", "pinged": "UP", "responding": true,
      "latency": 19287, "mode": "primary", "primary": true}]})"));
  CHECK(rest_has_controller(R"({"pings": [{"hostname": "vm", "responding": true, "latency": 3341,
      "primary": true, "status": "No error"}]})"));
  CHECK_FALSE(rest_has_controller(R"({"pings": [{"hostname": "vm", "responding": false,
      "primary": true, "status": "Protocol authentication error"}]})"));
  CHECK(rest_has_controller(R"({"pings": [{"hostname": "vm", "pinged": "UP"}]})"));
  CHECK_FALSE(rest_has_controller(R"({"pings": [{"hostname": "vm", "pinged": "DOWN"}, 7]})"));
}

TEST_CASE("26.05: only a warning whose source is the path of a field is about an ignored field") {
  CHECK(rest_field_warnings(R"({"job_id": 1, "step_id": "batch", "errors": [], "warnings": [
      {"description": "Ignoring unknown field \"odd\" of type 64 bit integer in PARSER",
       "source": "#/job/odd/"}]})") ==
        "Ignoring unknown field \"odd\" of type 64 bit integer in PARSER (#/job/odd/)");
  CHECK(rest_field_warnings(R"json({"job_id": 1, "warnings": [
      {"description": "Requested nodes are busy", "source": "slurm_submit_batch_job()"}]})json")
            .empty());
  CHECK(rest_field_warnings(R"({"jobs": [], "warnings": [
      {"description": "Zero jobs to dump", "source": ""}]})")
            .empty());
  CHECK(rest_field_warnings("half").empty());
}

TEST_CASE(
    "26.05: the failure of a cancellation is read from its job's error, and cancelling an ended "
    "job is no failure") {
  const auto answer = [](std::string_view text, int code) {
    return fmt::format(R"({{"status": [{{"error": {{"string": "{}", "code": {}, "message": ""}},
        "step_id": "9", "job_id": {{"set": true, "infinite": false, "number": 9}}}}],
        "errors": [], "warnings": []}})",
                       text, code);
  };
  CHECK(rest_cancel_failure(answer("No error", 0)).empty());
  CHECK(rest_cancel_failure(answer("Job/step already completing or completed", 2021)).empty());
  CHECK(rest_cancel_failure(answer("Access/permission denied", 2002)) ==
        "Access/permission denied (2002)");
  CHECK(rest_says_unknown_job(answer("Invalid job id specified", 2017)));
  CHECK_FALSE(rest_says_unknown_job(answer("No error", 0)));
  CHECK(rest_cancel_failure(R"({"errors": []})").empty());
}

TEST_CASE("an error's number, or else its words, tells whether the controller was reached") {
  const auto errors = [](std::string_view number, std::string_view words) {
    return fmt::format(R"({{"errors": [{{{}"error": "{}"}}]}})", number, words);
  };
  const auto unreachable_words = "Unable to contact slurm controller (connect failure)";
  CHECK(rest_says_unreachable(errors(R"("error_number": 1800, )", "x")));
  CHECK(rest_says_unreachable(errors(R"("error_code": 5004, )", "x")));
  CHECK(rest_says_unreachable(errors(R"("error_number": 2027, )", "x")));
  CHECK_FALSE(rest_says_unreachable(errors(R"("error_number": 2000, )", unreachable_words)));
  CHECK(rest_says_unreachable(errors("", unreachable_words)));
  CHECK(rest_says_unreachable(errors(R"("error_number": 9003, )", unreachable_words)));
  CHECK(rest_says_unreachable(errors("", "Slurm config is unable to load")));
  CHECK_FALSE(rest_says_unreachable(errors("", "Invalid partition name specified")));
  CHECK_FALSE(rest_says_unreachable(R"({"errors": []})"));
  CHECK_FALSE(rest_says_unreachable("Connection refused"));
}

TEST_CASE(
    "the reason for a refusal is read from the number of an error, or from the words of an error "
    "without a number") {
  const auto reason = [](std::string_view number, std::string_view words) {
    return rest_refusal_reason(fmt::format(
        R"({{"errors": [{{"error": "x"}}, {{{}"description": "{}"}}]}})", number, words));
  };
  CHECK(reason(R"("error_number": 2000, )", "x") == SlurmRefusal::kPartition);
  CHECK(reason(R"("error_code": 2045, )", "x") == SlurmRefusal::kAccount);
  CHECK(reason(R"("error_number": 2066, )", "x") == SlurmRefusal::kQos);
  CHECK(reason(R"("error_number": 2014, )", "x") == SlurmRefusal::kNodesUnavailable);
  CHECK(reason(R"("error_number": 2006, )", "Invalid qos specification") == SlurmRefusal::kOther);
  CHECK(reason("", "Invalid qos specification") == SlurmRefusal::kQos);
  CHECK(reason("", "Node count specification invalid") == SlurmRefusal::kOther);
  CHECK(rest_refusal_reason("half") == SlurmRefusal::kOther);
}

TEST_CASE("half an object, a list and an HTML page are not complete objects") {
  CHECK(rest_is_complete(R"({"job_id": 1})"));
  CHECK_FALSE(rest_is_complete(R"({"job_id": 1)"));
  CHECK_FALSE(rest_is_complete("[]"));
  CHECK_FALSE(rest_is_complete(""));
  CHECK_FALSE(rest_is_complete("<html>"));
}

TEST_CASE("a response with an error has a job id if Slurm has queued the job nevertheless") {
  CHECK(rest_job_id(R"({"job_id": 42, "errors": [{"error_number": 2048, "error": "x"}]})") == "42");
  CHECK_FALSE(rest_job_id(R"({"errors": [{"error_number": 2000, "error": "x"}], "job_id": 0})"));
}

TEST_CASE(
    "slurmrestd's API versions are read from the paths that submit jobs, with limits on their "
    "number and length") {
  CHECK(rest_versions(R"({"paths": {"/slurm/v0.0.38/job/submit": {}, "/slurm/v0.0.38/jobs": {},
      "/slurmdb/v0.0.38/jobs": {}, "/slurm/v0.0.40/job/submit": {}}})") ==
        std::vector<std::string>{"v0.0.38", "v0.0.40"});
  nlohmann::json many = {{"paths", nlohmann::json::object()}};
  for (int i = 0; i < 1000; ++i) many["paths"][fmt::format("/slurm/v{}/job/submit", i)] = 0;
  CHECK(rest_versions(many.dump()).size() == 32);
  CHECK(rest_versions(R"({"paths": {"/slurm/v)" + std::string(100, '9') + R"(/job/submit": 0}})")
            .empty());
  CHECK(rest_versions("nothing").empty());
  CHECK(rest_versions(R"({"paths": []})").empty());
}

TEST_CASE("a submission's job id, a controller's ping and the release of Slurm are read") {
  CHECK(rest_job_id(R"({"errors": [], "job_id": 42})") == "42");
  CHECK_FALSE(rest_job_id(R"({"job_id": 0})"));
  CHECK_FALSE(rest_job_id("{}"));
  CHECK(rest_has_controller(R"({"pings": [{"ping": "DOWN"}, {"ping": "UP"}]})"));
  CHECK_FALSE(rest_has_controller(R"({"pings": [{"ping": "DOWN"}]})"));
  CHECK(rest_release(kUnknownJob) == "22.05.8");
}

TEST_CASE(
    "slurmrestd's token is read only from a private file of the user, and a malformed or expired "
    "one is refused") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "token";
  const auto write = [&](const std::string& text, mode_t mode) {
    REQUIRE(write_file_atomic(path, text, 0600));
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  };
  CHECK(read_token(path).error().code == Errc::kNotFound);
  CHECK(read_token(path).error().message.find("write the output of `scontrol token`") !=
        std::string::npos);
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
