// All steps of a recurrent network in one kernel. A thread computes the gates of the units of the
// hidden state that are its own, as products of rows of the recurrent weights with the state, which
// it reads as they lie: its part of the weights stays in its cache from step to step, or as much of
// it as fits. Steps as kernels of their own spend most of a small network's time between them.

#include <omp.h>

#include <array>
#include <cstring>

#include "base/simd_clones.h"
#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lanes.h"
#include "runtime/kernels/cpu/panel_tile.h"
#include "runtime/kernels/recurrent/kernels.h"
#include "runtime/kernels/recurrent/recurrent_cell.h"

namespace autopar::runtime::cpu {
namespace {

/// Rows of weights times the states of the batch: out[b, row] = weights[row] states[b].
struct RowProducts {
  const float* weights;
  std::int64_t rows;
  std::int64_t depth;
  const float* states;  ///< [batch, depth]
  std::int64_t batch;
  float* out;
  std::int64_t out_stride;  ///< from one element of the batch to the next
  bool is_backwards;        ///< whether to begin with the last whole block of rows
};

/// In halves, so that additions need not wait for one another.
template <int lanes>
[[gnu::always_inline]] inline float sum_of(const typename Vector<lanes>::Floats& sums) {
  float parts[lanes];
  std::memcpy(parts, &sums, sizeof parts);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

/// Zeroes all but the last `rest` lanes: the others were multiplied with the vector before.
template <int lanes>
[[gnu::always_inline]] inline void keep_last(typename Vector<lanes>::Floats& of,
                                             std::int64_t rest) {
  typename Vector<lanes>::Integers places;
  for (int lane = 0; lane < lanes; ++lane) places[lane] = lane;
  const auto is_kept = places >= static_cast<std::int32_t>(lanes - rest);
  typename Vector<lanes>::Integers bits;
  std::memcpy(&bits, &of, sizeof bits);
  bits &= is_kept;
  std::memcpy(&of, &bits, sizeof bits);
}

/// So many rows and elements of the batch at once: each row is read once for all of these.
template <int lanes, int rows, int batch>
[[gnu::always_inline]] inline void multiply_block(const RowProducts& of, std::int64_t row,
                                                  std::int64_t b) {
  using Lanes = typename Vector<lanes>::Floats;
  const float* const weights = of.weights + row * of.depth;
  const float* const states = of.states + b * of.depth;
  Lanes sums[rows][batch] = {};
  std::int64_t k = 0;
  for (; k + lanes <= of.depth; k += lanes) {
    Lanes own[batch];
    for (int j = 0; j < batch; ++j) std::memcpy(&own[j], states + j * of.depth + k, sizeof own[j]);
    for (int i = 0; i < rows; ++i) {
      Lanes weight;
      std::memcpy(&weight, weights + i * of.depth + k, sizeof weight);
      for (int j = 0; j < batch; ++j) sums[i][j] += weight * own[j];
    }
  }
  if (k < of.depth && of.depth >= lanes) {
    const std::int64_t rest = of.depth - k;
    const std::int64_t last = of.depth - lanes;
    k = of.depth;
    Lanes own[batch];
    for (int j = 0; j < batch; ++j) {
      std::memcpy(&own[j], states + j * of.depth + last, sizeof own[j]);
      keep_last<lanes>(own[j], rest);
    }
    for (int i = 0; i < rows; ++i) {
      Lanes weight;
      std::memcpy(&weight, weights + i * of.depth + last, sizeof weight);
      keep_last<lanes>(weight, rest);
      for (int j = 0; j < batch; ++j) sums[i][j] += weight * own[j];
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < batch; ++j) {
      float sum = sum_of<lanes>(sums[i][j]);
      for (std::int64_t rest = k; rest < of.depth; ++rest)
        sum += weights[i * of.depth + rest] * states[j * of.depth + rest];
      of.out[(b + j) * of.out_stride + row + i] = sum;
    }
}

/// So many rows for all of the batch, while they are in the cache.
template <int lanes, int rows>
[[gnu::always_inline]] inline void multiply_rows(const RowProducts& of, std::int64_t row) {
  constexpr int together = std::max(1, lanes / 4);  // as many sums as there are registers for
  std::int64_t b = 0;
  for (; b + together <= of.batch; b += together) multiply_block<lanes, rows, together>(of, row, b);
  for (; b < of.batch; ++b) multiply_block<lanes, rows, 1>(of, row, b);
}

template <int lanes>
struct MultiplyInLanes {
  [[gnu::always_inline]] static inline void run(const RowProducts& of) {
    constexpr int rows = 4;
    const std::int64_t blocks = of.rows / rows;
    for (std::int64_t i = 0; i < blocks; ++i)
      multiply_rows<lanes, rows>(of, rows * (of.is_backwards ? blocks - 1 - i : i));
    for (std::int64_t row = blocks * rows; row < of.rows; ++row) multiply_rows<lanes, 1>(of, row);
  }
};

void multiply(const RowProducts& of) {
  static const auto run = function_in_lanes<MultiplyInLanes, const RowProducts&>();
  run(of);
}

/// Weights are worth packing for so many steps: sums need not be added up over lanes then. Elements
/// are the same for a batch of any size.
constexpr std::int64_t least_packed_steps = 32;
/// So many panels at once are read for a batch of one, since an addition waits for the one before.
constexpr int panels_together = 4;

/// Writes panel_columns rows of weights, [row, depth], as [depth, row].
void pack(const float* weights, std::int64_t depth, float* panel) {
  for (std::int64_t row = 0; row < panel_columns; ++row)
    for (std::int64_t k = 0; k < depth; ++k)
      panel[k * panel_columns + row] = weights[row * depth + k];
}

/// The products of some panels with one state.
struct MultiplyPanels {
  [[gnu::always_inline]] static inline void run(const float* panels, const RowProducts& of) {
    using Lanes = Vector<tile_lanes>::Floats;
    constexpr int vectors = panel_columns / tile_lanes;
    Lanes sums[panels_together][vectors] = {};
    for (std::int64_t k = 0; k < of.depth; ++k, panels += panel_columns) {
#pragma GCC unroll 4
      for (int i = 0; i < panels_together; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
          Lanes weights;
          std::memcpy(&weights, panels + i * of.depth * panel_columns + v * tile_lanes,
                      sizeof weights);
          sums[i][v] += of.states[k] * weights;
        }
    }
    std::memcpy(of.out, sums, sizeof sums);
  }
};

/// The products of a panel with all states.
void multiply_panel(const float* panel, const RowProducts& of, const float* zeros) {
  const std::int64_t tiles = (of.batch + tile_windows - 1) / tile_windows;
  const std::array<Stretch, 1> all = {{{.offset = 0, .depth = 0, .length = of.depth}}};
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t first = of.batch * tile / tiles;
    const std::int64_t count = of.batch * (tile + 1) / tiles - first;
    std::array<const float*, tile_windows> states;
    for (std::int64_t i = 0; i < count; ++i)
      states[static_cast<std::size_t>(i)] = of.states + (first + i) * of.depth;
    const auto* const next = reinterpret_cast<const char*>(panel);
    tile_function(panel_columns / tile_lanes, count)({.tiles = 1,
                                                      .windows = states.data(),
                                                      .channel = 0,
                                                      .stretches = all,
                                                      .panel = panel,
                                                      .panel_floats = 0,
                                                      .bias = zeros,
                                                      .addend = nullptr,
                                                      .out = of.out + first * of.out_stride,
                                                      .columns = of.out_stride,
                                                      .has_relu = false,
                                                      .ahead = {.begin = next, .step = 0}});
  }
}

/// The products of rows that are packed; `zeros` are panel_columns of them.
void multiply_packed(const float* panels, const RowProducts& of, const float* zeros) {
  static const auto together =
      simd_function<MultiplyPanels, const float*, const RowProducts&>(SimdLevel::avx2);
  constexpr std::int64_t rows_together = panels_together * panel_columns;
  const std::int64_t many = of.batch == 1 ? of.rows / rows_together : 0;
  const std::int64_t single = (of.rows - many * rows_together) / panel_columns;
  const auto multiply_at = [&](std::int64_t i) {
    const std::int64_t row =
        i < many ? i * rows_together : many * rows_together + (i - many) * panel_columns;
    RowProducts part = of;
    part.out += row;
    if (i < many)
      together(panels + row * of.depth, part);
    else
      multiply_panel(panels + row * of.depth, part, zeros);
  };
  for (std::int64_t i = 0; i < many + single; ++i)
    multiply_at(of.is_backwards ? many + single - 1 - i : i);
}

/// An element of the batch at a step, from the first of a thread's units on; gates are `gate`
/// elements apart.
struct Gates {
  std::int64_t units;
  std::int64_t gate;
  const float* x;
  const float* state;
  const float* w_bias;
  const float* r_bias;
  const float* hidden;
  float* new_hidden;
  float* cell;  ///< the LSTM's; or, of a GRU that resets before its product, its update gate
  const float* update;  ///< the same gate, to read

  float sum(std::int64_t at) const { return (x[at] + w_bias[at]) + (state[at] + r_bias[at]); }
};

/// With the usual activations, and nothing beside: sigmoid of gates, tanh of the rest.
AUTOPAR_SIMD_CLONES void step_lstm(const Gates& of) {
#pragma omp simd
  for (std::int64_t j = 0; j < of.units; ++j) {
    const float input = math::sigmoid(of.sum(j));
    const float output = math::sigmoid(of.sum(j + of.gate));
    const float forget = math::sigmoid(of.sum(j + 2 * of.gate));
    const float candidate = math::tanh(of.sum(j + 3 * of.gate));
    const float cell = forget * of.cell[j] + input * candidate;
    of.cell[j] = cell;
    of.new_hidden[j] = output * math::tanh(cell);
  }
}

/// A GRU that resets the state behind its product.
AUTOPAR_SIMD_CLONES void step_gru(const Gates& of) {
#pragma omp simd
  for (std::int64_t j = 0; j < of.units; ++j) {
    const float update = math::sigmoid(of.sum(j));
    const float reset = math::sigmoid(of.sum(j + of.gate));
    const std::int64_t at = j + 2 * of.gate;
    const float candidate =
        math::tanh((of.x[at] + of.w_bias[at]) + reset * (of.state[at] + of.r_bias[at]));
    of.new_hidden[j] = (1 - update) * candidate + update * of.hidden[j];
  }
}

/// Both steps of a GRU that resets the state before its product.
AUTOPAR_SIMD_CLONES void step_gru_gates(const Gates& of) {
#pragma omp simd
  for (std::int64_t j = 0; j < of.units; ++j) {
    of.cell[j] = math::sigmoid(of.sum(j));
    of.new_hidden[j] = math::sigmoid(of.sum(j + of.gate)) * of.hidden[j];
  }
}
AUTOPAR_SIMD_CLONES void step_gru_candidate(const Gates& of) {
#pragma omp simd
  for (std::int64_t j = 0; j < of.units; ++j) {
    const float candidate = math::tanh(of.sum(j + 2 * of.gate));
    of.new_hidden[j] = (1 - of.update[j]) * candidate + of.update[j] * of.hidden[j];
  }
}

void step(RecurrentKind kind, const Gates& of) {
  switch (kind) {
    case RecurrentKind::lstm:
      return step_lstm(of);
    case RecurrentKind::gru:
      return step_gru(of);
    case RecurrentKind::gru_gates:
      return step_gru_gates(of);
    case RecurrentKind::gru_candidate:
      return step_gru_candidate(of);
    case RecurrentKind::rnn:
      return require(false, "an RNN has activations of any kind");
  }
}

class RecurrentSweep final : public Kernel {
 public:
  explicit RecurrentSweep(const KernelRequest& request)
      : of_(recurrent_step(request)),
        steps_(request.node.int_attribute("steps", 0)),
        is_reversed_(request.node.int_attribute("is_reversed", 0) != 0),
        x_step_(request.node.int_attribute("x_step", 0)),
        y_step_(request.node.int_attribute("y_step", 0)),
        batch_(request.inputs[4].shape[0]),
        rows_(request.inputs[1].shape[0]),
        threads_(request.device.threads()),
        is_usual_(is_usual(request)) {
    of_.state_stride = rows_;
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t packed_bytes = packs() ? graph::aligned(rows_ * of_.hidden_size * 4) : 0;
    return 3 * state_bytes() + graph::aligned(batch_ * rows_ * 4) + graph::aligned(rows_ * 4) +
           packed_bytes;
  }

  void run(const KernelIo& io) override {
    const Run run(*this, io);
    // Fewer products or units are not worth a second thread.
    constexpr std::int64_t least_work = 32 * 1024;
    constexpr std::int64_t least_units = 16;
    const std::int64_t most =
        std::min(batch_ * rows_ * of_.hidden_size / least_work, of_.hidden_size / least_units);
    const auto threads = static_cast<int>(std::clamp<std::int64_t>(most, 1, threads_));
    in_threads(threads, [&] { run.all_steps(omp_get_thread_num(), omp_get_num_threads()); });
    if (steps_ % 2 != 0 && !resets_before())
      std::memcpy(run.hidden[0], run.hidden[1],
                  static_cast<std::size_t>(batch_ * of_.hidden_size) * 4);
  }

 private:
  bool resets_before() const { return of_.kind == RecurrentKind::gru_gates; }
  /// Threads have whole panels then.
  bool packs() const {
    return simd_level() != SimdLevel::baseline && steps_ >= least_packed_steps &&
           of_.hidden_size % panel_columns == 0;
  }
  std::int64_t state_bytes() const { return graph::aligned(batch_ * of_.hidden_size * 4); }

  bool is_usual(const KernelRequest& request) const {
    using Activation = RecurrentActivation;
    const auto [first, second, third] = of_.activations;
    const bool is_lstm = of_.kind == RecurrentKind::lstm;
    return of_.kind != RecurrentKind::rnn && of_.clip == 0 && !of_.couples_gates &&
           !is_given(request.inputs, 6) && first.function == Activation::sigmoid &&
           second.function == Activation::tanh && (!is_lstm || third.function == Activation::tanh);
  }

  /// One run's memory.
  struct Run {
    const RecurrentSweep& sweep;
    const KernelIo& io;
    float* hidden[2];  ///< before and behind a step, by turns
    float* reset;      ///< the state as it is reset
    float* update;
    float* gates;  ///< [batch, rows]
    const float* zeros;
    float* packed;  ///< weights in panels

    Run(const RecurrentSweep& of, const KernelIo& memory) : sweep(of), io(memory) {
      std::byte* next = io.scratch;
      const auto take = [&](std::int64_t bytes) {
        return reinterpret_cast<float*>(std::exchange(next, next + bytes));
      };
      hidden[0] = io.outputs[0].as<float>();
      hidden[1] = take(of.state_bytes());
      reset = take(of.state_bytes());
      update = take(of.state_bytes());
      gates = take(graph::aligned(of.batch_ * of.rows_ * 4));
      float* none = take(graph::aligned(of.rows_ * 4));
      std::fill_n(none, of.rows_, 0.0F);
      zeros = none;
      packed = reinterpret_cast<float*>(next);
    }

    const float* given(std::size_t i) const { return io.inputs[i].as<const float>(); }
    const float* input(std::size_t i) const { return optional_data<const float>(io.inputs, i); }
    /// Others read none.
    bool has_cell() const { return sweep.of_.kind == RecurrentKind::lstm; }
    const std::int32_t* lengths() const { return optional_data<const std::int32_t>(io.inputs, 7); }

    void all_steps(int thread, int threads) const {
      const std::int64_t units = sweep.of_.hidden_size;
      const std::int64_t together = sweep.packs() ? panel_columns : 1;
      const std::int64_t begin = units / together * thread / threads * together;
      const std::int64_t end = units / together * (thread + 1) / threads * together;
      if (sweep.packs()) pack_weights(begin, end);
      for (std::int64_t i = 0; i < sweep.steps_; ++i) {
        const std::int64_t step = sweep.is_reversed_ ? sweep.steps_ - 1 - i : i;
        if (sweep.resets_before())
          reset_and_step(step, begin, end);
        else
          // Every other step goes backwards: of weights that a thread's cache has no room for, it
          // still has those that were read last.
          step_once(step, i % 2 != 0, begin, end, hidden[i % 2], hidden[(i + 1) % 2]);
#pragma omp barrier
      }
    }

    /// Those of some units, as this thread reads them.
    void pack_weights(std::int64_t begin, std::int64_t end) const {
      const std::int64_t units = sweep.of_.hidden_size;
      for (std::int64_t gate = 0; gate < sweep.rows_ / units; ++gate)
        for (std::int64_t unit = begin; unit < end; unit += panel_columns) {
          const std::int64_t at = (gate * units + unit) * units;
          pack(given(1) + at, units, packed + at);
        }
    }

    /// The products of gates [first, last) for some units.
    void multiply_gates(int first, int last, const float* state, std::int64_t begin,
                        std::int64_t end, bool is_backwards = false) const {
      const std::int64_t depth = sweep.of_.hidden_size;
      for (int i = first; i < last; ++i) {
        const int gate = is_backwards ? first + last - 1 - i : i;
        const std::int64_t row = gate * depth + begin;
        const RowProducts of{given(1) + row * depth, end - begin, depth,       state,
                             sweep.batch_,           gates + row, sweep.rows_, is_backwards};
        if (sweep.packs())
          multiply_packed(packed + row * depth, of, zeros);
        else
          multiply(of);
      }
    }

    RecurrentCellElement<float> element(std::int64_t step, RecurrentKind kind,
                                        const float* old_hidden, const float* cell,
                                        float* new_hidden, float* new_cell) const {
      RecurrentStep of = sweep.of_;
      of.kind = kind;
      of.step = step;
      float* y = optional_data<float>(io.outputs, 2);
      const bool writes_y = y != nullptr && kind != RecurrentKind::gru_gates;
      return {of,        given(0) + step * sweep.x_step_,
              gates,     input(2),
              input(3),  old_hidden,
              cell,      input(6),
              lengths(), new_hidden,
              new_cell,  writes_y ? y + step * sweep.y_step_ : nullptr};
    }

    bool is_over(std::int64_t b, std::int64_t step) const {
      return lengths() != nullptr && step >= lengths()[b];
    }

    void each_unit(const RecurrentCellElement<float>& cell, std::int64_t begin,
                   std::int64_t end) const {
      for (std::int64_t b = 0; b < sweep.batch_; ++b)
        if (sweep.is_usual_ && !is_over(b, cell.of.step))
          step_usual(cell, b, begin, end);
        else
          for (std::int64_t j = begin; j < end; ++j) cell(b * sweep.of_.hidden_size + j);
    }

    void step_once(std::int64_t step, bool is_backwards, std::int64_t begin, std::int64_t end,
                   const float* before, float* behind) const {
      const std::int64_t units = sweep.of_.hidden_size;
      multiply_gates(0, static_cast<int>(sweep.rows_ / units), before, begin, end, is_backwards);
      const auto cell = element(step, sweep.of_.kind, before, has_cell() ? given(5) : before,
                                behind, has_cell() ? io.outputs[1].as<float>() : nullptr);
      for (std::int64_t b = 0; b < sweep.batch_; ++b)
        if (is_over(b, step))
          std::copy_n(before + b * units + begin, end - begin, behind + b * units + begin);
      each_unit(cell, begin, end);
    }

    void step_usual(const RecurrentCellElement<float>& cell, std::int64_t b, std::int64_t begin,
                    std::int64_t end) const {
      const std::int64_t units = sweep.of_.hidden_size;
      const std::int64_t first = b * units + begin;
      const auto bias = [&](const float* given) {
        return (given != nullptr ? given : zeros) + begin;
      };
      const Gates of{.units = end - begin,
                     .gate = units,
                     .x = cell.x_gates + b * cell.of.x_stride + begin,
                     .state = gates + b * sweep.rows_ + begin,
                     .w_bias = bias(cell.w_bias),
                     .r_bias = bias(cell.r_bias),
                     .hidden = cell.hidden_in + first,
                     .new_hidden = cell.new_hidden + first,
                     .cell = cell.new_cell != nullptr ? cell.new_cell + first : nullptr,
                     .update = cell.cell_in != nullptr ? cell.cell_in + first : nullptr};
      cpu::step(cell.of.kind, of);
      if (cell.y != nullptr)
        std::copy_n(of.new_hidden, of.units, cell.y + b * cell.of.y_stride + begin);
    }

    /// A GRU whose candidate reads the state as it is reset, which all threads must have done.
    void reset_and_step(std::int64_t step, std::int64_t begin, std::int64_t end) const {
      multiply_gates(0, 2, hidden[0], begin, end);
      each_unit(element(step, RecurrentKind::gru_gates, hidden[0], nullptr, reset, update), begin,
                end);
#pragma omp barrier
      multiply_gates(2, 3, reset, begin, end);
      auto candidate =
          element(step, RecurrentKind::gru_candidate, hidden[0], update, hidden[0], nullptr);
      candidate.state_gates = gates + 2 * sweep.of_.hidden_size;
      each_unit(candidate, begin, end);
    }
  };

  RecurrentStep of_;
  std::int64_t steps_;
  bool is_reversed_;
  std::int64_t x_step_;
  std::int64_t y_step_;
  std::int64_t batch_;
  std::int64_t rows_;
  int threads_;
  bool is_usual_;  ///< step() serves it
};

}  // namespace

std::unique_ptr<Kernel> make_recurrent_sweep(const KernelRequest& request) {
  return std::make_unique<RecurrentSweep>(request);
}

}  // namespace autopar::runtime::cpu
