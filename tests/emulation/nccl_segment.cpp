#include "nccl_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace autopar::fake_nccl {

struct Segment::Header {
  std::atomic<int> is_ready;
  int process;  ///< that made it
  int ranks;
  std::atomic<int> come;
};

namespace {

constexpr std::size_t page = 4096;

std::size_t pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

/// Where the parts lie, in bytes from the start; each begins a page. What is never touched takes
/// no memory.
struct Places {
  std::size_t members, host_boards, stream_boards, channels, end;
};

Places places(std::size_t ranks) {
  Places at = {};
  at.members = page;
  at.host_boards = at.members + pages(ranks * sizeof(Segment::Member));
  at.stream_boards = at.host_boards + pages(ranks * sizeof(Segment::HostBoard));
  at.channels = at.stream_boards + pages(ranks * sizeof(Segment::StreamBoard));
  at.end = at.channels + pages(ranks * ranks * sizeof(Segment::Channel));
  return at;
}

template <typename Part>
Part* part(void* memory, std::size_t at) {
  return reinterpret_cast<Part*>(static_cast<std::byte*>(memory) + at);
}

bool is_alive(int process) { return kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

Segment::~Segment() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Segment::Opening Segment::open(const std::string& name, int ranks, int rank, std::string& why) {
  name_ = "/" + name;
  ranks_ = ranks;
  rank_ = rank;
  bytes_ = places(static_cast<std::size_t>(ranks)).end;
  const bool makes = rank == 0;
  const int file = shm_open(name_.c_str(), O_RDWR | (makes ? O_CREAT | O_EXCL : 0), 0600);
  if (file < 0 && !makes) return Opening::not_yet;
  if (file < 0) {
    // A program that was killed may have left it behind.
    const int old = shm_open(name_.c_str(), O_RDWR, 0600);
    struct stat status = {};
    bool is_used = false;
    if (old >= 0 && fstat(old, &status) == 0 && status.st_size >= static_cast<off_t>(page)) {
      void* memory = mmap(nullptr, page, PROT_READ, MAP_SHARED, old, 0);
      is_used = is_alive(static_cast<Header*>(memory)->process);
      munmap(memory, page);
    }
    if (old >= 0) close(old);
    if (is_used) {
      why = fmt::format("rank 0 of {} ranks has already checked in", ranks);
      return Opening::refused;
    }
    shm_unlink(name_.c_str());
    return Opening::not_yet;
  }

  struct stat status = {};
  const bool has_size =
      makes ? ftruncate(file, static_cast<off_t>(bytes_)) == 0
            : fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(page);
  void* memory =
      has_size ? mmap(nullptr, makes ? bytes_ : page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
               : MAP_FAILED;
  if (memory == MAP_FAILED) {
    close(file);
    return Opening::not_yet;
  }
  auto* found = static_cast<Header*>(memory);
  if (makes) {
    found->process = getpid();
    found->ranks = ranks;
    found->is_ready.store(1, std::memory_order_release);
    memory_ = memory;
    close(file);
    return Opening::done;
  }
  const bool is_ready =
      found->is_ready.load(std::memory_order_acquire) == 1 && is_alive(found->process);
  const int found_ranks = found->ranks;
  munmap(memory, page);
  if (is_ready && found_ranks == ranks) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory_ == MAP_FAILED) memory_ = nullptr;
  }
  close(file);
  if (is_ready && found_ranks != ranks) {
    why = fmt::format("mismatch in rank count from procs {} : {}", found_ranks, ranks);
    return Opening::refused;
  }
  return memory_ != nullptr ? Opening::done : Opening::not_yet;
}

bool Segment::come(std::uint64_t host, const std::string& device) {
  Member& me = member(rank_);
  int has_come = 0;
  if (!me.has_come.compare_exchange_strong(has_come, 1)) return false;
  me.process = getpid();
  me.host = host;
  std::strncpy(me.device, device.c_str(), sizeof me.device - 1);
  if (header()->come.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) forget_name();
  return true;
}

bool Segment::all_have_come() const {
  return header()->come.load(std::memory_order_acquire) == ranks_;
}

void Segment::tell_of_abort() {
  if (memory_ == nullptr) return;
  member(rank_).has_aborted = 1;
  if (!all_have_come()) forget_name();
}

int Segment::find_aborted() const {
  for (int i = 0; i < ranks_ && memory_ != nullptr; ++i) {
    if (member(i).has_aborted != 0) return i;
  }
  return -1;
}

void Segment::forget_name() { shm_unlink(name_.c_str()); }

Segment::Member& Segment::member(int rank) const {
  return part<Member>(memory_, places(static_cast<std::size_t>(ranks_)).members)[rank];
}

Segment::HostBoard* Segment::host_boards() const {
  return part<HostBoard>(memory_, places(static_cast<std::size_t>(ranks_)).host_boards);
}

Segment::StreamBoard* Segment::stream_boards() const {
  return part<StreamBoard>(memory_, places(static_cast<std::size_t>(ranks_)).stream_boards);
}

Segment::Channel& Segment::channel(int from, int to) const {
  return part<Channel>(memory_,
                       places(static_cast<std::size_t>(ranks_)).channels)[from * ranks_ + to];
}

}  // namespace autopar::fake_nccl
