#include "nccl_join.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>

#include "emulation_nccl.h"

namespace autopar::fake_nccl {

namespace {

std::string duplicate_text(int rank, int other, const char* device) {
  if (duplicate_words() == emulation::DuplicateWords::since_2_30)
    return "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1";
  return fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {}", rank,
                     other, device);
}

/// NCCL_HOSTID takes the place of the machine's own name.
std::uint64_t host() {
  const char* const name = std::getenv("NCCL_HOSTID");
  return std::hash<std::string>()(name == nullptr ? "" : name);
}

}  // namespace

Handles& handles() {
  static Handles instance;
  return instance;
}

bool RootPort::take(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return false;
  }
  socket_ = socket(found->ai_family, found->ai_socktype, 0);
  const int yes = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool is_taken =
      bind(socket_, found->ai_addr, found->ai_addrlen) == 0 && listen(socket_, 1) == 0;
  freeaddrinfo(found);
  return is_taken;
}

ncclResult_t Init::poll() {
  Segment& segment = communicator_.segment;
  if (is_refused_) return ncclInProgress;
  if (!is_open_) {
    std::string why;
    const Segment::Opening opening =
        segment.open(communicator_.name, communicator_.ranks, communicator_.rank, why);
    if (opening == Segment::Opening::refused) return wait_in_vain(why);
    if (opening == Segment::Opening::not_yet) return ncclInProgress;
    is_open_ = true;
    std::array<char, 32> device = {};
    cudaDeviceGetPCIBusId(device.data(), static_cast<int>(device.size()), communicator_.device);
    if (!segment.come(host(), device.data())) {
      return wait_in_vain(fmt::format("rank {} of {} ranks has already checked in",
                                      communicator_.rank, communicator_.ranks));
    }
  }
  if (!segment.all_have_come()) return ncclInProgress;
  return check_devices();
}

/// The real root says so in its log and listens no more: all ranks wait for ever.
ncclResult_t Init::wait_in_vain(const std::string& why) {
  is_refused_ = true;
  return refuse(ncclInProgress, "Bootstrap Root : " + why);
}

ncclResult_t Init::check_devices() const {
  const Segment& segment = communicator_.segment;
  for (int i = 0; i < communicator_.ranks; ++i) {
    for (int j = i + 1; j < communicator_.ranks; ++j) {
      if (segment.member(i).host == segment.member(j).host &&
          std::strcmp(segment.member(i).device, segment.member(j).device) == 0) {
        return refuse(ncclInvalidUsage, duplicate_text(i, j, segment.member(i).device));
      }
    }
  }
  return ncclSuccess;
}

ncclResult_t Split::poll() {
  if (!init_) {
    const std::vector<Place> places = meeting_.poll();
    if (places.empty()) return ncclInProgress;
    if (place_.color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    take_place(places);
    init_.emplace(*child_);
  }
  const ncclResult_t result = init_->poll();
  if (result != ncclSuccess) return result;
  child_->state = ncclSuccess;
  *handle_ = handles().add(child_);
  return ncclSuccess;
}

/// By key, and by the parent's rank where keys are equal.
void Split::take_place(const std::vector<Place>& places) {
  std::vector<std::pair<int, int>> members;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].color == place_.color) members.emplace_back(places[i].key, static_cast<int>(i));
  }
  std::ranges::sort(members);
  child_->ranks = static_cast<int>(members.size());
  child_->rank = static_cast<int>(
      std::ranges::find(members, parent_->rank, &std::pair<int, int>::second) - members.begin());
  child_->name = fmt::format("{}-{}.{}", parent_->name, number_, place_.color);
}

}  // namespace autopar::fake_nccl
