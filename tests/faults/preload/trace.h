#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// What the process did to files under AUTOPAR_FAULT_UNDER, in order, a line of JSON each, in the
/// file that AUTOPAR_FAULT_TRACE names: of it tests/faults makes the states that a loss of power
/// may leave. Files are told by the number that their disk gives them.
namespace autopar::faults {

/// While one exists no other thread changes a file, so that the lines are in the order of what
/// happened. Does nothing where no trace is asked for.
class Tracing {
 public:
  Tracing();
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  bool is_on() const { return is_on_; }

 private:
  bool is_on_;
};

/// Whether a file of this path is there.
bool exists(const std::string& path);
std::uint64_t number_of(int descriptor);
std::uint64_t number_of(const std::string& path);

void trace_create(const std::string& path, std::uint64_t file);
void trace_folder(const std::string& path, std::uint64_t folder);
void trace_length(std::uint64_t file, std::uint64_t bytes);
void trace_write(std::uint64_t file, std::uint64_t offset, std::string_view data);
void trace_sync(std::uint64_t file);
/// `how` is "rename", "exchange" or "link".
void trace_rename(std::string_view how, const std::string& from, const std::string& to);
void trace_remove(const std::string& path);

}  // namespace autopar::faults
