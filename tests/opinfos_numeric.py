"""Samples of searches, comparisons of whole arrays, slopes and sums of neighbours, conversions."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import TRANSCENDENTAL, OpInfo, row

__all__ = [
    "calculus_rows",
    "comparing_rows",
    "conversion_rows",
    "searching_rows",
    "selecting_rows",
]


def comparing_rows() -> Iterator[OpInfo]:
    yield row(
        "np::isclose", "np.isclose(x, y)", "np.isclose(x, y, 0.5, 0.25)", "np.isclose(p, 1)",
        "np.isclose(x, x, equal_nan=True)", "np.isclose(s, t)", "np.isclose(x, a)",
        "np.isclose(x, v)", "np.isclose(a, b)", "np.isclose(x, x[:, :3])", "np.isclose(x, y, v)",
        "np.isclose(2, p, atol=1e-3)", dtypes="?bBlfdD", layouts=True, mixed=True,
    )  # fmt: skip
    yield row(
        "np::allclose", "np.allclose(x, y)", "np.allclose(p, p)", "np.allclose(p, q, rtol=5)",
        "np.allclose(x, x)", "np.allclose(x, x, equal_nan=True)", "np.allclose(s, t)",
        "1 if np.allclose(p, p + 1e-9) else 2", dtypes="?blfdD", layouts=True, mixed=True,
    )  # fmt: skip
    yield row(
        "np::array_equal", "np.array_equal(x, y)", "np.array_equal(p, p)", "np.array_equal(v, x)",
        "np.array_equal(x, x)", "np.array_equal(x, x, equal_nan=True)", "np.array_equal(x, x[1:])",
        "np.array_equal(s, s)", "np.array_equal(v, [1, 2])", dtypes="?blfdD", layouts=True,
        mixed=True,
    )  # fmt: skip


def searching_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "?bBlfdD", "layouts": True}
    yield row(
        "prim::same", "z = p.copy()\nz.shape = (-1,)\nreturn z + 1, z[0]",
        "x.shape = x.shape[::-1]\nreturn x * 2", dtypes="ldD", layouts=True,
    )  # fmt: skip
    yield row(
        "prim::require_shape", "F.adaptive_max_pool1d(p, 2)", "F.adaptive_max_pool1d(p, 1)",
        dtypes="fd",
    )  # fmt: skip
    yield row("prim::require", "np.bincount(places, minlength=j)", "np.bincount(v)", dtypes="bl")
    yield row("np::flatnonzero", "np.flatnonzero(x)", "np.flatnonzero(x > 1)", **every)
    yield row(
        "np::nonzero", "np.nonzero(x)", "x.nonzero()", "np.nonzero(v)[0]",
        "z, y = np.nonzero(x > 0)\nreturn z * 2 + y", "x[np.nonzero(x)]", **every,
    )  # fmt: skip
    yield row("np::argwhere", "np.argwhere(x)", "np.argwhere(v > 0)", **every)
    yield row(
        "np::searchsorted", "np.searchsorted(v, x)", "np.searchsorted(v, x, side='right')",
        "np.searchsorted(v, s)", "v.searchsorted(w)", "np.searchsorted([1, 2, 3], x)",
        "np.searchsorted(v, a)", "np.searchsorted(v, i)", "np.searchsorted(x, v)",
        "np.searchsorted(v[:0], w)", "np.searchsorted(v, w[:0])", "np.searchsorted(v, w, 'middle')",
        "np.searchsorted(v, [1, 2.5])", "np.searchsorted(v, w, sorter=[3, 2, 1, 0])",
        mixed=True, **every,
    )  # fmt: skip
    yield row(
        "np::digitize", "np.digitize(x, [0, 1, 3])", "np.digitize(x, np.array([2.5, 1, 1, -7]))",
        "np.digitize(v, [1, 0, 1])", "np.digitize(x, [1, 1], right=True)", "np.digitize(x, v)",
        "np.digitize(x, v[:1])", "np.digitize(x, v[:0])", "np.digitize(s, [1, 2])",
        "np.digitize(a, v)", "np.digitize(2, [3, 2.5, 1], right=True)", "np.digitize(i, [])",
        **every,
    )  # fmt: skip
    yield row(
        "np::bincount", "np.bincount(abs(x[0]) % 7)", "np.bincount(places % 3, w)",
        "np.bincount(x)", "np.bincount(places)", "np.bincount(places + 1, minlength=6)",
        "np.bincount(v > 0, minlength=i)", "np.bincount(places[:0])", "np.bincount(places + 1, j)",
        "np.bincount(places[:0], minlength=3)", "np.bincount(places + 1, w[:3])",
        "np.bincount(v)", dtypes="?bHlfd", layouts=True,
    )  # fmt: skip
    yield row(
        "np::histogram", "np.histogram(x)", "np.histogram(x, bins=3, weights=y)",
        "np.histogram(v, i, (1, 3))", "np.histogram(v, 4, (a, b), weights=w)",
        "np.histogram(x, i, weights=v)", "np.histogram(x, v)", "np.histogram(v[:0], j)",
        "np.histogram(s, 2)", dtypes="?BHlfd", layouts=True,
    )  # fmt: skip
    yield row(
        "np::interp", "np.interp(x, [0, 1, 2.5], [1, 7, 3])", "np.interp(x, v, w)",
        "np.interp(x, v, w, left=-1, right=i)", "np.interp(a, v, w)", "np.interp(s, v, w)",
        "np.interp(x, v[:1], w[:1])", "np.interp(x, v[:0], w[:0])", "np.interp(x, v, w[:3])",
        "np.interp(x, [0, 1, 2.5], [1, 7, 3], period=3)", "np.interp(i, v, w, left=a)",
        "np.interp(x, np.arange(20), np.arange(20) ** 2)", dtypes="?bBlfdD", layouts=True,
    )  # fmt: skip


def calculus_rows() -> Iterator[OpInfo]:
    numbers = {"dtypes": "?BlfdD", "layouts": True}
    yield row(
        "np::diff", "np.diff(x)", "np.diff(x, axis=0)", "np.diff(v, 2)", "np.diff(x, n=0)",
        "np.diff(x, axis=3)", "np.diff(v, prepend=1)", "np.diff(v, prepend=s, append=w)",
        "np.diff(x, axis=0, append=x[:1])", "np.diff(x, append=2.5)", "np.diff(x, -1)", **numbers,
    )  # fmt: skip
    yield row(
        "np::ediff1d", "np.ediff1d(x)", "np.ediff1d(v, to_begin=0)", "np.ediff1d(v, [1, 2], w)",
        "np.ediff1d(v, to_end=2.5)", "np.ediff1d(v[:0])", "np.ediff1d(v[:1], 7)", **numbers,
    )  # fmt: skip
    yield row(
        "np::gradient", "np.gradient(p)", "np.gradient(p[0], 0.5)", "np.gradient(p, axis=0)",
        "np.gradient(p, a, i)", "np.gradient(p[0], places * 2)", "np.gradient(p[0, :1])",
        "np.gradient(p, edge_order=2)", "np.gradient(p[0], q[0], edge_order=2)",
        "np.gradient(p, axis=(1, 0))", "np.gradient(p, a, i, b)", "np.gradient(p[0], p[:, 0])",
        "np.gradient(p[0], q[0])", "np.gradient(p, s, axis=1)", "np.gradient(p[:, 0], axis=1)",
        complex_ulp=8, **numbers,
    )  # fmt: skip
    yield row(
        "np::trapezoid", "np.trapezoid(p)", "np.trapezoid(p, dx=0.5, axis=0)",
        "np.trapezoid(p[0], q[0])", "np.trapezoid(p, p[0])", "np.trapezoid(p, q)",
        "np.trapezoid(p, i)", "np.trapezoid(p[:, :1])", "np.trapezoid(p, v[:2])",
        "np.trapezoid(p, axis=4)", reduction=True, **numbers,
    )  # fmt: skip
    yield row(
        "np::polyval", "np.polyval([1, 2, 3], x)", "np.polyval(p[0], q)", "np.polyval(p[0], s)",
        "np.polyval([1.5, -2], x)", "np.polyval([a, b], a)", "np.polyval(p[0], i)",
        "np.polyval([], x)", "np.polyval((s, t), x)", complex_ulp=16, **numbers,
    )  # fmt: skip
    yield row(
        "np::convolve", "np.convolve(p[0], q[0])", "np.convolve(p[0], [1, 2], 'valid')",
        "np.convolve(p[0], [1, 2, 1], mode='same')", "np.convolve(p[0, :2], q[1], 'same')",
        "np.convolve(p[0, :1], q[1], 'valid')", "np.convolve(p[0, :0], q[0])", "np.convolve(p, q)",
        "np.convolve(p[0], q[0], 'none')", reduction=True, mixed=True, **numbers,
    )  # fmt: skip


def conversion_rows() -> Iterator[OpInfo]:
    yield row(
        "np::array", "np.array(x)", "np.array([x, y])", "np.array(x, dtype=np.float32)",
        "np.array([s, t])", "np.array([[s, 1], [2.5, t]])", "np.array(s)", "np.array((i, j, a))",
        "np.array([1, 2, 3])", "np.array([flag, i])", "np.array([])", "np.array([[], []])",
        "np.array([[1, 2], [3]])", "np.array([v, v[:2]])", "np.array([v, x])", "np.array([a, ()])",
        "np.array([i, 300], dtype=np.int8)", "np.array([1, 2], float)", "np.array([a, b], int)",
        "np.array(x, ndmin=3)", "np.array(x, copy=None)", "np.array(c)", "np.array('text')",
        "z = [1, i]\nz.append(j)\nreturn np.array(z)", "z = [s, t]\nreturn np.array([z, z])",
        "np.array([v[:1], w])", "np.array([[v, w], [w, v]])", "np.array(range(3))",
        dtypes="?bHlfD", mixed=True,
    )  # fmt: skip
    yield row("np::array", "np.array(x)", dtypes="dD", layouts=True)
    yield row(
        "np::asarray", "np.asarray(x)", "np.asarray(x, dtype=np.float32)", "np.asarray(s)",
        "np.asarray([s, t])", "np.asarray(2.5)", "np.asarray([[1, i], [j, 2]]) @ [1, 2]",
        "np.asarray(x, int)", dtypes="?ifd", layouts=True,
    )  # fmt: skip
    for rank in (1, 2, 3):
        name = f"np.atleast_{rank}d"
        yield row(
            f"np::atleast_{rank}d", f"{name}(x) + 1", f"{name}(x)", f"{name}(v)", f"{name}(s)",
            f"{name}(a)", f"{name}(x, v)", f"{name}(x[0, 0])", dtypes="lD", layouts=True,
        )  # fmt: skip
    yield row(
        "np::copyto", "np.copyto(x, y)", "np.copyto(x, y, where=mask)", "np.copyto(x, v)",
        "np.copyto(x, 1)", "np.copyto(x, a)", "np.copyto(x, s, where=x > 0)", "np.copyto(v, x)",
        "np.copyto(x, x[:, :3])", "np.copyto(x, 300)",
        "np.copyto(x, y, casting='unsafe')", "np.copyto(x, v[None])", "np.copyto(x, c)",
        "np.copyto(v, 1, where=mask)", dtypes="?bBlfdD", mixed=True, layouts=True,
    )  # fmt: skip
    yield row("np::copyto", "np.copyto(x[1:], x[:-1])", "np.copyto(x[::-1], x)", dtypes="bd")
    yield row(
        "np::fill", "x.fill(1)", "x.fill(s)", "x[1:].fill(a)", "x.fill(flag)", "x.fill(v)",
        "x.fill(300)", "x.fill(t)", dtypes="?bBlfD", mixed=True, layouts=True,
    )  # fmt: skip
    yield row(
        "np::item_method", "x.item(1, 2)", "x.item(3)", "s.item()", "x[0, 0].item() + 1",
        "v.item(i)", "v.item(9)", "x.item()", "v[:1].item()", "x.item((0, 1))",
        dtypes="?bHlfdFD", layouts=True, ulp=TRANSCENDENTAL,
    )  # fmt: skip


def selecting_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "?bflD", "layouts": True}
    yield row(
        "prim::getitem", "x[[0, 2]]", "x[:, [0, -1]]", "x[[0, 1], [1, 0]]", "x[[i, 0]]", "x[[]]",
        "v[[True, False, True, True]]", "x[[5]]", "x[[1.5]]", "x[[[0], [1]], [0, 1]]", "x[[0], i]",
        "z = [0, 1]\ny = x[z]\nz.append(5)\nreturn y, z", **every,
    )  # fmt: skip
    yield row(
        "prim::setitem", "x[[0, 1]] = 1", "x[0, [0, 2]] = s", "x[[0, 1]] += 1", "x[[5]] = 0",
        "b = np.broadcast_to(v, (3, 4))\nb[0] = 1", dtypes="bd",
    )  # fmt: skip
    yield row(
        "np::select", "np.select([x > 1, y > 1], [x, y])", "np.select([mask], [x], -1)",
        "np.select([mask, x > 0], [s, v], y)", "np.select([mask, ~mask], [1, 2.5])",
        "np.select([mask], [x, y])", "np.select([x], [x])", "np.select([], [])",
        "np.select([mask[0]], [x], default=a)", "np.select([mask], [x[:, :3]])", mixed=True,
        **every,
    )  # fmt: skip
    yield row(
        "np::take_along_axis", "np.take_along_axis(x, mask + 0, axis=0)",
        "np.take_along_axis(x, places[:3, None], axis=1)", "np.take_along_axis(v, places, 0)",
        "np.take_along_axis(x, places, axis=None)", "np.take_along_axis(x, places[None], 0)",
        "np.take_along_axis(x, places[:3, None] + 9, axis=1)", "np.take_along_axis(x, places, 0)",
        "np.take_along_axis(x, mask, axis=0)", **every,
    )  # fmt: skip
    yield row(
        "np::put_along_axis", "np.put_along_axis(x, places[:3, None], 1, axis=1)",
        "np.put_along_axis(x, mask + 0, s, axis=0)", "np.put_along_axis(v, places, w, 0)",
        "np.put_along_axis(x, places[:3, None] + 9, 1, axis=1)", **every,
    )  # fmt: skip
    yield row(
        "np::extract", "np.extract(x > 0, x)", "np.extract(y, x)", "np.extract([1, 0], v)",
        "np.extract(mask, v)", **every,
    )  # fmt: skip
    yield row(
        "np::compress_function", "np.compress(mask[:, 0], x, axis=0)", "np.compress(v > 0, x)",
        "np.compress([0, 1], v)", "np.compress(mask[0], x, 1)", "np.compress(v == v, v[:2])",
        "np.compress(mask, x)", **every,
    )  # fmt: skip
    yield row(
        "np::putmask", "np.putmask(x, mask, y)", "np.putmask(x, x > 1, 1)", "np.putmask(x, y, s)",
        "np.putmask(x, mask, v)", "np.putmask(x, mask[0], 1)", "np.putmask(x, mask, a)",
        mixed=True, **every,
    )  # fmt: skip
    yield row(
        "np::delete", "np.delete(v, i)", "np.delete(x, j, axis=0)", "np.delete(x, 1, 1)",
        "np.delete(x, 0)", "np.delete(v, 9)", "np.delete(v, [0, 1])", "np.delete(v, slice(1, 3))",
        **every,
    )  # fmt: skip
    yield row(
        "np::insert", "np.insert(v, i, s)", "np.insert(v, j, 1)", "np.insert(v, 9, 1)",
        "np.insert(v, [0, 1], 2)", "np.insert(x, 1, v, axis=0)", "np.insert(v, 1, a)",
        "np.insert(x, 0, 1)", **every,
    )  # fmt: skip
