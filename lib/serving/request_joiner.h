#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/independent_rows.h"
#include "runtime/named_tensors.h"
#include "runtime/session.h"
#include "serving/lasting_session.h"

namespace autopar::serving {

/// What requests that may be joined have in common, and how many rows of the batch one has.
struct RequestRows {
  runtime::InputShapes rest;  ///< the inputs' shapes with a batch of 1
  std::int64_t rows = 0;
};

/// Joins requests along their batch into one run, where each of them gets the bytes that it would
/// have got alone. That rows are independent is proven, once for the shapes that they have. That
/// kernels compute a row in the same way whatever stands beside it is checked, once for the shapes
/// and the number of rows: a batch is run joined and its requests alone, and the bytes compared.
class RequestJoiner {
 public:
  using Requests = std::span<const runtime::NamedTensors* const>;

  /// Both must outlive it.
  RequestJoiner(LastingSession& session, runtime::RowProof proof, std::int64_t most_rows);

  /// Proves and checks for the shapes of the bundle's first profile, with random rows, in batches
  /// of 2, 4, 8 and so on and of as many as there may be. Throws Error where rows are not
  /// independent, and where they come out otherwise than alone.
  void check();

  std::int64_t most_rows() const { return most_rows_; }
  /// nullopt for what is run alone: inputs that do not fit the model, and those without rows.
  std::optional<RequestRows> rows_of(const runtime::NamedTensors& inputs) const;
  /// Whether inputs that are for all rows are the same; of requests with equal RequestRows::rest.
  bool are_of_one_run(const runtime::NamedTensors& a, const runtime::NamedTensors& b) const;

  /// Each request's outputs, as views of those of one run. nullopt where they are to be run alone:
  /// where it is not known yet that they may be joined, or the joined run is refused or fails.
  /// Throws Error where that ends the session.
  std::optional<std::vector<runtime::NamedTensors>> lead(Requests requests);
  /// Finds out whether requests like these may be joined, where that is not known yet, by runs with
  /// their inputs, but random numbers for floats. Throws Error where that ends the session.
  void learn(Requests requests);

 private:
  /// What is known of requests with the same RequestRows::rest.
  struct KnownShape {
    bool is_proven = false;
    std::map<std::int64_t, bool> are_same;  ///< by the rows of a run: whether bytes are as alone
  };
  using Outputs = std::vector<runtime::NamedTensors>;

  KnownShape& known(const RequestRows& of);
  std::int64_t all_rows(Requests requests) const;
  runtime::NamedTensors joined_inputs(Requests requests) const;
  /// nullopt where an output is no multiple of the rows.
  std::optional<Outputs> parts_of(const runtime::NamedTensors& outputs, Requests requests) const;
  /// The first output with other bytes than alone; nullopt where there is none.
  std::optional<std::string> first_difference(Requests requests);
  runtime::NamedTensors random_row(std::uint64_t seed) const;
  void check(std::int64_t rows);

  LastingSession& session_;
  runtime::RowProof proof_;
  std::int64_t most_rows_;
  std::vector<runtime::ModelPort> inputs_;
  runtime::BatchDims dims_;
  std::map<runtime::InputShapes, KnownShape> known_;
};

}  // namespace autopar::serving
