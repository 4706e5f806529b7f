// ReverseSequence. Elements are moved by their size alone.

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// `make(Word{})` with the word that has the size of the input's elements.
template <typename Make>
std::unique_ptr<Kernel> kernel_for_words(const KernelRequest& request, Make make) {
  switch (element_bytes_of(request, request.inputs.at(0))) {
    case 1:
      return make(std::uint8_t{});
    case 2:
      return make(std::uint16_t{});
    case 4:
      return make(std::uint32_t{});
    case 8:
      return make(std::uint64_t{});
    default:
      fail_type(request, request.inputs[0].type);
  }
}

/// The first elements along time of each element of the batch in reverse. An item is an element.
template <typename Word>
class ReverseSequenceItems {
 public:
  explicit ReverseSequenceItems(const KernelRequest& request) {
    const graph::Node& node = request.node;
    const Shape& shape = request.inputs.at(0).shape;
    time_axis_ = node.int_attribute("time_axis", 0);
    const std::int64_t batch_axis = node.int_attribute("batch_axis", 1);
    if (shape.size() < 2 || time_axis_ + batch_axis != 1 || time_axis_ * batch_axis != 0)
      fail("node '{}': ReverseSequence of {} with time_axis {} and batch_axis {}", node.name,
           graph::to_string(shape), time_axis_, batch_axis);
    if (request.inputs.at(1).shape != Shape{shape[static_cast<std::size_t>(batch_axis)]} ||
        request.inputs[1].type != DataType::int64)
      fail("node '{}': sequence_lens of ReverseSequence are one int64 for each of the batch",
           node.name);
    columns_ = shape[1];
    times_ = shape[static_cast<std::size_t>(time_axis_)];
    elements_ = request.inputs[0].elements();
    inner_ = elements_ == 0 ? 1 : elements_ / shape[0] / columns_;
  }

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const Word>();
    lengths_ = io.inputs[1].as<const std::int64_t>();
    out_ = io.outputs[0].as<Word>();
  }
  std::int64_t items() const { return elements_; }
  std::int64_t item_work() const { return 2; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t column = item / inner_ % columns_;
    const std::int64_t row = item / inner_ / columns_;
    const std::int64_t time = time_axis_ == 0 ? row : column;
    const std::int64_t given = lengths_[time_axis_ == 0 ? column : row];
    const std::int64_t length = given < times_ ? given : times_;
    const std::int64_t from = time < length ? length - 1 - time : time;
    out_[item] = in_[item + (from - time) * (time_axis_ == 0 ? columns_ : 1) * inner_];
  }

 private:
  std::int64_t time_axis_ = 0;
  std::int64_t columns_ = 1;
  std::int64_t times_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t elements_ = 0;
  const Word* in_ = nullptr;
  const std::int64_t* lengths_ = nullptr;
  Word* out_ = nullptr;
};

std::unique_ptr<Kernel> make_reverse_sequence(const KernelRequest& request) {
  return kernel_for_words(request, [&]<typename Word>(Word) {
    return make_loops<ReverseSequenceItems<Word>>(request);
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
