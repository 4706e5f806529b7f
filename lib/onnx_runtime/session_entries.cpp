#include "onnx_runtime/session_entries.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/problems.h"

namespace autopar::onnx_runtime {
namespace {

std::chrono::milliseconds parse_timeout(const std::string& text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  constexpr double longest = 1e6;
  if (error != std::errc() || rest != end || !(seconds >= 0.001 && seconds <= longest))
    fail("autopar.timeout {}: give seconds, 0.001 to {}", text, longest);
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

bool parse_switch(const std::string& key, const std::string& text) {
  if (text != "0" && text != "1") fail("{} {}: give 0 or 1", key, text);
  return text == "1";
}

/// All but how a rank's shard tells which one it is.
runtime::LaunchOptions read_launch(const EntrySource& entry) {
  runtime::LaunchOptions launch{.rendezvous = entry("autopar.rendezvous").value_or(""),
                                .secret_file = entry("autopar.secret_file").value_or("")};
  Problems problems;
  problems.collect([&] {
    if (const auto text = entry("autopar.tls")) launch.tls = parse_switch("autopar.tls", *text);
    if (launch.tls && launch.rendezvous.empty())
      fail(
          "autopar.tls: encrypts what goes between ranks that meet at autopar.rendezvous; give "
          "that too, or leave it out");
  });
  problems.collect([&] {
    if (const auto text = entry("autopar.timeout")) launch.timeout = parse_timeout(*text);
  });
  problems.throw_if_any();
  return launch;
}

}  // namespace

SessionEntries read_entries(const EntrySource& entry) {
  const std::optional<std::string> folder = entry("autopar.bundle");
  if (!folder || folder->empty())
    fail(
        "the session's options have no entry autopar.bundle: add it, the bundle's folder, before "
        "autopar's library is registered");
  return {.bundle = std::filesystem::weakly_canonical(*folder),
          .launch = read_launch(entry),
          .info = bundle::load_meta_info(*folder),
          .world = entry("autopar.world").value_or("")};
}

}  // namespace autopar::onnx_runtime
