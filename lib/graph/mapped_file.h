#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace autopar::graph {

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
  /// Of a part of some mapped file: its whole pages leave memory until they are read again.
  static void release(std::span<const std::byte> part);
  /// Of a part of some mapped file: asks the system to bring few other pages with those that are
  /// read. It may still map what the page cache holds together with them.
  static void expect_few_reads(std::span<const std::byte> part);

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace autopar::graph
