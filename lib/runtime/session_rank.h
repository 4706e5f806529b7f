#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "runtime/rank_context.h"
#include "runtime/rank_run.h"
#include "runtime/shape_source.h"

namespace autopar::runtime {

/// One rank of a session: its device, communicators and weights, which stay, and the graphs of the
/// shapes that are kept, compiled. Made, used and destroyed in the rank's thread.
class SessionRank {
 public:
  /// The shard's weights are those of all shapes. Throws Error for devices that are missing.
  SessionRank(const graph::Graph& shard, const DeviceOptions& device, HostCommunicator& host,
              const LocalRanks& local, std::chrono::milliseconds timeout, Pipeline pipeline);

  /// The run of a shape that the session numbers so; compiled where it is not kept. All ranks ask
  /// in the same order. Throws Error where ranks made different programs.
  RankRun& run_of(std::size_t shape, const ShapedProgram& program);
  /// A run that is kept.
  RankRun& kept(std::size_t shape) { return runs_.at(shape); }
  void drop(std::size_t shape) { runs_.erase(shape); }

  /// Throws Error where the ranks of this machine would take more memory than it has left, beside
  /// their weights, which stay mapped. Called before any of them takes it.
  void check_memory(const bundle::MetaInfo& info, const LocalRanks& local, bool are_all_here);

  /// Where all runs have their states from now on; those that are compiled are dropped.
  void make_states(std::vector<StateBuffer> states);
  /// Null where make_states() was not called.
  StateBuffers* states() { return context_.states(); }

  void abort() noexcept { context_.abort(); }

 private:
  void check_digest(const std::string& digest);

  HostCommunicator& host_;
  RankContext context_;
  Pipeline pipeline_;
  std::map<std::string, graph::Tensor> weights_;  ///< by name, views of the rank's files
  std::map<std::size_t, RankRun> runs_;           ///< by shape
};

}  // namespace autopar::runtime
