"""The code of worker threads for parallel loops: ``jc_parallel``, a function of native code.

======================================================= ==========================================
``jc_parallel(body, context, start, stop, work)``       runs ``body(context, first, last)`` over
                                                        parts of ``range(start, stop)`` that cover
                                                        it, on this thread and on the workers
======================================================= ==========================================

``jc_parallel_if_large``, of the same parameters, is a module of its own (``late_workers.py``).

``work`` is an estimate of all that is done, in operations on one element.  Little work is done by
the caller alone, as is everything where another thread's loop has the workers, and where a body
starts a loop itself.  So there is nothing to wait for in a circle, and no call waits for another.

How it works.  A job is some words and a number, its generation, that idle workers watch: for some
microseconds in a loop, then asleep on a condition variable.  Each thread has a range of the
iterations for its home.  It takes the parts of that by atomic additions, and then what is left of
the others'.  So a loop over the same arrays finds most of them in the caches that the loop before
has left them in, and a thread that comes late or is slow holds nobody up.  A worker counts itself
in before it looks at the job, and out after its last part; the caller closes the job when the parts
are gone, and returns when nobody is in.  It never waits for a worker that has not woken up yet.

A worker that is woken on the core of its caller waits for a turn of the scheduler, longer than most
loops take.  Virtual machines do that, because Linux takes a core that their host has put to sleep
for one that is not to be had.  So the workers may use all cores but that of the caller: where a
caller that is about to wake them finds itself on another core than the last one, it moves them,
and a worker that finds itself on its caller's core moves itself.  Where other programs have the
other cores, a worker that loses its core in the middle of a part keeps the caller waiting for a
turn of the scheduler.  Then, and where there is no other core, the caller works alone for some
milliseconds, and for twice as long each time until work goes well again.  So it is hardly slower
than without threads.

The threads are made by the first loop that is large enough.  The child of a fork starts without
any.  Only POSIX has them; elsewhere loops run on the calling thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import time

__all__ = ["LEAST_WORK", "text"]

LEAST_WORK = 250_000
"""Loops with less work are not worth waking workers for: about 40 microseconds."""

PARTS_PER_THREAD = 4
"""Several, because threads do not all get a whole core."""

MOST_HOMES = 256
"""With more threads than that some share theirs."""

MOST_PLACED = 32
"""To move a worker takes a microsecond, and one of many that comes late hardly counts."""

LEAST_TO_WAKE = 1_000_000
"""Where the workers sleep there must be more work: in a virtual machine it may take 50 microseconds
to wake a core."""

_SPINS = 3_000
"""How often an idle worker looks for a job before it goes to sleep: some 60 microseconds.  Others
need the core too."""

_ALONE_FOR = 4_000_000
_ALONE_AT_MOST = 256_000_000
"""So many nanoseconds the caller works alone where the workers have no cores: a turn or two of the
scheduler at first."""

_LATE = 100_000
"""A worker that has kept the caller waiting for as long as all the caller did, and for so many
nanoseconds more, was not running."""

_TEXT = """
@threads = internal global i64 1
@started = internal global i64 0
@busy = internal global i64 0
@inside = internal global i64 0
@open = internal global i64 0
@generation = internal global i64 0
@asleep = internal global i64 0
@caller_core = internal global i32 -1
; The cores that workers may use, one bit each, and the one that none of them uses.
@cores = internal global [16 x i64] zeroinitializer, align 128
@avoided_core = internal global i32 -1
@identities = internal global [MOST_PLACED x ptr] zeroinitializer
@alone_until = internal global i64 0
@alone_for = internal global i64 ALONE_FOR
@body = internal global ptr null
@context = internal global ptr null
@part = internal global i64 1
; Where the rest of each home begins, and where the home ends, in a cache line of their own.
@homes = internal global [MOST_HOMES x [8 x i64]] zeroinitializer, align 64
@home_count = internal global i64 1
; Large enough for the types of every libc.
@mutex = internal global [16 x i64] zeroinitializer, align 16
@condition = internal global [16 x i64] zeroinitializer, align 16

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
DECLARE_CORE
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)

DECLARE_PAUSE
define void @jc_set_threads(i64 %count) {
  store atomic i64 %count, ptr @threads seq_cst, align 8
  ret void
}

; Forget the threads: in the child of a fork there is only the one that called it.
define void @jc_forget_threads() {
  store i64 0, ptr @started
  store i64 0, ptr @busy
  store i64 0, ptr @inside
  store i64 0, ptr @open
  store i64 0, ptr @asleep
  %ignored.1 = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %ignored.2 = call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}

define internal i64 @now() {
  %time = alloca [2 x i64], align 8
  %ignored.20 = call i32 @clock_gettime(i32 CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

define internal void @work_alone() {
  %now = call i64 @now()
  %for = load atomic i64, ptr @alone_for seq_cst, align 8
  %until = add i64 %now, %for
  store atomic i64 %until, ptr @alone_until seq_cst, align 8
  %twice = shl i64 %for, 1
  %next = call i64 @llvm.smin.i64(i64 %twice, i64 ALONE_AT_MOST)
  store atomic i64 %next, ptr @alone_for seq_cst, align 8
  ret void
}

; After a job that went well.
define internal void @regain_trust() {
  %for = load atomic i64, ptr @alone_for seq_cst, align 8
  %part = lshr i64 %for, 6
  %less = sub i64 %for, %part
  %next = call i64 @llvm.smax.i64(i64 %less, i64 ALONE_FOR)
  store atomic i64 %next, ptr @alone_for seq_cst, align 8
  ret void
}

; Those of the home of a thread first.
define internal void @take_parts(i64 %number) {
entry:
  %body = load ptr, ptr @body
  %context = load ptr, ptr @context
  %part = load i64, ptr @part
  %count = load i64, ptr @home_count
  br label %visit
visit:
  %visited = phi i64 [ 0, %entry ], [ %visited.next, %leave ]
  %far = add i64 %number, %visited
  %place = urem i64 %far, %count
  %next = getelementptr [8 x i64], ptr @homes, i64 %place
  %stop.at = getelementptr i64, ptr %next, i64 1
  %stop = load i64, ptr %stop.at
  br label %look
look:
  %rest = load atomic i64, ptr %next seq_cst, align 8
  %is_some = icmp slt i64 %rest, %stop
  br i1 %is_some, label %take, label %leave
take:
  %first = atomicrmw add ptr %next, i64 %part seq_cst
  %is_left = icmp slt i64 %first, %stop
  br i1 %is_left, label %run, label %leave
run:
  %end = add i64 %first, %part
  %last = call i64 @llvm.smin.i64(i64 %end, i64 %stop)
  call void %body(ptr %context, i64 %first, i64 %last)
  br label %look
leave:
  %visited.next = add i64 %visited, 1
  %is_more = icmp slt i64 %visited.next, %count
  br i1 %is_more, label %visit, label %done
done:
  ret void
}

; Divide a range into homes.
define internal void @settle_homes(i64 %start, i64 %stop, i64 %threads) {
entry:
  %count = call i64 @llvm.smin.i64(i64 %threads, i64 MOST_HOMES)
  %length = sub i64 %stop, %start
  %rounded = add i64 %length, %count
  %above = sub i64 %rounded, 1
  %size = sdiv i64 %above, %count
  %all = add i64 %size, PARTS_PER_THREAD
  %sized = sub i64 %all, 1
  %part = sdiv i64 %sized, PARTS_PER_THREAD
  store i64 %part, ptr @part
  store i64 %count, ptr @home_count
  br label %more
more:
  %number = phi i64 [ 0, %entry ], [ %number.next, %more ]
  %begin = phi i64 [ %start, %entry ], [ %end, %more ]
  %far = add i64 %begin, %size
  %end = call i64 @llvm.smin.i64(i64 %far, i64 %stop)
  %next = getelementptr [8 x i64], ptr @homes, i64 %number
  %stop.at = getelementptr i64, ptr %next, i64 1
  store i64 %begin, ptr %next
  store i64 %end, ptr %stop.at
  %number.next = add i64 %number, 1
  %is_left = icmp slt i64 %number.next, %count
  br i1 %is_left, label %more, label %done
done:
  ret void
}

; Those of the main thread: a program may pin others, and change its mind.
define internal void @find_cores() {
FIND_CORES  ret void
}

; Write all cores but one; is any left?
define internal i1 @other_cores(i32 %core, ptr %others) {
  %all = load <16 x i64>, ptr @cores
  store <16 x i64> %all, ptr %others
  %shifted = lshr i32 %core, 6
  %word = and i32 %shifted, 15
  %bit = and i32 %core, 63
  %wide = zext i32 %bit to i64
  %one = shl i64 1, %wide
  %kept = xor i64 %one, -1
  %word.at = getelementptr i64, ptr %others, i32 %word
  %mine = load i64, ptr %word.at
  %left = and i64 %mine, %kept
  store i64 %left, ptr %word.at
  %rest = load <16 x i64>, ptr %others
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %rest)
  %has_other = icmp ne i64 %any, 0
  ret i1 %has_other
}

; Move all workers off a core.
define internal void @avoid(i32 %core) {
entry:
  %others = alloca [16 x i64], align 128
  call void @find_cores()
  %has_other = call i1 @other_cores(i32 %core, ptr %others)
  %started = load i64, ptr @started
  %is_some = icmp sgt i64 %started, 0
  %are_few = icmp sle i64 %started, MOST_PLACED
  %are_placed = and i1 %is_some, %are_few
  %may_move = and i1 %has_other, %are_placed
  br i1 %may_move, label %more, label %done
more:
  %number = phi i64 [ 0, %entry ], [ %number.next, %more ]
  %identity.at = getelementptr ptr, ptr @identities, i64 %number
  %identity = load ptr, ptr %identity.at
MOVE_WORKER  %number.next = add i64 %number, 1
  %is_left = icmp slt i64 %number.next, %started
  br i1 %is_left, label %more, label %done
done:
  store atomic i32 %core, ptr @avoided_core seq_cst, align 4
  ret void
}

; Worker number one is the second thread.
define internal ptr @worker(ptr %argument) {
entry:
  %others = alloca [16 x i64], align 128
  %signals = alloca [32 x i64], align 16
  %ignored.3 = call i32 @sigfillset(ptr %signals)
  %ignored.4 = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %signals, ptr null)
  %number = ptrtoint ptr %argument to i64
  br label %idle
idle:
  ; At first it has seen no generation: the job that it was started for may be there by now.
  %seen = phi i64 [ -1, %entry ], [ %new, %leave ]
  br label %spin
spin:
  %spins = phi i64 [ 0, %idle ], [ %spins.next, %again ]
  %spun = load atomic i64, ptr @generation seq_cst, align 8
  %is_new = icmp ne i64 %spun, %seen
  br i1 %is_new, label %join, label %again
again:
PAUSE  %spins.next = add i64 %spins, 1
  %is_tired = icmp eq i64 %spins.next, SPINS
  br i1 %is_tired, label %lie_down, label %spin
lie_down:
  %last = phi i64 [ %seen, %again ], [ %new, %crowded ]
  %ignored.5 = call i32 @pthread_mutex_lock(ptr @mutex)
  %ignored.12 = atomicrmw add ptr @asleep, i64 1 seq_cst
  br label %sleep
sleep:
  %slept = load atomic i64, ptr @generation seq_cst, align 8
  %is_woken = icmp ne i64 %slept, %last
  br i1 %is_woken, label %get_up, label %wait
wait:
  %ignored.6 = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %sleep
get_up:
  %ignored.13 = atomicrmw sub ptr @asleep, i64 1 seq_cst
  %ignored.7 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %join
join:
  %new = phi i64 [ %spun, %spin ], [ %slept, %get_up ]
  %ignored.14 = atomicrmw add ptr @inside, i64 1 seq_cst
CORE_OF_WORKER  %callers = load atomic i32, ptr @caller_core seq_cst, align 4
  %is_in_the_way = icmp eq i32 %core, %callers
  br i1 %is_in_the_way, label %give_way, label %look
look:
  %is_open = load atomic i64, ptr @open seq_cst, align 8
  %threads = load atomic i64, ptr @threads seq_cst, align 8
  %is_wanted = icmp slt i64 %number, %threads
  %there_is_work = icmp ne i64 %is_open, 0
  %may_work = and i1 %is_wanted, %there_is_work
  br i1 %may_work, label %work, label %leave
give_way:
  %ignored.21 = atomicrmw sub ptr @inside, i64 1 seq_cst
  %has_other = call i1 @other_cores(i32 %core, ptr %others)
  br i1 %has_other, label %move, label %crowded
move:
  store atomic i32 -1, ptr @avoided_core seq_cst, align 4
MOVE  %has_moved = icmp eq i32 %moved, 0
  br i1 %has_moved, label %come_back, label %crowded
come_back:
  %ignored.22 = atomicrmw add ptr @inside, i64 1 seq_cst
  br label %look
crowded:
  call void @work_alone()
  br label %lie_down
work:
  call void @take_parts(i64 %number)
  br label %leave
leave:
  %ignored.15 = atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %idle
}

; Start the workers there should be and are not; the caller is busy.
define internal void @start_workers(i64 %wanted) {
entry:
  %thread = alloca i64
  %before = load i64, ptr @started
  %are_some = icmp slt i64 %before, %wanted
  br i1 %are_some, label %first, label %done
first:
  call void @find_cores()
  store atomic i32 -1, ptr @avoided_core seq_cst, align 4
  br label %more
more:
  %count = load i64, ptr @started
  %is_short = icmp slt i64 %count, %wanted
  br i1 %is_short, label %start, label %done
start:
  %number = add i64 %count, 1
  %argument = inttoptr i64 %number to ptr
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %is_fine = icmp eq i32 %status, 0
  br i1 %is_fine, label %started, label %done
started:
  %identity = load ptr, ptr %thread
  %ignored.8 = call i32 @pthread_detach(ptr %identity)
  %may_be_placed = icmp slt i64 %count, MOST_PLACED
  br i1 %may_be_placed, label %note, label %count_it
note:
  %identity.at = getelementptr ptr, ptr @identities, i64 %count
  store ptr %identity, ptr %identity.at
  br label %count_it
count_it:
  store i64 %number, ptr @started
  br label %more
done:
  ret void
}

define void @jc_parallel(ptr %body, ptr %context, i64 %start, i64 %stop, i64 %work) {
  %threads = load atomic i64, ptr @threads seq_cst, align 8
  %sleepers = load atomic i64, ptr @asleep seq_cst, align 8
  %started = load atomic i64, ptr @started seq_cst, align 8
  %are_awake = icmp slt i64 %sleepers, %started
  %least = select i1 %are_awake, i64 LEAST_WORK, i64 LEAST_TO_WAKE
  %is_large = icmp sge i64 %work, %least
  %are_several = icmp sgt i64 %threads, 1
  %count = sub i64 %stop, %start
  %is_divisible = icmp sgt i64 %count, 1
  %may_pay = and i1 %is_large, %are_several
  %is_worth_it = and i1 %may_pay, %is_divisible
  br i1 %is_worth_it, label %try, label %alone
try:
  %until = load atomic i64, ptr @alone_until seq_cst, align 8
  %begin = call i64 @now()
  %is_too_early = icmp slt i64 %begin, %until
  br i1 %is_too_early, label %alone, label %take
take:
  %taken = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %is_mine = extractvalue { i64, i1 } %taken, 1
  br i1 %is_mine, label %prepare, label %alone
alone:
  call void %body(ptr %context, i64 %start, i64 %stop)
  ret void
prepare:
  %workers = sub i64 %threads, 1
  call void @start_workers(i64 %workers)
  br label %settle
settle:
  ; A worker that woke late may still be on its way out of the last job.
  %late = load atomic i64, ptr @inside seq_cst, align 8
  %is_settled = icmp eq i64 %late, 0
  br i1 %is_settled, label %publish, label %settle_again
settle_again:
PAUSE  br label %settle
publish:
  store ptr %body, ptr @body
  store ptr %context, ptr @context
  call void @settle_homes(i64 %start, i64 %stop, i64 %threads)
CORE_OF_CALLER  store atomic i32 %core, ptr @caller_core seq_cst, align 4
  %avoided = load atomic i32, ptr @avoided_core seq_cst, align 4
  %is_new_core = icmp ne i32 %core, %avoided
  %dozing = load atomic i64, ptr @asleep seq_cst, align 8
  %are_dozing = icmp ne i64 %dozing, 0
  %must_move = and i1 %is_new_core, %are_dozing
  br i1 %must_move, label %place, label %begin_job
place:
  call void @avoid(i32 %core)
  br label %begin_job
begin_job:
  store atomic i64 1, ptr @open seq_cst, align 8
  %ignored.9 = call i32 @pthread_mutex_lock(ptr @mutex)
  %ignored.16 = atomicrmw add ptr @generation, i64 1 seq_cst
  %sleeping = load atomic i64, ptr @asleep seq_cst, align 8
  %ignored.10 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %are_asleep = icmp ne i64 %sleeping, 0
  br i1 %are_asleep, label %wake, label %work_too
wake:
  %ignored.11 = call i32 @pthread_cond_broadcast(ptr @condition)
  br label %work_too
work_too:
  call void @take_parts(i64 0)
  store atomic i64 0, ptr @open seq_cst, align 8
  %done = call i64 @now()
  br label %finish
finish:
  %waits = phi i64 [ 0, %work_too ], [ %waits.next, %pause ], [ 0, %yield ]
  %still = load atomic i64, ptr @inside seq_cst, align 8
  %is_over = icmp eq i64 %still, 0
  br i1 %is_over, label %look_back, label %finish_again
finish_again:
  %waits.next = add i64 %waits, 1
  %is_long = icmp eq i64 %waits.next, SPINS
  br i1 %is_long, label %yield, label %pause
pause:
PAUSE  br label %finish
yield:
  %ignored.y = call i32 @sched_yield()
  br label %finish
look_back:
  %end = call i64 @now()
  %worked = sub i64 %done, %begin
  %waited = sub i64 %end, %done
  %most = add i64 %worked, LATE
  %is_late = icmp sgt i64 %waited, %most
  br i1 %is_late, label %give_up, label %go_on
give_up:
  call void @work_alone()
  br label %free
go_on:
  call void @regain_trust()
  br label %free
free:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}
"""

_CORE_FUNCTIONS = """
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)
"""

_NAMES = re.compile(r"@(\w+)")

_MOVE = "call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)"
_MOVE_WORKER = (
    "  %ignored.23 = call i32 @pthread_setaffinity_np(ptr %identity, i64 128, ptr %others)\n"
)
_FIND_CORES = """
  %cores = alloca <16 x i64>, align 128
  store <16 x i64> zeroinitializer, ptr %cores
  %process = call i32 @getpid()
  %ignored.22 = call i32 @sched_getaffinity(i32 %process, i64 128, ptr %cores)
  %found = load <16 x i64>, ptr %cores
  store <16 x i64> %found, ptr @cores
"""

_ALONE = """
define void @jc_set_threads(i64 %count) {
  ret void
}

define void @jc_forget_threads() {
  ret void
}

define void @jc_parallel(ptr %body, ptr %context, i64 %start, i64 %stop, i64 %work) {
  call void %body(ptr %context, i64 %start, i64 %stop)
  ret void
}
"""


def text() -> str:
    """The LLVM code, for this machine."""
    if os.name != "posix":
        return _ALONE
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    pause = "llvm.x86.sse2.pause" if is_x86 else "sched_yield"
    result = "void" if is_x86 else "i32"
    # Where the system does not say, they seem to have different ones.
    process = ctypes.CDLL(None)
    has_cores = all(hasattr(process, name) for name in _NAMES.findall(_CORE_FUNCTIONS))
    core = "call i32 @sched_getcpu()" if has_cores else ""
    replacements = {
        "DECLARE_CORE": _CORE_FUNCTIONS if has_cores else "",
        "FIND_CORES": _FIND_CORES if has_cores else "",
        "CORE_OF_WORKER": f"  %core = {core or 'add i32 0, 1'}\n",
        "CORE_OF_CALLER": f"  %core = {core or 'add i32 0, 0'}\n",
        "MOVE_WORKER": _MOVE_WORKER if has_cores else "",
        "MOVE": f"  %moved = {_MOVE if has_cores else 'add i32 0, 0'}\n",
        "ALONE_AT_MOST": str(_ALONE_AT_MOST),
        "ALONE_FOR": str(_ALONE_FOR),
        "LATE": str(_LATE),
        "CLOCK": str(time.CLOCK_MONOTONIC),
        "DECLARE_PAUSE": f"declare {result} @{pause}()" if is_x86 else "",
        "PAUSE": f"  call {result} @{pause}()\n",
        "SPINS": str(_SPINS),
        "LEAST_WORK": str(LEAST_WORK),
        "LEAST_TO_WAKE": str(LEAST_TO_WAKE),
        "PARTS_PER_THREAD": str(PARTS_PER_THREAD),
        "MOST_HOMES": str(MOST_HOMES),
        "MOST_PLACED": str(MOST_PLACED),
        "SIG_SETMASK": str(int(signal.SIG_SETMASK)),
    }
    made = _TEXT
    for name, replacement in replacements.items():
        made = made.replace(name, replacement)
    return made
