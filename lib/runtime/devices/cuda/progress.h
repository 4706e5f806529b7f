#pragma once

#include <atomic>

#include "runtime/devices/cuda/handles.h"
#include "runtime/kernels/cuda/write_mark.h"

namespace autopar::runtime::cuda {

/// How far a run's collectives have come. The device writes it into memory of the host while the
/// run is under way.
class Progress {
 public:
  struct Marks {
    unsigned started = 0;   ///< the number of the last collective that the device began
    unsigned finished = 0;  ///< and of the last one that it completed
    bool in_collective() const { return started != finished; }
    friend bool operator==(const Marks&, const Marks&) = default;
  };

  /// Before a run, when no work of the last one is left.
  void reset() { *marks_ = {}; }
  /// Joins the stream, before and after the collective. Numbers count from 1 in a run.
  void mark_start(cudaStream_t stream, unsigned number) const {
    write_mark(stream, &marks_.device()->started, number);
  }
  void mark_end(cudaStream_t stream, unsigned number) const {
    write_mark(stream, &marks_.device()->finished, number);
  }
  Marks read() const {
    return {std::atomic_ref(marks_->started).load(), std::atomic_ref(marks_->finished).load()};
  }

 private:
  Mapped<Marks> marks_{"memory for progress"};
};

}  // namespace autopar::runtime::cuda
