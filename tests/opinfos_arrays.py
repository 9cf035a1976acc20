"""Samples of how arrays are indexed, brought into other shapes and joined."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from op_samples import OpInfo, row
from sample_arrays import DTYPES

__all__ = ["indexing_rows", "shapes_rows"]

_EVERY = {"dtypes": "?D", "layouts": True}


def indexing_rows() -> Iterator[OpInfo]:
    yield from _basic_rows()
    yield from _advanced_rows()
    yield from _choosing_rows()


def _basic_rows() -> Iterator[OpInfo]:
    yield row(
        "prim::getitem",
        "x[0]",
        "x[-1, 1]",
        "x[1:, ::-2]",
        "x[..., 0]",
        "x[None, :, 1]",
        "x[i]",
        "x[i, j]",
        "x[7]",
        "x[:, j:]",
        "x[0, 0, 0]",
        "x[i:j]",
        "x[s > 100]",
        "v[()]",
        "v[...]",
        "x[flag]",
        "x[-2:, :-1]",
        "x[5:2]",
        "x[::i]",
        dtypes="?bD",
        layouts=True,
    )
    yield row(
        "prim::setitem",
        "x[0] = v",
        "x[1:, 1] = s",
        "x[...] = 2",
        "x[0, 0] = s",
        "x[:, ::2] = y[:, 1::2]",
        "x[1:] = x[:-1]",
        "x[::-1] = x",
        "x[:] = x[:, ::-1]",
        "x[i] = 7",
        "x[5] = 1",
        "x[0] = 2.5",
        "x[1] = flag",
        "x[:2, :2] = x[:2, :2].T",
        "x[0] = v[:, None]",
        "x[0] += v",
        "x[1, :] = x.sum()",
        "x[:, 1] = np.int64(7)",
        "x[0] = np.float64(2.5)",
        "x[mask] += 1",
        "x[places] += 1",
        dtypes="?bflD",
        layouts=True,
    )
    yield row("np::view", "x[1:]", "x[i]", "x[:, -1]", "x[::2, ::-1].T", layouts=True)
    yield row("np::item", "x[0, 0]", "v[i]", "x.item(0)", "s.item()", dtypes=DTYPES)
    yield from _records_rows()


def _records_rows() -> Iterator[OpInfo]:
    packed = np.array([(3, 1), (2.5, -7)], [("a", "f8"), ("n", "i4")])
    fields = [("a", "f4"), ("n", "i4"), ("b", "f4", 2)]
    aligned = np.array([(3, 1, [2, 5]), (2.5, -7, [1, 0])], fields)
    numbers = ((packed,), (aligned,))
    yield row("np::field", 'r["a"] * 2', 'r["n"][1:]', 'r[1]["a"]', numbers=numbers)
    yield row("np::record", "r[1]", 'r[-1]["n"] + 1', "r[5]", numbers=numbers)


def _advanced_rows() -> Iterator[OpInfo]:
    yield row(
        "np::gather",
        "x[places]",
        "x[:, places]",
        "x[places, places]",
        "x[places[:, None], 1]",
        "x[places, :2]",
        "x[places, None]",
        "x[places > 5]",
        "x[0, :, None][places]",
        "x[places + 9]",
        "x[[0, 1]]",
        "x[None, places, :, 0]",
        dtypes="?lD",
        layouts=True,
    )
    yield row(
        "np::scatter",
        "x[places] = 1",
        "x[places, places] = s",
        "x[:, places] = v",
        "x[places] = x[:1]",
        "x[places + 9] = 0",
        dtypes="lf",
        layouts=True,
    )
    yield row("np::store", "x[:] = y", "x[1:] = x[:-1] + 1", dtypes="lD", layouts=True)
    yield row(
        "np::compress",
        "x[mask]",
        "x[x > 0]",
        "v[v == v]",
        "x[v > 0]",
        "x[mask, None]",
        "x[mask[:, 0]]",
        dtypes="?lf",
        layouts=True,
    )
    yield row(
        "np::put_mask",
        "x[mask] = 0",
        "x[x < 0] = -x[x < 0]",
        "x[mask] = v[:2]",
        "x[mask[:, 0]] = v",
        dtypes="blf",
        layouts=True,
    )


def _choosing_rows() -> Iterator[OpInfo]:
    yield row("np::where", "np.where(mask, x, y)", dtypes=DTYPES, layouts=True, mixed=True)
    yield row(
        "np::where",
        "np.where(x, 1, y)",
        "np.where(mask, x, 2.5)",
        "np.where(x > 0, s, t)",
        "np.where(mask)",
        "np.where(x)",
        "np.where(x[0] > 0)[0]",
        "np.where(mask, x, np.array([1, 2, 3, 4]))",
        "np.where(flag, x, y)",
        "np.where(mask, 1, 2)",
        "np.where(mask, 1, 0.5)",
        dtypes="?bfD",
    )
    yield row(
        "np::clip",
        "np.clip(x, 1, 3)",
        "np.clip(x, 0.5, None)",
        "x.clip(-1, y)",
        "np.clip(x, s, t)",
        "np.clip(s, 1, 2)",
        "np.clip(x, 3, 1)",
        "x.clip(max=2)",
        "np.clip(x, 0, 1000)",
        dtypes="?bBifdD",
        layouts=True,
    )


def shapes_rows() -> Iterator[OpInfo]:
    yield from _axes_rows()
    yield from _views_rows()
    yield from _joining_rows()
    yield from _typed_joining_rows()


def _axes_rows() -> Iterator[OpInfo]:
    yield row("np::transpose", "np.transpose(x)", "np.transpose(x, (1, 0))", "x.T", **_EVERY)
    yield row(
        "np::transpose_method",
        "x.transpose()",
        "x.transpose(1, 0)",
        "x.transpose((1, 0))",
        "x.transpose(0, 0)",
        **_EVERY,
    )
    yield row("np::swapaxes", "np.swapaxes(x, 0, 1)", "x.swapaxes(0, -1)", **_EVERY)
    yield row(
        "np::moveaxis", "np.moveaxis(x, 0, -1)", "np.moveaxis(x[None], (0, 1), (1, 2))", **_EVERY
    )
    yield row("np::check_reshape", "x.reshape(len(x), -1)", layouts=True)
    yield row(
        "np::set_shape",
        "z = x + 1\nz.shape = z.size\nreturn z, z.shape",
        "z = x * 2\nz.shape = -1, 1\nreturn z",
    )
    yield row(
        "np::reshape",
        "x.reshape(-1)",
        "x.reshape(2, -1)",
        "x.reshape((4, 3))",
        "x.reshape(len(x), -1, 1)",
        "x.reshape(5, 5)",
        "x.reshape(x.shape)",
        "x.reshape(-1, x.shape[-1])",
        **_EVERY,
    )
    yield row(
        "np::reshape_function",
        "np.reshape(x, -1)",
        "np.reshape(x, (6, 2))",
        "np.reshape(x, (2, 6), order='F')",
        **_EVERY,
    )
    yield row("np::ravel", "np.ravel(x)", "x.ravel()", "x.ravel('F')", **_EVERY)
    yield row("np::flatten", "x.flatten()", "x.flatten('F')", **_EVERY)
    yield row("np::expand_dims", "np.expand_dims(x, 0)", "np.expand_dims(x, (0, -1))", **_EVERY)
    yield row("np::squeeze", "np.squeeze(x)", "x[:1].squeeze(0)", "np.squeeze(x, axis=0)", **_EVERY)


def _views_rows() -> Iterator[OpInfo]:
    yield row("np::flip", "np.flip(x)", "np.flip(x, 0)", "np.flip(x, (0, 1))", **_EVERY)
    yield row(
        "np::rot90", "np.rot90(x)", "np.rot90(x, 2)", "np.rot90(x, -1, (1, 0)) != 0",
        "np.rot90(x, 4)", "np.rot90(x, axes=(0, 0))", "np.rot90(v)", "np.rot90(x, i)", **_EVERY,
    )  # fmt: skip
    yield row(
        "np::unstack", "np.unstack(x)", "z, y, w = np.unstack(x)\nreturn z | y",
        "np.unstack(x, axis=1)", "np.unstack(x, axis=2)", **_EVERY,
    )  # fmt: skip
    yield row(
        "np::matrix_transpose", "np.matrix_transpose(x)", "x[None].mT", "np.matrix_transpose(v)",
        **_EVERY,
    )  # fmt: skip
    for name in ("shape", "ndim", "size"):
        yield row(f"np::{name}", f"np.{name}(x)", f"np.{name}(s)", f"np.{name}(a)", **_EVERY)
    yield row("np::size", "np.size(x, 0)", "np.size(x, axis=4)", "np.size([1, 2])", **_EVERY)
    yield row(
        "np::conj_method", "x.conj()", "x.conjugate() == 1", "s.conj()", dtypes="?lfdFD",
        layouts=True,
    )  # fmt: skip
    yield row("np::flipud", "np.flipud(x)", **_EVERY)
    yield row("np::fliplr", "np.fliplr(x)", **_EVERY)
    yield row("np::broadcast_to", "np.broadcast_to(v, (2, 4)) + 1", **_EVERY)
    yield row(
        "np::broadcast_to_function",
        "np.broadcast_to(x, (2, 3, 4))",
        "np.broadcast_to(s, (2, 2))",
        "np.broadcast_to(x, x.shape)",
        "np.broadcast_to(x, (7, 7))",
        **_EVERY,
    )
    yield row("np::listed", "np.array(list(v))", "np.sum([k for k in range(i)])", "np.array(v[:0])")
    yield row(
        "np::copy", "x.copy()", "np.copy(x)", "np.copy(x, 'F')", "np.copy(a=x)", "np.copy([i, j])",
        "np.copy(s)", "np.copy(x, order='C', subok=True)", **_EVERY,
    )  # fmt: skip


def _joining_rows() -> Iterator[OpInfo]:
    yield row("np::concatenate", "np.concatenate((x, y))", **_EVERY)
    yield row(
        "np::concatenate_function",
        "np.concatenate([x, y], axis=-1)",
        "np.concatenate((x, y), axis=None)",
        "np.concatenate((x, v))",
        "np.concat([v, w, v])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    yield row(
        "np::stack",
        "np.stack([x, y])",
        "np.stack((x, y), axis=-1)",
        "np.stack([x, v])",
        "np.stack([s, t])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        yield row(
            f"np::{name}",
            f"np.{name}((x, y))",
            f"np.{name}([v, w])",
            dtypes="?D",
            mixed=True,
            layouts=True,
        )
    yield row(
        "np::append", "np.append(x, y)", "np.append(x, y, axis=0)", "np.append(v, 1)",
        "np.append(v, [a, i])", "np.append(x, v)", "np.append(x, v, axis=0)", "np.append(s, t)",
        "np.append([1, 2], x)", dtypes="?bfD", mixed=True, layouts=True,
    )  # fmt: skip


def _typed_joining_rows() -> Iterator[OpInfo]:
    yield row(
        "np::stack", "np.stack([s, a])", "np.stack([x, y], dtype=np.float32)",
        "np.stack([v, w[:2]])", "np.stack([x, y], dtype=np.int8)", "np.stack(x)", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::hstack", "np.hstack([s, v, a])", "np.hstack([x, y], dtype=np.float32)",
        "np.hstack([v, x])", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::concatenate_function", "np.concatenate([x, y], dtype=np.float32)",
        "np.concatenate([v, [1, 2]])", "np.concatenate([x, y], dtype=np.int8)",
        "np.concatenate([v, 1])", "np.concatenate(x)", "np.concatenate([])", dtypes="bld",
    )  # fmt: skip
    yield row(
        "np::rolled", "np.roll(x, 1, 0) + np.roll(x, -2, 1)", "np.roll(v, 1) - np.roll(v, -1) * v",
        "np.roll(np.roll(x, 1, 1), -1, 0) * x", "(np.roll(x, 2, 1) * x).sum()", dtypes="?bfD",
        layouts=True, reduction=True,
    )  # fmt: skip
    yield row(
        "np::roll", "np.roll(x, i)", "np.roll(x, j, axis=1)", "np.roll(x, (1, 2), (0, 0))",
        "np.roll(x, 1, (0, 1))", "np.roll(x, (i, j), axis=(0, 1))", "np.roll(x, 1, 3)", **_EVERY,
    )  # fmt: skip
    yield row(
        "np::roll",
        "np.roll(x, 1)",
        "np.roll(v, -2)",
        "np.roll(x, 1, axis=0)",
        "np.roll(x, -9, axis=-1)",
        "np.roll(x, (1, 2), axis=(0, 1))",
        "np.roll(x, i, axis=1)",
        "np.roll(x, 0, axis=0)",
        **_EVERY,
    )
