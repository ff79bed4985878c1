// The module `pmix`: implements pmix_client.h with libpmix.
//
// No fence is needed: PMIx_Get asks the daemon of the rank that puts the key (direct modex). A
// daemon is the launcher's process on a node, such as slurmstepd. The daemon of this node answers
// when the key appears. The daemon of another node answers immediately, even if the key does not
// exist yet, so get() retries. PMIx_Publish and PMIx_Lookup would not need the number of a rank,
// but Slurm's PMIx plugin does not support them.

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <pmix.h>

#include "runtime/bootstrap/pmix_client.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Returns PMIx's name for a status.
std::string_view name_of(pmix_status_t status) {
  const char* const name = PMIx_Error_string(status);
  return name != nullptr ? name : "unknown";
}

Result<> checked(pmix_status_t status, const char* call) {
  if (status == PMIX_SUCCESS) return {};
  return fail(Errc::kUnavailable, "{}: {} ({})", call, name_of(status), status);
}

/// One call of PMIx_Get_nb. PMIx uses the call's arguments until PMIx answers, possibly after the
/// caller has stopped waiting. So PMIx's callback holds a shared_ptr to the question.
class Question {
 public:
  Question(const pmix_proc_t& owner, std::string key, steady_clock::time_point deadline)
      : owner_(owner), key_(std::move(key)), deadline_(deadline) {
    // The daemon's timeout in whole seconds; the default is 2 s. ask() applies the exact deadline.
    const auto left =
        std::chrono::ceil<std::chrono::seconds>(deadline - steady_clock::now()).count();
    const int seconds =
        static_cast<int>(std::clamp<std::int64_t>(left, 1, std::numeric_limits<int>::max()));
    PMIX_INFO_CONSTRUCT(&timeout_);
    PMIX_INFO_LOAD(&timeout_, PMIX_TIMEOUT, &seconds, PMIX_INT);
  }

  /// Sends the question and waits for its answer. Returns the status of the answer; nullopt after
  /// the deadline.
  static std::optional<pmix_status_t> ask(const std::shared_ptr<Question>& question) {
    auto reference = std::make_unique<std::shared_ptr<Question>>(question);
    Question& self = *question;
    const pmix_status_t asked = PMIx_Get_nb(&self.owner_, self.key_.c_str(), &self.timeout_, 1,
                                            &Question::on_answer, reference.get());
    if (asked != PMIX_SUCCESS) return asked;
    (void)reference.release();  // on_answer() owns it now
    std::unique_lock lock(self.mutex_);
    self.answered_.wait_until(lock, self.deadline_, [&] { return self.status_.has_value(); });
    return self.status_;
  }

  /// Returns the value. Call it only after ask() returned PMIX_SUCCESS.
  std::string take() { return std::move(value_); }

 private:
  /// Receives the answer. PMIx calls this function on its own thread, and owns `value`.
  static void on_answer(pmix_status_t status, pmix_value_t* value, void* data) {
    const std::unique_ptr<std::shared_ptr<Question>> reference(
        static_cast<std::shared_ptr<Question>*>(data));
    Question& self = **reference;
    {
      const std::lock_guard lock(self.mutex_);
      if (status == PMIX_SUCCESS && (value == nullptr || value->type != PMIX_BYTE_OBJECT))
        status = PMIX_ERR_TYPE_MISMATCH;
      if (status == PMIX_SUCCESS && value->data.bo.size > 0)
        self.value_.assign(value->data.bo.bytes, value->data.bo.size);
      self.status_ = status;
    }
    self.answered_.notify_one();
  }

  pmix_proc_t owner_;
  std::string key_;
  steady_clock::time_point deadline_;
  pmix_info_t timeout_{};
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<pmix_status_t> status_;  ///< guarded by mutex_
  std::string value_;                    ///< guarded by mutex_
};

class LibpmixClient final : public PmixClient {
 public:
  static Result<std::unique_ptr<PmixClient>> connect() {
    pmix_proc_t self;
    DLRUN_TRY(checked(PMIx_Init(&self, nullptr, 0), "PMIx_Init"));
    std::unique_ptr<LibpmixClient> client(new LibpmixClient(self));
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t* size = nullptr;
    DLRUN_TRY(
        checked(PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &size), "PMIx_Get of the job's size"));
    const auto type = size->type;
    if (type == PMIX_UINT32) client->size_ = static_cast<int>(size->data.uint32);
    PMIX_VALUE_RELEASE(size);
    if (type != PMIX_UINT32) {
      return fail(Errc::kInternal, "PMIx gives the job's size with type {}, expected {} (uint32)",
                  type, PMIX_UINT32);
    }
    // A daemon answers the questions of other nodes about a rank only after this rank has committed
    // a key, so commit one.
    DLRUN_TRY(client->put("dlrun", "here"));
    return client;
  }

  LibpmixClient(const LibpmixClient&) = delete;
  LibpmixClient& operator=(const LibpmixClient&) = delete;
  // PMIx counts the calls of PMIx_Init, so MPI in this process can continue to use PMIx.
  ~LibpmixClient() override { PMIx_Finalize(nullptr, 0); }

  [[nodiscard]] int rank() const override { return static_cast<int>(self_.rank); }
  [[nodiscard]] int size() const override { return size_; }

  Result<std::string> host_of(int rank) override {
    pmix_proc_t other;
    PMIX_LOAD_PROCID(&other, self_.nspace, static_cast<pmix_rank_t>(rank));
    pmix_value_t* name = nullptr;
    DLRUN_TRY(
        checked(PMIx_Get(&other, PMIX_HOSTNAME, nullptr, 0, &name), "PMIx_Get of a rank's host"));
    std::string host = name->type == PMIX_STRING ? name->data.string : "";
    PMIX_VALUE_RELEASE(name);
    return host;
  }

  Result<> put(const std::string& key, std::string_view value) override {
    pmix_value_t bytes;
    PMIX_VALUE_CONSTRUCT(&bytes);
    bytes.type = PMIX_BYTE_OBJECT;
    bytes.data.bo.bytes = const_cast<char*>(value.data());  // PMIx_Put copies the bytes
    bytes.data.bo.size = value.size();
    const std::lock_guard lock(put_mutex_);
    DLRUN_TRY(checked(PMIx_Put(PMIX_GLOBAL, key.c_str(), &bytes), "PMIx_Put"));
    return checked(PMIx_Commit(), "PMIx_Commit");
  }

  Result<std::string> get(int rank, const std::string& key, milliseconds wait) override {
    pmix_proc_t owner;
    PMIX_LOAD_PROCID(&owner, self_.nspace, static_cast<pmix_rank_t>(rank));
    const auto deadline = steady_clock::now() + wait;
    for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds{50})) {
      const auto question = std::make_shared<Question>(owner, key, deadline);
      const auto status = Question::ask(question);
      if (status == PMIX_SUCCESS) return question->take();
      if (status && *status != PMIX_ERR_NOT_FOUND && *status != PMIX_ERR_TIMEOUT) {
        return fail(Errc::kUnavailable, "PMIx_Get of rank {}: {} ({})", rank, name_of(*status),
                    *status);
      }
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      if (left <= milliseconds::zero())
        return fail(Errc::kTimeout, "no value within {} ms", wait.count());
      std::this_thread::sleep_for(std::min(pause, left));
    }
  }

 private:
  explicit LibpmixClient(const pmix_proc_t& self) : self_(self) {}

  pmix_proc_t self_;
  int size_ = 0;
  std::mutex put_mutex_;  // put() locks it, so that each PMIx_Put is followed by its commit
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PmixModule dlrun_pmix_module;
const PmixModule dlrun_pmix_module{DLRUN_PMIX_INTERFACE, &LibpmixClient::connect};

}  // namespace dlrun
