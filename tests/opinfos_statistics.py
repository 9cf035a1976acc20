"""Samples of averages, norms, reductions without NaN, methods and outputs of ufuncs."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import OpInfo, row

__all__ = ["factorizations_rows", "hosted_rows", "outputs_rows", "statistics_rows"]


def statistics_rows() -> Iterator[OpInfo]:
    sums = {"dtypes": "?BlfdD", "layouts": True, "reduction": True}
    yield row(
        "np::average", "np.average(p)", "np.average(p, weights=q)", "np.average(p, axis=0)",
        "np.average(p, axis=1, weights=q[0])", "np.average(p[0], weights=[1, 2, 3, 4])",
        "np.average(p, weights=q[0])", "np.average(p, axis=0, weights=q[0])",
        "np.average(p, weights=q[:, :3])", "np.average(p, weights=q * 0)",
        "np.average(p, axis=0, weights=q, keepdims=True)", "np.average(p, weights=q[1:], axis=1)",
        "np.average(p, weights=q, returned=True)", "np.average(p[:, :0], axis=0)",
        "np.average(p[:0], axis=0)", "np.average([1, 2.5, a])", **sums,
    )  # fmt: skip
    covariances = {"dtypes": "?Blfd", "layouts": True, "reduction": True}
    yield row(
        "np::cov", "np.cov(p)", "np.cov(p, rowvar=False)", "np.cov(p, bias=True)",
        "np.cov(p, ddof=0)", "np.cov(p[0], q[0])", "np.cov(p, q)", "np.cov(p, q[0])",
        "np.cov(p, q, rowvar=False)", "np.cov(p[0])", "np.cov(p[:, :1])", "np.cov(p[:0])",
        "np.cov(p, ddof=20)", "np.cov(p, q[:, :2])", "np.cov(p, fweights=[1, 2, 3, 4])",
        "np.cov(p + 1j)", "np.cov(p, ddof=0.5)", "np.cov(p[None])", "np.cov([p[0], q[0]])",
        "np.cov(p[:3], q[:1, :3], rowvar=False)", **covariances,
    )  # fmt: skip
    yield row(
        "np::corrcoef", "np.corrcoef(p)", "np.corrcoef(p, rowvar=False)", "np.corrcoef(p[0], q[0])",
        "np.corrcoef(p, q)", "np.corrcoef(p[0])", "np.corrcoef(p * 0)", "np.corrcoef(p[:, :1])",
        "np.corrcoef(p + 1j)", **covariances,
    )  # fmt: skip
    yield row(
        "np::norm", "np.linalg.norm(p)", "np.linalg.norm(p, axis=1)", "np.linalg.norm(v[:2], 1)",
        "np.linalg.norm(p, 'fro')", "np.linalg.norm(p, axis=0, keepdims=True)",
        "np.linalg.norm(p[0], 2)", "np.linalg.norm(p, 1)", "np.linalg.norm(p, np.inf)",
        "np.linalg.norm(p, ord=1, axis=-1)", "np.linalg.norm(p, axis=(0, 1))",
        "np.linalg.norm(p[0], 3)", "np.linalg.norm(p, axis=2)", "np.linalg.norm([3, 4])",
        "np.linalg.norm(s)", "np.linalg.norm(p, keepdims=True)", "np.linalg.norm(p, 'nuc')", **sums,
    )  # fmt: skip
    wide = {"dtypes": "?Blfd", "layouts": True}
    for name in ("nanmin", "nanmax", "nanargmin", "nanargmax"):
        yield row(
            f"np::{name}", f"np.{name}(x)", f"np.{name}(x, axis=0)", f"np.{name}(v)",
            f"np.{name}(x, axis=1, keepdims=True)", f"np.{name}(x[:0])", f"np.{name}(x * np.nan)",
            f"np.{name}(x, axis=2)", f"np.{name}(x + 1j)", f"np.{name}(x / 0, axis=0)", **wide,
        )  # fmt: skip
    for name in ("nancumsum", "nancumprod"):
        yield row(
            f"np::{name}", f"np.{name}(x)", f"np.{name}(x, axis=0)", f"np.{name}(v)",
            f"np.{name}(x, axis=1, dtype=np.float64)", f"np.{name}(x[:0], 0)", reduction=True,
            **wide,
        )  # fmt: skip
    for name in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or"):
        yield row(
            f"np::{name}_reduce", f"np.{name}.reduce(p)", f"np.{name}.reduce(p, axis=None)",
            f"np.{name}.reduce(p, axis=-1, keepdims=True)", f"np.{name}.reduce(p, axis=4)",
            f"np.{name}.reduce(p > 1, axis=1)", f"np.{name}.reduce([1, 2])", reduction=True,
            dtypes="?Bld", layouts=True,
        )  # fmt: skip
    for name in ("add", "multiply"):
        yield row(
            f"np::{name}_accumulate", f"np.{name}.accumulate(p)",
            f"np.{name}.accumulate(p, axis=1)", f"np.{name}.accumulate(p[0])", dtypes="?Bld",
            layouts=True, reduction=True,
        )  # fmt: skip
    for name in ("maximum", "minimum"):
        scan = f"np.{name}.accumulate"
        yield row(
            f"np::{name}_accumulate", f"{scan}(x)", f"{scan}(v)", f"{scan}(x, axis=1)",
            f"{scan}(x, -1, np.float64)", f"{scan}(x * 0.0 * y)", f"{scan}(x / 0, axis=0)",
            f"{scan}(x, axis=None)", f"{scan}(x[:0])", f"{scan}(s)", dtypes="?bBilfdD",
            layouts=True,
        )  # fmt: skip
    for name in ("add", "subtract", "multiply", "maximum", "minimum"):
        at = f"np.{name}.at"
        yield row(
            f"np::{name}_at", f"{at}(x, places, 2)", f"{at}(x, places, v)", f"{at}(x, places, a)",
            f"{at}(v, places, s)", f"{at}(v, places, y[0, 0])", f"{at}(x, (places, places), w[0])",
            f"{at}(v, places, w[:1])", f"{at}(x, places, y[:3])", f"{at}(x.T, places, 1)",
            f"{at}(v, places + 9, 1)", f"v += 1\n{at}(v, places + 2, v[:3])",
            f"{at}(v[::-1], places, v[1:])", f"{at}(v, 1, 2)", f"{at}(v, mask[0], 2)",
            f"{at}(v, places[:0], 2)", f"{at}(places, places, places)", f"{at}(v, places, 300)",
            f"{at}(v, places.astype(np.uint8) % 4, 3)", f"{at}(x[::2, ::-1], places % 2, v)",
            dtypes="?bBlfd",
        )  # fmt: skip


def hosted_rows() -> Iterator[OpInfo]:
    """What NumPy itself computes."""
    every = {"dtypes": "?Blfd", "layouts": True}
    yield row(
        "np::sort", "np.sort(x)", "np.sort(x, axis=0)", "np.sort(x, axis=None)", "np.sort(s)",
        "np.sort(x, 5)", "np.sort(v, kind='stable') + 1", "np.sort([i, j])", **every,
    )  # fmt: skip
    yield row(
        "np::argsort", "np.argsort(p, kind='stable')", "np.argsort(v, axis=0) + 1",
        "x[np.argsort(v[:3])]", "p.argsort(kind='stable')", "np.argsort(x, 5)", **every,
    )  # fmt: skip
    yield row(
        "np::median", "np.median(p)", "np.median(p, axis=0) + 1", "np.median(x, 1, keepdims=True)",
        "np.median(p, axis=(0, 1), keepdims=True)", "np.median(x, 5)", "np.median(x + 1j)", **every,
    )  # fmt: skip
    for name, place in (("percentile", 30), ("quantile", 0.3)):
        yield row(
            f"np::{name}", f"np.{name}(p, {place})", f"np.{name}(p, {place}, axis=0) * 2",
            f"np.{name}(p, [{place}])", f"np.{name}(p, -1)", f"np.{name}(p, a, keepdims=True)",
            f"np.{name}(p, {place}, method='lower')", **every,
        )  # fmt: skip
    yield row(
        "np::unique", "np.unique(p)", "np.unique(v) * 2", "np.unique(p, return_counts=True)",
        "np.unique(x, True, True, 1)", "np.unique(x > 0, return_inverse=True)[1] * 2",
        "z, y = np.unique(places, return_inverse=True)\nreturn z * 2, y + 1",
        "np.unique(s, return_inverse=True)",
        "len(np.unique(places))", "np.unique(s)", **every,
    )  # fmt: skip
    yield row(
        "np::det", f"np.linalg.det({_SQUARE})", f"np.linalg.det({_SQUARE}) + 1",
        "np.linalg.det(p)", f"np.linalg.det(np.stack([{_SQUARE}, {_SQUARE}]))",
        dtypes="lfdD", reduction=True,
    )  # fmt: skip


_SQUARE = "p[:, :3] * 0.5 + np.eye(len(p)) * 9"


def factorizations_rows() -> Iterator[OpInfo]:
    """What LAPACK computes."""
    numbers = {"dtypes": "lfdD", "layouts": True, "reduction": True}
    yield row(
        "np::inv", f"np.linalg.inv({_SQUARE})", f"np.linalg.inv({_SQUARE}) @ p", "np.linalg.inv(p)",
        "np.linalg.inv(p[:, :3] * 0)", "np.linalg.inv(v)",
        f"np.linalg.inv(np.stack([{_SQUARE}, {_SQUARE}]))", f"np.linalg.inv(({_SQUARE}).T)",
        **numbers,
    )  # fmt: skip
    yield row(
        "np::solve", f"np.linalg.solve({_SQUARE}, p)", f"np.linalg.solve({_SQUARE}, v[:3]) + 1",
        f"np.linalg.solve({_SQUARE}, v)", "np.linalg.solve(p, p)", "np.linalg.solve(p[:, :3], x)",
        f"np.linalg.solve({_SQUARE}, p[::-1].T)", f"np.linalg.solve({_SQUARE}, p[:, :0])",
        **numbers,
    )  # fmt: skip
    positive = "p @ p.T.conj() + np.eye(len(p)) * 9"
    yield row(
        "np::cholesky", f"np.linalg.cholesky({positive})", f"np.linalg.cholesky({positive}) + p[0]",
        f"np.linalg.cholesky(-({positive}))", "np.linalg.cholesky(p)", "np.linalg.cholesky(v)",
        f"np.linalg.cholesky({positive}, upper=True)", f"np.linalg.cholesky(({positive})[None])",
        f"np.linalg.cholesky({_SQUARE})", **numbers,
    )  # fmt: skip


def outputs_rows() -> Iterator[OpInfo]:
    """Ufuncs that write to an array, or are asked for a dtype."""
    yield row(
        "np::add", "np.add(x, y, out=x)", "np.add(x, v, x)", "np.add(x, y, out=x, where=mask)",
        "np.add(x, 1, dtype=np.float32)", "np.add(x, y, dtype=np.int8)", "np.add(x, y, out=(x,))",
        "np.add(x[1:], y[1:], out=x[:-1])", "np.add(x, y, out=v)", "np.add(v, w, out=x)",
        "np.add(x, y, out=None)", "np.add(x, y, out=np.zeros(x.shape, np.int16))",
        "z = np.zeros_like(x)\nnp.add(x, 1, z)\nreturn z", "np.add(i, j, out=x)",
        "np.add(x, 1, where=mask[:, :1], out=y)", "np.add(x, y, out=s)", "np.add(x, y, dtype=str)",
        "np.add(x[None], y, out=x)", "np.add(x[:, :1], y[:, :1], out=x)", dtypes="?bBlfdD",
        mixed=True, layouts=True,
    )  # fmt: skip
    yield row("np::sqrt", "np.sqrt(p, out=p)", "np.sqrt(p, dtype=np.float32)", dtypes="lfd")
    yield row("np::less", "np.less(x, y, out=mask)", "np.less(x, y, out=x)", dtypes="?lLd")
    yield row(
        "np::clip", "np.clip(x, 1, 2, out=x)", "x.clip(0, 1, out=y)",
        "np.clip(x, 1, 2, y, where=mask)", dtypes="bld",
    )  # fmt: skip
    yield row("np::radians", "np.radians(p, out=p)", "np.radians(p, p, where=mask)", dtypes="fd")
    yield row(
        "np::matmul", "np.matmul(p, q.T, out=z[:, :3])", "np.matmul(p, q.T, np.zeros((3, 3)))",
        "np.matmul(p, q.T, out=z)", "z = p @ q.T\nnp.matmul(z, z, out=z)\nreturn z",
        "np.matmul(p, q.T, dtype=np.float32)", dtypes="lfd", reduction=True,
    )  # fmt: skip
