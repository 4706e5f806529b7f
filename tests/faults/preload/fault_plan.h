#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <string>

/// Which calls of the C library fail, and how: tests/faults/README.md has the environment variables
/// that say so. Nothing here allocates, as calls of the allocator are counted, too.
namespace autopar::faults {

/// What calls do; each kind is counted on its own.
enum class Kind {
  open,       ///< a file or folder, for reading or writing
  read,       ///< a file
  write,      ///< a file, or its length
  sync,       ///< a file or folder to its disk
  close,      ///< a file
  rename,     ///< or a link: a name is made, or replaces another
  noreplace,  ///< renameat2 that may replace nothing
  exchange,   ///< renameat2 that exchanges two names
  unlink,     ///< a file or folder
  mkdir,      ///< a folder
  chmod,      ///< a file or folder
  lock,       ///< a file or folder
  map,        ///< a file into memory
  allocate,   ///< memory of the heap
  pages,      ///< memory of the kernel
  connect,    ///< a socket is made, bound, connected, accepted
  send,       ///< to a socket
  receive,    ///< from a socket
  poll,       ///< sockets
};
inline constexpr std::size_t num_kinds = 19;

/// What happens to a call beside ending or stopping the process, which `next_fault` does itself.
struct Fault {
  int error = 0;          ///< the call fails with this errno
  bool is_short = false;  ///< it moves half of its bytes
  bool is_torn = false;   ///< it moves half of its bytes, and then the process is killed
  long call = 0;          ///< its number among those of its kind, from 1

  bool any() const { return error != 0 || is_short || is_torn; }
  /// How many bytes of so many are moved: at least one.
  std::size_t part_of(std::size_t bytes) const { return any() && bytes > 1 ? bytes / 2 : bytes; }
};

/// Counts a call and says what happens to it.
Fault next_fault(Kind kind);
/// Ends a call that is torn.
void end_if_torn(const Fault& fault);

/// Whether calls on this descriptor, or on this path below `folder`, are counted: those of
/// AUTOPAR_FAULT_UNDER's folder.
bool is_watched(int descriptor);
bool is_watched(int folder, const char* path);
bool is_socket(int descriptor);
/// Memory from so many bytes on is counted, once main has begun: what the loader and libraries take
/// before it is theirs.
bool is_watched_allocation(std::size_t bytes);

/// Absolute, of a path below `folder` (AT_FDCWD: the process's), without links being followed.
std::string absolute_path(int folder, const char* path);
std::string path_of(int descriptor);

/// The C library's own function, or that of the library that replaces it.
template <typename Function>
Function* next_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace autopar::faults
