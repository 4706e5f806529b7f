#include "lack_of_memory.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/out_of_memory.h"
#include "base/process_name.h"

namespace autopar {

namespace {

constexpr const char* unknown_amount =
    "out of memory; free some, raise the limit, or use more ranks";
constexpr const char* within_a_library =
    "out of memory, as far as can be told: a library failed in a way that it does where it gets "
    "none; free some, raise the limit, or use more ranks";

const char* text_of(const std::exception& error) {
  return dynamic_cast<const OutOfMemory*>(&error) != nullptr ? error.what() : unknown_amount;
}

/// std::terminate's. An exception that no memory is the reason of is our fault, and aborts.
[[noreturn]] void end_where_nothing_may_throw() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc& error) {
    end_with_error(text_of(error));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %sinternal error: %s\n", process_name(), error.what());
  } catch (...) {
  }
  // An exception that did not get out of a function is not always there to be caught.
  const char* const refused = OutOfMemory::last();
  if (std::uncaught_exceptions() > 0 && *refused != 0) end_with_error(refused);
  std::abort();
}

/// SIGSEGV's. Protobuf's messages are broken by an exception that passes them, and oneDNN writes
/// into memory that it did not get.
void end_after_refusal(int signal) {
  const char* const refused = OutOfMemory::last();
  if (*refused != 0) end_with_error(refused);
  if (FragileCall::is_under_way()) end_with_error(within_a_library);
  std::signal(signal, SIG_DFL);  // the access is made again, and ends the process
}

}  // namespace

void end_in_one_line_without_memory() {
  std::set_terminate(end_where_nothing_may_throw);
  std::signal(SIGSEGV, end_after_refusal);
}

int fail_for_memory(const std::exception& error) {
  std::fprintf(stderr, "error: %s%s\n", process_name(), text_of(error));
  return 1;
}

}  // namespace autopar
