// Collectives over MPI, on a duplicate of MPI_COMM_WORLD. The MPI launcher (PMIx under `srun
// --mpi=pmix`, or mpirun) connects the ranks. Requests use MPI_Iallreduce. One thread makes all
// calls (MPI_THREAD_FUNNELED).

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include "runtime/comm/module.h"
#include "runtime/comm/reduce.h"

namespace dlrun {

namespace {

// MPI 3 counts elements with int, so longer buffers are sent in pieces of this size.
constexpr std::size_t kPieceElements = std::size_t{1} << 30U;

// A waiting rank polls a request without pauses for kPollFor, which is longer than an all-reduce of
// a few megabytes takes. The rank then pauses for kPollPause between polls.
constexpr std::chrono::microseconds kPollFor{1'000};
constexpr std::chrono::microseconds kPollPause{50};

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return MPI_UINT8_T;
    case DataType::kInt64:
      return MPI_INT64_T;
    case DataType::kUint64:
      return MPI_UINT64_T;
    case DataType::kFloat32:
      return MPI_FLOAT;
    case DataType::kFloat64:
      return MPI_DOUBLE;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return MPI_UINT16_T;  // MPI has no 16-bit floats; MpiOps reduces them
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return MPI_SUM;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

/// The reductions of all types. Defines those of 16-bit floats, a type that MPI 3 does not have.
class MpiOps {
 public:
  MpiOps() {
    MPI_Op_create(&apply<Float16, ReduceOp::kSum>, 1, &half_ops_[0]);
    MPI_Op_create(&apply<Float16, ReduceOp::kMin>, 1, &half_ops_[1]);
    MPI_Op_create(&apply<Float16, ReduceOp::kMax>, 1, &half_ops_[2]);
    MPI_Op_create(&apply<Bfloat16, ReduceOp::kSum>, 1, &half_ops_[3]);
    MPI_Op_create(&apply<Bfloat16, ReduceOp::kMin>, 1, &half_ops_[4]);
    MPI_Op_create(&apply<Bfloat16, ReduceOp::kMax>, 1, &half_ops_[5]);
  }
  void release() {
    for (MPI_Op& op : half_ops_) MPI_Op_free(&op);
  }

  [[nodiscard]] MPI_Op op(DataType type, ReduceOp op) const {
    if (type != DataType::kFloat16 && type != DataType::kBfloat16) return mpi_op(op);
    return half_ops_[(type == DataType::kFloat16 ? 0 : 3) + static_cast<std::size_t>(op)];
  }

 private:
  template <typename T, ReduceOp kOp>
  static void apply(void* in, void* in_and_out, int* count, MPI_Datatype* /*type*/) {
    auto* const out = static_cast<T*>(in_and_out);
    combine(kOp, out, out, static_cast<const T*>(in), static_cast<std::size_t>(*count));
  }

  std::array<MPI_Op, 6> half_ops_{};
};

Result<> checked(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  int error_class = MPI_ERR_OTHER;
  MPI_Error_class(code, &error_class);
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  const std::string_view message(text.data(), static_cast<std::size_t>(length));
  if (error_class == MPI_ERR_TRUNCATE)
    return fail(Errc::kPeer, "{}: {}; another rank calls with another size", call, message);
  return fail(Errc::kPeer, "{}: {}", call, message);
}

/// The period between MPI_Init and MPI_Finalize. All communicators of a process share one object.
/// If the program has called MPI_Init, the program also calls MPI_Finalize.
class MpiLifetime {
 public:
  static Result<std::shared_ptr<MpiLifetime>> acquire(const CommunicatorOptions& options) {
    static std::weak_ptr<MpiLifetime> current;
    static bool has_started = false;  // this class has called MPI_Init_thread
    if (auto lifetime = current.lock(); lifetime && !is_over()) return lifetime;
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    if (has_started || is_over()) {
      return fail(Errc::kInternal,
                  "this process has started MPI before; MPI cannot be started a second time");
    }
    if (is_initialized != 0) {
      std::shared_ptr<MpiLifetime> lifetime(new MpiLifetime(Owner::kProgram));
      current = lifetime;
      return lifetime;
    }
    // Ranks that share a core and wait by spinning make a small all-reduce a thousand times slower.
    // Open MPI detects shared cores only if its own launcher counts the slots. MPI has not started
    // its threads yet, so setenv is safe.
    if (options.world.local_size > options.processors)
      ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (options.world.nnodes == 1 && options.world.local_size == options.world.size)
      stay_on_this_node();
    has_started = true;
    int provided = MPI_THREAD_SINGLE;
    DLRUN_TRY(checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
                      "MPI_Init_thread"));
    std::shared_ptr<MpiLifetime> lifetime(new MpiLifetime(Owner::kThis));
    current = lifetime;
    DLRUN_TRY(checked(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                      "MPI_Comm_set_errhandler"));
    if (provided < MPI_THREAD_FUNNELED)
      return fail(Errc::kUnavailable, "this MPI library cannot run in a program with threads");
    return lifetime;
  }

  MpiLifetime(const MpiLifetime&) = delete;
  MpiLifetime& operator=(const MpiLifetime&) = delete;
  ~MpiLifetime() {
    if (!is_abandoned_ && owner_ == Owner::kThis && !is_over()) MPI_Finalize();
  }

  /// Returns true after MPI_Finalize.
  [[nodiscard]] static bool is_over() {
    int is_finalized = 0;
    MPI_Finalized(&is_finalized);
    return is_finalized != 0;
  }

  /// Makes the destructor skip MPI_Finalize, which would wait for the other ranks. The launcher
  /// ends the other ranks when this process exits.
  void abandon() { is_abandoned_ = true; }

 private:
  enum class Owner { kThis, kProgram };  ///< the caller of MPI_Init and MPI_Finalize
  explicit MpiLifetime(Owner owner) : owner_(owner) {}

  /// Restricts Open MPI to shared memory, plus TCP for ranks in separate containers. Otherwise
  /// MPI_Init spends nine tenths of its time on finding networks (UCX, libfabric) that ranks of one
  /// node do not need. Does not replace variables that the user or the site has set. Other MPI
  /// libraries ignore these variables.
  static void stay_on_this_node() {
    for (const auto& [name, value] : {std::pair("OMPI_MCA_pml", "ob1"),
                                      {"OMPI_MCA_btl", "self,vader,tcp"},
                                      {"OMPI_MCA_osc", "^ucx"}}) {
      ::setenv(name, value, 0);
    }
  }

  Owner owner_;
  bool is_abandoned_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiLifetime> lifetime, MPI_Comm comm, int rank, int size)
      : lifetime_(std::move(lifetime)), comm_(comm), rank_(rank), size_(size) {}
  ~MpiCommunicator() override {
    if (is_abandoned_ || MpiLifetime::is_over()) return;
    mpi_ops_.release();
    MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  [[nodiscard]] std::string_view name() const override { return "mpi"; }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  void abandon() override {
    is_abandoned_ = true;
    lifetime_->abandon();
  }

  Result<> check_results() override {
    if (is_abandoned_) return fail(Errc::kPeer, "the communicator was abandoned");
    return {};
  }

  Result<> all_reduce(Buffer data, ReduceOp op) override {
    return in_pieces(data, [&](void* at, int count) {
      return checked(MPI_Allreduce(MPI_IN_PLACE, at, count, mpi_type(data.type),
                                   mpi_ops_.op(data.type, op), comm_),
                     "MPI_Allreduce");
    });
  }

  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    auto pending = std::make_unique<Pending>(*this);
    DLRUN_TRY(in_pieces(data, [&](void* at, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      auto started = checked(MPI_Iallreduce(MPI_IN_PLACE, at, count, mpi_type(data.type),
                                            mpi_ops_.op(data.type, op), comm_, &request),
                             "MPI_Iallreduce");
      if (started) pending->requests.push_back(request);
      return started;
    }));
    return Request(std::move(pending));
  }

  void advance_requests() override {
    // Querying one request lets the library advance all of them.
    if (running_.empty()) return;
    int is_complete = 0;
    MPI_Request_get_status(running_.front()->requests.back(), &is_complete, MPI_STATUS_IGNORE);
  }

  Result<> broadcast(Buffer data, int root) override {
    return in_pieces(data, [&](void* at, int count) {
      return checked(MPI_Bcast(at, count, mpi_type(data.type), root, comm_), "MPI_Bcast");
    });
  }

  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    if (auto fits = fits_int(mine.count); !fits) return fits;
    const auto* own_part = static_cast<const std::byte*>(all.data) +
                           static_cast<std::size_t>(rank_) * mine.size_bytes();
    const int count = static_cast<int>(mine.count);
    const void* const from = mine.data == own_part ? MPI_IN_PLACE : mine.data;
    return checked(
        MPI_Allgather(from, count, mpi_type(mine.type), all.data, count, mpi_type(all.type), comm_),
        "MPI_Allgather");
  }

  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    if (auto fits = fits_int(mine.count); !fits) return fits;
    return checked(MPI_Reduce_scatter_block(all.data, mine.data, static_cast<int>(mine.count),
                                            mpi_type(mine.type), mpi_ops_.op(mine.type, op), comm_),
                   "MPI_Reduce_scatter_block");
  }

  Result<> barrier() override { return checked(MPI_Barrier(comm_), "MPI_Barrier"); }

 private:
  /// The request of one start_all_reduce(). The communicator's running_ has a pointer to this
  /// object until the object is destroyed.
  class Pending final : public Request::State {
   public:
    explicit Pending(MpiCommunicator& owner) : owner_(owner) { owner_.running_.push_back(this); }
    ~Pending() override { std::erase(owner_.running_, this); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    Result<> finish() override {
      if (owner_.is_abandoned_) return fail(Errc::kPeer, "the communicator was abandoned");
      // MPI advances a request only while a rank polls the request. A rank that sleeps immediately
      // is slow. A rank that never sleeps takes a core that the other ranks may need.
      const auto sleep_after = std::chrono::steady_clock::now() + kPollFor;
      while (true) {
        int is_complete = 0;
        DLRUN_TRY(checked(MPI_Testall(static_cast<int>(requests.size()), requests.data(),
                                      &is_complete, MPI_STATUSES_IGNORE),
                          "MPI_Testall"));
        if (is_complete != 0) return {};
        if (std::chrono::steady_clock::now() > sleep_after) std::this_thread::sleep_for(kPollPause);
      }
    }

    std::vector<MPI_Request> requests;

   private:
    MpiCommunicator& owner_;
  };

  /// Calls call(address, count) for each piece of `data`, until a call fails.
  template <typename Function>
  static Result<> in_pieces(Buffer data, Function&& call) {
    auto* at = static_cast<std::byte*>(data.data);
    for (std::size_t done = 0; done < data.count;) {
      const std::size_t count = std::min(kPieceElements, data.count - done);
      DLRUN_TRY(call(static_cast<void*>(at + done * size_of(data.type)), static_cast<int>(count)));
      done += count;
    }
    return {};
  }

  static Result<> fits_int(std::size_t count) {
    if (count <= static_cast<std::size_t>(std::numeric_limits<int>::max())) return {};
    return fail(Errc::kShape,
                "{} elements per rank, but this MPI call takes at most {}: split the data into "
                "several calls",
                count, std::numeric_limits<int>::max());
  }

  std::shared_ptr<MpiLifetime> lifetime_;
  MPI_Comm comm_;
  int rank_;
  int size_;
  bool is_abandoned_ = false;
  MpiOps mpi_ops_;
  std::vector<Pending*> running_;  ///< oldest first
};

Result<std::unique_ptr<Communicator>> connect(const CommunicatorOptions& options) {
  DLRUN_TRY_ASSIGN(auto lifetime, MpiLifetime::acquire(options));
  int rank = 0;
  int size = 0;
  DLRUN_TRY(checked(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  DLRUN_TRY(checked(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  if (size != options.world.size || rank != options.world.rank) {
    return fail(Errc::kInvalid, "MPI says rank {} of {}, expected rank {} of {}{}", rank, size,
                options.world.rank, options.world.size,
                size == 1 ? "; no MPI launcher started this process: use `srun --mpi=pmix` "
                            "(launch.mpi: pmix), or the gloo backend"
                          : "");
  }
  MPI_Comm comm = MPI_COMM_NULL;
  DLRUN_TRY(checked(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup"));
  auto communicator = std::make_unique<MpiCommunicator>(std::move(lifetime), comm, rank, size);
  DLRUN_TRY(checked(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return communicator;
}

}  // namespace

DLRUN_EXPORT_COMM_BACKEND(connect);

}  // namespace dlrun
