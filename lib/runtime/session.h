#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/work_signs.h"
#include "bundle/collective_total.h"
#include "graph/tensor.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"
#include "runtime/span.h"

namespace autopar::runtime {

struct RunResult {
  /// The model's outputs of the last step by name, global tensors in full, on rank 0; empty on
  /// other processes' ranks.
  NamedTensors outputs;
  /// By input: what each step of a loop has chosen for the next, with the steps as dimension 0.
  NamedTensors choices;
  std::vector<double> run_seconds;     ///< the slowest rank's, of all steps, by repetition
  std::vector<double> device_seconds;  ///< the same by the devices' own clocks; 0 on CPUs
  std::vector<double> tail_seconds;    ///< by repetition; empty where there is no tail
  std::vector<bundle::CollectiveTotal> collectives;  ///< of one run, summed over ranks
  std::vector<std::int64_t> arena_bytes;             ///< by rank
  /// By rank, measured: weights (rank 0's with the tail's) and arena.
  std::vector<std::int64_t> peak_bytes;
  /// Predicted of the shape that was run: the collectives, and the peak by rank.
  std::vector<bundle::CollectiveTotal> predicted_collectives;
  std::vector<std::int64_t> predicted_peak_bytes;
  std::vector<std::int64_t> launches;    ///< by rank: of a run after the first
  std::vector<double> upload_seconds;    ///< by rank: copying weights to its device
  std::vector<std::vector<Span>> spans;  ///< by rank, of the profiled run
};

/// A model's input or output as the user has it: the whole batch, not split.
struct ModelPort {
  std::string name;
  graph::DataType type = graph::DataType::undefined;
  std::optional<graph::Shape> shape;  ///< absent where only a run tells
};

/// A bundle ready to run: all its ranks in this process, a thread each, or one rank of several
/// processes, which hold the same bundle and call the same functions in the same order. Weights,
/// states, memory and executables stay between runs.
///
/// One thread at a time calls. All functions throw Error; where a rank fails while it runs, or
/// another rank is gone, every rank's session is over and each later run throws.
class Session {
 public:
  /// Finds the other ranks. Throws for options that contradict each other or the bundle, and for
  /// ranks that do not come.
  explicit Session(const std::filesystem::path& bundle_dir, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Their shapes are those of the bundle's first profile.
  std::vector<ModelPort> inputs() const;
  std::vector<ModelPort> outputs() const;
  int num_ranks() const;
  /// Whether rank 0 is in this process: the one that has the outputs.
  bool has_first_rank() const;
  /// Whether this process has all ranks: then what ends a session is none of another process's.
  bool has_all_ranks() const;

  /// Loads this process's shards and compiles them; else the first run does. Throws for files that
  /// are missing or damaged and for devices that are missing.
  void load();

  /// Runs the model on global tensors by name, which every process gives in full. In a loop an
  /// input may have one more dimension in front, with an entry a step; one that a step chooses may
  /// have fewer, and states may be left out, which begin as zeros. Inputs may have the shapes of
  /// any profile of the bundle and, with SessionOptions::shapes, any that the model takes: the
  /// first run of such a shape makes its graph. States go from one shape to another, as from a
  /// prompt of many rows to steps of one. Throws, before anything runs and with all that is wrong
  /// at once, for inputs that are missing, superfluous, misshapen or of another type, and for
  /// states that have no place for so many rows; such a session can still run. Processes that were
  /// given different inputs or options throw, and their sessions are over.
  RunResult run(const NamedTensors& inputs, const RunOptions& options = {});

  /// The same where the process with rank 0 alone has inputs and options: it leads, and all others
  /// follow. What the inputs lack is this run's error, on every process, and the next one can be
  /// led.
  RunResult lead(const NamedTensors& inputs, const RunOptions& options = {});
  /// Makes the runs that rank 0's process leads, and waits for them however long, until it calls
  /// end_lead(). Throws where a rank fails, rank 0 while it leads nothing, too.
  void follow();
  /// Lets the other processes return from follow(), as far as the session is not over.
  void end_lead();

  /// While what it returns lives, the other processes learn of what this thread does of autopar's
  /// work, such as reading inputs and writing outputs. Else a process that does nothing of the
  /// session for longer than the timeout, while others need it, is given up.
  [[nodiscard]] WorkScope at_work();

  /// Throws where another process's rank is known to have failed, without waiting: for a process
  /// that has nothing to run. Then the session is over.
  void check_ranks();
  /// Whether a rank has failed, and nothing can be run any more.
  bool is_over() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autopar::runtime
