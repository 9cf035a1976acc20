"""Asynchronous tasks: ``fork`` starts one, ``wait`` gives what it returned.

Tasks run on a pool of threads.  Compiled code gives up Python's global lock, as NumPy does, so
tasks run on several cores at once.  Whoever waits for a task that no thread has begun runs it
itself: so tasks may start and await others however few threads there are, and a thread only ever
waits for what another one is running.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import CodeType, FunctionType, TracebackType
from typing import Any, Generic, TypeVar

from jitcore.codegen.runtime.threads import available_cores, checked_count
from jitcore.errors import CompilationError
from jitcore.frontend import is_library
from jitcore.frontend.constants import function_mark, is_layer
from jitcore.frontend.layers import script_state
from jitcore.markers import ignore
from jitcore.script import ScriptFunction, script
from jitcore.tracing.state import Recorder, active

__all__ = ["Future", "fork", "get_num_interop_threads", "set_num_interop_threads", "wait"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """What a task will return.  Made by `fork`.

    Examples
    --------
    >>> import jitcore
    >>> future = jitcore.fork(divmod, 17, 5)
    >>> future.wait()
    (3, 2)
    """

    def __init__(self, task: Callable[[], T]) -> None:
        self._task: Callable[[], T] | None = task
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._thread: int | None = None
        self._value: T | None = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._callbacks: list[Callable[[Future[T]], object]] = []

    def wait(self) -> T:
        """What the task returned, once it has; may be called any number of times.

        Raises
        ------
        BaseException
            What the task raised.
        RuntimeError
            The task waits for itself.
        """
        self._settle()
        return self.value()

    def done(self) -> bool:
        """Whether the task has returned or raised."""
        return self._finished.is_set()

    def value(self) -> T:
        """What the task returned.

        Raises
        ------
        BaseException
            What the task raised.
        RuntimeError
            It is not done.
        """
        if not self._finished.is_set():
            raise RuntimeError("the task is not done; wait() waits for it")
        if self._error is not None:
            raise self._error.with_traceback(self._traceback)
        value: Any = self._value
        return value  # type: ignore[no-any-return]  # a task without an error has a value

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future for what a callback makes of this one.

        Parameters
        ----------
        callback : callable
            Takes this future, which is done; called on the thread that finishes the task, or on
            that which waits first.

        Returns
        -------
        Future

        Examples
        --------
        >>> import jitcore
        >>> jitcore.fork(abs, -2).then(lambda future: future.value() + 1).wait()
        3
        """

        def call() -> S:
            self._settle()
            return callback(self)

        following = Future(call)
        self._when_done(lambda _: following._run())
        return following

    def _when_done(self, callback: Callable[[Future[T]], object]) -> None:
        """Call a function with this future when it is done, or now if it is."""
        with self._lock:
            if not self._finished.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _settle(self) -> None:
        """Wait until the task is done, running it if nobody has begun."""
        self._run()
        if self._thread == threading.get_ident() and not self._finished.is_set():
            raise RuntimeError("a task waits for itself, directly or through tasks that it awaits")
        self._finished.wait()

    def _run(self) -> None:
        """Run the task, unless somebody has begun."""
        with self._lock:
            task, self._task = self._task, None
            if task is None:
                return
            self._thread = threading.get_ident()
        try:
            self._value = task()
        except BaseException as error:
            # It is raised where somebody waits.
            self._error, self._traceback = error, error.__traceback__
        with self._lock:
            self._finished.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __repr__(self) -> str:
        if not self._finished.is_set():
            return "<jitcore.Future, not done>"
        return f"<jitcore.Future, {'returned' if self._error is None else 'raised'}>"


def fork(function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Start a call on another thread.

    Parameters
    ----------
    function : callable
        In a scripted function it is compiled; otherwise it runs as it is, so script it first for
        parallelism.
    *args, **kwargs
        Its arguments.  They are shared, not copied: what the call writes into is not to be used
        before it has been waited for.

    Returns
    -------
    Future
        `wait` gives what the call returned, or raises what it raised.

    Examples
    --------
    >>> import jitcore
    >>> import numpy as np
    >>> @jitcore.script
    ... def norm(x):
    ...     return np.sqrt((x * x).sum())
    >>> @jitcore.script
    ... def both(x, y):
    ...     first = jitcore.fork(norm, x)
    ...     second = norm(y)
    ...     return jitcore.wait(first) + second
    >>> both(np.full(4, 2.0), np.full(9, 1.0))
    np.float64(7.0)
    """
    if not callable(function):
        raise TypeError(f"fork() takes a function; found {type(function).__name__}")
    recorder = active()
    if recorder is not None:
        traced: Future[T] = _fork_traced(recorder, function, args, kwargs)
        return traced
    # The error state of NumPy is such a variable, among others.
    context = contextvars.copy_context()
    future = Future(functools.partial(context.run, function, *args, **kwargs))
    _submit(future._run)
    return future


@ignore
def wait(future: Future[T]) -> T:
    """What the task of a future returned, once it has.

    Parameters
    ----------
    future : Future

    Raises
    ------
    BaseException
        What the task raised.
    TypeError
        ``future`` is none.
    """
    if not isinstance(future, Future):
        raise TypeError(f"wait() takes what fork() returned; found {type(future).__name__}")
    return future.wait()


# Functions that scripted code forks


@ignore
def _fork_compiled(function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """What ``fork`` means in a scripted function."""
    return fork(_compiled(function), *args, **kwargs)


def _fork_traced(
    recorder: Recorder, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What ``fork`` means while a trace runs: compiled functions are forked in the trace, too.

    What Python runs is recorded where it stands, since a trace follows one thread.
    """
    if (
        isinstance(function, ScriptFunction)
        or script_state(function, "_compiled_methods") is not None
    ):
        return recorder.call(_fork_compiled, (function, *args), kwargs)
    future = Future(functools.partial(function, *args, **kwargs))
    future._run()
    return future


fork.__jitcore_scripted__ = _fork_compiled  # type: ignore[attr-defined]

_MOST_ALIKE = 8
"""So many functions of the same code are compiled to be forked.  What a program defines anew at
each call would take thousands of times as long to compile as to run."""

_FORM = "__jitcore_forked__"
"""A function keeps its compiled form itself: that refers to it, so no table would let go of it."""

_layers: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
_alike: weakref.WeakKeyDictionary[CodeType, int] = weakref.WeakKeyDictionary()


def _compiled(function: Callable[..., T]) -> Callable[..., T]:
    """A user's function or layer, scripted; all others as they are."""
    if not _is_compilable(function):
        return function
    if isinstance(function, FunctionType):
        return _compiled_function(function)
    found = _layers.get(function)
    if found is None:
        found = _layers[function] = _scripted(function)
    return found


def _compiled_function(function: FunctionType) -> Callable[..., Any]:
    held = vars(function).get(_FORM)
    # Wrappers get what the functions that they wrap have in their namespaces.
    if held is not None and held[0] is function:
        found: Callable[..., Any] = held[1]
        return found
    number = _alike[function.__code__] = _alike.get(function.__code__, 0) + 1
    if number > _MOST_ALIKE:
        return function
    found = _scripted(function)
    vars(function)[_FORM] = function, found
    return found


def _scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return script(function)
    except CompilationError:
        # Nobody asked for it to be compiled: Python runs it.
        return function


def _is_compilable(function: Any) -> bool:
    if isinstance(function, FunctionType):
        return function_mark(function) is None and not is_library(function.__code__.co_filename)
    return is_layer(function)


# The pool

_lock = threading.Lock()
_count: int | None = None
_pool: ThreadPoolExecutor | None = None


def get_num_interop_threads() -> int:
    """The number of threads that run forked tasks; at first that of the cores this process may use.

    Returns
    -------
    int
    """
    return _count or available_cores()


def set_num_interop_threads(count: int) -> int:
    """Set the number of threads that run forked tasks.

    Parameters
    ----------
    count : int
        At least 1.  Tasks that have been forked before run where they are.

    Returns
    -------
    int
        The number before.

    Raises
    ------
    ValueError
        ``count`` is below 1.

    Examples
    --------
    >>> import jitcore
    >>> before = jitcore.set_num_interop_threads(2)
    >>> jitcore.set_num_interop_threads(before)
    2
    """
    global _count, _pool
    with _lock:
        previous, _count = get_num_interop_threads(), checked_count(count)
        if _pool is not None:
            _pool.shutdown(wait=False)
            _pool = None
    return previous


def _submit(run: Callable[[], None]) -> None:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(get_num_interop_threads(), "jitcore")
        _pool.submit(run)


def _forget_threads() -> None:
    """Begin anew in the child of a fork, which has none of the threads."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
