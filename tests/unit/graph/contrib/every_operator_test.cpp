#include <set>

#include "graph/contrib/operator_table.h"
#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

TEST_CASE("every operator of contrib's table has a test against its definition") {
  std::set<OperatorName> in_table;
  for (const auto& [domain, op_type] : contrib_operators()) in_table.emplace(domain, op_type);
  CHECK(in_table.size() >= 60);
  CHECK(std::set<OperatorName>(tested_operators().begin(), tested_operators().end()) == in_table);
}
