"""What the sibling packages of teeny may use besides the public names; semi-public.

These names may change between minor versions; the siblings change with them.
"""

from teeny_core.context import current_trace as current_trace
from teeny_core.context import tracing as tracing
from teeny_core.device.base import HostBuffer as HostBuffer
from teeny_core.device.calling import check_arguments as check_arguments
from teeny_core.device.calling import check_parameters as check_parameters
from teeny_core.evaluate import evaluate_updates as evaluate_updates
from teeny_core.graph import apply as apply
from teeny_core.graph import node_names as node_names
from teeny_core.graph import rebuild as rebuild
from teeny_core.graph import topological as topological
from teeny_core.installed import EntryPoint as EntryPoint
from teeny_core.installed import entry_points as entry_points
from teeny_core.installed import version as version
from teeny_core.op import Array as Array
from teeny_core.ops.convert import convert as convert
from teeny_core.ops.random import philox as philox
from teeny_core.shape import bind as bind
from teeny_core.storage import Storage as Storage
from teeny_core.tensor.realize import settle as settle
from teeny_core.tree import Tree as Tree
