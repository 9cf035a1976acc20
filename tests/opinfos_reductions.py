"""Samples of reductions, scans and products."""

from __future__ import annotations

import re
from collections.abc import Iterator

from op_samples import OpInfo, row

__all__ = ["linalg_rows", "reductions_rows"]

_WIDE = {"dtypes": "?bBilfdD", "layouts": True}


def _forms(name: str, *more: str, method: bool = True) -> tuple[str, ...]:
    texts = [
        f"np.{name}(x)",
        f"np.{name}(x, axis=0)",
        f"np.{name}(x, axis=-1, keepdims=True)",
        f"np.{name}(x, keepdims=True)",
        f"np.{name}(x.T, axis=1)",
        f"np.{name}(x, axis=5)",
    ]
    if method:
        texts += [f"x.{name}()", f"x.{name}(1)"]
    return (*texts, *more)


def reductions_rows() -> Iterator[OpInfo]:
    yield from _sums_rows()
    yield from _extremes_rows()
    yield from _moments_rows()
    yield from _scans_rows()


def _sums_rows() -> Iterator[OpInfo]:
    for name in ("sum", "prod"):
        texts = _forms(
            name,
            f"np.{name}(x, axis=(0, 1))",
            f"np.{name}(x, dtype=np.float64)",
            f"np.{name}(x, where=mask)",
            f"np.{name}(x, axis=1, keepdims=True, where=mask)",
            f"np.{name}(x, axis=0, where=mask[:1], initial=2)",
            f"np.{name}(x, where=mask[:, :1])",
            f"np.{name}(x, where=mask.T)",
            f"x.{name}(initial=2)",
            f"x.{name}(initial=a)",
            f"np.{name}(x, initial=-0.0)",
            f"np.{name}(x, initial=1000)",
            f"np.{name}(s)",
            f"np.{name}([s, t])",
            f"np.{name}((a, s))",
            f"np.{name}([[s, 1], [a, t]], axis=0)",
            f"np.{name}(x, axis=())",
        )
        yield row(f"np::{name}", *texts, reduction=True, **_WIDE)


def _extremes_rows() -> Iterator[OpInfo]:
    for name in ("min", "max"):
        yield row(
            f"np::{name}",
            *_forms(
                name, f"np.{name}(x, axis=(0, 1))", f"np.{name}(s)", f"np.{name}(x, initial=2)"
            ),
            f"np.{name}(x[:0], axis=0, initial=2)",
            f"np.{name}(x[:0], initial=2.5)",
            f"np.{name}(x, initial=300)",
            f"np.{name}(x, initial=a, axis=1)",
            f"np.{name}(x, where=mask, initial=1, axis=1, keepdims=True)",
            f"np.{name}(x, where=mask)",
            f"x.{name}(where=mask[0], initial=True)",
            **_WIDE,
        )
    for name in ("all", "any"):
        chosen = (f"np.{name}(x, where=mask)", f"x.{name}(axis=0, where=mask[:, :1])")
        texts = _forms(name, f"np.{name}(s)", f"np.{name}(x > 0, axis=1)", *chosen)
        # The methods take a dtype before ``out``.
        texts += (f"x.{name}(0, None, None, True)", f"x.{name}(-1, None, True)")
        texts += (f"x.{name}(0, bool)", f"np.{name}(x, 0, None, True)")
        yield row(f"np::{name}", *texts, **_WIDE)
    for name in ("argmin", "argmax"):
        more = (f"np.{name}(a=x)", f"np.{name}(x, 0, None)", f"np.{name}(x, 0, places)")
        yield row(f"np::{name}", *_forms(name, *more), **_WIDE)
    counts = _forms(
        "count_nonzero", "np.count_nonzero(s)", "np.count_nonzero(x[0, 0])", method=False
    )
    yield row("np::count_nonzero", *counts, **_WIDE)


def _moments_rows() -> Iterator[OpInfo]:
    yield row(
        "np::mean",
        *_forms("mean", "np.mean(x, axis=(0, 1))", "np.mean(x, dtype=np.float32)"),
        "np.mean(s)",
        "np.mean(np.sum(x))",
        "np.mean(x, where=mask)",
        "np.mean(x, axis=1, keepdims=True, where=mask)",
        "x.mean(axis=0, where=mask[:1])",
        "np.mean(x, where=~mask & mask)",
        reduction=True,
        **_WIDE,
    )
    for name in ("var", "std"):
        texts = _forms(
            name,
            f"np.{name}(x, ddof=1)",
            f"np.{name}(x, axis=0, ddof=1)",
            f"np.{name}(x, where=mask)",
            f"np.{name}(x, axis=1, ddof=1, where=mask)",
            f"np.{name}(x, ddof=90, where=mask)",
            f"np.{name}(x, axis=0, keepdims=True, where=mask[0])",
        )
        yield row(
            f"np::{name}",
            *(re.sub(r"\bx\b", "p", one) for one in texts),
            reduction=True,
            **_WIDE,
        )
    yield row("np::ptp", *_forms("ptp", method=False), **_WIDE)
    for name in ("nansum", "nanprod"):
        yield row(f"np::{name}", *_forms(name, method=False), reduction=True, **_WIDE)
    for name in ("nanmean", "nanvar", "nanstd"):
        texts = _forms(name, method=False)
        yield row(f"np::{name}", *texts, reduction=True, **_WIDE)
        if name != "nanmean":
            yield row(
                f"np::{name}",
                f"np.{name}(x, ddof=1)",
                f"np.{name}(x, axis=0, ddof=3)",
                reduction=True,
                dtypes="lfd",
            )


def _scans_rows() -> Iterator[OpInfo]:
    for name in ("cumsum", "cumprod"):
        yield row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(v)",
            f"np.{name}(x, axis=0)",
            f"x.{name}(axis=-1)",
            f"np.{name}(x, axis=1, dtype=np.float64)",
            f"np.{name}(x, axis=3)",
            reduction=True,
            **_WIDE,
        )


def linalg_rows() -> Iterator[OpInfo]:
    products = {"dtypes": "?blfdD", "reduction": True, "layouts": True}
    yield row(
        "np::narrow_product",
        "p[:, :3] @ q[:3, :3] + 1",
        "np.maximum(np.dot(p[:, :2], q[:2, :3].T[:2]), 0)",
        "p[None, :, :3] @ q[:3, :2] * v[:2]",
        **products,
    )
    yield row(
        "np::matmul",
        "np.matmul(p, q.T)",
        "p @ q.T",
        "np.matmul(p, v[:, None])",
        "v @ w",
        "p @ q",
        "np.matmul(p[None], q.T)",
        "p[:0] @ q.T",
        "p[:, :0] @ q[:, :0].T",
        **products,
    )
    yield row(
        "np::dot",
        "np.dot(p, q.T)",
        "v.dot(w)",
        "np.dot(p, 2)",
        "np.dot(s, v)",
        "np.dot(p, v)",
        "np.dot(p[None], q.T)",
        **products,
    )
    yield row("np::inner", "np.inner(p, q)", "np.inner(v, w)", "np.inner(s, 2)", **products)
    yield row("np::vdot", "np.vdot(v, w)", "np.vdot(p, q)", **products)
    yield row(
        "np::outer",
        "np.outer(p[0], q[0])",
        "np.outer(p, q[0])",
        "np.outer(v, 2)",
        "np.outer(s, p[0])",
        dtypes="?blfdD",
        mixed=True,
        complex_ulp=4,
    )
    yield row(
        "np::kron", "np.kron(p, q)", "np.kron(v, w)", "np.kron(v, x)", "np.kron(s, x)",
        "np.kron([1, 2], p)", "np.kron(p[None], q[:2, :2])", dtypes="?bfD", mixed=True,
        complex_ulp=4, layouts=True,
    )  # fmt: skip
    yield row(
        "np::cross", "np.cross(p[:, :3], q[:, :3])", "np.cross(v[:3], w[:3])",
        "np.cross(p[:, :3], [1, 2, 3])", "np.cross(p, q, axis=0)", "np.cross(p, q, 0, 0, 0)",
        "np.cross(p, q)", "np.cross(p[:, :3], v[:3])", "np.cross(v[:3], p[:, :3], axisc=0)",
        dtypes="?bBlfdD", mixed=True, complex_ulp=8,
    )  # fmt: skip
