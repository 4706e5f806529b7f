// ExpertMatMulNBits (graph/own_operators.h). An item is an element of the result.

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/own/kernels.h"
#include "runtime/kernels/quantized/matmul_n_bits.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Where one column of an expert's matrix lies, and what its numbers stand for.
template <typename T>
struct PackedColumn {
  const std::uint8_t* bytes;
  const T* scales;
  const std::uint8_t* zeros;  ///< packed, a number a block; null for the usual ones
};

template <typename T>
class ExpertItems {
 public:
  explicit ExpertItems(const KernelRequest& request)
      : rows_(request.inputs.at(0).shape.at(0)),
        depth_(request.inputs.at(0).shape.at(1)),
        experts_(request.inputs.at(2).shape.at(0)),
        columns_(request.inputs.at(2).shape.at(1)),
        row_bytes_(request.inputs.at(2).shape.at(2)),
        blocks_(request.inputs.at(3).shape.at(2)),
        bits_(static_cast<int>(request.node.int_attribute("bits", 4))) {
    const std::int64_t block = request.node.int_attribute("block_size", 0);
    block_ = block > 0 ? block : std::max<std::int64_t>(1, depth_);
    zero_bytes_ = (blocks_ * bits_ + 7) / 8;
    check(request);
  }

  void bind(const KernelIo& io) {
    a_ = io.inputs[0].as<const T>();
    indices_ = io.inputs[1].as<const std::int64_t>();
    b_ = io.inputs[2].as<const std::uint8_t>();
    scales_ = io.inputs[3].as<const T>();
    zeros_ = optional_data<const std::uint8_t>(io.inputs, 4);
    bias_ = optional_data<const T>(io.inputs, 5);
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return rows_ * columns_; }
  std::int64_t item_work() const { return depth_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t row = item / columns_;
    const std::int64_t expert = indices_[row];
    float sum = 0;
    if (expert >= 0 && expert < experts_) {
      const std::int64_t column = expert * columns_ + item % columns_;
      const PackedColumn<T> packed{b_ + column * row_bytes_, scales_ + column * blocks_,
                                   zeros_ != nullptr ? zeros_ + column * zero_bytes_ : nullptr};
      sum = product(a_ + row * depth_, packed);
      if (bias_ != nullptr) sum += widened(bias_[column]);
    }
    out_[item] = narrowed<T>(sum);
  }

 private:
  void check(const KernelRequest& request) const {
    const auto has = [&](std::size_t input, DataType type, const Shape& shape) {
      return request.inputs[input].type == type && request.inputs[input].shape == shape;
    };
    const bool has_sense = (bits_ == 2 || bits_ == 4 || bits_ == 8) && (block_ * bits_) % 8 == 0 &&
                           row_bytes_ * 8 == depth_ * bits_ &&
                           blocks_ == (depth_ + block_ - 1) / block_;
    const bool fits =
        has_sense && has(1, DataType::int64, {rows_}) &&
        has(2, DataType::uint8, request.inputs[2].shape) &&
        has(3, data_type_of<T>, {experts_, columns_, blocks_}) &&
        (!is_given(request.inputs, 4) ||
         has(4, DataType::uint8, {experts_, columns_, zero_bytes_})) &&
        (!is_given(request.inputs, 5) || has(5, data_type_of<T>, {experts_, columns_}));
    if (!fits)
      fail(
          "node '{}': ExpertMatMulNBits of {} {} with {} bits, blocks of {}, weights {} and "
          "scales {} makes no sense",
          request.node.name, name_of(request.inputs[0].type),
          graph::to_string(request.inputs[0].shape), bits_, block_,
          graph::to_string(request.inputs[2].shape), graph::to_string(request.inputs[3].shape));
  }

  AUTOPAR_ELEMENTWISE float product(const T* a, const PackedColumn<T>& column) const {
    float sum = 0;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t begin = block * block_;
      const std::int64_t count = begin + block_ < depth_ ? block_ : depth_ - begin;
      const float zero = static_cast<float>(
          column.zeros != nullptr ? packed_number(column.zeros, block, bits_) : 1 << (bits_ - 1));
      const std::uint8_t* bytes = column.bytes + begin * bits_ / 8;
      sum += widened(column.scales[block]) * block_sum(a + begin, bytes, count, zero);
    }
    return sum;
  }

  AUTOPAR_ELEMENTWISE float block_sum(const T* a, const std::uint8_t* bytes, std::int64_t count,
                                      float zero) const {
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += widened(a[i]) * (static_cast<float>(packed_number(bytes, i, bits_)) - zero);
    return sum;
  }

  std::int64_t rows_;
  std::int64_t depth_;
  std::int64_t experts_;
  std::int64_t columns_;
  std::int64_t row_bytes_;
  std::int64_t blocks_;
  std::int64_t block_ = 0;
  std::int64_t zero_bytes_ = 0;
  int bits_;
  const T* a_ = nullptr;
  const std::int64_t* indices_ = nullptr;
  const std::uint8_t* b_ = nullptr;
  const T* scales_ = nullptr;
  const std::uint8_t* zeros_ = nullptr;
  const T* bias_ = nullptr;
  T* out_ = nullptr;
};

std::unique_ptr<Kernel> make_expert_matmul_n_bits(const KernelRequest& request) {
  using Served = Joined<Types<float>, Halves>;
  auto by_element = loops_for_type<ExpertItems>(request, request.inputs.at(0).type, Served{});
  if constexpr (on_cpu)
    if (auto by_expert = cpu::make_rows_by_expert(request)) return by_expert;
  return by_element;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
