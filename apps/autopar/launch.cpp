#include "launch.h"

#include <spdlog/spdlog.h>

#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "base/file_digest.h"
#include "runtime/comm/local_ranks.h"
#include "runtime/comm/mpi_launch.h"
#include "runtime/comm/tcp_communicator.h"

namespace autopar {

namespace {

/// HOST:PORT; an IPv6 address has brackets.
runtime::Endpoint parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_host = !host.empty() && host.find_first_of("[]/ ") == std::string::npos &&
                       (host.find(':') != std::string::npos) == has_brackets;
  std::uint16_t number = 0;
  const char* const end = port.data() + port.size();
  const auto [rest, error] = std::from_chars(port.data(), end, number);
  if (!is_host || error != std::errc() || rest != end || number == 0) {
    fail("--rendezvous {}: give HOST:PORT, or [ADDRESS]:PORT for IPv6; ports are 1 to 65535", text);
  }
  return {.host = host, .port = number};
}

void check_rank(int rank, bool has_rendezvous, const Gathering& gathering) {
  const std::size_t ranks = gathering.ranks;
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks) {
    fail("--rank {}: {} has ranks 0 to {}", rank, gathering.what, ranks - 1);
  }
  if (!has_rendezvous && ranks > 1) {
    fail(
        "--rank {}: one rank cannot run alone; leave --rank out, or start all {} ranks with "
        "--rendezvous HOST:PORT or mpirun",
        rank, ranks);
  }
}

}  // namespace

std::unique_ptr<runtime::Communicator> find_other_ranks(const LaunchOptions& options,
                                                        const Gathering& gathering) {
  const std::chrono::milliseconds timeout = options.timeout();
  const bool has_rendezvous = !options.rendezvous.empty();
  if (has_rendezvous && !options.rank) {
    fail("--rendezvous {}: give --rank too, this process's own", options.rendezvous);
  }
  if (options.rank) check_rank(*options.rank, has_rendezvous, gathering);
  if (!has_rendezvous && runtime::started_by_launcher())
    return runtime::make_mpi_communicator(gathering.patience * timeout);
  if (!has_rendezvous) return nullptr;
  return runtime::make_tcp_communicator({.rank = *options.rank,
                                         .size = static_cast<int>(gathering.ranks),
                                         .meeting_point = parse_endpoint(options.rendezvous),
                                         .bundle_digest = gathering.digest(),
                                         .timeout = timeout,
                                         .run_timeout = gathering.patience * timeout});
}

std::chrono::milliseconds LaunchOptions::timeout() const {
  if (!(timeout_seconds >= 0.001 && timeout_seconds <= 1e6)) {
    fail("--timeout {}: give seconds, above 0 and up to a million", timeout_seconds);
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
}

void LaunchOptions::add_to(CLI::App& command) {
  command.add_option("--rank", rank, "Run this rank alone, with --rendezvous");
  command.add_option("--rendezvous", rendezvous,
                     "HOST:PORT on rank 0's machine, where the ranks meet, the same for all");
  add_timeout_to(command);
}

void LaunchOptions::add_timeout_to(CLI::App& command) {
  command
      .add_option("--timeout", timeout_seconds,
                  "Seconds to wait for a rank that does not come to the others")
      ->capture_default_str();
}

namespace {

/// Where each microbatch of a stage takes up to the timeout, the last stage waits for all before it
/// and the first one for the last microbatch of the last.
int patience_of(const bundle::MetaInfo& info) {
  const auto stages = static_cast<int>(info.stages.size());
  return stages == 1 ? 1 : stages + info.microbatches;
}

}  // namespace

Launch::Launch(const LaunchOptions& options, std::filesystem::path bundle_dir,
               const bundle::MetaInfo& info)
    : bundle_dir_(std::move(bundle_dir)),
      ranks_(info.ranks.size()),
      timeout_(patience_of(info) * options.timeout()),
      world_(find_other_ranks(
          options, {.ranks = ranks_,
                    .what = bundle_dir_.string(),
                    .digest = [&] { return xxh3_of_file(bundle_dir_ / "meta-info.json"); },
                    .patience = patience_of(info)})),
      local_(world_ ? runtime::local_ranks(*world_) : runtime::LocalRanks{}) {}

Launch::~Launch() = default;

bool Launch::is_first() const { return !world_ || world_->rank() == 0; }

runtime::RunResult Launch::run(const runtime::NamedTensors& inputs,
                               runtime::RunOptions options) const {
  options.timeout = timeout_;
  const bool may_use_gpus = options.device.kind != runtime::DeviceOptions::Kind::cpu;
  if (is_first() && options.device.host_collectives && may_use_gpus)
    spdlog::warn("collectives go through the host's memory, which is for tests: NCCL is faster");
  if (!world_ && ranks_ > 1 && options.device.gpu && !options.device.host_collectives) {
    fail(
        "--gpu {}: this process runs {} ranks, each on a GPU of its own; leave --gpu out, or let "
        "them share it with --collectives host",
        *options.device.gpu, ranks_);
  }
  if (!world_) return runtime::run_in_threads(bundle_dir_, inputs, options);
  return runtime::run_as_rank(bundle_dir_, inputs, options, *world_, local_);
}

}  // namespace autopar
