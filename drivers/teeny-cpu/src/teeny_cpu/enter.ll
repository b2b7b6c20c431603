; The ways from Python into native code.
;
;   i32  @teeny_enter(ptr call)     a program whose buffers lie in NumPy arrays
;   void @teeny_launch(ptr launch)  a kernel over a grid
;
; `launch` points to words: 0 the pool, 1 the kernel, 2 the number of programs, 3 the scratch memory
; of this thread, 4 its bytes, and behind them what the kernel reads: its grid and arguments.
;
; `call` points to words: 0 the program, 1 the sizes, 2 the arena, 3 the pool, 4 the number of
; buffers, 5 what the inputs must be (null: they are known to fit), 6 the arrays, which are objects
; of Python, and behind them room for as many addresses. What is expected is the type `ndarray`,
; then of each input its element type, its rank and its extents, then null. The return value says
; whether the program ran. To look into arrays here costs far less than it does in Python.
;
; An array has, behind the head that every object has, the fields of `PyArrayObject_fields` in
; NumPy's C interface: data, rank, extents, strides, base, element type, flags.

%Array = type { ptr, i32, ptr, ptr, ptr, ptr, i32 }

define internal i1 @fits(ptr %array, ptr %type, ptr %wanted) nounwind alwaysinline {
entry:
  %head = load i64, ptr @HEAD
  %fields = getelementptr i8, ptr %array, i64 %head
  %type.p = getelementptr ptr, ptr %fields, i64 -1
  %type.have = load ptr, ptr %type.p
  %is.array = icmp eq ptr %type.have, %type
  br i1 %is.array, label %look, label %no

look:
  %rank.p = getelementptr %Array, ptr %fields, i64 0, i32 1
  %extents.p = getelementptr %Array, ptr %fields, i64 0, i32 2
  %element.p = getelementptr %Array, ptr %fields, i64 0, i32 5
  %flags.p = getelementptr %Array, ptr %fields, i64 0, i32 6
  %wanted.rank.p = getelementptr i64, ptr %wanted, i64 1
  %wanted.extents = getelementptr i64, ptr %wanted, i64 2
  %rank.short = load i32, ptr %rank.p
  %rank = sext i32 %rank.short to i64
  %extents = load ptr, ptr %extents.p
  %element = load ptr, ptr %element.p
  %flags = load i32, ptr %flags.p
  %wanted.element = load ptr, ptr %wanted
  %wanted.rank = load i64, ptr %wanted.rank.p
  %dense.flags = and i32 %flags, 257 ; NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
  %dense = icmp eq i32 %dense.flags, 257
  %same.element = icmp eq ptr %element, %wanted.element
  %same.rank = icmp eq i64 %rank, %wanted.rank
  %same.both = and i1 %same.element, %same.rank
  %good = and i1 %same.both, %dense
  br i1 %good, label %next, label %no

next:
  %index = phi i64 [ 0, %look ], [ %more, %compare ]
  %all = icmp eq i64 %index, %rank
  br i1 %all, label %yes, label %compare

compare:
  %have.p = getelementptr i64, ptr %extents, i64 %index
  %want.p = getelementptr i64, ptr %wanted.extents, i64 %index
  %have = load i64, ptr %have.p
  %want = load i64, ptr %want.p
  %more = add i64 %index, 1
  %equal = icmp eq i64 %have, %want
  br i1 %equal, label %next, label %no

yes:
  ret i1 true

no:
  ret i1 false
}

define i32 @teeny_enter(ptr %call) nounwind {
entry:
  %sizes.p = getelementptr i64, ptr %call, i64 1
  %arena.p = getelementptr i64, ptr %call, i64 2
  %pool.p = getelementptr i64, ptr %call, i64 3
  %count.p = getelementptr i64, ptr %call, i64 4
  %expected.p = getelementptr i64, ptr %call, i64 5
  %arrays = getelementptr i64, ptr %call, i64 6
  %program = load ptr, ptr %call
  %sizes = load ptr, ptr %sizes.p
  %arena = load ptr, ptr %arena.p
  %pool = load ptr, ptr %pool.p
  %count = load i64, ptr %count.p
  %expected = load ptr, ptr %expected.p
  %head = load i64, ptr @HEAD
  %table = getelementptr i64, ptr %arrays, i64 %count
  %known = icmp eq ptr %expected, null
  br i1 %known, label %next, label %check

check:
  %type = load ptr, ptr %expected
  %first = getelementptr i64, ptr %expected, i64 1
  br label %input

input:
  %number = phi i64 [ 0, %check ], [ %following, %fitting ]
  %wanted = phi ptr [ %first, %check ], [ %wanted.next, %fitting ]
  %element = load ptr, ptr %wanted
  %checked = icmp eq ptr %element, null
  br i1 %checked, label %next, label %look

look:
  %given.p = getelementptr i64, ptr %arrays, i64 %number
  %given = load ptr, ptr %given.p
  %good = call i1 @fits(ptr %given, ptr %type, ptr %wanted)
  br i1 %good, label %fitting, label %refuse

fitting:
  %rank.p = getelementptr i64, ptr %wanted, i64 1
  %rank = load i64, ptr %rank.p
  %length = add i64 %rank, 2
  %wanted.next = getelementptr i64, ptr %wanted, i64 %length
  %following = add i64 %number, 1
  br label %input

refuse:
  ret i32 0

next:
  %index = phi i64 [ 0, %entry ], [ 0, %input ], [ %more, %read ]
  %all = icmp eq i64 %index, %count
  br i1 %all, label %run, label %read

read:
  %array.p = getelementptr i64, ptr %arrays, i64 %index
  %place = getelementptr i64, ptr %table, i64 %index
  %array = load ptr, ptr %array.p
  %data.p = getelementptr i8, ptr %array, i64 %head
  %data = load ptr, ptr %data.p
  store ptr %data, ptr %place
  %more = add i64 %index, 1
  br label %next

run:
  %status = call i32 %program(ptr %table, ptr %sizes, ptr %arena, ptr %pool)
  ret i32 1
}

define void @teeny_launch(ptr %launch) nounwind {
  %kernel.p = getelementptr i64, ptr %launch, i64 1
  %programs.p = getelementptr i64, ptr %launch, i64 2
  %scratch.p = getelementptr i64, ptr %launch, i64 3
  %bytes.p = getelementptr i64, ptr %launch, i64 4
  %slots = getelementptr i64, ptr %launch, i64 5
  %pool = load ptr, ptr %launch
  %kernel = load ptr, ptr %kernel.p
  %programs = load i64, ptr %programs.p
  %scratch = load ptr, ptr %scratch.p
  %bytes = load i64, ptr %bytes.p
  call void @teeny_parallel_for(ptr %pool, ptr %kernel, ptr %slots, i64 %programs, i64 1,
                                ptr %scratch, i64 %bytes)
  ret void
}
