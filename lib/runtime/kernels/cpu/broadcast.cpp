#include "runtime/kernels/cpu/broadcast.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime::cpu {

BroadcastOperand::BroadcastOperand(Shape shape, std::vector<std::int64_t> strides,
                                   int element_bytes)
    : shape_(std::move(shape)), strides_(std::move(strides)), element_bytes_(element_bytes) {
  uniform_ = std::ranges::all_of(strides_, [](std::int64_t stride) { return stride == 0; });
  contiguous_ = strides_ == row_major_strides(shape_);
}

const std::byte* BroadcastOperand::read(const std::byte* data, std::int64_t begin, std::int64_t n,
                                        std::byte* buffer) const {
  if (uniform_) {
    fill(buffer, data, n, element_bytes_);
    return buffer;
  }
  if (contiguous_) return data + begin * element_bytes_;
  const std::int64_t inner = shape_.back();
  const std::int64_t inner_stride = strides_.back();
  std::int64_t row = begin / inner;
  std::int64_t column = begin % inner;
  std::byte* out = buffer;
  while (n > 0) {
    std::int64_t offset = column * inner_stride;
    std::int64_t rest = row;
    for (std::size_t d = shape_.size() - 1; d-- > 0;) {
      offset += rest % shape_[d] * strides_[d];
      rest /= shape_[d];
    }
    const std::byte* source = data + offset * element_bytes_;
    const std::int64_t run = std::min(n, inner - column);
    if (inner_stride == 0) {
      fill(out, source, run, element_bytes_);
    } else {
      if (run == n && out == buffer) return source;
      std::memcpy(out, source, static_cast<std::size_t>(run * element_bytes_));
    }
    out += run * element_bytes_;
    n -= run;
    column = 0;
    ++row;
  }
  return buffer;
}

void fill(std::byte* out, const std::byte* element, std::int64_t n, int element_bytes) {
  const auto fill_words = [&]<typename Word>(Word value) {
    std::memcpy(&value, element, sizeof(Word));
    std::fill_n(reinterpret_cast<Word*>(out), n, value);
  };
  if (visit_size(element_bytes, UnsignedIntegers{}, fill_words)) return;
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(out + i * element_bytes, element, static_cast<std::size_t>(element_bytes));
}

}  // namespace autopar::runtime::cpu
