"""From the Python source of a kernel to tile IR."""

from teeny_triton.frontend.annotations import Constexpr as Constexpr
from teeny_triton.frontend.annotations import Described as Described
from teeny_triton.frontend.annotations import Fixed as Fixed
from teeny_triton.frontend.annotations import Free as Free
from teeny_triton.frontend.annotations import Group as Group
from teeny_triton.frontend.annotations import Kind as Kind
from teeny_triton.frontend.annotations import Maybe as Maybe
from teeny_triton.frontend.annotations import Spec as Spec
from teeny_triton.frontend.annotations import Structure as Structure
from teeny_triton.frontend.annotations import Tuple as Tuple
from teeny_triton.frontend.annotations import check_constant as check_constant
from teeny_triton.frontend.annotations import check_contiguous as check_contiguous
from teeny_triton.frontend.annotations import describe as describe
from teeny_triton.frontend.annotations import match as match
from teeny_triton.frontend.annotations import stated as stated
from teeny_triton.frontend.function import KernelFunction as KernelFunction
from teeny_triton.frontend.function import Read as Read
from teeny_triton.frontend.function import recording as recording
from teeny_triton.frontend.specialise import specialise as specialise
from teeny_triton.frontend.statements import inline as inline
