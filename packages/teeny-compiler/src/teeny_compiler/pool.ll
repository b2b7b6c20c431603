; The thread pool of native programs.
;
;   ptr  @teeny_pool_create(i32 threads)
;   void @teeny_pool_resize(ptr pool, i32 threads)
;   void @teeny_pool_destroy(ptr pool)
;   void @teeny_parallel_for(ptr pool, ptr fn, ptr args, i64 n, i64 chunk, ptr scratch, i64 bytes)
;
; `parallel_for` runs fn(args, lo, hi, scratch) over [0, n) in pieces of at least `chunk`. The
; caller works too, with its own `scratch`; a worker owns a block of its own, grown to `bytes`.
;
; * Self-scheduling: a piece is taken by compare-and-swap on `next`, large pieces first, so a
;   thread that loses its core to another process delays one piece and not the whole loop.
; * A worker joins a loop by raising the count in `gate` while the gate is open. The caller closes
;   the gate when no piece is left and waits for those who joined; a worker that did not wake in
;   time is not waited for.
; * Waiting is a spin of `spin_ns`, then a condition variable.
; * One loop runs at a time. A second caller, and a nested call, run their loop serially.
; * After fork() the child has no workers: the pool notices by its process id and starts anew.
;
; A target's prologue defines @pause and the constants @CLOCK_MONOTONIC and @SIG_SETMASK.

; 0 threads, 1 started workers, 2 owner's pid, 3 stopping, 4 spin_ns, 5 handles of the workers
%Setup = type { i32, i32, i32, i32, i64, ptr, [32 x i8] }
; 0 generation: counts the loops, 1 sleepers: workers at the condition variable
%Signal = type { i32, i32, [56 x i8] }
; 0 fn, 1 args, 2 n, 3 chunk, 4 bytes of scratch
%Job = type { ptr, ptr, i64, i64, i64, [24 x i8] }
; 0 setup, 1 lock, 2 signal, 3 next, 4 gate, 5 job, 6 mutex, 7 wake, 8 done; a cache line or more each
%Pool = type { %Setup, [16 x i32], %Signal, [8 x i64], [16 x i32], %Job,
               [128 x i8], [128 x i8], [128 x i8] }
%Timespec = type { i64, i64 }

declare i32 @getpid()
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare ptr @malloc(i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_mutex_destroy(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i32 @llvm.smax.i32(i32, i32)

; ---------------------------------------------------------------------------------------------
; Waiting

define internal i64 @now() nounwind {
  %time = alloca %Timespec
  %clock = load i32, ptr @CLOCK_MONOTONIC
  %status = call i32 @clock_gettime(i32 %clock, ptr %time)
  %nanoseconds.p = getelementptr %Timespec, ptr %time, i32 0, i32 1
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.p
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %nanoseconds
  ret i64 %total
}

; Spin for `ns` while (word & mask) == value; whether it changed.
define internal i1 @spin(ptr %word, i32 %mask, i32 %value, i64 %ns) nounwind {
entry:
  %start = call i64 @now()
  br label %burst

burst:
  %tries = phi i32 [ 32, %entry ], [ 32, %timed ], [ %left, %again ]
  %current = load atomic i32, ptr %word acquire, align 4
  %masked = and i32 %current, %mask
  %same = icmp eq i32 %masked, %value
  br i1 %same, label %wait, label %changed

wait:
  call void @pause()
  %left = sub i32 %tries, 1
  %spent = icmp eq i32 %left, 0
  br i1 %spent, label %timed, label %again

again:
  br label %burst

timed:
  %time = call i64 @now()
  %elapsed = sub i64 %time, %start
  %late = icmp ugt i64 %elapsed, %ns
  br i1 %late, label %timeout, label %burst

changed:
  ret i1 true

timeout:
  ret i1 false
}

; ---------------------------------------------------------------------------------------------
; Work

; Take pieces of the loop until none is left: half of an even share of the rest, at least `chunk`.
define internal void @drain(ptr %pool, ptr %scratch) nounwind {
entry:
  %threads = load atomic i32, ptr %pool monotonic, align 4
  %threads.wide = zext i32 %threads to i64
  %shares = shl i64 %threads.wide, 1
  %next.p = getelementptr %Pool, ptr %pool, i32 0, i32 3
  %fn.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 0
  %args.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 1
  %n.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 2
  %chunk.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 3
  %fn = load ptr, ptr %fn.p
  %args = load ptr, ptr %args.p
  %n = load i64, ptr %n.p
  %chunk = load i64, ptr %chunk.p
  br label %look

look:
  %lo = load atomic i64, ptr %next.p monotonic, align 8
  %rest = sub i64 %n, %lo
  %empty = icmp sle i64 %rest, 0
  br i1 %empty, label %exit, label %take

take:
  %share = udiv i64 %rest, %shares
  %wanted = call i64 @llvm.umax.i64(i64 %share, i64 %chunk)
  %size = call i64 @llvm.umin.i64(i64 %wanted, i64 %rest)
  %hi = add i64 %lo, %size
  %swap = cmpxchg ptr %next.p, i64 %lo, i64 %hi monotonic monotonic
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look

run:
  call void %fn(ptr %args, i64 %lo, i64 %hi, ptr %scratch)
  br label %look

exit:
  ret void
}

; gate: bit 30 open, bit 29 the caller sleeps at `done`, low bits the workers that joined.
define internal i1 @join(ptr %gate) nounwind {
entry:
  %first = load atomic i32, ptr %gate monotonic, align 4
  br label %try

try:
  %seen = phi i32 [ %first, %entry ], [ %now, %swap ]
  %bit = and i32 %seen, 1073741824
  %closed = icmp eq i32 %bit, 0
  br i1 %closed, label %late, label %swap

swap:
  %more = add i32 %seen, 1
  %result = cmpxchg ptr %gate, i32 %seen, i32 %more acq_rel monotonic
  %now = extractvalue { i32, i1 } %result, 0
  %won = extractvalue { i32, i1 } %result, 1
  br i1 %won, label %joined, label %try

joined:
  ret i1 true

late:
  ret i1 false
}

define internal void @leave(ptr %pool) nounwind {
entry:
  %gate = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %old = atomicrmw sub ptr %gate, i32 1 acq_rel
  %last = icmp eq i32 %old, 536870913 ; the caller sleeps, one worker: this one
  br i1 %last, label %wake, label %exit

wake:
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 8
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %sent = call i32 @pthread_cond_broadcast(ptr %done)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %exit

exit:
  ret void
}

define internal ptr @worker(ptr %pool) nounwind {
entry:
  %signals = alloca [128 x i8], align 16
  %filled = call i32 @sigfillset(ptr %signals)
  %how = load i32, ptr @SIG_SETMASK
  %blocked = call i32 @pthread_sigmask(i32 %how, ptr %signals, ptr null)
  %stopping.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 3
  %spin_ns.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 4
  %generation.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 0
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 1
  %gate.p = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %bytes.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 4
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %wake = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %spin_ns = load i64, ptr %spin_ns.p
  br label %idle

idle:
  %seen = phi i32 [ 0, %entry ], [ %fresh, %missed ], [ %worked, %finished ]
  %scratch = phi ptr [ null, %entry ], [ %scratch, %missed ], [ %scratch.now, %finished ]
  %capacity = phi i64 [ 0, %entry ], [ %capacity, %missed ], [ %capacity.now, %finished ]
  %quick = call i1 @spin(ptr %generation.p, i32 -1, i32 %seen, i64 %spin_ns)
  br i1 %quick, label %awake, label %doze

doze:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %entered = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  br label %sleep

sleep:
  %heard = load atomic i32, ptr %generation.p seq_cst, align 4
  %quiet = icmp eq i32 %heard, %seen
  br i1 %quiet, label %nap, label %rise

nap:
  %napped = call i32 @pthread_cond_wait(ptr %wake, ptr %mutex)
  br label %sleep

rise:
  %left = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %awake

awake:
  %fresh = load atomic i32, ptr %generation.p acquire, align 4
  %stopping = load atomic i32, ptr %stopping.p acquire, align 4
  %stop = icmp ne i32 %stopping, 0
  br i1 %stop, label %exit, label %knock

knock:
  %joined = call i1 @join(ptr %gate.p)
  br i1 %joined, label %provide, label %missed

missed:
  br label %idle

provide: ; the job and the generation stand still until this worker leaves
  %worked = load atomic i32, ptr %generation.p acquire, align 4
  %bytes = load i64, ptr %bytes.p
  %enough = icmp ule i64 %bytes, %capacity
  br i1 %enough, label %work, label %grow

grow:
  call void @free(ptr %scratch)
  %bytes.more = add i64 %bytes, 63
  %bytes.round = and i64 %bytes.more, -64
  %block = call ptr @aligned_alloc(i64 64, i64 %bytes.round)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %finished, label %work

work:
  %scratch.work = phi ptr [ %scratch, %provide ], [ %block, %grow ]
  %capacity.work = phi i64 [ %capacity, %provide ], [ %bytes.round, %grow ]
  call void @drain(ptr %pool, ptr %scratch.work)
  br label %finished

finished: ; without memory for its scratch the worker leaves the loop to the others
  %scratch.now = phi ptr [ %scratch.work, %work ], [ null, %grow ]
  %capacity.now = phi i64 [ %capacity.work, %work ], [ 0, %grow ]
  call void @leave(ptr %pool)
  br label %idle

exit:
  call void @free(ptr %scratch)
  ret ptr null
}

; ---------------------------------------------------------------------------------------------
; The caller's side

; Let the workers see a new generation; wake as many as `pieces` keep busy beside the caller.
define internal void @announce(ptr %pool, i64 %pieces) nounwind {
entry:
  %started.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 1
  %generation.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 0
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 1
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %wake.p = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %old = atomicrmw add ptr %generation.p, i32 1 seq_cst
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %started = load i32, ptr %started.p
  %awake = sub i32 %started, %sleepers
  %awake.wide = sext i32 %awake to i64
  %sleepers.wide = sext i32 %sleepers to i64
  %helped = sub i64 %pieces, 1
  %wanted = sub i64 %helped, %awake.wide
  %count = call i64 @llvm.smin.i64(i64 %wanted, i64 %sleepers.wide)
  %nobody = icmp sle i64 %count, 0
  br i1 %nobody, label %exit, label %wake

wake: ; through the mutex: a sleeper has either read the new generation or is at the condition
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  %all = icmp eq i64 %count, %sleepers.wide
  br i1 %all, label %wake.all, label %wake.one

wake.all:
  %sent = call i32 @pthread_cond_broadcast(ptr %wake.p)
  br label %exit

wake.one:
  %left = phi i64 [ %count, %wake ], [ %less, %wake.one ]
  %signalled = call i32 @pthread_cond_signal(ptr %wake.p)
  %less = sub i64 %left, 1
  %done = icmp eq i64 %less, 0
  br i1 %done, label %exit, label %wake.one

exit:
  ret void
}

; Close the gate and wait until every worker that joined has left.
define internal void @finish(ptr %pool) nounwind {
entry:
  %spin_ns.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 4
  %gate = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 8
  %open = atomicrmw and ptr %gate, i32 -1073741825 acq_rel
  br label %look

look:
  %count = load atomic i32, ptr %gate acquire, align 4
  %empty = icmp eq i32 %count, 0
  br i1 %empty, label %exit, label %spin

spin:
  %spin_ns = load i64, ptr %spin_ns.p
  %left = call i1 @spin(ptr %gate, i32 -1, i32 %count, i64 %spin_ns)
  br i1 %left, label %look, label %doze

doze:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %marked = atomicrmw or ptr %gate, i32 536870912 acq_rel
  br label %sleep

sleep:
  %word = load atomic i32, ptr %gate acquire, align 4
  %gone = icmp eq i32 %word, 536870912
  br i1 %gone, label %rise, label %nap

nap:
  %napped = call i32 @pthread_cond_wait(ptr %done, ptr %mutex)
  br label %sleep

rise:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  store atomic i32 0, ptr %gate release, align 4
  br label %exit

exit:
  ret void
}

; Start the missing workers; when the system refuses one, go on with those there are.
define internal void @start(ptr %pool) nounwind {
entry:
  %started.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 1
  %handles.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 5
  %threads = load i32, ptr %pool
  %workers = sub i32 %threads, 1
  %before = load i32, ptr %started.p
  %complete = icmp sge i32 %before, %workers
  br i1 %complete, label %exit, label %room

room:
  %workers.wide = sext i32 %workers to i64
  %size = shl i64 %workers.wide, 3
  %handles = call ptr @malloc(i64 %size)
  store ptr %handles, ptr %handles.p
  %failed = icmp eq ptr %handles, null
  br i1 %failed, label %settle, label %create

create:
  %index = phi i32 [ 0, %room ], [ %more, %created ]
  %handle = getelementptr i64, ptr %handles, i32 %index
  %status = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker, ptr %pool)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %settle, label %created

created:
  %more = add i32 %index, 1
  store i32 %more, ptr %started.p
  %all = icmp eq i32 %more, %workers
  br i1 %all, label %exit, label %create

settle:
  %started = load i32, ptr %started.p
  %team = add i32 %started, 1
  store atomic i32 %team, ptr %pool monotonic, align 4
  br label %exit

exit:
  ret void
}

; Set up everything that does not outlive a process.
define internal void @reset(ptr %pool) nounwind {
  %started.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 1
  %stopping.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 3
  %handles.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 5
  %lock = getelementptr %Pool, ptr %pool, i32 0, i32 1
  %generation.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 0
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 2, i32 1
  %gate = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %wake = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 8
  store i32 0, ptr %started.p
  store i32 0, ptr %stopping.p
  store ptr null, ptr %handles.p
  store i32 0, ptr %lock
  store i32 1, ptr %generation.p
  store i32 0, ptr %sleepers.p
  store i32 0, ptr %gate
  %m = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %w = call i32 @pthread_cond_init(ptr %wake, ptr null)
  %d = call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}

; Whether the pool belongs to this process; after fork() the first caller makes it so.
define internal i1 @adopt(ptr %pool) nounwind {
entry:
  %pid.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 2
  %pid = call i32 @getpid()
  %owner = load atomic i32, ptr %pid.p acquire, align 4
  %mine = icmp eq i32 %owner, %pid
  br i1 %mine, label %yes, label %foreign

foreign:
  %busy = icmp eq i32 %owner, -1
  br i1 %busy, label %no, label %claim

claim:
  %result = cmpxchg ptr %pid.p, i32 %owner, i32 -1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %result, 1
  br i1 %won, label %renew, label %no

renew:
  call void @reset(ptr %pool)
  store atomic i32 %pid, ptr %pid.p release, align 4
  br label %yes

yes:
  ret i1 true

no:
  ret i1 false
}

define internal i1 @try_lock(ptr %pool) nounwind {
  %lock = getelementptr %Pool, ptr %pool, i32 0, i32 1
  %result = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %result, 1
  ret i1 %won
}

define internal void @unlock(ptr %pool) nounwind {
  %lock = getelementptr %Pool, ptr %pool, i32 0, i32 1
  store atomic i32 0, ptr %lock release, align 4
  ret void
}

define void @teeny_parallel_for(ptr %pool, ptr %fn, ptr %args, i64 %n, i64 %chunk,
                                ptr %scratch, i64 %bytes) nounwind {
entry:
  %threads = load atomic i32, ptr %pool monotonic, align 4
  %alone = icmp sle i32 %threads, 1
  %small = icmp sle i64 %n, %chunk
  %direct = or i1 %alone, %small
  br i1 %direct, label %serial, label %own

own:
  %adopted = call i1 @adopt(ptr %pool)
  br i1 %adopted, label %acquire, label %serial

acquire:
  %locked = call i1 @try_lock(ptr %pool)
  br i1 %locked, label %parallel, label %serial

parallel:
  call void @start(ptr %pool)
  %next.p = getelementptr %Pool, ptr %pool, i32 0, i32 3
  %gate.p = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %fn.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 0
  %args.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 1
  %n.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 2
  %chunk.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 3
  %bytes.p = getelementptr %Pool, ptr %pool, i32 0, i32 5, i32 4
  %chunk.least = call i64 @llvm.umax.i64(i64 %chunk, i64 1)
  %last = sub i64 %n, 1
  %full = udiv i64 %last, %chunk.least
  %pieces = add i64 %full, 1
  store ptr %fn, ptr %fn.p
  store ptr %args, ptr %args.p
  store i64 %n, ptr %n.p
  store i64 %chunk.least, ptr %chunk.p
  store i64 %bytes, ptr %bytes.p
  store i64 0, ptr %next.p
  store atomic i32 1073741824, ptr %gate.p release, align 4
  call void @announce(ptr %pool, i64 %pieces)
  call void @drain(ptr %pool, ptr %scratch)
  call void @finish(ptr %pool)
  call void @unlock(ptr %pool)
  ret void

serial:
  %nothing = icmp sle i64 %n, 0
  br i1 %nothing, label %exit, label %run

run:
  call void %fn(ptr %args, i64 0, i64 %n, ptr %scratch)
  br label %exit

exit:
  ret void
}

define ptr @teeny_pool_create(i32 %threads) nounwind {
entry:
  %end = getelementptr %Pool, ptr null, i32 1
  %size = ptrtoint ptr %end to i64
  %pool = call ptr @aligned_alloc(i64 64, i64 %size)
  %failed = icmp eq ptr %pool, null
  br i1 %failed, label %exit, label %fill

fill:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 %size, i1 false)
  %pid.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 2
  %spin_ns.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 4
  %pid = call i32 @getpid()
  %least = call i32 @llvm.smax.i32(i32 %threads, i32 1)
  store i32 %least, ptr %pool
  store i32 %pid, ptr %pid.p
  store i64 200000, ptr %spin_ns.p ; covers the serial steps between two loops of a program
  call void @reset(ptr %pool)
  br label %exit

exit:
  ret ptr %pool
}

; Waits for a running loop, then stops all workers; the next loop starts as many as are wanted.
define void @teeny_pool_resize(ptr %pool, i32 %threads) nounwind {
entry:
  br label %own

own:
  %adopted = call i1 @adopt(ptr %pool)
  br i1 %adopted, label %acquire, label %yield

acquire:
  %locked = call i1 @try_lock(ptr %pool)
  br i1 %locked, label %stop, label %yield

yield:
  %yielded = call i32 @sched_yield()
  br label %own

stop:
  %started.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 1
  %stopping.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 3
  %handles.p = getelementptr %Pool, ptr %pool, i32 0, i32 0, i32 5
  %started = load i32, ptr %started.p
  %handles = load ptr, ptr %handles.p
  store atomic i32 1, ptr %stopping.p release, align 4
  call void @announce(ptr %pool, i64 9223372036854775807) ; all
  br label %next

next:
  %index = phi i32 [ 0, %stop ], [ %more, %wait ]
  %all = icmp sge i32 %index, %started
  br i1 %all, label %stopped, label %wait

wait:
  %handle.p = getelementptr i64, ptr %handles, i32 %index
  %handle = load i64, ptr %handle.p
  %joined = call i32 @pthread_join(i64 %handle, ptr null)
  %more = add i32 %index, 1
  br label %next

stopped:
  call void @free(ptr %handles)
  store ptr null, ptr %handles.p
  store i32 0, ptr %started.p
  store atomic i32 0, ptr %stopping.p release, align 4
  %least = call i32 @llvm.smax.i32(i32 %threads, i32 1)
  store atomic i32 %least, ptr %pool monotonic, align 4
  call void @unlock(ptr %pool)
  ret void
}

; No loop may run or start any more.
define void @teeny_pool_destroy(ptr %pool) nounwind {
  call void @teeny_pool_resize(ptr %pool, i32 1)
  %mutex = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %wake = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 8
  %m = call i32 @pthread_mutex_destroy(ptr %mutex)
  %w = call i32 @pthread_cond_destroy(ptr %wake)
  %d = call i32 @pthread_cond_destroy(ptr %done)
  call void @free(ptr %pool)
  ret void
}
