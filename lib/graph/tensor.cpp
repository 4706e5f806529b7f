#include "graph/tensor.h"

#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <map>
#include <new>

namespace autopar::graph {
namespace {

constexpr std::align_val_t alignment{64};

/// Sharding rules have a letter for each dimension, and two where they take dimensions apart.
constexpr std::size_t most_dimensions = 24;

/// The innermost dimensions that lie together in memory: how many, and their elements.
struct ContiguousSuffix {
  std::size_t first_dim = 0;
  std::int64_t elements = 1;
};

ContiguousSuffix contiguous_suffix(const Shape& shape, const Shape& strides) {
  ContiguousSuffix suffix{shape.size(), 1};
  while (suffix.first_dim > 0) {
    const std::size_t d = suffix.first_dim - 1;
    if (shape[d] != 1 && strides[d] != suffix.elements) break;
    suffix.elements *= shape[d];
    suffix.first_dim = d;
  }
  return suffix;
}

template <typename T>
std::vector<std::int64_t> widened(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

/// Widens elements that take less than a byte; the first has the lowest bits.
template <bool is_signed>
std::vector<std::int64_t> widened_parts(const Tensor& tensor) {
  const auto bits = static_cast<std::size_t>(bits_of(tensor.type()));
  const std::int64_t values = std::int64_t{1} << bits;
  std::vector<std::int64_t> result(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto byte = std::to_integer<std::int64_t>(tensor.bytes()[i * bits / 8]);
    const std::int64_t part = byte >> (i * bits % 8) & (values - 1);
    result[i] = is_signed && part >= values / 2 ? part - values : part;
  }
  return result;
}

/// Memory as it was.
std::shared_ptr<std::byte> allocate(std::int64_t bytes) {
  return {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), alignment)),
          [](std::byte* data) { ::operator delete(data, alignment); }};
}

}  // namespace

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::int64_t num_elements(const Shape& shape) {
  std::int64_t result = 1;
  for (const std::int64_t extent : shape) result *= extent;
  return result;
}

bool is_possible(const Shape& shape) {
  if (shape.size() > most_dimensions) return false;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 128;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    // A dimension of 0 does not excuse the others: strides are products of some of them.
    if (extent < 0 || (extent > 0 && elements > most / extent)) return false;
    elements *= std::max<std::int64_t>(extent, 1);
  }
  return true;
}

std::string to_string(const Shape& shape) {
  constexpr std::size_t told = 8;
  if (shape.size() > most_dimensions)
    return fmt::format("{}x... ({} dimensions)", fmt::join(std::span(shape).first(told), "x"),
                       shape.size());
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Tensor::Tensor(DataType type, Shape shape, const std::byte* data, std::shared_ptr<const void> owner)
    : type_(type),
      shape_(std::move(shape)),
      strides_(row_major_strides(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

Tensor Tensor::mapped(DataType type, Shape shape, const std::byte* data,
                      std::shared_ptr<const MappedFile> file) {
  Tensor result(type, std::move(shape), data, nullptr);
  result.file_ = std::move(file);
  return result;
}

Tensor Tensor::zeros(DataType type, Shape shape) {
  const std::int64_t bytes = bytes_of(type, num_elements(shape));
  const std::shared_ptr<std::byte> memory = allocate(bytes);
  std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));
  Tensor result(type, std::move(shape), memory.get(), memory);
  result.writable_ = true;
  return result;
}

Tensor Tensor::absent(DataType type, Shape shape) {
  return {type, std::move(shape), nullptr, nullptr};
}

Tensor Tensor::of_int64(Shape shape, std::span<const std::int64_t> values) {
  return of<std::int64_t>(DataType::int64, std::move(shape), values);
}

Tensor Tensor::of_float(Shape shape, std::span<const float> values) {
  return of<float>(DataType::float32, std::move(shape), values);
}

bool Tensor::is_contiguous() const {
  return elements() == 0 || contiguous_suffix(shape_, strides_).first_dim == 0;
}

bool Tensor::is_aligned() const {
  const int bytes = std::clamp(bits_of(type_) / 8, 1, 8);
  return reinterpret_cast<std::uintptr_t>(data_) % static_cast<std::uintptr_t>(bytes) == 0;
}

std::span<const std::byte> Tensor::bytes() const {
  require(has_data(), "bytes() reads a tensor that has data");
  require(is_contiguous(), "bytes() reads a contiguous tensor");
  return {data_, static_cast<std::size_t>(size_bytes())};
}

std::span<std::byte> Tensor::mutable_bytes() {
  require(writable_, "mutable_bytes() writes a tensor with memory of its own");
  return {const_cast<std::byte*>(data_), static_cast<std::size_t>(size_bytes())};
}

std::vector<std::int64_t> Tensor::to_int64s() const {
  if (!is_contiguous() || !is_aligned()) return contiguous_copy().to_int64s();
  static const std::map<DataType, std::vector<std::int64_t> (*)(const Tensor&)> table = {
      {DataType::int8, widened<std::int8_t>},     {DataType::int16, widened<std::int16_t>},
      {DataType::int32, widened<std::int32_t>},   {DataType::int64, widened<std::int64_t>},
      {DataType::boolean, widened<std::uint8_t>}, {DataType::uint8, widened<std::uint8_t>},
      {DataType::uint16, widened<std::uint16_t>}, {DataType::uint32, widened<std::uint32_t>},
      {DataType::uint64, widened<std::uint64_t>}, {DataType::int4, widened_parts<true>},
      {DataType::int2, widened_parts<true>},      {DataType::uint4, widened_parts<false>},
      {DataType::uint2, widened_parts<false>},
  };
  const auto found = table.find(type_);
  require(found != table.end(), "to_int64s() reads integers or bools");
  return found->second(*this);
}

Tensor Tensor::slice(std::span<const Range> ranges) const {
  require(ranges.size() == shape_.size(), "a slice has one range a dimension");
  Tensor result = *this;
  result.writable_ = false;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const Range& range = ranges[d];
    require(0 <= range.begin && range.begin <= range.end && range.end <= shape_[d],
            "a slice lies inside its tensor");
    offset += range.begin * strides_[d];
    result.shape_[d] = range.size();
  }
  if (data_ == nullptr || result.elements() == 0) return result;
  if (bits_of(type_) % 8 != 0 && result.shape_ != shape_) {
    const std::int64_t in_byte = 8 / bits_of(type_);
    const auto suffix = contiguous_suffix(result.shape_, strides_);
    bool whole_bytes =
        offset % in_byte == 0 && (suffix.first_dim == 0 || suffix.elements % in_byte == 0);
    for (std::size_t d = 0; d < suffix.first_dim; ++d)
      whole_bytes = whole_bytes && (result.shape_[d] == 1 || strides_[d] % in_byte == 0);
    require(whole_bytes, "a slice of a tensor of less than 8 bits an element cuts between bytes");
  }
  result.data_ = data_ + offset * bits_of(type_) / 8;
  return result;
}

Tensor Tensor::reshaped(Shape shape) const {
  require(is_contiguous(), "reshaped() views a contiguous tensor");
  require(num_elements(shape) == elements(), "a reshape keeps the number of elements");
  Tensor result = *this;
  result.strides_ = row_major_strides(shape);
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::contiguous_copy() const {
  require(has_data(), "contiguous_copy() reads a tensor that has data");
  const std::shared_ptr<std::byte> memory = allocate(size_bytes());
  std::byte* out = memory.get();
  for_each_run(
      [&out](std::span<const std::byte> run) { out = std::copy(run.begin(), run.end(), out); });
  Tensor result(type_, shape_, memory.get(), memory);
  result.writable_ = true;
  return result;
}

void Tensor::for_each_run(const std::function<void(std::span<const std::byte>)>& visit) const {
  if (elements() == 0) return;
  require(data_ != nullptr, "for_each_run() reads a tensor that has data");
  const auto suffix = contiguous_suffix(shape_, strides_);
  const auto run_bytes = static_cast<std::size_t>(bytes_of(type_, suffix.elements));
  Shape index(suffix.first_dim, 0);
  std::int64_t offset = 0;
  for (;;) {
    visit({data_ + offset * bits_of(type_) / 8, run_bytes});
    std::size_t d = suffix.first_dim;
    for (; d > 0; --d) {  // the next index, like an odometer
      offset += strides_[d - 1];
      if (++index[d - 1] < shape_[d - 1]) break;
      offset -= shape_[d - 1] * strides_[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void Tensor::drop_data() {
  release_pages();
  *this = absent(type_, std::move(shape_));
}

void Tensor::release_pages() const {
  if (file_) for_each_run(MappedFile::release);
}

void Tensor::read(std::int64_t begin, std::span<std::byte> out) const {
  require(is_contiguous(), "read() counts bytes of a contiguous tensor");
  if (file_) {
    file_->read(static_cast<std::size_t>(data_ - file_->bytes().data() + begin), out);
  } else if (!out.empty()) {
    std::memcpy(out.data(), data_ + begin, out.size());
  }
}

bool Tensor::same_view(const Tensor& other) const {
  return data_ != nullptr && data_ == other.data_ && type_ == other.type_ &&
         shape_ == other.shape_ && strides_ == other.strides_;
}

}  // namespace autopar::graph
