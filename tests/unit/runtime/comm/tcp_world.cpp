#include "unit/runtime/comm/tcp_world.h"

#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "bundle/secret_file.h"

namespace autopar {

/// Below the ports that the system gives to those who connect.
runtime::Endpoint free_endpoint(const std::string& host) {
  static int asked = 0;
  while (true) {
    runtime::Endpoint endpoint{
        .host = host,
        .port = static_cast<std::uint16_t>(10000 + (getpid() * 37 + ++asked) % 20000)};
    try {
      runtime::listen_at(runtime::system_network(), endpoint);
      return endpoint;
    } catch (const Error&) {
      continue;
    }
  }
}

std::vector<runtime::Rendezvous> rendezvous_of(int ranks, std::chrono::milliseconds timeout) {
  const runtime::Endpoint place = free_endpoint();
  std::vector<runtime::Rendezvous> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back({.rank = rank,
                   .size = ranks,
                   .meeting_point = place,
                   .bundle_digest = "0123456789abcdef",
                   .secret = "a secret of the tests",
                   .timeout = timeout});
  }
  return all;
}

std::vector<runtime::Rendezvous> impatient_ranks(int ranks, std::chrono::milliseconds run_timeout) {
  std::vector<runtime::Rendezvous> all = rendezvous_of(ranks);
  for (runtime::Rendezvous& rank : all) rank.run_timeout = run_timeout;
  return all;
}

namespace {

/// What a task throws for each of so many ranks, a thread each.
std::vector<std::string> errors_in_threads(std::size_t ranks,
                                           const std::function<void(std::size_t)>& task) {
  std::vector<std::string> errors(ranks);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks; ++i) {
    threads.emplace_back([&, i] {
      try {
        task(i);
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  threads.clear();
  return errors;
}

}  // namespace

std::vector<std::string> errors_of(const std::vector<runtime::Rendezvous>& ranks,
                                   const std::function<void(runtime::HostCommunicator&)>& work) {
  return errors_in_threads(ranks.size(), [&](std::size_t i) {
    const auto world = runtime::make_tcp_communicator(ranks[i]);
    work(*world);
  });
}

std::vector<std::string> errors_of_sessions(const std::filesystem::path& bundle_dir, int ranks,
                                            const std::function<void(runtime::Session&)>& work,
                                            const runtime::SessionOptions& options) {
  const std::string place = to_string(free_endpoint());
  if (!std::filesystem::exists(bundle_dir / bundle::secret_file)) bundle::write_secret(bundle_dir);
  return errors_in_threads(static_cast<std::size_t>(ranks), [&](std::size_t i) {
    runtime::SessionOptions of_rank = options;
    of_rank.device.threads = 1;
    of_rank.launch = {
        .rank = static_cast<int>(i), .rendezvous = place, .timeout = std::chrono::minutes(1)};
    runtime::Session session(bundle_dir, of_rank);
    work(session);
  });
}

}  // namespace autopar
