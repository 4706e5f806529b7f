#include "runtime/comm/nccl_launch.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nccl.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/nccl_abort.h"
#include "runtime/devices/cuda/cuda_error.h"
#include "runtime/devices/cuda/pause.h"

namespace autopar::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// Before it, non-blocking communicators of one thread disturb each other (its release notes).
constexpr int least_version = NCCL_VERSION(2, 26, 2);
static_assert(NCCL_VERSION_CODE >= least_version, "NCCL 2.26.2 or newer");

/// NCCL's reason, in one line.
std::string reason(ncclResult_t result) {
  std::string text = ncclGetErrorString(result);
  const char* details = ncclGetLastError(nullptr);
  if (details != nullptr && *details != '\0') text += std::string(": ") + details;
  while (text.back() == '\n') text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  if (text.find("out of memory") != std::string::npos)
    text += "; NCCL needs memory beside the model's: plan with a lower --memory";
  return text;
}

/// "ranks 0 and 2 have the same GPU", the first two that do; empty where none do. Every rank asks.
/// NCCL says which in some releases, in changing words.
std::string ranks_with_one_gpu(HostCommunicator& host) {
  int gpu = 0;
  cudaDeviceProp properties{};
  cuda::check(cudaGetDevice(&gpu), "the GPU");
  cuda::check(cudaGetDeviceProperties(&properties, gpu), "the GPU's properties");
  const std::vector<cudaUUID_t> all = gather_all(host, properties.uuid);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j)
      if (std::ranges::equal(all[i].bytes, all[j].bytes))
        return fmt::format("ranks {} and {} have the same GPU", i, j);
  return {};
}

struct Reduction {
  ncclDataType_t type;
  ncclRedOp_t op;
};

/// Throws Error for what NCCL cannot reduce.
Reduction reduction(DataType type, ReduceOp op) {
  static const std::map<DataType, ncclDataType_t> types = {
      {DataType::float64, ncclFloat64}, {DataType::float32, ncclFloat32},
      {DataType::float16, ncclFloat16}, {DataType::bfloat16, ncclBfloat16},
      {DataType::int8, ncclInt8},       {DataType::uint8, ncclUint8},
      {DataType::int32, ncclInt32},     {DataType::uint32, ncclUint32},
      {DataType::int64, ncclInt64},     {DataType::uint64, ncclUint64},
      {DataType::boolean, ncclUint8}};
  static const std::map<ReduceOp, ncclRedOp_t> ops = {{ReduceOp::sum, ncclSum},
                                                      {ReduceOp::max, ncclMax},
                                                      {ReduceOp::min, ncclMin},
                                                      {ReduceOp::mean, ncclAvg}};
  // Bools are bytes of 0 and 1: max is "or", min is "and".
  const bool has_sum = type != DataType::boolean || op == ReduceOp::max || op == ReduceOp::min;
  const auto found = types.find(type);
  if (found == types.end() || !has_sum)
    fail("NCCL cannot reduce {} over ranks so; use --collectives host", name_of(type));
  return {found->second, ops.at(op)};
}

/// NCCL on one rank: the communicators of all its groups, which are waited for, checked, aborted
/// and closed together. One thread calls, and another may abort.
///
/// The communicators are non-blocking, so that no call waits for a rank that is gone: what a call
/// has begun is in progress until NCCL says otherwise.
class NcclRank {
 public:
  NcclRank(HostCommunicator& host, cudaStream_t stream, std::chrono::milliseconds timeout)
      : host_(host), stream_(stream), timeout_(timeout) {
    cuda::check(cudaGetDevice(&gpu_), "the GPU");
  }

  ~NcclRank() {
    try {
      if (std::uncaught_exceptions() == 0 && group_depth_ == 0) close();
    } catch (const std::exception&) {
      // Others are gone: what is left ends without them.
    }
    abort();
  }

  cudaStream_t stream() const { return stream_; }

  /// The communicator of all ranks.
  ncclComm_t init() {
    check_version();
    host_.barrier();  // some may still be reading their shards, which NCCL does not see
    const std::string what = fmt::format("connecting the GPUs of {} ranks", host_.size());
    with_one_gpu_ = ranks_with_one_gpu(host_);
    ncclUniqueId id{};
    if (host_.rank() == 0) run(what, [&] { return ncclGetUniqueId(&id); });
    host_.broadcast(reinterpret_cast<std::byte*>(&id), sizeof id, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&made_, host_.size(), id, host_.rank(), &config), what);
    const ncclComm_t world = keep_made(what);
    with_one_gpu_.clear();  // it does not mind
    return world;
  }

  /// Every member of `parent` calls it; null where `color` is none.
  ncclComm_t split(ncclComm_t parent, int color, int key) {
    const std::string what = "making a group's communicator";
    made_ = nullptr;
    run(what, [&] { return ncclCommSplit(parent, color, key, &made_, nullptr); });
    return keep_made(what);
  }

  /// Calls of NCCL between the two go out as one. No other thread aborts meanwhile.
  void begin_group(const std::string& what) {
    std::unique_lock lock(mutex_);
    ensure_usable(what);
    check(ncclGroupStart(), what);
    ++group_depth_;
    lock.release();
  }

  /// Returns when all that was called since the first begin_group has joined the stream.
  void end_group(const std::string& what) {
    const ncclResult_t ended = ncclGroupEnd();
    --group_depth_;
    mutex_.unlock();
    check(ended, what);
    if (group_depth_ == 0) wait(what);
  }

  /// Makes a call of NCCL. Returns, unless within a group, when it has joined the stream.
  template <typename Call>
  void run(const std::string& what, Call call) {
    {
      const std::lock_guard lock(mutex_);
      ensure_usable(what);
      check(call(), what);
    }
    if (group_depth_ == 0) wait(what);
  }

  /// Whether a communicator has something in progress. Throws Error, all of them aborted, if one
  /// has failed.
  bool check_all(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ensure_usable(what);
    bool is_in_progress = false;
    for (const ncclComm_t comm : comms_) {
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(comm, &state), what);
      check(state, what);
      is_in_progress |= state == ncclInProgress;
    }
    return is_in_progress;
  }

  /// Begins to end all communicators, and waits for nothing: this thread may be the one that has
  /// the graphs. Who destroys this waits.
  void abort() noexcept {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    for (; group_depth_ > 0; --group_depth_) {
      ncclGroupEnd();
      mutex_.unlock();
    }
    if (!comms_.empty()) abort_ = std::make_unique<NcclAbort>(std::exchange(comms_, {}), gpu_);
  }

 private:
  static void check_version() {
    int version = 0;
    if (ncclGetVersion(&version) == ncclSuccess && version >= least_version) return;
    fail(
        "NCCL here is version {}.{}.{}, but 2.26.2 or newer is needed; update it, or use "
        "--collectives host",
        version / 10000, version / 100 % 100, version % 100);
  }

  void ensure_usable(const std::string& what) const {
    if (is_aborted_)
      throw GivenUp(fmt::format("rank {}: NCCL: {}: the run was given up", host_.rank(), what));
  }

  void check(ncclResult_t result, const std::string& what) {
    if (result == ncclRemoteError) give_up_for_another(what, reason(result));
    if (result == ncclSuccess || result == ncclInProgress) return;
    const bool is_refused_for_gpu = result == ncclInvalidUsage && !with_one_gpu_.empty();
    const std::string why = reason(result);
    if (!is_refused_for_gpu) give_up(what, why);
    give_up(what, fmt::format("{}; {}; start one rank for each GPU, or use --collectives host", why,
                              with_one_gpu_));
  }

  /// NCCL misses another rank and seldom tells which: the host's news are the better error. While
  /// this rank closes, others may have closed already, and nobody is missed.
  [[noreturn]] void give_up_for_another(const std::string& what, const std::string& why) {
    try {
      if (!is_closing_) host_.await_cause();
    } catch (const Error&) {
      abort();
      throw;
    }
    abort();
    throw GivenUp(fmt::format("rank {}: NCCL: {}: {}", host_.rank(), what, why));
  }

  [[noreturn]] void give_up(const std::string& what, const std::string& why) {
    abort();
    fail("rank {}: NCCL: {}: {}", host_.rank(), what, why);
  }

  /// Until nothing is in progress. Throws Error at the timeout, and if a rank is known to be gone.
  /// NCCL has no event for this: it must be asked, and a call is most often done in microseconds.
  void wait(const std::string& what) {
    const auto start = Clock::now();
    while (check_all(what)) {
      const auto waited = Clock::now() - start;
      if (waited > timeout_) give_up(what, fmt::format("not done within {} ms", timeout_.count()));
      if (!is_closing_) host_.check_members();
      cuda::pause(waited);
    }
  }

  ncclComm_t keep_made(const std::string& what) {
    if (made_ == nullptr) return nullptr;
    {
      const std::lock_guard lock(mutex_);
      comms_.push_back(made_);
    }
    wait(what);
    return made_;
  }

  /// All ranks close their communicators in the same order. Others may be gone before this one.
  void close() {
    const std::string what = "closing the communicators";
    is_closing_ = true;
    for (const ncclComm_t comm : comms_) {  // while one is in progress, no other may be called
      check(ncclCommFinalize(comm), what);
      wait(what);
    }
    std::for_each(comms_.rbegin(), comms_.rend(), ncclCommDestroy);
    comms_.clear();
  }

  HostCommunicator& host_;
  cudaStream_t stream_;
  std::chrono::milliseconds timeout_;
  int gpu_ = 0;

  std::recursive_mutex mutex_;  ///< held within groups
  bool is_aborted_ = false;
  bool is_closing_ = false;
  int group_depth_ = 0;
  std::string with_one_gpu_;       ///< see ranks_with_one_gpu; while the world is made
  std::vector<ncclComm_t> comms_;  ///< in the order in which they were made, as on all ranks
  ncclComm_t made_ = nullptr;      ///< NCCL may write here until a communicator is made
  std::unique_ptr<NcclAbort> abort_;
};

/// Movement is of bytes, whatever the type.
constexpr ncclDataType_t byte_type = ncclUint8;

class NcclCommunicator final : public DeviceCommunicator {
 public:
  /// `comm` is null for a group of one rank of several, which needs no NCCL. A subgroup owns its
  /// host.
  NcclCommunicator(std::shared_ptr<NcclRank> nccl, ncclComm_t comm, HostCommunicator& host,
                   std::unique_ptr<HostCommunicator> own_host = nullptr)
      : nccl_(std::move(nccl)),
        comm_(comm),
        stream_(nccl_->stream()),
        own_host_(std::move(own_host)),
        host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool joins_queue() const override { return true; }
  void join_queue(void* queue) override { stream_ = static_cast<cudaStream_t>(queue); }

  std::unique_ptr<DeviceCommunicator> subgroup(std::span<const int> ranks) override {
    const auto me = std::ranges::find(ranks, rank());
    require(me != ranks.end(), "a rank makes only subgroups that it is in");
    const std::vector<std::vector<int>> groups = groups_of_all(ranks);
    const bool are_single =
        std::ranges::all_of(groups, [](const auto& g) { return g.size() == 1; });
    const bool is_this = std::ranges::is_sorted(ranks) && ranks.size() == groups.size();
    ncclComm_t comm = is_this ? comm_ : nullptr;
    if (!are_single && !is_this) {
      const int color = ranks.size() == 1 ? NCCL_SPLIT_NOCOLOR : std::ranges::min(ranks);
      comm = nccl_->split(comm_, color, static_cast<int>(me - ranks.begin()));
    }
    auto host = host_.subgroup(ranks);
    HostCommunicator& of_group = *host;
    return std::make_unique<NcclCommunicator>(nccl_, comm, of_group, std::move(host));
  }

  void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, DataType type,
                  ReduceOp op) override {
    if (comm_ == nullptr) return copy(in, out, graph::bytes_of(type, elements));
    const auto [nccl_type, nccl_op] = reduction(type, op);
    run("all-reduce", ncclAllReduce, in, out, at(elements), nccl_type, nccl_op);
  }

  void all_gather(const std::byte* in, std::byte* out, BlockSizes block_bytes) override {
    if (comm_ == nullptr) return copy(in, out, block_bytes[0]);
    if (are_equal(block_bytes))
      return run("all-gather", ncclAllGather, in, out, at(block_bytes[0]), byte_type);
    nccl_->begin_group("all-gather");
    for (int root = 0; root < size(); ++root) {
      const std::int64_t bytes = block_bytes[at(root)];
      if (bytes > 0) run("all-gather", ncclBroadcast, in, out, at(bytes), byte_type, root);
      out += bytes;
    }
    nccl_->end_group("all-gather");
  }

  void reduce_scatter(const std::byte* in, std::byte* out, BlockSizes block_elements, DataType type,
                      ReduceOp op) override {
    if (comm_ == nullptr) return copy(in, out, graph::bytes_of(type, block_elements[0]));
    const auto [nccl_type, nccl_op] = reduction(type, op);
    if (are_equal(block_elements))
      return run("reduce-scatter", ncclReduceScatter, in, out, at(block_elements[0]), nccl_type,
                 nccl_op);
    nccl_->begin_group("reduce-scatter");
    for (int root = 0; root < size(); ++root) {
      const std::int64_t elements = block_elements[at(root)];
      std::byte* const mine = root == rank() ? out : nullptr;
      if (elements > 0)
        run("reduce-scatter", ncclReduce, in, mine, at(elements), nccl_type, nccl_op, root);
      in += graph::bytes_of(type, elements);
    }
    nccl_->end_group("reduce-scatter");
  }

  void all_to_all(const std::byte* in, BlockSizes send_bytes, std::byte* out,
                  BlockSizes receive_bytes) override {
    if (comm_ == nullptr) return copy(in, out, send_bytes[0]);
    nccl_->begin_group("all-to-all");
    for (int peer = 0; peer < size(); ++peer) {
      const std::int64_t sent = send_bytes[at(peer)];
      const std::int64_t received = receive_bytes[at(peer)];
      if (peer == rank()) {
        copy(in, out, sent);
      } else {
        if (sent > 0) run("all-to-all", ncclSend, in, at(sent), byte_type, peer);
        if (received > 0) run("all-to-all", ncclRecv, out, at(received), byte_type, peer);
      }
      in += sent;
      out += received;
    }
    nccl_->end_group("all-to-all");
  }

  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    if (comm_ == nullptr) return;
    run("broadcast", ncclBroadcast, data, data, at(bytes), byte_type, root);
  }

  /// NCCL wants the same length on both sides, and does not see whether it is.
  void send(const std::byte* data, std::int64_t bytes, int to) override {
    if (bytes > 0) run("a send", ncclSend, data, at(bytes), byte_type, to);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    if (bytes > 0) run("a receive", ncclRecv, out, at(bytes), byte_type, from);
  }

  void check_members() override {
    host_.check_members();
    nccl_->check_all("a collective");
  }

  void begin_group() override { nccl_->begin_group("a group of collectives"); }
  void end_group() override { nccl_->end_group("a group of collectives"); }

  /// The host tells the others, which NCCL does not everywhere; first, as NCCL may wait for them.
  void abort() noexcept override {
    host_.abort();
    nccl_->abort();
  }

 private:
  static bool are_equal(BlockSizes sizes) {
    return std::ranges::adjacent_find(sizes, std::ranges::not_equal_to()) == sizes.end();
  }

  /// A call of NCCL, whose last arguments are the communicator and the stream.
  template <typename Function, typename... Arguments>
  void run(const char* what, Function function, Arguments... arguments) {
    nccl_->run(what, [&] { return function(arguments..., comm_, stream_); });
  }

  void copy(const std::byte* from, std::byte* to, std::int64_t bytes) const {
    if (bytes == 0 || from == to) return;
    cuda::check(cudaMemcpyAsync(to, from, at(bytes), cudaMemcpyDeviceToDevice, stream_),
                "a rank's own block");
  }

  /// The group that each rank makes in this call, by rank. NCCL makes all of them at once: a rank
  /// in none or in two is an error on all ranks.
  std::vector<std::vector<int>> groups_of_all(std::span<const int> members) {
    // Some ranks may still be reading their weights.
    host_.barrier();
    const std::vector<std::vector<int>> groups = gather_lists(host_, members);
    for (int r = 0; r < size(); ++r) {
      for (const int member : groups[at(r)]) {
        if (groups[at(member)] == groups[at(r)]) continue;
        fail(
            "NCCL: ranks {} are a group on rank {}, but ranks {} on rank {}; groups that are made "
            "at once must share no rank",
            fmt::join(groups[at(r)], ", "), r, fmt::join(groups[at(member)], ", "), member);
      }
    }
    return groups;
  }

  std::shared_ptr<NcclRank> nccl_;
  ncclComm_t comm_;
  cudaStream_t stream_;
  std::unique_ptr<HostCommunicator> own_host_;
  HostCommunicator& host_;
};

}  // namespace

}  // namespace autopar::runtime

extern "C" autopar::runtime::DeviceCommunicator* autopar_make_nccl_communicator(
    autopar::runtime::HostCommunicator* host, void* stream, std::int64_t timeout_milliseconds) {
  using namespace autopar::runtime;
  const auto nccl = std::make_shared<NcclRank>(*host, static_cast<cudaStream_t>(stream),
                                               std::chrono::milliseconds(timeout_milliseconds));
  return new NcclCommunicator(nccl, nccl->init(), *host);
}
