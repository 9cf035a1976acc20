# mypy: allow-untyped-defs, allow-untyped-calls
"""Compares models with what freezing makes of them, and says which nodes are left."""

import copy

import numpy as np

from jitcore import freeze, nn, script


def kinds(module, method="forward"):
    """The kinds of the nodes of a frozen method that are no constants."""
    graph = getattr(module, method).graph
    return [node.kind for node in graph.nodes() if node.kind != "prim::Constant"]


def names(module, method="forward"):
    """The functions of layers in a frozen method, in order."""
    return [kind[4:] for kind in kinds(module, method) if kind.startswith("nn::")]


def randomized(model, seed=0):
    """A model in eval mode with statistics, scales and shifts that are not trivial."""
    generator = np.random.default_rng(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            for buffer in (module.running_mean, module.running_var, module.weight, module.bias):
                if buffer is not None:
                    buffer[...] = generator.random(buffer.shape) + 0.5
    return model.eval()


def check(model, *args, rtol=1e-4, atol=1e-5, calls=2):
    """Freeze a model and compare results, dtypes, shapes and memory orders with it."""
    frozen = freeze(script(copy.deepcopy(model)))
    for _ in range(calls):
        compare(frozen(*copy.deepcopy(args)), model(*copy.deepcopy(args)), rtol, atol)
    return frozen


def compare(found, expected, rtol, atol):
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other, rtol, atol)
        return
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.flags["WRITEABLE"] == expected.flags["WRITEABLE"]
    np.testing.assert_allclose(found, expected, rtol, atol)


def applied(forward, **members):
    """A module with this ``forward``, and these layers, arrays and numbers."""
    made = type("Apply", (nn.Module,), {"forward": forward})()
    for name, member in members.items():
        if isinstance(member, np.ndarray):
            made.register_buffer(name, member)
        else:
            setattr(made, name, member)
    return made
