; A launch like one before: its arguments are checked here, which in Python costs more than many
; kernels run.
;
;   i32  @teeny_relaunch(ptr launch)    whether the guards hold and the kernel has run
;
; `launch` points to words: 0 the pool, 1 the kernel, 2 the bytes of the scratch memory of this
; thread, 3 the guards, 4 the scratch memory, 5 the number of programs, 6 to 8 the grid, and behind
; them what the guards look at. Guards are words: 0 the number of parameters, 1 of guards, 2 a bit for
; each piece of memory that shares a byte with another, and then nine for each guard:
;
;   word       array, span              integer          f64, f32
;   0 kind     0, 1                     2                3, 4
;   1 which of the words behind the grid it looks at
;   2 which parameter takes the value; -1: none does
;   3          bits of the alignment    least            -
;   4          the alignment            most             -
;   5          bytes of an element      bits that count  -
;   6          element type             whether 0        -
;   7          flags that count         -                -
;   8          the flags                -                -
;
; A float is passed as f64. Memory is aligned by 64, 16 or else 0, and by 0 when there is none of it.

%Guard = type [9 x i64]

; The first byte of an array, and the first one behind it.
define internal { i64, i64 } @reach(ptr %fields, i64 %itemsize) nounwind {
entry:
  %rank.p = getelementptr %Array, ptr %fields, i64 0, i32 1
  %extents.p = getelementptr %Array, ptr %fields, i64 0, i32 2
  %strides.p = getelementptr %Array, ptr %fields, i64 0, i32 3
  %start = load i64, ptr %fields
  %rank.short = load i32, ptr %rank.p
  %rank = sext i32 %rank.short to i64
  %extents = load ptr, ptr %extents.p
  %strides = load ptr, ptr %strides.p
  %end = add i64 %start, %itemsize
  br label %axis

axis:
  %index = phi i64 [ 0, %entry ], [ %following, %stretch ]
  %low = phi i64 [ %start, %entry ], [ %low.next, %stretch ]
  %high = phi i64 [ %end, %entry ], [ %high.next, %stretch ]
  %all = icmp eq i64 %index, %rank
  br i1 %all, label %done, label %look

look:
  %extent.p = getelementptr i64, ptr %extents, i64 %index
  %extent = load i64, ptr %extent.p
  %none = icmp eq i64 %extent, 0
  br i1 %none, label %empty, label %stretch

stretch:
  %stride.p = getelementptr i64, ptr %strides, i64 %index
  %stride = load i64, ptr %stride.p
  %last = sub i64 %extent, 1
  %way = mul i64 %last, %stride
  %backward = icmp slt i64 %way, 0
  %down = select i1 %backward, i64 %way, i64 0
  %up = select i1 %backward, i64 0, i64 %way
  %low.next = add i64 %low, %down
  %high.next = add i64 %high, %up
  %following = add i64 %index, 1
  br label %axis

empty:
  br label %done

done:
  %first = phi i64 [ %low, %axis ], [ %start, %empty ]
  %after = phi i64 [ %high, %axis ], [ %start, %empty ]
  %half = insertvalue { i64, i64 } undef, i64 %first, 0
  %whole = insertvalue { i64, i64 } %half, i64 %after, 1
  ret { i64, i64 } %whole
}

; Whether an array has the element type and the flags of a guard.
define internal i1 @alike(ptr %fields, ptr %guard) nounwind alwaysinline {
  %element.p = getelementptr %Array, ptr %fields, i64 0, i32 5
  %flags.p = getelementptr %Array, ptr %fields, i64 0, i32 6
  %wanted.element.p = getelementptr %Guard, ptr %guard, i64 0, i64 6
  %mask.p = getelementptr %Guard, ptr %guard, i64 0, i64 7
  %wanted.flags.p = getelementptr %Guard, ptr %guard, i64 0, i64 8
  %element = load ptr, ptr %element.p
  %flags.short = load i32, ptr %flags.p
  %flags = zext i32 %flags.short to i64
  %wanted.element = load ptr, ptr %wanted.element.p
  %mask = load i64, ptr %mask.p
  %wanted.flags = load i64, ptr %wanted.flags.p
  %masked = and i64 %flags, %mask
  %same.element = icmp eq ptr %element, %wanted.element
  %same.flags = icmp eq i64 %masked, %wanted.flags
  %good = and i1 %same.element, %same.flags
  ret i1 %good
}

; Whether memory is aligned as a guard wants it.
define internal i1 @aligned(i64 %address, i1 %empty, ptr %guard) nounwind alwaysinline {
  %mask.p = getelementptr %Guard, ptr %guard, i64 0, i64 3
  %wanted.p = getelementptr %Guard, ptr %guard, i64 0, i64 4
  %itemsize.p = getelementptr %Guard, ptr %guard, i64 0, i64 5
  %mask = load i64, ptr %mask.p
  %wanted = load i64, ptr %wanted.p
  %itemsize = load i64, ptr %itemsize.p
  %by.16 = and i64 %address, 15
  %by.64 = and i64 %address, 63
  %not.16 = icmp ne i64 %by.16, 0
  %not.64 = icmp ne i64 %by.64, 0
  %some = select i1 %not.64, i64 16, i64 64
  %any = or i1 %not.16, %empty
  %found = select i1 %any, i64 0, i64 %some
  %masked = and i64 %found, %mask
  %same = icmp eq i64 %masked, %wanted
  %within = sub i64 %itemsize, 1
  %rest = and i64 %address, %within
  %whole = icmp eq i64 %rest, 0
  %good = and i1 %same, %whole
  ret i1 %good
}

; Whether an integer is one that a guard lets pass.
define internal i1 @admits(i64 %value, ptr %guard) nounwind alwaysinline {
  %least.p = getelementptr %Guard, ptr %guard, i64 0, i64 3
  %most.p = getelementptr %Guard, ptr %guard, i64 0, i64 4
  %mask.p = getelementptr %Guard, ptr %guard, i64 0, i64 5
  %wanted.p = getelementptr %Guard, ptr %guard, i64 0, i64 6
  %least = load i64, ptr %least.p
  %most = load i64, ptr %most.p
  %mask = load i64, ptr %mask.p
  %wanted = load i64, ptr %wanted.p
  %masked = and i64 %value, %mask
  %is.zero = icmp eq i64 %masked, 0
  %zero = zext i1 %is.zero to i64
  %same = icmp eq i64 %zero, %wanted
  %large = icmp sge i64 %value, %least
  %small = icmp sle i64 %value, %most
  %between = and i1 %large, %small
  %good = and i1 %same, %between
  ret i1 %good
}

; A bit for each piece of memory, given by its ends, that shares a byte with another.
define internal i64 @overlaps(ptr %pieces, i64 %count) nounwind {
entry:
  br label %outer

outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %inner ]
  %found = phi i64 [ 0, %entry ], [ %so.far, %inner ]
  %all = icmp eq i64 %i, %count
  br i1 %all, label %done, label %first

first:
  %i.low.p = getelementptr { i64, i64 }, ptr %pieces, i64 %i, i32 0
  %i.high.p = getelementptr { i64, i64 }, ptr %pieces, i64 %i, i32 1
  %i.low = load i64, ptr %i.low.p
  %i.high = load i64, ptr %i.high.p
  %i.bit = shl i64 1, %i
  %i.next = add i64 %i, 1
  br label %inner

inner:
  %j = phi i64 [ 0, %first ], [ %j.next, %compare ]
  %so.far = phi i64 [ %found, %first ], [ %more, %compare ]
  %same = icmp eq i64 %j, %i
  br i1 %same, label %outer, label %compare

compare:
  %j.low.p = getelementptr { i64, i64 }, ptr %pieces, i64 %j, i32 0
  %j.high.p = getelementptr { i64, i64 }, ptr %pieces, i64 %j, i32 1
  %j.low = load i64, ptr %j.low.p
  %j.high = load i64, ptr %j.high.p
  %j.bit = shl i64 1, %j
  %j.next = add i64 %j, 1
  %before = icmp ult i64 %i.low, %j.high
  %behind = icmp ult i64 %j.low, %i.high
  %shared = and i1 %before, %behind
  %both = or i64 %i.bit, %j.bit
  %bits = select i1 %shared, i64 %both, i64 0
  %more = or i64 %so.far, %bits
  br label %inner

done:
  ret i64 %found
}

define i32 @teeny_relaunch(ptr %launch) nounwind {
entry:
  %head = load i64, ptr @HEAD
  %guards.p = getelementptr i64, ptr %launch, i64 3
  %grid = getelementptr i64, ptr %launch, i64 6
  %words = getelementptr i64, ptr %launch, i64 9
  %guards = load ptr, ptr %guards.p
  %count.p = getelementptr i64, ptr %guards, i64 1
  %overlaps.p = getelementptr i64, ptr %guards, i64 2
  %first = getelementptr i64, ptr %guards, i64 3
  %parameters = load i64, ptr %guards
  %count = load i64, ptr %count.p
  %length = add i64 %parameters, 3
  %slots = alloca i64, i64 %length
  %arguments = getelementptr i64, ptr %slots, i64 3
  %pieces = alloca { i64, i64 }, i64 %count
  call void @llvm.memcpy.p0.p0.i64(ptr %slots, ptr %grid, i64 24, i1 false)
  br label %next

next:
  %index = phi i64 [ 0, %entry ], [ %index.next, %passed ]
  %piece = phi i64 [ 0, %entry ], [ %piece.now, %passed ]
  %all = icmp eq i64 %index, %count
  br i1 %all, label %compare, label %look

look:
  %guard = getelementptr %Guard, ptr %first, i64 %index
  %word.p = getelementptr %Guard, ptr %guard, i64 0, i64 1
  %parameter.p = getelementptr %Guard, ptr %guard, i64 0, i64 2
  %itemsize.p = getelementptr %Guard, ptr %guard, i64 0, i64 5
  %kind = load i64, ptr %guard
  %number = load i64, ptr %word.p
  %parameter = load i64, ptr %parameter.p
  %place = getelementptr i64, ptr %words, i64 %number
  %value = load i64, ptr %place
  switch i64 %kind, label %pass [
    i64 0, label %array
    i64 1, label %span
    i64 2, label %integer
    i64 4, label %single
  ]

array:
  %object = inttoptr i64 %value to ptr
  %fields = getelementptr i8, ptr %object, i64 %head
  %itemsize = load i64, ptr %itemsize.p
  %like = call i1 @alike(ptr %fields, ptr %guard)
  br i1 %like, label %measure, label %refuse

measure:
  %data = load i64, ptr %fields
  %ends = call { i64, i64 } @reach(ptr %fields, i64 %itemsize)
  %array.low = extractvalue { i64, i64 } %ends, 0
  %array.high = extractvalue { i64, i64 } %ends, 1
  br label %memory

span:
  %bytes.p = getelementptr i64, ptr %place, i64 1
  %bytes = load i64, ptr %bytes.p
  %span.high = add i64 %value, %bytes
  br label %memory

memory:
  %address = phi i64 [ %data, %measure ], [ %value, %span ]
  %low = phi i64 [ %array.low, %measure ], [ %value, %span ]
  %high = phi i64 [ %array.high, %measure ], [ %span.high, %span ]
  %empty = icmp eq i64 %low, %high
  %low.p = getelementptr { i64, i64 }, ptr %pieces, i64 %piece, i32 0
  %high.p = getelementptr { i64, i64 }, ptr %pieces, i64 %piece, i32 1
  store i64 %low, ptr %low.p
  store i64 %high, ptr %high.p
  %piece.next = add i64 %piece, 1
  %suits = call i1 @aligned(i64 %address, i1 %empty, ptr %guard)
  br i1 %suits, label %pass, label %refuse

integer:
  %fits = call i1 @admits(i64 %value, ptr %guard)
  br i1 %fits, label %pass, label %refuse

single:
  %double = bitcast i64 %value to double
  %float = fptrunc double %double to float
  %bits = bitcast float %float to i32
  %wide = zext i32 %bits to i64
  br label %pass

pass:
  %passing = phi i64 [ %value, %look ], [ %address, %memory ], [ %value, %integer ],
                     [ %wide, %single ]
  %piece.now = phi i64 [ %piece, %look ], [ %piece.next, %memory ], [ %piece, %integer ],
                       [ %piece, %single ]
  %index.next = add i64 %index, 1
  %taken = icmp sge i64 %parameter, 0
  br i1 %taken, label %take, label %passed

take:
  %slot = getelementptr i64, ptr %arguments, i64 %parameter
  store i64 %passing, ptr %slot
  br label %passed

passed:
  br label %next

compare:
  %shared = call i64 @overlaps(ptr %pieces, i64 %piece)
  %wanted = load i64, ptr %overlaps.p
  %same = icmp eq i64 %shared, %wanted
  br i1 %same, label %run, label %refuse

run:
  %kernel.p = getelementptr i64, ptr %launch, i64 1
  %scratch.bytes.p = getelementptr i64, ptr %launch, i64 2
  %scratch.p = getelementptr i64, ptr %launch, i64 4
  %programs.p = getelementptr i64, ptr %launch, i64 5
  %pool = load ptr, ptr %launch
  %kernel = load ptr, ptr %kernel.p
  %programs = load i64, ptr %programs.p
  %scratch = load ptr, ptr %scratch.p
  %scratch.bytes = load i64, ptr %scratch.bytes.p
  call void @teeny_parallel_for(ptr %pool, ptr %kernel, ptr %slots, i64 %programs, i64 1,
                                ptr %scratch, i64 %scratch.bytes)
  ret i32 1

refuse:
  ret i32 0
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
