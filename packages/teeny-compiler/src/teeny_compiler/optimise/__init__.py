"""The optimiser: rewrite rules on the whole graph in an e-graph, and extraction by cost."""

from teeny_compiler.optimise.cost import Peaks as Peaks
from teeny_compiler.optimise.run import Policy as Policy
from teeny_compiler.optimise.run import Report as Report
from teeny_compiler.optimise.run import explain as explain
from teeny_compiler.optimise.run import optimise as optimise
