// The calls of NCCL. Nothing here has a thread of its own: what the real library does in the
// background goes on when it is asked about.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "emulation.h"
#include "emulation_nccl.h"
#include "nccl_group.h"
#include "nccl_join.h"
#include "nccl_reduce.h"
#include "nccl_work.h"

namespace autopar::fake_nccl {

namespace {

using emulation::device_of;
using emulation::is_device_memory;

std::mutex last_error_mutex;
std::string last_error;

/// Goes on with launches that are not done; whether there are none left. Captured ones are not
/// waited for.
bool drain(Communicator& communicator) {
  std::erase_if(communicator.launched, [](const auto& launch) { return launch.work.expired(); });
  bool is_drained = true;
  for (const Communicator::Launched& launch : communicator.launched) {
    if (launch.is_captured) continue;
    is_drained = false;
    const cudaError_t status = cudaStreamQuery(launch.stream);
    if (status != cudaSuccess && status != cudaErrorNotReady) {
      communicator.fail(ncclUnhandledCudaError, cudaGetErrorString(status));
      return true;
    }
  }
  return is_drained;
}

/// The real library would wait for the graph for ever.
ncclResult_t refuse_if_captured(const Communicator& communicator) {
  const bool is_captured = std::ranges::any_of(communicator.launched, [](const auto& launch) {
    return launch.is_captured && !launch.work.expired();
  });
  if (!is_captured) return ncclSuccess;
  return refuse(ncclInvalidUsage, "a graph that has the communicator's operations is still alive");
}

/// Waits for this rank's work, then for all members.
Progress finalize(const std::shared_ptr<Communicator>& communicator) {
  auto meeting = std::make_shared<Meeting<int>>(*communicator, 0);
  return [communicator, meeting] {
    if (!drain(*communicator)) return ncclInProgress;
    return meeting->poll().empty() ? ncclInProgress : ncclSuccess;
  };
}

/// Every call is a group, alone or within the caller's. `body` checks and adds to it.
template <typename Body>
ncclResult_t in_group(Body body) {
  ncclGroupStart();
  const ncclResult_t error = body();
  if (error != ncclSuccess && group.error == ncclSuccess) group.error = error;
  const ncclResult_t ended = ncclGroupEnd();
  return error != ncclSuccess ? error : ended;
}

ncclResult_t ensure_ready(const std::shared_ptr<Communicator>& communicator) {
  if (!communicator) return refuse(ncclInvalidArgument, "no communicator, or a destroyed one");
  const ncclResult_t state = communicator->state;
  if (state == ncclInProgress) {
    return refuse(ncclInvalidArgument,
                  "Attempt to use communicator before the previous operation returned ncclSuccess");
  }
  return state;
}

ncclResult_t ensure_usable(const std::shared_ptr<Communicator>& communicator) {
  const ncclResult_t ready = ensure_ready(communicator);
  if (ready != ncclSuccess) return ready;
  if (communicator->is_finalized)
    return refuse(ncclInvalidArgument, "the communicator is finalized");
  const auto is_in_progress = [](const Communicator& each) { return each.state == ncclInProgress; };
  if (handles().any_beside(*communicator, is_in_progress)) {
    return refuse(ncclInvalidArgument,
                  "Attempt to use a communicator while another one of the rank is in progress");
  }
  return ncclSuccess;
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

ncclResult_t check(const Communicator& communicator, const Operation& operation,
                   cudaStream_t stream) {
  const std::size_t element = bytes_of(operation.type);
  if (element == 0) return refuse(ncclInvalidArgument, "unknown data type");
  if (operation.reduction < 0 || operation.reduction >= ncclNumOps) {
    return refuse(ncclInvalidArgument, "unknown reduction");
  }
  if (operation.peer < 0 || operation.peer >= communicator.ranks) {
    return refuse(ncclInvalidArgument,
                  fmt::format("rank {} of {} as root or peer", operation.peer, communicator.ranks));
  }
  if (device_of(stream) != communicator.device) {
    return refuse(ncclUnhandledCudaError, "the stream is of another device");
  }
  if (operation.count == 0) return ncclSuccess;

  const bool is_root = operation.peer == communicator.rank;
  const std::size_t bytes = operation.count * element;
  const auto ranks = static_cast<std::size_t>(communicator.ranks);
  const auto rank = static_cast<std::size_t>(communicator.rank);
  std::size_t from_bytes = bytes;
  std::size_t to_bytes = bytes;
  std::size_t in_place = 0;  ///< bytes from the larger buffer's start
  switch (operation.kind) {
    case Operation::reduce:
      if (!is_root) to_bytes = 0;
      break;
    case Operation::broadcast:
      if (!is_root) from_bytes = 0;
      break;
    case Operation::all_gather:
      to_bytes = ranks * bytes;
      in_place = rank * bytes;
      break;
    case Operation::reduce_scatter:
      from_bytes = ranks * bytes;
      in_place = rank * bytes;
      break;
    case Operation::send:
      to_bytes = 0;
      break;
    case Operation::receive:
      from_bytes = 0;
      break;
    case Operation::all_reduce:
      break;
  }
  if ((from_bytes > 0 && !is_device_memory(operation.from, from_bytes, communicator.device)) ||
      (to_bytes > 0 && !is_device_memory(operation.to, to_bytes, communicator.device))) {
    return refuse(ncclInvalidArgument, "a buffer is not in the communicator's device");
  }
  if (from_bytes > 0 && to_bytes > 0 &&
      overlap(operation.from, from_bytes, operation.to, to_bytes)) {
    const bool is_larger = from_bytes > to_bytes;
    const auto* larger = static_cast<const std::byte*>(is_larger ? operation.from : operation.to);
    if (larger + in_place != (is_larger ? operation.to : operation.from)) {
      return refuse(ncclInvalidArgument, "buffers overlap, but not in place");
    }
  }
  return ncclSuccess;
}

ncclResult_t add(const Operation& operation, ncclComm_t comm, cudaStream_t stream) {
  return in_group([&] {
    const std::shared_ptr<Communicator> communicator = handles().find(comm);
    ncclResult_t result = ensure_usable(communicator);
    if (result == ncclSuccess) result = check(*communicator, operation, stream);
    const bool is_nothing = operation.is_collective() && operation.count == 0;
    if (result == ncclSuccess && !is_nothing) {
      group.calls.push_back({communicator, stream, operation});
    }
    return result;
  });
}

bool is_valid(const ncclConfig_t& config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  return config.size == initial.size && config.magic == initial.magic &&
         config.version == initial.version &&
         (config.blocking == NCCL_CONFIG_UNDEF_INT || config.blocking == 0 || config.blocking == 1);
}

ncclResult_t init(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t& config) {
  if (comm == nullptr || !is_valid(config)) {
    return refuse(ncclInvalidArgument, "no place for the communicator, or a bad configuration");
  }
  *comm = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument, fmt::format("Invalid rank requested : {}/{}", rank, ranks));
  }
  auto communicator = std::make_shared<Communicator>();
  communicator->name = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
  communicator->rank = communicator->world_rank = rank;
  communicator->ranks = ranks;
  communicator->is_blocking = config.blocking != 0;
  if (cudaGetDevice(&communicator->device) != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "no device");
  }
  auto port = std::make_shared<RootPort>();
  const char* address = std::getenv("NCCL_COMM_ID");
  if (address != nullptr && rank == 0 && !port->take(address)) {
    return refuse(ncclSystemError, fmt::format("Bootstrap : bind to {} failed", address));
  }
  *comm = handles().add(communicator);
  auto progress = std::make_shared<Init>(*communicator);
  // Comes at once: the others wait for nobody's asking.
  progress->poll();
  group.jobs.push_back({communicator, [port, progress, communicator] { return progress->poll(); }});
  return ncclSuccess;
}

}  // namespace

ncclResult_t refuse(ncclResult_t result, const std::string& message) {
  set_last_error(message);
  return result;
}

void set_last_error(const std::string& message) {
  const std::lock_guard lock(last_error_mutex);
  last_error = message;
}

}  // namespace autopar::fake_nccl

using namespace autopar::fake_nccl;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  static std::atomic<int> count = 0;
  std::string name;
  if (const char* address = std::getenv("NCCL_COMM_ID")) {
    name = address;
    if (name.find(':') == std::string::npos) {
      return refuse(ncclInvalidArgument, "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port>");
    }
    std::ranges::replace(name, '/', '_');
    name = "autopar-nccl-" + name;
  } else {
    name = fmt::format("autopar-nccl-{}-{}-{:08x}", getpid(), count++, std::random_device()());
  }
  *id = {};
  std::strncpy(id->internal, name.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string copy;
  const std::lock_guard lock(last_error_mutex);
  copy = last_error;
  return copy.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  return in_group([&] { return init(comm, ranks, id, rank, config ? *config : initial); });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* split,
                           ncclConfig_t* config) {
  return in_group([&] {
    const std::shared_ptr<Communicator> parent = handles().find(comm);
    const ncclResult_t ready = ensure_usable(parent);
    if (ready != ncclSuccess) return ready;
    if (split == nullptr || (config != nullptr && !is_valid(*config)) ||
        (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
      return refuse(ncclInvalidArgument, "a bad colour or configuration, or nowhere to split to");
    }
    *split = nullptr;
    auto child = std::make_shared<Communicator>();
    child->world_rank = parent->world_rank;
    child->device = parent->device;
    child->is_blocking = config == nullptr ? parent->is_blocking : config->blocking != 0;
    auto progress = std::make_shared<Split>(parent, color, key, child, split);
    group.jobs.push_back({parent, [progress] { return progress->poll(); }});
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return in_group([&] {
    const std::shared_ptr<Communicator> communicator = handles().find(comm);
    ncclResult_t ready = ensure_usable(communicator);
    if (ready == ncclSuccess) ready = refuse_if_captured(*communicator);
    if (ready != ncclSuccess) return ready;
    communicator->is_finalized = true;
    group.jobs.push_back({communicator, finalize(communicator)});
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (!communicator) return ensure_ready(communicator);
  ncclResult_t ready = ensure_ready(communicator);
  if (ready == ncclSuccess) ready = refuse_if_captured(*communicator);
  if (ready != ncclSuccess) return ready;
  while (!drain(*communicator)) rest();
  // Ranks of one process go one by one; processes wait for one another.
  bool is_shared = false;
  for (int i = 0; i < communicator->ranks; ++i) {
    is_shared |= communicator->segment.member(i).process != getpid();
  }
  if (is_shared && !communicator->is_finalized) {
    std::vector<Job> jobs = {{communicator, finalize(communicator)}};
    wait_for(jobs);
  }
  handles().remove(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (!communicator) return ensure_ready(communicator);
  const auto has_work = [](const Communicator& each) {
    return std::ranges::any_of(each.launched, [](const auto& launch) {
      return !launch.is_captured && !launch.work.expired();
    });
  };
  if (group.depth == 0 && handles().any_beside(*communicator, has_work)) {
    std::fputs("NCCL: a lone ncclCommAbort waits for ever behind another communicator\n", stderr);
    std::abort();
  }
  communicator->is_aborted = true;
  {
    const std::lock_guard lock(communicator->mutex);
    communicator->pending = nullptr;
    communicator->segment.tell_of_abort();
  }
  handles().remove(comm);
  return in_group([&] {
    group.aborted.push_back(communicator);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (!communicator || error == nullptr) {
    return refuse(ncclInvalidArgument, "no communicator, or nowhere to put its error");
  }
  const std::lock_guard lock(communicator->mutex);
  // At least once it is still in progress, so that callers must ask again.
  if (communicator->pending && std::exchange(communicator->was_polled, true)) {
    const ncclResult_t result = communicator->pending();
    if (result != ncclInProgress) {
      communicator->pending = nullptr;
      communicator->state = result;
    }
  }
  const int aborted = communicator->segment.find_aborted();
  if (peers_are_told() && communicator->state == ncclSuccess && aborted >= 0) {
    communicator->fail(ncclRemoteError, fmt::format("rank {} has aborted", aborted));
  }
  *error = communicator->state;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (count == nullptr) return ncclInvalidArgument;
  const ncclResult_t ready = ensure_ready(communicator);
  if (ready == ncclSuccess) *count = communicator->ranks;
  return ready;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (device == nullptr) return ncclInvalidArgument;
  const ncclResult_t ready = ensure_ready(communicator);
  if (ready == ncclSuccess) *device = communicator->device;
  return ready;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const std::shared_ptr<Communicator> communicator = handles().find(comm);
  if (rank == nullptr) return ncclInvalidArgument;
  const ncclResult_t ready = ensure_ready(communicator);
  if (ready == ncclSuccess) *rank = communicator->rank;
  return ready;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::all_reduce, send, receive, count, type, op, 0}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::reduce, send, receive, count, type, op, root}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::all_gather, send, receive, send_count, type, ncclSum, 0}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add({Operation::reduce_scatter, send, receive, receive_count, type, op, 0}, comm, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::send, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({Operation::receive, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  }
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {});
  wait_for_graphs(ended.aborted);
  return ended.error != ncclSuccess ? ended.error : run(ended.jobs, ended.calls);
}
