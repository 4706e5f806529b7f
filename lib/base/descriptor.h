#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace autopar {

/// An open file or folder, closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// The errno of closing, which may be where a write fails; 0 where nothing is open.
  int close();

 private:
  int number_ = -1;
};

/// Opens with open's flags and, for a new file, mode; what is opened is closed where another
/// program is executed. Not open, with errno set, where that fails.
Descriptor open_file(const std::filesystem::path& path, int flags, unsigned mode = 0);

/// Writes all; throws Error, which names the file, where that fails.
void write_all(const Descriptor& file, std::span<const std::byte> bytes,
               const std::filesystem::path& name);

/// Waits until a file is on its disk; throws Error, which names it, where that fails.
void sync_file(const Descriptor& file, const std::filesystem::path& name);
/// Waits until the names in a folder are on its disk. A file system that cannot do that is left
/// alone, and so is a folder that may not be read.
void sync_folder(const std::filesystem::path& folder);

}  // namespace autopar
