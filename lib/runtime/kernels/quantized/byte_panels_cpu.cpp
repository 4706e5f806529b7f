#include "runtime/kernels/quantized/byte_panels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/simd_clones.h"
#include "graph/arena.h"

namespace autopar::runtime::cpu {
namespace {

/// A pair of weights by bytes of at most 255 fits 16 bits if those of a sign add up to no more.
constexpr int most_of_pair = 128;

/// More excess than this would take longer than the panel's pairs.
std::int64_t most_excess(const BytePanelLayout& layout) { return 4 + layout.depth() / 64; }

/// Where the parts of the memory begin, in bytes.
struct Parts {
  std::int64_t column_sums;
  std::int64_t excess_counts;
  std::int64_t excess;
  std::int64_t weights;
  std::int64_t panel_bytes;  ///< of the weights
  std::int64_t end;

  explicit Parts(const BytePanelLayout& of)
      : column_sums(graph::aligned(sizeof(ByteForm))),
        excess_counts(column_sums + graph::aligned(of.panels() * byte_panel_columns * 4)),
        excess(excess_counts + graph::aligned(of.panels() * 4)),
        weights(excess + graph::aligned(of.panels() * most_excess(of) *
                                        static_cast<std::int64_t>(sizeof(ByteExcess)))),
        // Quads need no less than pairs.
        panel_bytes(of.stretches * of.words(ByteForm::quads) * 4 * byte_panel_columns),
        end(weights + of.panels() * panel_bytes) {}
};

int weight_at(const BytePanelLayout& layout, const ByteMatrix& from, std::int64_t stretch,
              std::int64_t place, std::int64_t column) {
  if (place >= layout.length || column >= layout.columns) return 0;
  const std::byte byte = from.data[(stretch * layout.length + place) * from.depth_stride +
                                   column * from.column_stride];
  return from.is_signed ? static_cast<std::int8_t>(byte) : std::to_integer<int>(byte) - 128;
}

/// What `second` may be at most, in magnitude, beside `first` of the same sign.
int within_pair(int first, int second) {
  if ((first < 0) != (second < 0)) return second;
  const int most = most_of_pair - std::abs(first);
  return std::clamp(second, -most, most);
}

/// Modulo 2^32.
void add(std::int32_t& sum, std::int32_t number) {
  sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) +
                                  static_cast<std::uint32_t>(number));
}

/// Writes two rows of weights as pairs and adds them to the columns' sums. Exclusive or with
/// `moved` makes their bytes signed.
AUTOPAR_SIMD_CLONES void write_pairs(const std::uint8_t* first, const std::uint8_t* second,
                                     std::uint8_t moved, std::byte* to, std::int32_t* sums) {
  for (std::int64_t column = 0; column < byte_panel_columns; ++column) {
    const auto one = static_cast<std::int8_t>(first[column] ^ moved);
    const auto two = static_cast<std::int8_t>(second[column] ^ moved);
    to[2 * column] = static_cast<std::byte>(one);
    to[2 * column + 1] = static_cast<std::byte>(two);
    sums[column] += one + two;
  }
}

/// One panel while it is written.
struct Panel {
  const BytePanelLayout& layout;
  const ByteMatrix& from;
  std::int64_t first_column;
  ByteForm form;
  std::byte* weights;
  std::int32_t* sums;
  std::span<ByteExcess> excess;
  std::int64_t excess_count = 0;

  /// false where there is more excess than room.
  bool write() {
    std::fill_n(sums, byte_panel_columns, 0);
    const bool is_whole = first_column + byte_panel_columns <= layout.columns;
    if (form == ByteForm::pairs && from.column_stride == 1 && layout.stretches == 1 && is_whole) {
      write_pairs_of_rows();
      return true;
    }
    std::byte* to = weights;
    const std::int64_t in_word = numbers_in_word(form);
    for (std::int64_t s = 0; s < layout.stretches; ++s)
      for (std::int64_t word = 0; word < layout.words(form); ++word)
        for (std::int64_t column = 0; column < byte_panel_columns; ++column)
          for (std::int64_t i = 0; i < in_word; i += 2, to += 2)
            if (!write_pair(s, word * in_word + i, column, to)) return false;
    return true;
  }

  /// Where the columns lie side by side and all are there.
  void write_pairs_of_rows() {
    const auto moved = std::uint8_t{from.is_signed ? std::uint8_t{0} : std::uint8_t{128}};
    const auto row_at = [&](std::int64_t place) {
      return reinterpret_cast<const std::uint8_t*>(from.data + place * from.depth_stride +
                                                   first_column);
    };
    for (std::int64_t place = 0; place + 2 <= layout.length; place += 2)
      write_pairs(row_at(place), row_at(place + 1), moved, weights + place * byte_panel_columns,
                  sums);
    if (layout.length % 2 == 0) return;
    std::array<std::uint8_t, byte_panel_columns> none;
    none.fill(moved);
    write_pairs(row_at(layout.length - 1), none.data(), moved,
                weights + (layout.length - 1) * byte_panel_columns, sums);
  }

  bool write_pair(std::int64_t stretch, std::int64_t place, std::int64_t column, std::byte* to) {
    const auto weight = [&](std::int64_t at) {
      return weight_at(layout, from, stretch, at, first_column + column);
    };
    const int first = weight(place);
    const int second = weight(place + 1);
    const int written = form == ByteForm::quads ? within_pair(first, second) : second;
    add(sums[column], first + second);
    to[0] = static_cast<std::byte>(first);
    to[1] = static_cast<std::byte>(written);
    if (written == second) return true;
    if (excess_count == std::ssize(excess)) return false;
    excess[static_cast<std::size_t>(excess_count++)] = {
        static_cast<std::int32_t>(stretch), static_cast<std::int32_t>(place + 1),
        static_cast<std::int8_t>(column), static_cast<std::int8_t>(second - written)};
    return true;
  }
};

}  // namespace

std::int64_t BytePanelLayout::bytes() const { return Parts(*this).end; }

ByteForm BytePanels::form() const {
  ByteForm form;
  std::memcpy(&form, memory_, sizeof form);
  return form;
}

std::span<const std::int32_t> BytePanels::column_sums(std::int64_t panel) const {
  const auto* const all =
      reinterpret_cast<const std::int32_t*>(memory_ + Parts(layout_).column_sums);
  return {all + panel * byte_panel_columns, byte_panel_columns};
}

const std::byte* BytePanels::weights(std::int64_t panel) const {
  const Parts parts(layout_);
  return memory_ + parts.weights + panel * parts.panel_bytes;
}

std::span<const ByteExcess> BytePanels::excess(std::int64_t panel) const {
  const Parts parts(layout_);
  const auto* const counts = reinterpret_cast<const std::int32_t*>(memory_ + parts.excess_counts);
  const auto* const all = reinterpret_cast<const ByteExcess*>(memory_ + parts.excess);
  return {all + panel * most_excess(layout_), static_cast<std::size_t>(counts[panel])};
}

bool write_byte_panels(const BytePanelLayout& layout, const ByteMatrix& from, ByteForm form,
                       std::byte* memory) {
  const Parts parts(layout);
  const std::int64_t most = most_excess(layout);
  std::memcpy(memory, &form, sizeof form);
  for (std::int64_t i = 0; i < layout.panels(); ++i) {
    auto* const excess = reinterpret_cast<ByteExcess*>(memory + parts.excess) + i * most;
    Panel panel{.layout = layout,
                .from = from,
                .first_column = i * byte_panel_columns,
                .form = form,
                .weights = memory + parts.weights + i * parts.panel_bytes,
                .sums = reinterpret_cast<std::int32_t*>(memory + parts.column_sums) +
                        i * byte_panel_columns,
                .excess = {excess, static_cast<std::size_t>(most)}};
    if (!panel.write()) return false;
    reinterpret_cast<std::int32_t*>(memory + parts.excess_counts)[i] =
        static_cast<std::int32_t>(panel.excess_count);
  }
  return true;
}

void add_byte_excess(const ByteTile& of, std::span<const ByteExcess> excess, std::int32_t* sums) {
  for (const ByteExcess& lacking : excess) {
    const std::int64_t at =
        of.stretches[static_cast<std::size_t>(lacking.stretch)].offset + lacking.place;
    for (std::size_t row = 0; row < of.rows.size(); ++row)
      add(sums[static_cast<std::int64_t>(row) * byte_panel_columns + lacking.column],
          std::to_integer<std::int32_t>(of.rows[row][at]) * lacking.weight);
  }
}

}  // namespace autopar::runtime::cpu
