// ReverseSequence. Elements are moved by their size alone.

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename Word>
struct CopiedRow {
  static constexpr bool vectorises = true;
  const Word* in;
  Word* out;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const { out[i] = in[i]; }
};

/// The first elements along time of each element of the batch in reverse. A row has what one time
/// of one of them has.
template <typename Word>
struct ReversedRows {
  const Word* in;  ///< [time, batch, inner] or [batch, time, inner]
  const std::int64_t* lengths;
  Word* out;
  bool is_time_first;
  std::int64_t times;
  std::int64_t columns;
  std::int64_t inner;

  AUTOPAR_ELEMENTWISE CopiedRow<Word> operator()(std::int64_t row) const {
    const std::int64_t time = is_time_first ? row / columns : row % columns;
    const std::int64_t given = lengths[is_time_first ? row % columns : row / columns];
    const std::int64_t length = given < times ? given : times;
    const std::int64_t from = time < length ? length - 1 - time : time;
    const std::int64_t source = row + (from - time) * (is_time_first ? columns : 1);
    return {in + source * inner, out + row * inner};
  }
};

std::unique_ptr<Kernel> make_reverse_sequence(const KernelRequest& request) {
  const graph::Node& node = request.node;
  const Shape& shape = request.inputs.at(0).shape;
  const std::int64_t time_axis = node.int_attribute("time_axis", 0);
  const std::int64_t batch_axis = node.int_attribute("batch_axis", 1);
  if (shape.size() < 2 || time_axis + batch_axis != 1 || time_axis * batch_axis != 0)
    fail("node '{}': ReverseSequence of {} with time_axis {} and batch_axis {}", node.name,
         graph::to_string(shape), time_axis, batch_axis);
  if (request.inputs.at(1).shape != Shape{shape[static_cast<std::size_t>(batch_axis)]} ||
      request.inputs[1].type != DataType::int64)
    fail("node '{}': sequence_lens of ReverseSequence are one int64 for each of the batch",
         node.name);
  const std::int64_t times = shape[static_cast<std::size_t>(time_axis)];
  const std::int64_t columns = shape[1];
  const std::int64_t rows = shape[0] * shape[1];
  const std::int64_t inner = extents_around(shape, 1).inner;
  return kernel_for_element(request, request.inputs[0], [&]<typename Word>(Word) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.rows(
          rows, inner,
          ReversedRows<Word>{io.inputs[0].as<const Word>(), io.inputs[1].as<const std::int64_t>(),
                             io.outputs[0].as<Word>(), time_axis == 0, times, columns, inner});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
