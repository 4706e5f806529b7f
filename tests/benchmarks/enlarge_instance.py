"""A larger instance of the contest's format, made of copies of a given one.

Usage: enlarge_instance.py FILE.json.gz TIMES OUT.json.gz [--beside] [--seed 1] [--change 0.1]

Copies follow each other in time: their intervals lie one after another on a joined horizon, and what is
alive all the time stays so. With --beside they share the horizon. Copies that are next to each other are
joined: some edges (--joined a copy) are there once more, from one's first node to the next one's second.
In each copy costs are changed by up to --change of themselves, equal ones equally, so that neither what is
impossible nor what strategies have in common changes. The limit is as many times the least peak that the
usages allow, edges aside, as the given one's. The same arguments give the same file.
"""

import argparse
import gzip
import json
import random
from itertools import accumulate

IMPOSSIBLE = 10**18


def least_peak(nodes):
    """The largest sum over time of the nodes' least usages."""
    changes = [0] * (1 + max(end for _, end in nodes["intervals"]))
    for (first, end), usages in zip(nodes["intervals"], nodes["usages"]):
        if first < end:
            changes[first] += min(usages)
            changes[end] -= min(usages)
    return max(accumulate(changes))


class Changed:
    """A copy's costs by those of the given instance."""

    def __init__(self, seed, copy, most):
        self.random = random.Random(f"{seed} {copy}")
        self.most = most if copy else 0  # the first copy stays as it is
        self.known = {IMPOSSIBLE: IMPOSSIBLE}

    def cost(self, cost):
        if cost >= IMPOSSIBLE:
            return cost
        if cost not in self.known:
            self.known[cost] = round(cost * (1 + self.random.uniform(-self.most, self.most)))
        return self.known[cost]

    def costs(self, rows):
        return [[self.cost(cost) for cost in row] for row in rows]


def moved(interval, copy, times, horizon):
    first, end = interval
    if first == 0 and end == horizon:
        return [0, times * horizon]
    return [first + copy * horizon, end + copy * horizon]


class Enlarged:
    """The larger instance, copy by copy, so that it need not be in memory as a whole."""

    def __init__(self, problem, times, options):
        self.nodes, self.edges = problem["nodes"], problem["edges"]
        self.times = times
        self.options = options
        self.count = len(self.nodes["costs"])
        self.horizon = max(end for _, end in self.nodes["intervals"])
        self.limit = problem["usage_limit"]
        self.changed = [Changed(options.seed, copy, options.change) for copy in range(times)]
        draw = random.Random(options.seed)
        joined = min(options.joined, len(self.edges["nodes"]))
        self.joined = [draw.sample(range(len(self.edges["nodes"])), joined) for _ in range(times - 1)] + [[]]

    def intervals(self, copy):
        if self.options.beside:
            return self.nodes["intervals"]
        return [moved(interval, copy, self.times, self.horizon) for interval in self.nodes["intervals"]]

    def usages(self, _):
        return self.nodes["usages"]

    def node_costs(self, copy):
        return self.changed[copy].costs(self.nodes["costs"])

    def ends(self, copy):
        first, following = copy * self.count, (copy + 1) * self.count
        own = [[a + first, b + first] for a, b in self.edges["nodes"]]
        joined = [self.edges["nodes"][k] for k in self.joined[copy]]
        return own + [[a + first, b + following] for a, b in joined]

    def edge_costs(self, copy):
        joined = [self.edges["costs"][k] for k in self.joined[copy]]
        return self.changed[copy].costs(self.edges["costs"]) + joined

    def usage_limit(self):
        intervals = [interval for copy in range(self.times) for interval in self.intervals(copy)]
        peak = least_peak({"intervals": intervals, "usages": self.nodes["usages"] * self.times})
        return self.limit * peak // least_peak(self.nodes)

    def write(self, write):
        def rows(name, of_copy):
            write(f'"{name}":[')
            for copy in range(self.times):
                write(("," if copy else "") + json.dumps(of_copy(copy), separators=(",", ":"))[1:-1])
            write("]")

        write('{"problem":{"nodes":{')
        for name, of_copy in (("intervals", self.intervals), ("costs", self.node_costs)):
            rows(name, of_copy)
            write(",")
        rows("usages", self.usages)
        write('},"edges":{')
        rows("nodes", self.ends)
        write(",")
        rows("costs", self.edge_costs)
        write(f'}},"usage_limit":{self.usage_limit()}}}}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("times", type=int)
    parser.add_argument("out")
    parser.add_argument("--beside", action="store_true", help="copies share the horizon")
    parser.add_argument("--joined", type=int, default=20, help="edges from each copy to the next")
    parser.add_argument("--change", type=float, default=0.1, help="largest change of a cost")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.times < 1:
        parser.error("TIMES must be at least 1")
    with gzip.open(options.file, "rt") as file:
        problem = json.load(file)["problem"]
    made = Enlarged(problem, options.times, options)
    with open(options.out, "wb") as file:  # without a name or a time, so that equal files are equal
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=3, mtime=0) as packed:
            made.write(lambda text: packed.write(text.encode()))


if __name__ == "__main__":
    main()
