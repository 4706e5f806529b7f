#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace autopar {

/// A whole file mapped for reading, shared with the page cache. Views keep it alive through the
/// shared pointer.
class MappedFile {
 public:
  /// Throws Error where the file cannot be read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// The device and the file's number on it: equal for all mappings of one file.
  std::pair<std::uint64_t, std::uint64_t> identity() const { return {device_, number_}; }
  /// The whole pages of a part of some mapped file leave memory until they are read again.
  static void release(std::span<const std::byte> part);
  /// Copies some of bytes() without mapping them: a row of a large table would bring megabytes into
  /// memory, as from 6.18 on Linux maps all that the page cache holds together (a folio).
  void read(std::size_t begin, std::span<std::byte> out) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  /// The open file, opened once it is asked for: a model may have more files than a process may
  /// have open. -1 where it cannot be, or is another one by now.
  int descriptor() const;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  std::uint64_t device_ = 0;
  std::uint64_t number_ = 0;  ///< the file's own on the device
  mutable std::once_flag opened_;
  mutable int descriptor_ = -1;
};

}  // namespace autopar
