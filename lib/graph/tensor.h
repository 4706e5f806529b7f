#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "graph/data_type.h"

namespace autopar::graph {

using Shape = std::vector<std::int64_t>;

std::int64_t num_elements(const Shape& shape);
/// No extent is negative, and the size in bytes fits 64 bits whatever the type, as do strides.
bool is_possible(const Shape& shape);
/// Strides, in elements, of a contiguous tensor.
Shape row_major_strides(const Shape& shape);
/// "1x128x768"; "scalar" for no dimensions.
std::string to_string(const Shape& shape);

/// The half-open interval [begin, end) of one dimension.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// A read-mostly view of tensor data: a mapped file, a slice of one, or memory of its own. Copies
/// are cheap and share the data, which lives as long as any view of it.
///
/// A tensor without data (`has_data()` false) has a type and a shape alone: `autopar plan` reads
/// models whose weights are absent.
class Tensor {
 public:
  Tensor() = default;
  /// A contiguous view; `owner` keeps the memory alive and may be null for static data.
  Tensor(DataType type, Shape shape, const std::byte* data, std::shared_ptr<const void> owner);
  /// A contiguous view of a file's bytes.
  static Tensor mapped(DataType type, Shape shape, const std::byte* data,
                       std::shared_ptr<const MappedFile> file);
  /// New memory, zeroed, 64-byte aligned.
  static Tensor zeros(DataType type, Shape shape);
  /// A type and a shape without data.
  static Tensor absent(DataType type, Shape shape);
  template <typename T>
  static Tensor of(DataType type, Shape shape, std::span<const T> values);
  static Tensor of_int64(Shape shape, std::span<const std::int64_t> values);
  static Tensor of_float(Shape shape, std::span<const float> values);

  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  /// In elements, row-major when contiguous.
  const Shape& strides() const { return strides_; }
  std::int64_t elements() const { return num_elements(shape_); }
  std::int64_t size_bytes() const { return bytes_of(type_, elements()); }
  bool has_data() const { return data_ != nullptr || elements() == 0; }
  bool is_contiguous() const;
  const std::byte* data() const { return data_; }
  /// False for some views of mapped files: ONNX files do not align embedded weights. Such data is
  /// read through bytes() or a contiguous_copy(), never through values().
  bool is_aligned() const;

  /// The data of a contiguous tensor.
  std::span<const std::byte> bytes() const;
  /// The elements of a contiguous, aligned tensor whose element type has T's size.
  template <typename T>
  std::span<const T> values() const;
  /// Writable bytes of a tensor made by zeros() or contiguous_copy().
  std::span<std::byte> mutable_bytes();

  /// Any integer or bool tensor's elements, widened.
  std::vector<std::int64_t> to_int64s() const;

  /// A view of the given ranges, one a dimension; no data is copied. Throws InternalError where
  /// a type of less than 8 bits would be cut inside a byte.
  Tensor slice(std::span<const Range> ranges) const;
  /// The same elements in another shape (contiguous tensors only).
  Tensor reshaped(Shape shape) const;
  Tensor contiguous_copy() const;

  /// Calls `visit` with each contiguous run of bytes, in row-major order: how a slice of a mapped
  /// file is written without a copy in memory.
  void for_each_run(const std::function<void(std::span<const std::byte>)>& visit) const;

  /// Drops the data and leaves a type and a shape: memory goes with its last view, a file's pages
  /// go as release_pages() says.
  void drop_data();
  /// Gives back the memory that a file's bytes take; they are read again when they are needed.
  /// Nothing happens to other memory.
  void release_pages() const;
  /// Whether the data is a file's.
  bool is_mapped() const { return file_ != nullptr; }
  /// Null where the data is no file's.
  const MappedFile* file() const { return file_.get(); }
  /// Copies bytes of a contiguous tensor from `begin` on. Of a file's no page comes into memory.
  void read(std::int64_t begin, std::span<std::byte> out) const;

  /// True when both are views of the same bytes with the same layout.
  bool same_view(const Tensor& other) const;

 private:
  DataType type_ = DataType::undefined;
  Shape shape_;
  Shape strides_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
  std::shared_ptr<const MappedFile> file_;  ///< of a view of a file
};

template <typename T>
Tensor Tensor::of(DataType type, Shape shape, std::span<const T> values) {
  Tensor result = zeros(type, std::move(shape));
  const auto source = std::as_bytes(values);
  require(source.size() == result.mutable_bytes().size(), "values fill their tensor exactly");
  std::copy(source.begin(), source.end(), result.mutable_bytes().begin());
  return result;
}

template <typename T>
std::span<const T> Tensor::values() const {
  require(bits_of(type_) == static_cast<int>(8 * sizeof(T)), "values() names the element's size");
  require(is_aligned(), "values() reads aligned data");
  const std::span<const std::byte> raw = bytes();
  return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
}

}  // namespace autopar::graph
