"""Mathematical functions under the names that NVIDIA's libdevice has in Triton.

They take any float type (computed as its function is documented) and integers as f32; the `fast_`
ones are the accurate ones. Functions of bits take integers of 32 and 64 bits.
"""

from __future__ import annotations

from teeny_core import DType, f32, f64, i32, i64, u32, u64

from teeny_triton.language import semantic
from teeny_triton.language.bits import bits_of, isfinite, reals
from teeny_triton.language.bits import brev as brev
from teeny_triton.language.bits import clz as clz
from teeny_triton.language.bits import copysign as copysign
from teeny_triton.language.bits import ffs as ffs
from teeny_triton.language.bits import hadd as hadd
from teeny_triton.language.bits import ilogb as ilogb
from teeny_triton.language.bits import isinf as isinf
from teeny_triton.language.bits import isnan as isnan
from teeny_triton.language.bits import ldexp as ldexp
from teeny_triton.language.bits import logb as logb
from teeny_triton.language.bits import mulhi as mulhi
from teeny_triton.language.bits import nextafter as nextafter
from teeny_triton.language.bits import popc as popc
from teeny_triton.language.bits import rhadd as rhadd
from teeny_triton.language.bits import signbit as signbit
from teeny_triton.language.elementary import acos as acos
from teeny_triton.language.elementary import acosh as acosh
from teeny_triton.language.elementary import asin as asin
from teeny_triton.language.elementary import asinh as asinh
from teeny_triton.language.elementary import atan as atan
from teeny_triton.language.elementary import atan2 as atan2
from teeny_triton.language.elementary import atanh as atanh
from teeny_triton.language.elementary import cbrt as cbrt
from teeny_triton.language.elementary import cosh as cosh
from teeny_triton.language.elementary import cospi as cospi
from teeny_triton.language.elementary import exp10 as exp10
from teeny_triton.language.elementary import fdim as fdim
from teeny_triton.language.elementary import fmod as fmod
from teeny_triton.language.elementary import hypot as hypot
from teeny_triton.language.elementary import log10 as log10
from teeny_triton.language.elementary import rcbrt as rcbrt
from teeny_triton.language.elementary import remainder as remainder
from teeny_triton.language.elementary import rhypot as rhypot
from teeny_triton.language.elementary import round_away
from teeny_triton.language.elementary import sinh as sinh
from teeny_triton.language.elementary import sinpi as sinpi
from teeny_triton.language.math import abs as abs
from teeny_triton.language.math import ceil as ceil
from teeny_triton.language.math import clamp, maximum, minimum, where
from teeny_triton.language.math import cos as cos
from teeny_triton.language.math import div_rn as div_rn
from teeny_triton.language.math import erf as erf
from teeny_triton.language.math import exp as exp
from teeny_triton.language.math import exp2 as exp2
from teeny_triton.language.math import expm1 as expm1
from teeny_triton.language.math import floor as floor
from teeny_triton.language.math import fma as fma
from teeny_triton.language.math import log as log
from teeny_triton.language.math import log1p as log1p
from teeny_triton.language.math import log2 as log2
from teeny_triton.language.math import pow as pow
from teeny_triton.language.math import round as half_even
from teeny_triton.language.math import rsqrt as rsqrt
from teeny_triton.language.math import sin as sin
from teeny_triton.language.math import sqrt as sqrt
from teeny_triton.language.math import sqrt_rn as sqrt_rn
from teeny_triton.language.math import tan as tan
from teeny_triton.language.math import tanh as tanh
from teeny_triton.language.math import trunc as trunc
from teeny_triton.language.special import erfc as erfc
from teeny_triton.language.special import erfcx as erfcx
from teeny_triton.language.special import erfinv as erfinv
from teeny_triton.language.special import lgamma as lgamma
from teeny_triton.language.special import normcdf as normcdf
from teeny_triton.language.special import tgamma as tgamma
from teeny_triton.language.tile import Operand, Tile, tile

fabs = llabs = abs
finitef = isfinited = isfinite
round, rint, nearbyint = round_away, half_even, half_even
max, min = maximum, minimum
rsqrt_rn = rsqrt
fma_rn = fma

fast_expf, fast_exp10f = exp, exp10
fast_logf, fast_log2f, fast_log10f = log, log2, log10
fast_sinf, fast_cosf, fast_tanf, fast_tanhf = sin, cos, tan, tanh
fast_powf, fast_dividef = pow, div_rn


# --- arithmetic that is rounded each time, also where a product meets a sum ---


def add_rn(x: Operand, y: Operand) -> Tile:
    """x + y, never fused with a product that it adds."""
    return fma(x, 1.0, y)


def sub_rn(x: Operand, y: Operand) -> Tile:
    """x - y, never fused with a product that it subtracts from."""
    a, b = reals(x, y)
    return fma(a, 1.0, -b)


def mul_rn(x: Operand, y: Operand) -> Tile:
    """x * y, never fused with a sum that takes it."""
    return fma(x, y, -0.0)


def rcp_rn(x: Operand) -> Tile:
    """1 / x."""
    return div_rn(1.0, x)


def div_rz(x: Operand, y: Operand) -> Tile:
    """x / y rounded towards zero, of f32 and narrower.

    The quotient in f64 is exact or farther than its own error from any number of the type.
    """
    a, b = reals(x, y)
    return (a.to(f64) / b.to(f64)).to(semantic.element(a.value), fp_downcast_rounding="rtz")


def sad(x: Operand, y: Operand, z: Operand) -> Tile:
    """|x - y| + z of integers."""
    a, b = tile(x), tile(y)
    return where(a > b, a - b, b - a).to(u32) + z


def mul24(x: Operand, y: Operand) -> Tile:
    """The low 32 bits of the product of two integers' low 24 bits, read as signed."""
    a, b = (tile(v).to(i32) << 8 >> 8 for v in (x, y))
    return a * b


def saturatef(x: Operand) -> Tile:
    """`x` limited to [0, 1]; NaN gives 0."""
    return clamp(x, 0.0, 1.0)


def powi(x: Operand, n: Operand) -> Tile:
    """x to the power of an integer."""
    (real,) = reals(x)
    return pow(real, tile(n).to(f64)).to(semantic.element(real.value))


# --- conversions: rn to nearest even, rz towards zero, rd down, ru up ---


def _whole(x: Operand, rounding: str, dtype: DType) -> Tile:
    functions = {"rn": rint, "rz": trunc, "rd": floor, "ru": ceil}
    return functions[rounding](x).to(dtype)


def float2int_rn(x: Operand) -> Tile:
    """The nearest i32, halves to even."""
    return _whole(x, "rn", i32)


def float2int_rz(x: Operand) -> Tile:
    """The whole part as i32."""
    return _whole(x, "rz", i32)


def float2int_rd(x: Operand) -> Tile:
    """The largest i32 not above."""
    return _whole(x, "rd", i32)


def float2int_ru(x: Operand) -> Tile:
    """The smallest i32 not below."""
    return _whole(x, "ru", i32)


def float2uint_rn(x: Operand) -> Tile:
    """The nearest u32, halves to even."""
    return _whole(x, "rn", u32)


def float2uint_rz(x: Operand) -> Tile:
    """The whole part as u32."""
    return _whole(x, "rz", u32)


def float2ll_rn(x: Operand) -> Tile:
    """The nearest i64, halves to even."""
    return _whole(x, "rn", i64)


def float2ll_rz(x: Operand) -> Tile:
    """The whole part as i64."""
    return _whole(x, "rz", i64)


def llround(x: Operand) -> Tile:
    """The nearest i64, halves away from 0."""
    return round(x).to(i64)


double2int_rn, double2int_rz = float2int_rn, float2int_rz
double2int_rd, double2int_ru = float2int_rd, float2int_ru
double2ll_rn, double2ll_rz = float2ll_rn, float2ll_rz
llrint = float2ll_rn


def int2float_rn(x: Operand) -> Tile:
    """An integer as f32."""
    return tile(x).to(f32)


def int2double_rn(x: Operand) -> Tile:
    """An integer as f64."""
    return tile(x).to(f64)


uint2float_rn = ll2float_rn = ull2float_rn = int2float_rn
uint2double_rn = ll2double_rn = ull2double_rn = int2double_rn


def double2float_rn(x: Operand) -> Tile:
    """f64 as f32, to nearest."""
    return tile(x).to(f32)


def double2float_rz(x: Operand) -> Tile:
    """f64 as f32, towards zero."""
    return tile(x).to(f32, fp_downcast_rounding="rtz")


def float_as_int(x: Operand) -> Tile:
    """The bits of f32 as i32."""
    return bits_of(tile(x).to(f32))


def float_as_uint(x: Operand) -> Tile:
    """The bits of f32 as u32."""
    return float_as_int(x).to(u32, bitcast=True)


def int_as_float(x: Operand) -> Tile:
    """Bits, of i32 or u32, as f32."""
    return tile(x).to(f32, bitcast=True)


uint_as_float = int_as_float


def double_as_longlong(x: Operand) -> Tile:
    """The bits of f64 as i64."""
    return bits_of(tile(x).to(f64))


def longlong_as_double(x: Operand) -> Tile:
    """Bits, of i64 or u64, as f64."""
    return tile(x).to(f64, bitcast=True)


def double2hiint(x: Operand) -> Tile:
    """The upper bits of f64 as i32."""
    return (double_as_longlong(x) >> 32).to(i32)


def double2loint(x: Operand) -> Tile:
    """The lower bits of f64 as i32."""
    return double_as_longlong(x).to(i32)


def hiloint2double(high: Operand, low: Operand) -> Tile:
    """f64 of its upper and lower bits."""
    upper, lower = tile(high).to(u32).to(u64), tile(low).to(u32).to(u64)
    return ((upper << 32) | lower).to(f64, bitcast=True)
