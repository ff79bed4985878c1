#include "common/mlflow.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "common/file_and_owner.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

using MlflowJson = nlohmann::ordered_json;

constexpr const char* kRunFile = "mlflow.json";
constexpr const char* kValuesFile = "mlflow.jsonl";
constexpr const char* kStateFile = "mlflow.state";
constexpr const char* kRunTag = "dlrun.run";
/// A server takes 1000 values in one request. But dlrun may repeat any request, and the server may
/// then already have some of these values. MLflow 2.17 skips such values only if they are among the
/// first 100 values of a request; otherwise it refuses the whole request. Therefore no request has
/// more than 100 values.
constexpr std::size_t kMostValuesPerRequest = 100;
/// A server takes 100 parameters in one request, 250 characters in a name, and 500 characters in
/// the value of a parameter. MLflow 2.8 and later take 6000 characters in a value.
constexpr std::size_t kMostParametersPerRequest = 100, kLongestName = 250, kLongestParameter = 500;
/// The collected parameters are sent when they have this size.
constexpr std::size_t kParameterBytesPerRequest = 30U << 10U;
constexpr std::size_t kChunkBytes = 256U << 10U;  ///< most bytes of mlflow.jsonl in one read
constexpr std::size_t kLargestJsonFileBytes = 4U << 20U;

struct SyncState {
  std::string run_id{};
  std::int64_t sent_bytes = 0;     ///< the offset of the first line that is not sent yet
  std::int64_t skipped_lines = 0;  ///< the number of lines that were too long to be sent
  bool has_params = false;         ///< the server has the parameters
  bool has_origin = false;         ///< the server has the tags from provenance.json
};

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    if (is_plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

/// Returns the name in a form that the server takes. The server may use a name as a path and
/// refuses one that is not normal, such as "/loss" or "a//b". Each part between slashes that is
/// empty, "." or ".." becomes "_".
std::string metric_name(std::string_view name) {
  std::string normal;
  for (const auto part : split(name, '/')) {
    if (!normal.empty()) normal += '/';
    normal += part.empty() || part == "." || part == ".." ? "_" : part;
  }
  return normal;
}

/// Returns a tag or a parameter in the form of the API. Cuts a value that is too long.
MlflowJson key_value_json(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", cut_text(value, kLongestParameter)}};
}

/// Returns the JSON object in a file of the run; empty if the file is missing or damaged.
MlflowJson object_of_file(const std::filesystem::path& path) {
  const auto text = read_untrusted(path, kLargestJsonFileBytes, Links::kRefuse);
  const auto object = text ? json_read::object_of(*text) : std::nullopt;
  return object.value_or(MlflowJson::object());
}

/// Sends requests about one run to one server. After a failure, problem() returns the reason, and
/// all later calls fail.
class MlflowClient {
 public:
  MlflowClient(const Env& env, const MlflowRun& run, const std::string& token,
               const std::function<bool()>& may_continue, std::chrono::seconds limit)
      : env_(env), run_(run), may_continue_(may_continue), limit_(limit) {
    if (!token.empty()) headers_.push_back("Authorization: Bearer " + token);
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Returns the id of the run on the server. Creates the run and its experiment there if they do
  /// not exist. Returns an empty text on failure.
  [[nodiscard]] std::string find_or_create_run();
  /// Sends values, parameters and tags in one request. Returns false on failure.
  [[nodiscard]] bool log_batch(const std::string& run_id, MlflowJson metrics, MlflowJson params,
                               MlflowJson tags);
  /// Sends the end of the run. line: made by mlflow_end_line(). Returns false on failure.
  [[nodiscard]] bool set_status(const std::string& run_id, const MlflowJson& line);

 private:
  /// Sends a request. Returns the object in the reply if the status is 200, otherwise nullopt.
  /// allowed_status: another status that is no failure if the reply is an object; refusal_ then has
  /// the message of this object.
  std::optional<MlflowJson> call(const char* method, std::string_view path, const MlflowJson& body,
                                 int allowed_status = 0);
  [[nodiscard]] std::string find_or_create_experiment();

  const Env& env_;
  const MlflowRun& run_;
  const std::function<bool()>& may_continue_;
  const std::chrono::seconds limit_;
  std::vector<std::string> headers_;
  std::string problem_, refusal_;
};

/// Returns the text about a reply whose status is not 200. error: the object in the reply; empty:
/// there is none.
std::string refusal_text(std::string_view endpoint, int status, const MlflowJson& error,
                         std::string_view url) {
  auto text = fmt::format("the server answers {} with status {}", endpoint, status);
  const auto message = json_read::text(error, "message");
  if (!message.empty()) return text + ": " + printable(cut_text(message, 200));
  const bool is_other_address =
      (status >= 300 && status < 400) || status == 404 || status == 405 || status == 501;
  if (error.empty() && is_other_address)
    text += fmt::format("; is {} the address of an MLflow server?", printable(url));
  return text;
}

std::optional<MlflowJson> MlflowClient::call(const char* method, std::string_view path,
                                             const MlflowJson& body, int allowed_status) {
  if (!problem_.empty()) return std::nullopt;
  if (!may_continue_()) {
    problem_ = "there was no time to send everything";
    return std::nullopt;
  }
  CurlRequest request;
  request.url = fmt::format("{}/api/2.0/mlflow/{}", run_.url, path);
  request.method = method;
  request.headers = headers_;
  if (!body.is_null()) request.body = json_read::dump(body);
  const auto reply = send_by_curl(env_, request, limit_);
  const auto endpoint = path.substr(0, path.find('?'));
  if (!reply) {
    problem_ = reply.error().code == Errc::kNotFound ? "this machine has no curl in PATH"
                                                     : reply.error().message;
    return std::nullopt;
  }
  if (!reply->problem.empty()) {
    problem_ = reply->problem;
  } else if (reply->status == 200) {
    auto object = json_read::object_of(reply->body.empty() ? "{}" : reply->body);
    if (object) return object;
    problem_ = fmt::format("the answer to {} is no JSON object; is {} an MLflow server?", endpoint,
                           printable(run_.url));
  } else {
    const auto error = json_read::object_of(reply->body).value_or(MlflowJson::object());
    const bool is_allowed = reply->status == allowed_status && !error.empty();
    (is_allowed ? refusal_ : problem_) = refusal_text(endpoint, reply->status, error, run_.url);
  }
  return std::nullopt;
}

std::string MlflowClient::find_or_create_experiment() {
  constexpr int kNoSuchExperiment = 404;
  const auto by_name =
      "experiments/get-by-name?experiment_name=" + percent_encoded(run_.experiment);
  const auto id_in = [](const MlflowJson& reply) {
    const auto experiment = reply.find("experiment");
    return experiment == reply.end() ? std::string()
                                     : json_read::text(*experiment, "experiment_id");
  };
  if (const auto found = call("GET", by_name, nullptr, kNoSuchExperiment)) return id_in(*found);
  if (!problem_.empty()) return {};
  constexpr int kExistsAlready = 400;
  const auto created =
      call("POST", "experiments/create", {{"name", run_.experiment}}, kExistsAlready);
  if (created) return json_read::text(*created, "experiment_id");
  const auto why = refusal_;
  // Another run may have created the experiment in the meantime.
  const auto again = call("GET", by_name, nullptr, kNoSuchExperiment);
  if (again) return id_in(*again);
  if (problem_.empty()) problem_ = why;
  return {};
}

std::string MlflowClient::find_or_create_run() {
  const auto experiment = find_or_create_experiment();
  if (experiment.empty()) {
    if (problem_.empty()) problem_ = "the server's answer names no experiment";
    return {};
  }
  const auto id_in = [this](const MlflowJson& run) {
    const auto info = run.is_object() ? run.find("info") : run.end();
    auto id =
        run.is_object() && info != run.end() ? json_read::text(*info, "run_id") : std::string();
    if (id.empty()) problem_ = "the server's answer names no run";
    return id;
  };
  // dlrun's id of the run has only letters, digits, '.', '_', '-' and '/', so it needs no escape.
  const auto found = call("POST", "runs/search",
                          {{"experiment_ids", MlflowJson::array({experiment})},
                           {"filter", fmt::format("tags.`{}` = '{}'", kRunTag, run_.run)},
                           {"max_results", 1}});
  if (!found) return {};
  const auto runs = found->find("runs");
  if (runs != found->end() && runs->is_array() && !runs->empty()) return id_in(runs->front());
  const auto created =
      call("POST", "runs/create",
           {{"experiment_id", experiment},
            {"run_name", run_.run},
            {"start_time", run_.start_ms},
            {"tags", MlflowJson::array({key_value_json(kRunTag, run_.run),
                                        key_value_json("mlflow.runName", run_.run)})}});
  if (!created) return {};
  const auto run = created->find("run");
  return id_in(run == created->end() ? MlflowJson() : *run);
}

bool MlflowClient::log_batch(const std::string& run_id, MlflowJson metrics, MlflowJson params,
                             MlflowJson tags) {
  return call("POST", "runs/log-batch",
              {{"run_id", run_id},
               {"metrics", std::move(metrics)},
               {"params", std::move(params)},
               {"tags", std::move(tags)}})
      .has_value();
}

bool MlflowClient::set_status(const std::string& run_id, const MlflowJson& line) {
  return call("POST", "runs/update",
              {{"run_id", run_id},
               {"status", json_read::text(line, "status")},
               {"end_time", json_read::integer(line, "t").value_or(0)}})
      .has_value();
}

/// Adds a tag, unless the value is empty. Some versions of the server refuse the whole request if
/// one value is empty.
void add_tag(MlflowJson& tags, const char* key, const std::string& value) {
  if (!value.empty()) tags.push_back(key_value_json(key, value));
}

/// Returns the origin of the run as tags; empty if provenance.json does not exist yet. If the run
/// is a point of a sweep, in the directory SWEEP/array-K/T, reads SWEEP/provenance.json.
MlflowJson origin_tags(const std::filesystem::path& run) {
  auto provenance = object_of_file(run / "provenance.json");
  const auto array = run.parent_path();
  if (provenance.empty() && array.filename().string().starts_with("array-"))
    provenance = object_of_file(array.parent_path() / "provenance.json");
  MlflowJson tags = MlflowJson::array();
  add_tag(tags, "mlflow.user", json_read::text(provenance, "user"));
  const auto git = provenance.find("git");
  if (git != provenance.end())
    add_tag(tags, "mlflow.source.git.commit", json_read::text(*git, "commit"));
  return tags;
}

/// Sends the parameters (RUN/parameters.json), and the directory, the job and the cluster of the
/// run as tags. Returns false on failure.
bool send_parameters_and_job_tags(MlflowClient& client, const MlflowRun& mlflow_run,
                                  const std::string& run_id, const std::filesystem::path& run) {
  MlflowJson tags = MlflowJson::array();
  add_tag(tags, "dlrun.directory", run.string());
  add_tag(tags, "dlrun.job", mlflow_run.job);
  add_tag(tags, "dlrun.cluster", mlflow_run.cluster);
  MlflowJson params = MlflowJson::array();
  std::size_t bytes = 0;
  const auto parameters = object_of_file(run / "parameters.json");
  for (auto at = parameters.begin(); at != parameters.end(); ++at) {
    if (!at->is_string() || at->get_ref<const std::string&>().empty()) continue;
    if (at.key().size() > kLongestName) continue;
    params.push_back(key_value_json(at.key(), at->get_ref<const std::string&>()));
    bytes += json_read::dump(params.back()).size();
    if (params.size() < kMostParametersPerRequest && bytes < kParameterBytesPerRequest) continue;
    bytes = 0;
    if (!client.log_batch(run_id, MlflowJson::array(), std::exchange(params, MlflowJson::array()),
                          MlflowJson::array()))
      return false;
  }
  return client.log_batch(run_id, MlflowJson::array(), std::move(params), std::move(tags));
}

/// Adds the values of a line to the batch.
void add_values(const MlflowJson& line, MlflowJson& metrics) {
  const auto values = line.find("m");
  if (values == line.end() || !values->is_object()) return;
  for (auto at = values->begin(); at != values->end(); ++at) {
    if (!at->is_number()) continue;
    metrics.push_back({{"key", metric_name(at.key())},
                       {"value", at->get<double>()},
                       {"timestamp", json_read::integer(line, "t").value_or(0)},
                       {"step", json_read::integer(line, "step").value_or(0)}});
  }
}

/// Returns the bytes of the file from this offset on, at most kChunkBytes. Fails with kIo.
Result<std::string> bytes_from(int fd, std::int64_t offset) {
  std::string text(kChunkBytes, '\0');
  ssize_t got = 0;
  while ((got = ::pread(fd, text.data(), text.size(), offset)) < 0 && errno == EINTR) {
  }
  if (got < 0) return fail(Errc::kIo, "{}: {}", kValuesFile, errno_text(errno));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

/// Returns the whole lines of the file from this offset on, at most kChunkBytes. Fails with kIo.
Result<std::string> lines_from(int fd, std::int64_t offset) {
  DLRUN_TRY_ASSIGN(std::string text, bytes_from(fd, offset));
  const auto end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

/// Returns the offset after the line that contains this offset; nullopt if the line has no end yet.
/// Fails with kIo.
Result<std::optional<std::int64_t>> end_of_line(int fd, std::int64_t offset) {
  while (true) {
    DLRUN_TRY_ASSIGN(const std::string text, bytes_from(fd, offset));
    if (text.empty()) return std::optional<std::int64_t>();
    const auto end = text.find('\n');
    if (end != std::string::npos)
      return std::optional<std::int64_t>(offset + static_cast<std::int64_t>(end) + 1);
    offset += static_cast<std::int64_t>(text.size());
  }
}

/// Moves the offset state.sent_bytes past a line that does not fit into kChunkBytes, and counts the
/// line in state.skipped_lines. Does nothing if the line fits: its writer has then completed it
/// after the caller read the file. Returns false if the line has no end yet. Fails with kIo.
Result<bool> skip_long_line(int fd, SyncState& state) {
  DLRUN_TRY_ASSIGN(const auto end, end_of_line(fd, state.sent_bytes));
  if (!end) return false;
  if (*end - state.sent_bytes > static_cast<std::int64_t>(kChunkBytes)) {
    state.sent_bytes = *end;
    ++state.skipped_lines;
  }
  return true;
}

/// Sends the next lines, from the offset state.sent_bytes on, and moves the offset past them. Sends
/// their values in one request, and the end of the run in a second one. Adds the number of sent
/// values to values_sent. Skips a line that is too long to be read. Returns false at the end of the
/// file, and if the server did not take the lines (client.problem()). Fails if the file cannot be
/// read.
Result<bool> send_next_lines(MlflowClient& client, int fd, SyncState& state,
                             std::size_t& values_sent) {
  DLRUN_TRY_ASSIGN(const std::string text, lines_from(fd, state.sent_bytes));
  if (text.empty()) return skip_long_line(fd, state);
  MlflowJson metrics = MlflowJson::array();
  std::int64_t taken_bytes = 0;
  MlflowJson end;
  for (const auto line : split(text, '\n')) {
    if (static_cast<std::size_t>(taken_bytes) >= text.size()) break;
    const auto object = json_read::object_of(line);
    MlflowJson values = MlflowJson::array();
    if (object) add_values(*object, values);
    if (!metrics.empty() && metrics.size() + values.size() > kMostValuesPerRequest) break;
    taken_bytes += static_cast<std::int64_t>(line.size()) + 1;
    for (auto& value : values) metrics.push_back(std::move(value));
    if (object && object->contains("status")) {
      end = *object;
      break;
    }
  }
  const std::size_t count = metrics.size();
  if (count > 0 &&
      !client.log_batch(state.run_id, std::move(metrics), MlflowJson::array(), MlflowJson::array()))
    return false;
  if (!end.is_null() && !client.set_status(state.run_id, end)) return false;
  state.sent_bytes += taken_bytes;
  values_sent += count;
  return taken_bytes > 0;
}

Result<> save_state(const std::filesystem::path& folder, const SyncState& state) {
  return write_file_atomic(folder / kStateFile,
                           json_read::dump(MlflowJson{{"run_id", state.run_id},
                                                      {"sent", state.sent_bytes},
                                                      {"skipped", state.skipped_lines},
                                                      {"has_params", state.has_params},
                                                      {"has_origin", state.has_origin}}));
}

}  // namespace

MlflowJson mlflow_end_line(EndState state, std::int64_t t_ms) {
  const char* const status = state == EndState::kCompleted   ? "FINISHED"
                             : state == EndState::kCancelled ? "KILLED"
                                                             : "FAILED";
  return {{"t", t_ms}, {"status", status}};
}

MlflowJson MlflowRun::to_json() const {
  return {{"url", url}, {"experiment", experiment}, {"secret", secret_name}, {"run", run},
          {"job", job}, {"cluster", cluster},       {"start_ms", start_ms}};
}

MlflowRun MlflowRun::of_json(const MlflowJson& object) {
  return {.url = json_read::text(object, "url"),
          .experiment = json_read::text(object, "experiment"),
          .secret_name = json_read::text(object, "secret"),
          .run = json_read::text(object, "run"),
          .job = json_read::text(object, "job"),
          .cluster = json_read::text(object, "cluster"),
          .start_ms = json_read::integer(object, "start_ms").value_or(0)};
}

bool MlflowRecord::exists() const {
  std::error_code error;
  return std::filesystem::is_regular_file(folder_ / kRunFile, error);
}

Result<> MlflowRecord::create(const MlflowRun& mlflow_run) const {
  DLRUN_TRY(make_private_directories(folder_));
  auto created = create_file_exclusive(folder_ / kRunFile, json_read::dump(mlflow_run.to_json()));
  if (!created && created.error().code == Errc::kRefused) return {};
  return created;
}

Result<MlflowRun> MlflowRecord::read_run() const {
  // dlrun sends the user's token to the address in this file, so the file must be the user's own.
  struct stat info {};
  if (::lstat(folder_.c_str(), &info) == 0 &&
      (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022U) != 0))
    return fail(Errc::kInvalid,
                "{}: must be a folder that belongs to you and that only you can write to",
                printable(folder_.string()));
  DLRUN_TRY_ASSIGN(const auto file,
                   read_file_and_owner(folder_ / kRunFile, kLargestJsonFileBytes, Links::kRefuse));
  if (file.owner != ::geteuid())
    return fail(Errc::kInvalid, "{}: belongs to another user",
                printable((folder_ / kRunFile).string()));
  const auto object = json_read::object_of(file.text);
  auto mlflow_run = object ? MlflowRun::of_json(*object) : MlflowRun();
  if (mlflow_run.url.empty() || mlflow_run.experiment.empty() || mlflow_run.run.empty())
    return fail(Errc::kInvalid, "{}: is damaged; expected an object with url, experiment and run",
                printable((folder_ / kRunFile).string()));
  return mlflow_run;
}

Result<> MlflowRecord::add_line(const MlflowJson& line) const {
  return append(json_read::dump(line) + "\n", kLargestBytes);
}

Result<bool> MlflowRecord::has_end() const {
  const auto path = folder_ / kValuesFile;
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return false;
  if (!file) return tl::unexpected<Error>(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  const auto begin = std::max<off_t>(info.st_size - static_cast<off_t>(kChunkBytes), 0);
  DLRUN_TRY_ASSIGN(std::string tail, bytes_from(file->get(), begin));
  tail.resize(tail.rfind('\n') + 1);  // without an incomplete line; npos + 1 is 0
  if (!tail.empty()) tail.pop_back();
  const auto object = json_read::object_of(tail.substr(tail.rfind('\n') + 1));
  return object && object->contains("status");
}

Result<> MlflowRecord::add_missing_end(const MissingEnd& end) const {
  DLRUN_TRY_ASSIGN(const bool is_there, has_end());
  if (is_there) return {};
  const auto line = json_read::dump(mlflow_end_line(end.state, end.t_ms)) + "\n";
  // The file may be full of values already. The end is only one short line, so it is added anyway.
  return append(line, kLargestBytes + kChunkBytes);
}

Result<> MlflowRecord::append(const std::string& line, std::size_t limit_bytes) const {
  const auto path = folder_ / kValuesFile;
  const UniqueFd file(::open(
      path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  if (!S_ISREG(info.st_mode))
    return fail(Errc::kInvalid, "{}: is not a regular file", printable(path.string()));
  if (info.st_size > static_cast<off_t>(limit_bytes))
    return fail(Errc::kRefused, "{}: larger than {} bytes", printable(path.string()), limit_bytes);
  // If an earlier writer was killed in the middle of a line, or the disk was full, the file ends
  // with an incomplete line. A newline before the new line separates the two.
  char last = '\n';
  if (info.st_size > 0 && ::pread(file.get(), &last, 1, info.st_size - 1) < 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  return write_all(file.get(), last == '\n' ? line : "\n" + line);
}

SyncReport MlflowRecord::sync(const Env& env, const std::string& token,
                              const std::function<bool()>& may_continue,
                              const std::optional<MissingEnd>& missing_end,
                              std::chrono::seconds limit) const {
  SyncReport report{.is_complete = false};
  const auto mlflow_run = read_run();
  if (!mlflow_run) {
    report.problem = mlflow_run.error().message;
    return report;
  }
  const UniqueFd lock(
      ::open((folder_ / "mlflow.lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Another error than EWOULDBLOCK means that the file system has no locks.
  if (!lock.is_open() || (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) {
    report.problem = lock.is_open()
                         ? "another process sends the record now"
                         : fmt::format("{}: {}", printable((folder_ / "mlflow.lock").string()),
                                       errno_text(errno));
    return report;
  }
  const auto added = missing_end ? add_missing_end(*missing_end) : Result<>();
  if (!added) {
    report.problem = added.error().message;
    return report;
  }
  const auto stored_state = object_of_file(folder_ / kStateFile);
  SyncState state{
      .run_id = json_read::text(stored_state, "run_id"),
      .sent_bytes = std::max<std::int64_t>(json_read::integer(stored_state, "sent").value_or(0), 0),
      .skipped_lines = json_read::integer(stored_state, "skipped").value_or(0),
      .has_params = json_read::boolean(stored_state, "has_params"),
      .has_origin = json_read::boolean(stored_state, "has_origin")};
  MlflowClient client(env, *mlflow_run, token, may_continue, limit);
  const auto save = [&] {
    if (auto saved = save_state(folder_, state); !saved) report.problem = saved.error().message;
  };
  if (state.run_id.empty()) {
    state.run_id = client.find_or_create_run();
    if (!state.run_id.empty()) save();
  }
  report.mlflow_run_id = state.run_id;
  if (!state.run_id.empty() && !state.has_params) {
    state.has_params = send_parameters_and_job_tags(client, *mlflow_run, state.run_id, run_);
    if (state.has_params) save();
  }
  // provenance.json may not exist yet: the submitting command may write it after the job's start.
  if (state.has_params && !state.has_origin) {
    auto tags = origin_tags(run_);
    state.has_origin = !tags.empty() && client.log_batch(state.run_id, MlflowJson::array(),
                                                         MlflowJson::array(), std::move(tags));
    if (state.has_origin) save();
  }
  const auto file = open_untrusted(folder_ / kValuesFile, Links::kRefuse);
  if (!file && file.error().code != Errc::kNotFound) report.problem = file.error().message;
  while (client.problem().empty() && report.problem.empty() && file) {
    const auto goes_on = send_next_lines(client, file->get(), state, report.values_sent);
    if (!goes_on) report.problem = goes_on.error().message;
    if (!goes_on || !*goes_on) break;
    save();
  }
  if (!client.problem().empty()) report.problem = client.problem();
  if (report.problem.empty() && state.skipped_lines > 0)
    report.problem = fmt::format(
        "dlrun does not send lines of more than {} bytes, and mlflow.jsonl has {} of them",
        kChunkBytes, state.skipped_lines);
  report.is_complete = report.problem.empty();
  return report;
}

}  // namespace dlrun
