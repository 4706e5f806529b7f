#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace autopar::runtime {

/// The device of each rank.
struct DeviceOptions {
  /// `automatic`: GPUs where every rank has one of its own, else the CPU.
  enum class Kind { cpu, cuda, automatic } kind = Kind::cpu;
  int threads = 0;  ///< CPU threads of a rank; 0: cores that may be used, over the ranks that may
  std::optional<int> gpu = {};  ///< of this process's only rank; absent: by its local rank
  bool allow_tf32 = false;
  /// Collectives of GPUs go through host memory, not NCCL, so that ranks may share a GPU.
  bool host_collectives = false;
};

/// Which ranks this process runs, and how it finds the others. With neither `rank` nor
/// `rendezvous`, the environment tells: one rank where a launcher has started several processes
/// (docs/running.md), else all ranks, in this process.
struct LaunchOptions {
  /// The only rank of this process; with `rendezvous` or the environment's AUTOPAR_RENDEZVOUS.
  std::optional<int> rank = {};
  /// HOST:PORT, or [ADDRESS]:PORT for IPv6, on rank 0's machine, where it listens and the others
  /// connect. Empty: the environment's AUTOPAR_RENDEZVOUS, else as the launcher tells.
  std::string rendezvous = {};
  /// Where ranks meet: a file of the secret that the ranks prove to each other that they know.
  /// Empty: the environment's AUTOPAR_SECRET, else the bundle's own.
  std::string secret_file = {};
  /// Where ranks meet: what goes between ranks is encrypted by TLS. The same in each process.
  bool tls = false;
  /// How long a rank may show no sign that it works before the others give it up; the same in each
  /// process.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// Whose variables of the environment are looked at: "torchrun", "mpi", "slurm" or "kubernetes";
  /// "auto" for any, "none" for all ranks in this process.
  std::string launcher = "auto";
};

/// By model input; global.
using InputShapes = std::map<std::string, graph::Shape>;
struct ShapedProgram;  // shape_source.h
/// Makes what ranks run for inputs of shapes that no profile of the bundle has, the same in each
/// process. Throws Error for shapes that the model forbids or that would need more memory than the
/// plan may take. The runtime knows nothing of how models are split, so that whoever opens a
/// session hands it in.
using ShapeSource = std::function<ShapedProgram(const InputShapes& inputs)>;

struct SessionOptions {
  DeviceOptions device = {};
  LaunchOptions launch = {};
  /// What the session is for, in a word or two; the same in each process, or it is refused.
  std::string command = {};
  /// Outputs that take an input's place in the next step, "present.*=past.*"; none: the bundle's.
  std::vector<std::string> states = {};
  /// Makes the ranks' graphs for inputs of other shapes than the bundle's profiles have
  /// (planner::shape_source); none: such inputs are refused.
  ShapeSource shapes = {};
  /// What the arenas of all shapes that are kept may take on the fullest rank. Least recently used
  /// ones go; the one in use stays in any case.
  std::int64_t shape_cache_bytes = std::int64_t{1} << 30;
  /// Told why a rank failed, in the rank's thread, before its device is released: other libraries
  /// may take their time then, or never end. None: nobody is told before the session throws.
  std::function<void(const std::string& why)> on_failure = {};
};

/// A run of several steps, as a decoder makes them: each rank hands its states, outputs that take
/// an input's place, from one step to the next on its own device.
struct LoopOptions {
  /// Greedy decoding: the index of the largest element along an output's last dimension is the next
  /// step's input.
  struct Choice {
    std::string output;
    std::string input;
  };

  int steps = 1;
  /// Rows that growing states hold before the first step. A state grows where its output is longer
  /// than its input: a step's last rows go behind those that the input holds. Rows that the model
  /// itself puts into their places (graph::keeps_places) stay there.
  std::int64_t start = 0;
  std::vector<Choice> choices = {};
  /// States go on from where the session's last loop has left them; zeros before any. Such a run is
  /// a loop even of one step, and `start` is that of the first run. A run that is given a state
  /// begins anew instead, with zeros in those that it is not given.
  bool continues = false;
  /// Rows that inputs of growing states have in this run, the first ones of those that runs have
  /// written: 0 for a prompt that nothing is before. Absent: as many as there is place for. Such a
  /// run is a loop even of one step.
  std::optional<std::int64_t> past = {};
  /// Rows that growing states have place for, of a run that begins anew. 0: as many as its inputs
  /// have, and with `past` as many as the longest of the bundle's profiles.
  std::int64_t capacity = 0;

  bool is_loop() const { return steps > 1 || continues || past; }
};

struct RunOptions {
  LoopOptions loop = {};
  /// Times that the same run is made and measured, after one more that is not; 1: the only one is.
  int repeat = 1;
  /// The model's outputs that are put together on rank 0; empty: all. A tail's are all made.
  std::vector<std::string> outputs = {};
  bool profile = false;  ///< whether one more run is made, for RunResult::spans
};

}  // namespace autopar::runtime
