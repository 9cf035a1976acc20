"""Every workload once: results against NumPy, and times where pytest-benchmark is switched on.

    python -m pytest bench --benchmark-enable --benchmark-group-by=param:workload

``python -m bench`` measures in turns and is what to quote; this tells quickly what a change did.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.measure import differences
from bench.peers import PEERS, Peer
from bench.workloads import DTYPES, WORKLOADS, Workload

SIZE = 4096

RUN_ALWAYS = ("jitcore", "numpy")


def takes_part(peer: Peer) -> list[pytest.MarkDecorator]:
    """Peers take seconds to compile what they are compared by; ours run in every test."""
    missing = pytest.mark.skipif(not peer.installed, reason=f"{peer.library} is not installed")
    return [missing] if peer.library in RUN_ALWAYS else [missing, pytest.mark.slow]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "peer", [pytest.param(peer, id=peer.name, marks=takes_part(peer)) for peer in PEERS]
)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
# Other libraries warn of what they will remove.
@pytest.mark.filterwarnings("ignore")
def test_workload(workload: Workload, peer: Peer, dtype: str, benchmark: BenchmarkFixture) -> None:
    arguments = workload.arguments(SIZE, dtype)
    call = peer.prepare(workload, arguments)
    if call is None:
        pytest.skip(f"{peer.name} has no form of it")
    expected = workload.function(*arguments)
    wrong = differences(workload, call(), expected, exact_types=peer.library == "jitcore")
    assert not wrong
    benchmark(call)
