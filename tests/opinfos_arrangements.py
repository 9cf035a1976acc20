"""Samples of what takes arrays apart and puts copies of them together."""

from __future__ import annotations

from collections.abc import Iterator

from op_samples import OpInfo, row

__all__ = ["arrangements_rows", "contractions_rows", "diagonals_rows"]


def arrangements_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "?fD", "layouts": True}
    yield row(
        "np::take", "np.take(x, places, axis=0)", "np.take(x, places)", "x.take(i, axis=1)",
        "np.take(v, places[:, None])", "np.take(v, j)", "np.take(x, [0, 1], axis=0)",
        "np.take(v, places + 9)", "np.take(x, places, axis=0, mode='wrap')", **every,
    )  # fmt: skip
    yield row(
        "np::repeat", "np.repeat(x, 2)", "np.repeat(x, 3, axis=0)", "x.repeat(2, axis=-1)",
        "np.repeat(v, i)", "np.repeat(v, [0, 1, 2, 3])", "np.repeat(v, 0)", "np.repeat(v, -1)",
        "np.repeat(v, len(v))", "np.repeat(x, [1, 0, 2], axis=0)", "np.repeat(v, places)",
        "np.repeat(v, abs(places))", "np.repeat(x, [2], axis=0)", "np.repeat(v, j)",
        "np.repeat(v, [1, 2])", **every,
    )  # fmt: skip
    yield row(
        "np::tile", "np.tile(x, 2)", "np.tile(x, (2, 1))", "np.tile(v, (2, 2))", "np.tile(v, 1)",
        "np.tile(x, (2, 1, 3))", "np.tile(v, i)", "np.tile(v, 0)", "np.tile(s, 3)",
        "np.tile(v, j)", "np.tile(x, (i, 2))", "np.tile(v, a)", **every,
    )  # fmt: skip
    yield row(
        "np::pad", "np.pad(x, ((9, 1), (0, 11)), mode='wrap')", "np.pad(x, 2, mode='symmetric')",
        "np.pad(x, ((9, 1), (0, 11)), mode='reflect')", "np.pad(x[:1], 1, 'reflect')",
        "np.pad(x, 1, constant_values=((1, 2), (3, 4)))", "np.pad(x[:0], 1, mode='edge')",
        "np.pad(x, 1, mode='mean')", "np.pad(x, ((0, 0), (1, 0)), constant_values=300)",
        "np.pad([1, 2], 1)", dtypes="bd", layouts=True,
    )  # fmt: skip
    yield row(
        "np::pad", "np.pad(x, 1)", "np.pad(x, ((1, 2), (0, 3)))", "np.pad(v, (2, 0))",
        "np.pad(x, 1, constant_values=2)", "np.pad(x, 1, mode='edge')", "np.pad(v, 1, 'wrap')",
        "np.pad(v, (1, 2), constant_values=(3, 4))", "np.pad(v, -1)", "np.pad(x, 0)", **every,
    )  # fmt: skip
    yield row(
        "np::meshgrid", "np.meshgrid(v, w)", "np.meshgrid(v, w[:2], indexing='ij')",
        "np.meshgrid(v)", "np.meshgrid(v, w, v[:2])", "np.meshgrid(v, w, sparse=True)",
        "np.meshgrid(s, v)", "z, x = np.meshgrid(v, w)\nreturn z + x", dtypes="?fD", mixed=True,
    )  # fmt: skip
    yield row(
        "np::split", "np.split(x, [1, 2])", "np.split(x, 2, axis=1)", "np.split(v, 3)",
        "z, y = np.split(v, 2)\nz += 1\nreturn v, y", "np.split(x, [5, 1])", "np.split(x, [-1])",
        "len(np.split(v, 2))", "np.split(v, i)", **every,
    )  # fmt: skip
    yield row("np::array_split", "np.array_split(x, 2)", "np.array_split(v, 3)", **every)
    yield row("np::vsplit", "np.vsplit(x, [1])", "np.vsplit(x, 3)", "np.vsplit(v, 2)", **every)
    yield row("np::hsplit", "np.hsplit(x, 2)", "np.hsplit(v, [1, 3])", "np.hsplit(x, [1])", **every)
    yield row("np::dsplit", "np.dsplit(x[None], 2)", "np.dsplit(x, 2)", **every)


def contractions_rows() -> Iterator[OpInfo]:
    sums = {"dtypes": "?blfdD", "reduction": True}
    yield row(
        "np::einsum", "np.einsum('ij,kj->ik', p, q)", "np.einsum('ij,ij->i', p, q)",
        "np.einsum('ij->ji', x)", "np.einsum('ij->j', p)", "np.einsum('ij,ij', p, q)",
        "np.einsum('i,j->ij', p[0], q[0])", "np.einsum('ij,j', p, q[0])", "np.einsum('ij->', p)",
        "np.einsum('ii', p[:, :3])", "np.einsum('ij,jk,kl->il', p, q.T, p)",
        "np.einsum('ij,kj->ki', p, q)", "np.einsum('bij,bjk->bik', p[None], q.T[None])",
        "np.einsum('...j->...', p)", "np.einsum('ij,jk->ik', p, q)", "np.einsum('ij,kl->k', p, q)",
        "np.einsum('ij,ij->ji', p, q)", "np.einsum('i,i->', p[0], q[0])", "np.einsum('ij->ij', x)",
        "np.einsum('ijk,jkl->il', p.reshape(3, 2, 2), q.reshape(2, 2, 3))",
        "np.einsum('j,ij->i', p[0], q)", **sums,
    )  # fmt: skip
    yield row(
        "np::tensordot", "np.tensordot(p, q.T, 1)", "np.tensordot(p, q)",
        "np.tensordot(p, q, ((0, 1), (0, 1)))", "np.tensordot(p, q, axes=([1], [1]))",
        "np.tensordot(p, q, 0)", "np.tensordot(p, q, 1)",
        "np.tensordot(p.reshape(3, 2, 2), q.reshape(2, 2, 3), 2)", "np.tensordot(p[0], q[0], 1)",
        "np.tensordot(p[None], q, ((2,), (1,)))", **sums,
    )  # fmt: skip
    yield row(
        "np::trace", "np.trace(p)", "p.trace()", "np.trace(p @ q.T)", "np.trace(p, offset=1)",
        "np.trace(p[None])", "np.trace(p, dtype=np.float32)", "np.trace(p[0])",
        "np.trace(p[None], -1, 1, 2)", "np.trace(p, 9)", layouts=True, **sums,
    )  # fmt: skip


def diagonals_rows() -> Iterator[OpInfo]:
    every = {"dtypes": "?bD", "layouts": True}
    yield row(
        "np::diagonal", "np.diagonal(x)", "x.diagonal(1) != 0", "np.diagonal(x, -1).sum()",
        "np.diagonal(x[None], 0, 1, 2) * 2", "z = np.diagonal(x)\nz[0] = 1", "np.diagonal(v)",
        "np.diagonal(x, 0, 0, 0)", "np.diagonal(x, 7).copy()", "np.diagonal(x, i)", reduction=True,
        **every,
    )  # fmt: skip
    yield row(
        "np::diag", "np.diag(v)", "np.diag(x)", "np.diag(v, 1)", "np.diag(v[:0])", "np.diag(v, -2)",
        "np.diag(x, 1) != 0", "np.diag(x[None])", "np.diag(v, i)", dtypes="?bD",
    )  # fmt: skip
    windows = "np.lib.stride_tricks.sliding_window_view"
    yield row(
        "np::sliding_window_view", f"{windows}(x, 2, axis=1) != 0",
        f"{windows}(x, (2, 3), axis=(0, -1))[::2].sum(axis=(2, 3))", f"{windows}(v, 3)",
        f"{windows}(x, (2, 2)).transpose(2, 3, 0, 1).reshape(4, -1)", f"{windows}(x, 9, axis=0)",
        f"z = {windows}(x, 2, axis=0)\nz[0] = 1", f"{windows}(x, i, axis=0)",
        f"z = {windows}(x, 2, axis=0)\nx[0] = 1\nreturn z + z", f"{windows}(x, (2, 2), axis=1)",
        f"{windows}(x, 1, axis=0) + {windows}(x, (0, 1)).sum()", f"{windows}(x, 4, axis=1).ravel()",
        f"{windows}(x, (2, 2), axis=(0, 0))", dtypes="?bD", layouts=True, reduction=True,
    )  # fmt: skip
    yield row("np::diagflat", "np.diagflat(x)", "np.diagflat(v, -1)", "np.diagflat(s)", **every)
    yield row(
        "np::fill_diagonal", "np.fill_diagonal(x, 1)", "np.fill_diagonal(x, s)",
        "np.fill_diagonal(x.T, a)", "np.fill_diagonal(x, v)", "np.fill_diagonal(v, 1)",
        "np.fill_diagonal(x.T, 0, wrap=True)", "np.fill_diagonal(x, 300)", dtypes="?bld",
        layouts=True,
    )  # fmt: skip
