"""What the algorithms of ``vecmath`` need to know about a floating-point format."""

from __future__ import annotations

from typing import Final

from jitcore.ir.dataclass import dataclass

__all__ = ["FORMATS", "FloatFormat"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Layout, limits, and constants as unevaluated sums ``hi + lo`` of two numbers of the format.

    Parameters
    ----------
    integer : str
        The signed integer dtype of the same size.
    mantissa : int
        Stored bits of the significand.
    bias : int
        Of the exponent.
    shifter : float
        ``1.5 * 2**mantissa``: added to a small number it leaves the nearest integer in the low
        bits, in two's complement (Muller, Elementary Functions, 3rd ed., section 11.1).
    exp_max, exp_min : float
        Where ``exp`` has certainly overflowed, or gives zero.
    exp_finite : float
        The last number whose ``exp`` is finite.
    expm1_min, tanh_max : float
        Where ``expm1`` is -1, and ``tanh`` is 1, to the last bit.
    expm1_max : float
        Where ``expm1`` has overflowed while ``2**(n - 1)`` is still finite.
    large : float
        Numbers from here on are equal to themselves plus one, and their squares stay finite.
    erfc_max, erfc_pole : float
        Where ``erfc`` is zero, and the k of its variable ``(x - k) / (x + k)``.
    cbrt_offset : int
        Makes the biased exponent of every number positive and 0 a multiple of 3.
    """

    integer: str
    mantissa: int
    bias: int
    shifter: float
    exp_max: float
    exp_min: float
    exp_finite: float
    expm1_min: float
    expm1_max: float
    tanh_max: float
    large: float
    erfc_max: float
    erfc_pole: float
    cbrt_offset: int
    ln2_hi: float
    ln2_lo: float
    log2e_hi: float
    log2e_lo: float
    log10e_hi: float
    log10e_lo: float
    log10_2_hi: float
    log10_2_lo: float
    half_pi_hi: float
    half_pi_lo: float
    sqrt_half_bits: int

    @property
    def shifter_bits(self) -> int:
        """``shifter`` as an integer."""
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))

    @property
    def mantissa_mask(self) -> int:
        """The stored bits of the significand."""
        return (1 << self.mantissa) - 1

    @property
    def sign_mask(self) -> int:
        """The sign bit, as the least integer of ``integer``."""
        return -(1 << (31 if self.integer == "int32" else 63))

    @property
    def sign_shift(self) -> int:
        """How far bit 1 is from the sign bit."""
        return 30 if self.integer == "int32" else 62

    @property
    def cbrt_third(self) -> int:
        """A third of the biased exponent 0, after ``cbrt_offset``."""
        return (self.bias + self.cbrt_offset) // 3

    @property
    def min_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def two_mantissa(self) -> float:
        """A factor that makes every subnormal number normal."""
        return 2.0**self.mantissa

    @property
    def two_mantissa_bits(self) -> int:
        """``two_mantissa`` as an integer."""
        return (self.bias + self.mantissa) << self.mantissa


FORMATS: Final = {
    "float32": FloatFormat(
        integer="int32",
        mantissa=23,
        bias=127,
        shifter=1.5 * 2.0**23,
        exp_max=90.0,
        exp_min=-105.0,
        exp_finite=88.72283172607422,
        expm1_min=-18.0,
        expm1_max=89.0,
        tanh_max=10.0,
        large=2.0**30,
        erfc_max=10.25,
        erfc_pole=2.0,
        cbrt_offset=23,
        ln2_hi=0.6931471824645996,
        ln2_lo=-1.9046542121259336e-09,
        log2e_hi=1.4426950216293335,
        log2e_lo=1.925963033500011e-08,
        log10e_hi=0.4342944920063019,
        log10e_lo=-1.0103049952192578e-08,
        log10_2_hi=0.3010300099849701,
        log10_2_lo=-1.432098883924482e-08,
        half_pi_hi=1.5707963705062866,
        half_pi_lo=-4.371138828673793e-08,
        sqrt_half_bits=0x3F3504F3,
    ),
    "float64": FloatFormat(
        integer="int64",
        mantissa=52,
        bias=1023,
        shifter=1.5 * 2.0**52,
        exp_max=711.0,
        exp_min=-746.0,
        exp_finite=709.782712893384,
        expm1_min=-38.0,
        expm1_max=710.0,
        tanh_max=20.0,
        large=2.0**60,
        erfc_max=27.5,
        erfc_pole=3.0,
        cbrt_offset=54,
        ln2_hi=0.6931471805599453,
        ln2_lo=2.3190468138462996e-17,
        log2e_hi=1.4426950408889634,
        log2e_lo=2.0355273740931033e-17,
        log10e_hi=0.4342944819032518,
        log10e_lo=1.098319650216765e-17,
        log10_2_hi=0.3010299956639812,
        log10_2_lo=-2.8037281277851704e-18,
        half_pi_hi=1.5707963267948966,
        half_pi_lo=6.123233995736766e-17,
        sqrt_half_bits=0x3FE6A09E667F3BCD,
    ),
}
