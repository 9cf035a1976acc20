source_filename = "<string>"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

@constants_h2_0 = internal global [2 x ptr] zeroinitializer

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i64 @llvm.smin.i64(i64, i64) #0

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare i64 @llvm.smax.i64(i64, i64) #0

declare ptr @jc_malloc(i64) local_unnamed_addr

declare void @jc_parallel(ptr, ptr, i64, i64, i64) local_unnamed_addr

declare void @jc_free(ptr) local_unnamed_addr

; Function Attrs: nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none, target_mem0: none, target_mem1: none)
define internal void @h2_0_part1(ptr readonly captures(none) %part_context, i64 %part_first, i64 %part_last) #1 {
entry:
  %.4 = getelementptr inbounds nuw i8, ptr %part_context, i64 16
  %u_d0.5 = load i64, ptr %.4, align 8
  %.6 = getelementptr inbounds nuw i8, ptr %part_context, i64 24
  %u_new.7 = load ptr, ptr %.6, align 8
  %i.for1.more1 = icmp slt i64 %part_first, %part_last
  br i1 %i.for1.more1, label %iter.check, label %for1.end

iter.check:                                       ; preds = %entry
  %.2 = getelementptr inbounds nuw i8, ptr %part_context, i64 8
  %last.3 = load i64, ptr %.2, align 8
  %u.1 = load ptr, ptr %part_context, align 8
  %0 = getelementptr float, ptr %u.1, i64 %last.3
  %1 = sub i64 %part_last, %part_first
  %min.iters.check = icmp ugt i64 %1, 7
  %ident.check.not = icmp eq i64 %u_d0.5, 1
  %or.cond = select i1 %min.iters.check, i1 %ident.check.not, i1 false
  br i1 %or.cond, label %vector.main.loop.iter.check, label %for1.body.preheader

vector.main.loop.iter.check:                      ; preds = %iter.check
  %min.iters.check3 = icmp ult i64 %1, 64
  br i1 %min.iters.check3, label %vec.epilog.ph, label %vector.ph

vector.ph:                                        ; preds = %vector.main.loop.iter.check
  %n.mod.vf = and i64 %1, 56
  %n.vec = and i64 %1, -64
  br label %vector.body

vector.body:                                      ; preds = %vector.body, %vector.ph
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %2 = add i64 %part_first, %index
  %3 = getelementptr float, ptr %0, i64 %2
  %4 = getelementptr i8, ptr %3, i64 64
  %5 = getelementptr i8, ptr %3, i64 128
  %6 = getelementptr i8, ptr %3, i64 192
  %wide.load = load <16 x float>, ptr %3, align 4, !alias.scope !0, !noalias !3
  %wide.load4 = load <16 x float>, ptr %4, align 4, !alias.scope !0, !noalias !3
  %wide.load5 = load <16 x float>, ptr %5, align 4, !alias.scope !0, !noalias !3
  %wide.load6 = load <16 x float>, ptr %6, align 4, !alias.scope !0, !noalias !3
  %7 = getelementptr inbounds float, ptr %u_new.7, i64 %2
  %8 = getelementptr inbounds nuw i8, ptr %7, i64 64
  %9 = getelementptr inbounds nuw i8, ptr %7, i64 128
  %10 = getelementptr inbounds nuw i8, ptr %7, i64 192
  store <16 x float> %wide.load, ptr %7, align 4, !alias.scope !3, !noalias !0
  store <16 x float> %wide.load4, ptr %8, align 4, !alias.scope !3, !noalias !0
  store <16 x float> %wide.load5, ptr %9, align 4, !alias.scope !3, !noalias !0
  store <16 x float> %wide.load6, ptr %10, align 4, !alias.scope !3, !noalias !0
  %index.next = add nuw i64 %index, 64
  %11 = icmp eq i64 %index.next, %n.vec
  br i1 %11, label %middle.block, label %vector.body, !llvm.loop !5

middle.block:                                     ; preds = %vector.body
  %cmp.n = icmp eq i64 %1, %n.vec
  br i1 %cmp.n, label %for1.end, label %vec.epilog.iter.check

vec.epilog.iter.check:                            ; preds = %middle.block
  %ind.end = add i64 %part_first, %n.vec
  %min.epilog.iters.check = icmp eq i64 %n.mod.vf, 0
  br i1 %min.epilog.iters.check, label %for1.body.preheader, label %vec.epilog.ph, !prof !8

vec.epilog.ph:                                    ; preds = %vec.epilog.iter.check, %vector.main.loop.iter.check
  %vec.epilog.resume.val = phi i64 [ %n.vec, %vec.epilog.iter.check ], [ 0, %vector.main.loop.iter.check ]
  %n.vec8 = and i64 %1, -8
  %12 = add i64 %part_first, %n.vec8
  br label %vec.epilog.vector.body

vec.epilog.vector.body:                           ; preds = %vec.epilog.vector.body, %vec.epilog.ph
  %index9 = phi i64 [ %vec.epilog.resume.val, %vec.epilog.ph ], [ %index.next11, %vec.epilog.vector.body ]
  %offset.idx = add i64 %part_first, %index9
  %13 = getelementptr float, ptr %0, i64 %offset.idx
  %wide.load10 = load <8 x float>, ptr %13, align 4, !alias.scope !0, !noalias !3
  %14 = getelementptr inbounds float, ptr %u_new.7, i64 %offset.idx
  store <8 x float> %wide.load10, ptr %14, align 4, !alias.scope !3, !noalias !0
  %index.next11 = add nuw i64 %index9, 8
  %15 = icmp eq i64 %index.next11, %n.vec8
  br i1 %15, label %vec.epilog.middle.block, label %vec.epilog.vector.body, !llvm.loop !9

vec.epilog.middle.block:                          ; preds = %vec.epilog.vector.body
  %cmp.n12 = icmp eq i64 %1, %n.vec8
  br i1 %cmp.n12, label %for1.end, label %for1.body.preheader

for1.body.preheader:                              ; preds = %vec.epilog.middle.block, %vec.epilog.iter.check, %iter.check
  %i.for12.ph = phi i64 [ %part_first, %iter.check ], [ %ind.end, %vec.epilog.iter.check ], [ %12, %vec.epilog.middle.block ]
  %16 = sub i64 %part_last, %i.for12.ph
  %xtraiter = and i64 %16, 7
  %lcmp.mod.not = icmp eq i64 %xtraiter, 0
  br i1 %lcmp.mod.not, label %for1.body.prol.loopexit, label %for1.body.prol

for1.body.prol:                                   ; preds = %for1.body.prol, %for1.body.preheader
  %i.for12.prol = phi i64 [ %i.for1.next.prol, %for1.body.prol ], [ %i.for12.ph, %for1.body.preheader ]
  %prol.iter = phi i64 [ %prol.iter.next, %for1.body.prol ], [ 0, %for1.body.preheader ]
  %.8.prol = mul i64 %i.for12.prol, %u_d0.5
  %.10.prol = getelementptr float, ptr %0, i64 %.8.prol
  %u_element.11.prol = load float, ptr %.10.prol, align 4, !alias.scope !0, !noalias !3
  %.12.prol = getelementptr inbounds float, ptr %u_new.7, i64 %i.for12.prol
  store float %u_element.11.prol, ptr %.12.prol, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.prol = add nsw i64 %i.for12.prol, 1
  %prol.iter.next = add i64 %prol.iter, 1
  %prol.iter.cmp.not = icmp eq i64 %prol.iter.next, %xtraiter
  br i1 %prol.iter.cmp.not, label %for1.body.prol.loopexit, label %for1.body.prol, !llvm.loop !10

for1.body.prol.loopexit:                          ; preds = %for1.body.prol, %for1.body.preheader
  %i.for12.unr = phi i64 [ %i.for12.ph, %for1.body.preheader ], [ %i.for1.next.prol, %for1.body.prol ]
  %17 = sub i64 %i.for12.ph, %part_last
  %18 = icmp ugt i64 %17, -8
  br i1 %18, label %for1.end, label %for1.body

for1.body:                                        ; preds = %for1.body, %for1.body.prol.loopexit
  %i.for12 = phi i64 [ %i.for1.next.7, %for1.body ], [ %i.for12.unr, %for1.body.prol.loopexit ]
  %.8 = mul i64 %i.for12, %u_d0.5
  %.10 = getelementptr float, ptr %0, i64 %.8
  %u_element.11 = load float, ptr %.10, align 4, !alias.scope !0, !noalias !3
  %.12 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for12
  store float %u_element.11, ptr %.12, align 4, !alias.scope !3, !noalias !0
  %i.for1.next = add nsw i64 %i.for12, 1
  %.8.1 = mul i64 %i.for1.next, %u_d0.5
  %.10.1 = getelementptr float, ptr %0, i64 %.8.1
  %u_element.11.1 = load float, ptr %.10.1, align 4, !alias.scope !0, !noalias !3
  %.12.1 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next
  store float %u_element.11.1, ptr %.12.1, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.1 = add nsw i64 %i.for12, 2
  %.8.2 = mul i64 %i.for1.next.1, %u_d0.5
  %.10.2 = getelementptr float, ptr %0, i64 %.8.2
  %u_element.11.2 = load float, ptr %.10.2, align 4, !alias.scope !0, !noalias !3
  %.12.2 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.1
  store float %u_element.11.2, ptr %.12.2, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.2 = add nsw i64 %i.for12, 3
  %.8.3 = mul i64 %i.for1.next.2, %u_d0.5
  %.10.3 = getelementptr float, ptr %0, i64 %.8.3
  %u_element.11.3 = load float, ptr %.10.3, align 4, !alias.scope !0, !noalias !3
  %.12.3 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.2
  store float %u_element.11.3, ptr %.12.3, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.3 = add nsw i64 %i.for12, 4
  %.8.4 = mul i64 %i.for1.next.3, %u_d0.5
  %.10.4 = getelementptr float, ptr %0, i64 %.8.4
  %u_element.11.4 = load float, ptr %.10.4, align 4, !alias.scope !0, !noalias !3
  %.12.4 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.3
  store float %u_element.11.4, ptr %.12.4, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.4 = add nsw i64 %i.for12, 5
  %.8.5 = mul i64 %i.for1.next.4, %u_d0.5
  %.10.5 = getelementptr float, ptr %0, i64 %.8.5
  %u_element.11.5 = load float, ptr %.10.5, align 4, !alias.scope !0, !noalias !3
  %.12.5 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.4
  store float %u_element.11.5, ptr %.12.5, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.5 = add nsw i64 %i.for12, 6
  %.8.6 = mul i64 %i.for1.next.5, %u_d0.5
  %.10.6 = getelementptr float, ptr %0, i64 %.8.6
  %u_element.11.6 = load float, ptr %.10.6, align 4, !alias.scope !0, !noalias !3
  %.12.6 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.5
  store float %u_element.11.6, ptr %.12.6, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.6 = add nsw i64 %i.for12, 7
  %.8.7 = mul i64 %i.for1.next.6, %u_d0.5
  %.10.7 = getelementptr float, ptr %0, i64 %.8.7
  %u_element.11.7 = load float, ptr %.10.7, align 4, !alias.scope !0, !noalias !3
  %.12.7 = getelementptr inbounds float, ptr %u_new.7, i64 %i.for1.next.6
  store float %u_element.11.7, ptr %.12.7, align 4, !alias.scope !3, !noalias !0
  %i.for1.next.7 = add nsw i64 %i.for12, 8
  %exitcond.not.7 = icmp eq i64 %i.for1.next.7, %part_last
  br i1 %exitcond.not.7, label %for1.end, label %for1.body, !llvm.loop !12

for1.end:                                         ; preds = %for1.body, %for1.body.prol.loopexit, %vec.epilog.middle.block, %middle.block, %entry
  ret void
}

; Function Attrs: nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none, target_mem0: none, target_mem1: none)
define internal void @h2_0_part2(ptr readonly captures(none) %part_context, i64 %part_first, i64 %part_last) #1 {
entry:
  %u_new.1 = load ptr, ptr %part_context, align 8
  %.6 = getelementptr inbounds nuw i8, ptr %part_context, i64 24
  %u_d0.7 = load i64, ptr %.6, align 8
  %i_2.for1.more1 = icmp slt i64 %part_first, %part_last
  br i1 %i_2.for1.more1, label %iter.check, label %for1.end

iter.check:                                       ; preds = %entry
  %.4 = getelementptr inbounds nuw i8, ptr %part_context, i64 16
  %last_2.5 = load i64, ptr %.4, align 8
  %.2 = getelementptr inbounds nuw i8, ptr %part_context, i64 8
  %u.3 = load ptr, ptr %.2, align 8
  %0 = getelementptr float, ptr %u.3, i64 %last_2.5
  %1 = sub i64 %part_last, %part_first
  %min.iters.check = icmp ugt i64 %1, 7
  %ident.check.not = icmp eq i64 %u_d0.7, 1
  %or.cond = select i1 %min.iters.check, i1 %ident.check.not, i1 false
  br i1 %or.cond, label %vector.main.loop.iter.check, label %for1.body.preheader

vector.main.loop.iter.check:                      ; preds = %iter.check
  %min.iters.check3 = icmp ult i64 %1, 64
  br i1 %min.iters.check3, label %vec.epilog.ph, label %vector.ph

vector.ph:                                        ; preds = %vector.main.loop.iter.check
  %n.mod.vf = and i64 %1, 56
  %n.vec = and i64 %1, -64
  br label %vector.body

vector.body:                                      ; preds = %vector.body, %vector.ph
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %2 = add i64 %part_first, %index
  %3 = getelementptr inbounds float, ptr %u_new.1, i64 %2
  %4 = getelementptr inbounds nuw i8, ptr %3, i64 64
  %5 = getelementptr inbounds nuw i8, ptr %3, i64 128
  %6 = getelementptr inbounds nuw i8, ptr %3, i64 192
  %wide.load = load <16 x float>, ptr %3, align 4, !alias.scope !13, !noalias !16
  %wide.load4 = load <16 x float>, ptr %4, align 4, !alias.scope !13, !noalias !16
  %wide.load5 = load <16 x float>, ptr %5, align 4, !alias.scope !13, !noalias !16
  %wide.load6 = load <16 x float>, ptr %6, align 4, !alias.scope !13, !noalias !16
  %7 = getelementptr float, ptr %0, i64 %2
  %8 = getelementptr i8, ptr %7, i64 64
  %9 = getelementptr i8, ptr %7, i64 128
  %10 = getelementptr i8, ptr %7, i64 192
  store <16 x float> %wide.load, ptr %7, align 4, !alias.scope !16, !noalias !13
  store <16 x float> %wide.load4, ptr %8, align 4, !alias.scope !16, !noalias !13
  store <16 x float> %wide.load5, ptr %9, align 4, !alias.scope !16, !noalias !13
  store <16 x float> %wide.load6, ptr %10, align 4, !alias.scope !16, !noalias !13
  %index.next = add nuw i64 %index, 64
  %11 = icmp eq i64 %index.next, %n.vec
  br i1 %11, label %middle.block, label %vector.body, !llvm.loop !18

middle.block:                                     ; preds = %vector.body
  %cmp.n = icmp eq i64 %1, %n.vec
  br i1 %cmp.n, label %for1.end, label %vec.epilog.iter.check

vec.epilog.iter.check:                            ; preds = %middle.block
  %ind.end = add i64 %part_first, %n.vec
  %min.epilog.iters.check = icmp eq i64 %n.mod.vf, 0
  br i1 %min.epilog.iters.check, label %for1.body.preheader, label %vec.epilog.ph, !prof !8

vec.epilog.ph:                                    ; preds = %vec.epilog.iter.check, %vector.main.loop.iter.check
  %vec.epilog.resume.val = phi i64 [ %n.vec, %vec.epilog.iter.check ], [ 0, %vector.main.loop.iter.check ]
  %n.vec8 = and i64 %1, -8
  %12 = add i64 %part_first, %n.vec8
  br label %vec.epilog.vector.body

vec.epilog.vector.body:                           ; preds = %vec.epilog.vector.body, %vec.epilog.ph
  %index9 = phi i64 [ %vec.epilog.resume.val, %vec.epilog.ph ], [ %index.next11, %vec.epilog.vector.body ]
  %offset.idx = add i64 %part_first, %index9
  %13 = getelementptr inbounds float, ptr %u_new.1, i64 %offset.idx
  %wide.load10 = load <8 x float>, ptr %13, align 4, !alias.scope !13, !noalias !16
  %14 = getelementptr float, ptr %0, i64 %offset.idx
  store <8 x float> %wide.load10, ptr %14, align 4, !alias.scope !16, !noalias !13
  %index.next11 = add nuw i64 %index9, 8
  %15 = icmp eq i64 %index.next11, %n.vec8
  br i1 %15, label %vec.epilog.middle.block, label %vec.epilog.vector.body, !llvm.loop !19

vec.epilog.middle.block:                          ; preds = %vec.epilog.vector.body
  %cmp.n12 = icmp eq i64 %1, %n.vec8
  br i1 %cmp.n12, label %for1.end, label %for1.body.preheader

for1.body.preheader:                              ; preds = %vec.epilog.middle.block, %vec.epilog.iter.check, %iter.check
  %i_2.for12.ph = phi i64 [ %part_first, %iter.check ], [ %ind.end, %vec.epilog.iter.check ], [ %12, %vec.epilog.middle.block ]
  %16 = sub i64 %part_last, %i_2.for12.ph
  %xtraiter = and i64 %16, 7
  %lcmp.mod.not = icmp eq i64 %xtraiter, 0
  br i1 %lcmp.mod.not, label %for1.body.prol.loopexit, label %for1.body.prol

for1.body.prol:                                   ; preds = %for1.body.prol, %for1.body.preheader
  %i_2.for12.prol = phi i64 [ %i_2.for1.next.prol, %for1.body.prol ], [ %i_2.for12.ph, %for1.body.preheader ]
  %prol.iter = phi i64 [ %prol.iter.next, %for1.body.prol ], [ 0, %for1.body.preheader ]
  %.8.prol = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for12.prol
  %u_new_element.9.prol = load float, ptr %.8.prol, align 4, !alias.scope !13, !noalias !16
  %.10.prol = mul i64 %i_2.for12.prol, %u_d0.7
  %.12.prol = getelementptr float, ptr %0, i64 %.10.prol
  store float %u_new_element.9.prol, ptr %.12.prol, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.prol = add nsw i64 %i_2.for12.prol, 1
  %prol.iter.next = add i64 %prol.iter, 1
  %prol.iter.cmp.not = icmp eq i64 %prol.iter.next, %xtraiter
  br i1 %prol.iter.cmp.not, label %for1.body.prol.loopexit, label %for1.body.prol, !llvm.loop !20

for1.body.prol.loopexit:                          ; preds = %for1.body.prol, %for1.body.preheader
  %i_2.for12.unr = phi i64 [ %i_2.for12.ph, %for1.body.preheader ], [ %i_2.for1.next.prol, %for1.body.prol ]
  %17 = sub i64 %i_2.for12.ph, %part_last
  %18 = icmp ugt i64 %17, -8
  br i1 %18, label %for1.end, label %for1.body

for1.body:                                        ; preds = %for1.body, %for1.body.prol.loopexit
  %i_2.for12 = phi i64 [ %i_2.for1.next.7, %for1.body ], [ %i_2.for12.unr, %for1.body.prol.loopexit ]
  %.8 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for12
  %u_new_element.9 = load float, ptr %.8, align 4, !alias.scope !13, !noalias !16
  %.10 = mul i64 %i_2.for12, %u_d0.7
  %.12 = getelementptr float, ptr %0, i64 %.10
  store float %u_new_element.9, ptr %.12, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next = add nsw i64 %i_2.for12, 1
  %.8.1 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next
  %u_new_element.9.1 = load float, ptr %.8.1, align 4, !alias.scope !13, !noalias !16
  %.10.1 = mul i64 %i_2.for1.next, %u_d0.7
  %.12.1 = getelementptr float, ptr %0, i64 %.10.1
  store float %u_new_element.9.1, ptr %.12.1, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.1 = add nsw i64 %i_2.for12, 2
  %.8.2 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.1
  %u_new_element.9.2 = load float, ptr %.8.2, align 4, !alias.scope !13, !noalias !16
  %.10.2 = mul i64 %i_2.for1.next.1, %u_d0.7
  %.12.2 = getelementptr float, ptr %0, i64 %.10.2
  store float %u_new_element.9.2, ptr %.12.2, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.2 = add nsw i64 %i_2.for12, 3
  %.8.3 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.2
  %u_new_element.9.3 = load float, ptr %.8.3, align 4, !alias.scope !13, !noalias !16
  %.10.3 = mul i64 %i_2.for1.next.2, %u_d0.7
  %.12.3 = getelementptr float, ptr %0, i64 %.10.3
  store float %u_new_element.9.3, ptr %.12.3, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.3 = add nsw i64 %i_2.for12, 4
  %.8.4 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.3
  %u_new_element.9.4 = load float, ptr %.8.4, align 4, !alias.scope !13, !noalias !16
  %.10.4 = mul i64 %i_2.for1.next.3, %u_d0.7
  %.12.4 = getelementptr float, ptr %0, i64 %.10.4
  store float %u_new_element.9.4, ptr %.12.4, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.4 = add nsw i64 %i_2.for12, 5
  %.8.5 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.4
  %u_new_element.9.5 = load float, ptr %.8.5, align 4, !alias.scope !13, !noalias !16
  %.10.5 = mul i64 %i_2.for1.next.4, %u_d0.7
  %.12.5 = getelementptr float, ptr %0, i64 %.10.5
  store float %u_new_element.9.5, ptr %.12.5, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.5 = add nsw i64 %i_2.for12, 6
  %.8.6 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.5
  %u_new_element.9.6 = load float, ptr %.8.6, align 4, !alias.scope !13, !noalias !16
  %.10.6 = mul i64 %i_2.for1.next.5, %u_d0.7
  %.12.6 = getelementptr float, ptr %0, i64 %.10.6
  store float %u_new_element.9.6, ptr %.12.6, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.6 = add nsw i64 %i_2.for12, 7
  %.8.7 = getelementptr inbounds float, ptr %u_new.1, i64 %i_2.for1.next.6
  %u_new_element.9.7 = load float, ptr %.8.7, align 4, !alias.scope !13, !noalias !16
  %.10.7 = mul i64 %i_2.for1.next.6, %u_d0.7
  %.12.7 = getelementptr float, ptr %0, i64 %.10.7
  store float %u_new_element.9.7, ptr %.12.7, align 4, !alias.scope !16, !noalias !13
  %i_2.for1.next.7 = add nsw i64 %i_2.for12, 8
  %exitcond.not.7 = icmp eq i64 %i_2.for1.next.7, %part_last
  br i1 %exitcond.not.7, label %for1.end, label %for1.body, !llvm.loop !21

for1.end:                                         ; preds = %for1.body, %for1.body.prol.loopexit, %vec.epilog.middle.block, %middle.block, %entry
  ret void
}

; Function Attrs: nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none, target_mem0: none, target_mem1: none)
define internal void @h2_0_part3(ptr readonly captures(none) %part_context, i64 %part_first, i64 %part_last) #1 {
entry:
  %.4 = getelementptr inbounds nuw i8, ptr %part_context, i64 16
  %u_d0.5 = load i64, ptr %.4, align 8
  %i_3.for1.more1 = icmp slt i64 %part_first, %part_last
  br i1 %i_3.for1.more1, label %iter.check, label %for1.end

iter.check:                                       ; preds = %entry
  %.6 = getelementptr inbounds nuw i8, ptr %part_context, i64 24
  %last_2.7 = load i64, ptr %.6, align 8
  %.2 = getelementptr inbounds nuw i8, ptr %part_context, i64 8
  %last.3 = load i64, ptr %.2, align 8
  %u.1 = load ptr, ptr %part_context, align 8
  %0 = getelementptr float, ptr %u.1, i64 %last.3
  %1 = getelementptr float, ptr %u.1, i64 %last_2.7
  %2 = sub i64 %part_last, %part_first
  %min.iters.check = icmp ugt i64 %2, 7
  %ident.check.not = icmp eq i64 %u_d0.5, 1
  %or.cond = select i1 %min.iters.check, i1 %ident.check.not, i1 false
  br i1 %or.cond, label %vector.memcheck, label %for1.body.preheader

vector.memcheck:                                  ; preds = %iter.check
  %3 = sub i64 %last_2.7, %last.3
  %4 = and i64 %3, 4611686018427387840
  %diff.check = icmp eq i64 %4, 0
  br i1 %diff.check, label %for1.body.preheader, label %vector.main.loop.iter.check

vector.main.loop.iter.check:                      ; preds = %vector.memcheck
  %min.iters.check3 = icmp ult i64 %2, 64
  br i1 %min.iters.check3, label %vec.epilog.ph, label %vector.ph

vector.ph:                                        ; preds = %vector.main.loop.iter.check
  %n.mod.vf = and i64 %2, 56
  %n.vec = and i64 %2, -64
  br label %vector.body

vector.body:                                      ; preds = %vector.body, %vector.ph
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %5 = add i64 %part_first, %index
  %6 = getelementptr float, ptr %0, i64 %5
  %7 = getelementptr i8, ptr %6, i64 64
  %8 = getelementptr i8, ptr %6, i64 128
  %9 = getelementptr i8, ptr %6, i64 192
  %wide.load = load <16 x float>, ptr %6, align 4
  %wide.load4 = load <16 x float>, ptr %7, align 4
  %wide.load5 = load <16 x float>, ptr %8, align 4
  %wide.load6 = load <16 x float>, ptr %9, align 4
  %10 = getelementptr float, ptr %1, i64 %5
  %11 = getelementptr i8, ptr %10, i64 64
  %12 = getelementptr i8, ptr %10, i64 128
  %13 = getelementptr i8, ptr %10, i64 192
  store <16 x float> %wide.load, ptr %10, align 4
  store <16 x float> %wide.load4, ptr %11, align 4
  store <16 x float> %wide.load5, ptr %12, align 4
  store <16 x float> %wide.load6, ptr %13, align 4
  %index.next = add nuw i64 %index, 64
  %14 = icmp eq i64 %index.next, %n.vec
  br i1 %14, label %middle.block, label %vector.body, !llvm.loop !22

middle.block:                                     ; preds = %vector.body
  %cmp.n = icmp eq i64 %2, %n.vec
  br i1 %cmp.n, label %for1.end, label %vec.epilog.iter.check

vec.epilog.iter.check:                            ; preds = %middle.block
  %ind.end = add i64 %part_first, %n.vec
  %min.epilog.iters.check = icmp eq i64 %n.mod.vf, 0
  br i1 %min.epilog.iters.check, label %for1.body.preheader, label %vec.epilog.ph, !prof !8

vec.epilog.ph:                                    ; preds = %vec.epilog.iter.check, %vector.main.loop.iter.check
  %vec.epilog.resume.val = phi i64 [ %n.vec, %vec.epilog.iter.check ], [ 0, %vector.main.loop.iter.check ]
  %n.vec8 = and i64 %2, -8
  %15 = add i64 %part_first, %n.vec8
  br label %vec.epilog.vector.body

vec.epilog.vector.body:                           ; preds = %vec.epilog.vector.body, %vec.epilog.ph
  %index9 = phi i64 [ %vec.epilog.resume.val, %vec.epilog.ph ], [ %index.next11, %vec.epilog.vector.body ]
  %offset.idx = add i64 %part_first, %index9
  %16 = getelementptr float, ptr %0, i64 %offset.idx
  %wide.load10 = load <8 x float>, ptr %16, align 4
  %17 = getelementptr float, ptr %1, i64 %offset.idx
  store <8 x float> %wide.load10, ptr %17, align 4
  %index.next11 = add nuw i64 %index9, 8
  %18 = icmp eq i64 %index.next11, %n.vec8
  br i1 %18, label %vec.epilog.middle.block, label %vec.epilog.vector.body, !llvm.loop !23

vec.epilog.middle.block:                          ; preds = %vec.epilog.vector.body
  %cmp.n12 = icmp eq i64 %2, %n.vec8
  br i1 %cmp.n12, label %for1.end, label %for1.body.preheader

for1.body.preheader:                              ; preds = %vec.epilog.middle.block, %vec.epilog.iter.check, %vector.memcheck, %iter.check
  %i_3.for12.ph = phi i64 [ %part_first, %iter.check ], [ %part_first, %vector.memcheck ], [ %ind.end, %vec.epilog.iter.check ], [ %15, %vec.epilog.middle.block ]
  %19 = sub i64 %part_last, %i_3.for12.ph
  %xtraiter = and i64 %19, 7
  %lcmp.mod.not = icmp eq i64 %xtraiter, 0
  br i1 %lcmp.mod.not, label %for1.body.prol.loopexit, label %for1.body.prol

for1.body.prol:                                   ; preds = %for1.body.prol, %for1.body.preheader
  %i_3.for12.prol = phi i64 [ %i_3.for1.next.prol, %for1.body.prol ], [ %i_3.for12.ph, %for1.body.preheader ]
  %prol.iter = phi i64 [ %prol.iter.next, %for1.body.prol ], [ 0, %for1.body.preheader ]
  %.8.prol = mul i64 %i_3.for12.prol, %u_d0.5
  %.10.prol = getelementptr float, ptr %0, i64 %.8.prol
  %u_element_2.11.prol = load float, ptr %.10.prol, align 4
  %.14.prol = getelementptr float, ptr %1, i64 %.8.prol
  store float %u_element_2.11.prol, ptr %.14.prol, align 4
  %i_3.for1.next.prol = add nsw i64 %i_3.for12.prol, 1
  %prol.iter.next = add i64 %prol.iter, 1
  %prol.iter.cmp.not = icmp eq i64 %prol.iter.next, %xtraiter
  br i1 %prol.iter.cmp.not, label %for1.body.prol.loopexit, label %for1.body.prol, !llvm.loop !24

for1.body.prol.loopexit:                          ; preds = %for1.body.prol, %for1.body.preheader
  %i_3.for12.unr = phi i64 [ %i_3.for12.ph, %for1.body.preheader ], [ %i_3.for1.next.prol, %for1.body.prol ]
  %20 = sub i64 %i_3.for12.ph, %part_last
  %21 = icmp ugt i64 %20, -8
  br i1 %21, label %for1.end, label %for1.body

for1.body:                                        ; preds = %for1.body, %for1.body.prol.loopexit
  %i_3.for12 = phi i64 [ %i_3.for1.next.7, %for1.body ], [ %i_3.for12.unr, %for1.body.prol.loopexit ]
  %.8 = mul i64 %i_3.for12, %u_d0.5
  %.10 = getelementptr float, ptr %0, i64 %.8
  %u_element_2.11 = load float, ptr %.10, align 4
  %.14 = getelementptr float, ptr %1, i64 %.8
  store float %u_element_2.11, ptr %.14, align 4
  %i_3.for1.next = add nsw i64 %i_3.for12, 1
  %.8.1 = mul i64 %i_3.for1.next, %u_d0.5
  %.10.1 = getelementptr float, ptr %0, i64 %.8.1
  %u_element_2.11.1 = load float, ptr %.10.1, align 4
  %.14.1 = getelementptr float, ptr %1, i64 %.8.1
  store float %u_element_2.11.1, ptr %.14.1, align 4
  %i_3.for1.next.1 = add nsw i64 %i_3.for12, 2
  %.8.2 = mul i64 %i_3.for1.next.1, %u_d0.5
  %.10.2 = getelementptr float, ptr %0, i64 %.8.2
  %u_element_2.11.2 = load float, ptr %.10.2, align 4
  %.14.2 = getelementptr float, ptr %1, i64 %.8.2
  store float %u_element_2.11.2, ptr %.14.2, align 4
  %i_3.for1.next.2 = add nsw i64 %i_3.for12, 3
  %.8.3 = mul i64 %i_3.for1.next.2, %u_d0.5
  %.10.3 = getelementptr float, ptr %0, i64 %.8.3
  %u_element_2.11.3 = load float, ptr %.10.3, align 4
  %.14.3 = getelementptr float, ptr %1, i64 %.8.3
  store float %u_element_2.11.3, ptr %.14.3, align 4
  %i_3.for1.next.3 = add nsw i64 %i_3.for12, 4
  %.8.4 = mul i64 %i_3.for1.next.3, %u_d0.5
  %.10.4 = getelementptr float, ptr %0, i64 %.8.4
  %u_element_2.11.4 = load float, ptr %.10.4, align 4
  %.14.4 = getelementptr float, ptr %1, i64 %.8.4
  store float %u_element_2.11.4, ptr %.14.4, align 4
  %i_3.for1.next.4 = add nsw i64 %i_3.for12, 5
  %.8.5 = mul i64 %i_3.for1.next.4, %u_d0.5
  %.10.5 = getelementptr float, ptr %0, i64 %.8.5
  %u_element_2.11.5 = load float, ptr %.10.5, align 4
  %.14.5 = getelementptr float, ptr %1, i64 %.8.5
  store float %u_element_2.11.5, ptr %.14.5, align 4
  %i_3.for1.next.5 = add nsw i64 %i_3.for12, 6
  %.8.6 = mul i64 %i_3.for1.next.5, %u_d0.5
  %.10.6 = getelementptr float, ptr %0, i64 %.8.6
  %u_element_2.11.6 = load float, ptr %.10.6, align 4
  %.14.6 = getelementptr float, ptr %1, i64 %.8.6
  store float %u_element_2.11.6, ptr %.14.6, align 4
  %i_3.for1.next.6 = add nsw i64 %i_3.for12, 7
  %.8.7 = mul i64 %i_3.for1.next.6, %u_d0.5
  %.10.7 = getelementptr float, ptr %0, i64 %.8.7
  %u_element_2.11.7 = load float, ptr %.10.7, align 4
  %.14.7 = getelementptr float, ptr %1, i64 %.8.7
  store float %u_element_2.11.7, ptr %.14.7, align 4
  %i_3.for1.next.7 = add nsw i64 %i_3.for12, 8
  %exitcond.not.7 = icmp eq i64 %i_3.for1.next.7, %part_last
  br i1 %exitcond.not.7, label %for1.end, label %for1.body, !llvm.loop !25

for1.end:                                         ; preds = %for1.body, %for1.body.prol.loopexit, %vec.epilog.middle.block, %middle.block, %entry
  ret void
}

; Function Attrs: nounwind
define range(i64 0, 4) i64 @h2_0(ptr %u, i64 %u_d0, i64 %u_d1, ptr writeonly captures(none) %results) local_unnamed_addr #2 {
entry:
  %context1 = alloca [4 x i64], align 8
  %context2 = alloca [4 x i64], align 8
  %context3 = alloca [4 x i64], align 8
  %.1 = icmp slt i64 %u_d0, 2
  br i1 %.1, label %if1.then, label %if1.end, !prof !26

common.ret:                                       ; preds = %if3.else, %if5.end, %if4.end, %if3.then, %if1.then
  %common.ret.op = phi i64 [ 1, %if1.then ], [ 3, %if4.end ], [ 3, %if3.then ], [ 0, %if3.else ], [ 0, %if5.end ]
  ret i64 %common.ret.op

if1.then:                                         ; preds = %entry
  store i64 -2, ptr %results, align 8, !alias.scope !27, !noalias !30
  %.2 = getelementptr inbounds nuw i8, ptr %results, i64 8
  store i64 %u_d0, ptr %.2, align 8, !alias.scope !27, !noalias !30
  br label %common.ret

if1.end:                                          ; preds = %entry
  %last.3 = add nsw i64 %u_d0, -2
  %last_2.6 = add nsw i64 %u_d0, -1
  %.7 = add i64 %u_d1, -1
  %span.8 = mul i64 %.7, %u_d0
  %address.9 = ptrtoint ptr %u to i64
  %.10 = tail call i64 @llvm.smin.i64(i64 %span.8, i64 0)
  %.11 = add nsw i64 %.10, %last_2.6
  %.12 = shl i64 %.11, 2
  %start.13 = add i64 %.12, %address.9
  %.14 = tail call i64 @llvm.smax.i64(i64 %span.8, i64 0)
  %.16 = add nuw i64 %.14, %u_d0
  %.17 = shl i64 %.16, 2
  %stop.18 = add i64 %.17, %address.9
  %.20 = add nsw i64 %.10, %last.3
  %.21 = shl i64 %.20, 2
  %start_2.22 = add i64 %.21, %address.9
  %.24 = add nuw i64 %.14, %last.3
  %.25 = shl i64 %.24, 2
  %.26 = add i64 %address.9, 4
  %stop_2.27 = add i64 %.26, %.25
  %.28 = icmp slt i64 %start_2.22, %stop.18
  %.29 = icmp slt i64 %start.13, %stop_2.27
  %.30 = and i1 %.28, %.29
  br i1 %.30, label %if3.then, label %if3.else

if3.then:                                         ; preds = %if1.end
  %0 = add i64 %u_d1, -2305843009213693952
  %.33 = icmp ult i64 %0, -4611686018427387904
  br i1 %.33, label %common.ret, label %if4.end, !prof !26

if4.end:                                          ; preds = %if3.then
  %bytes.31 = shl nsw i64 %u_d1, 2
  %.34 = or disjoint i64 %bytes.31, 1
  %u_new.35 = tail call ptr @jc_malloc(i64 %.34) #4
  %.36 = icmp eq ptr %u_new.35, null
  br i1 %.36, label %common.ret, label %if5.end, !prof !26

if5.end:                                          ; preds = %if4.end
  store ptr %u, ptr %context1, align 8
  %.37 = getelementptr inbounds nuw i8, ptr %context1, i64 8
  store i64 %last.3, ptr %.37, align 8
  %.38 = getelementptr inbounds nuw i8, ptr %context1, i64 16
  store i64 %u_d0, ptr %.38, align 8
  %.39 = getelementptr inbounds nuw i8, ptr %context1, i64 24
  store ptr %u_new.35, ptr %.39, align 8
  %.40 = tail call i64 @llvm.smax.i64(i64 %u_d1, i64 0)
  %.41 = shl nuw nsw i64 %.40, 1
  call void @jc_parallel(ptr nonnull @h2_0_part1, ptr nonnull %context1, i64 0, i64 %u_d1, i64 %.41) #4
  store ptr %u_new.35, ptr %context2, align 8
  %.42 = getelementptr inbounds nuw i8, ptr %context2, i64 8
  store ptr %u, ptr %.42, align 8
  %.43 = getelementptr inbounds nuw i8, ptr %context2, i64 16
  store i64 %last_2.6, ptr %.43, align 8
  %.44 = getelementptr inbounds nuw i8, ptr %context2, i64 24
  store i64 %u_d0, ptr %.44, align 8
  %.46 = mul nuw nsw i64 %.40, 3
  call void @jc_parallel(ptr nonnull @h2_0_part2, ptr nonnull %context2, i64 0, i64 %u_d1, i64 %.46) #4
  call void @jc_free(ptr nonnull %u_new.35) #4
  br label %common.ret

if3.else:                                         ; preds = %if1.end
  store ptr %u, ptr %context3, align 8
  %.47 = getelementptr inbounds nuw i8, ptr %context3, i64 8
  store i64 %last.3, ptr %.47, align 8
  %.48 = getelementptr inbounds nuw i8, ptr %context3, i64 16
  store i64 %u_d0, ptr %.48, align 8
  %.49 = getelementptr inbounds nuw i8, ptr %context3, i64 24
  store i64 %last_2.6, ptr %.49, align 8
  %.50 = tail call i64 @llvm.smax.i64(i64 %u_d1, i64 0)
  %.51 = mul i64 %.50, 3
  call void @jc_parallel(ptr nonnull @h2_0_part3, ptr nonnull %context3, i64 0, i64 %u_d1, i64 %.51) #4
  br label %common.ret
}

declare i1 @jc_float_errors_matter() local_unnamed_addr

declare ptr @jc_error(ptr, i64, ptr, ptr, i64) local_unnamed_addr

declare void @Py_IncRef(ptr) local_unnamed_addr

declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr) local_unnamed_addr

; Function Attrs: mustprogress nofree norecurse nosync nounwind willreturn memory(none)
define noundef nonnull ptr @table_h2_0() local_unnamed_addr #3 {
  ret ptr @constants_h2_0
}

define ptr @entry_h2_0(ptr readonly captures(none) %self, ptr %args, i64 %nargs, ptr %kwnames) local_unnamed_addr {
checks:
  %stack.0 = alloca [16 x i64], align 16
  %.1 = icmp eq i64 %nargs, 1
  %.2 = icmp eq ptr %kwnames, null
  %.3 = and i1 %.1, %.2
  br i1 %.3, label %checked.1, label %miss, !prof !33

checked.1:                                        ; preds = %checks
  %.5 = load ptr, ptr %args, align 8
  %.6 = getelementptr i8, ptr %.5, i64 8
  %.7 = load ptr, ptr %.6, align 8
  %.8 = load ptr, ptr @constants_h2_0, align 8
  %.9 = icmp eq ptr %.7, %.8
  br i1 %.9, label %checked.2, label %miss, !prof !33

checked.2:                                        ; preds = %checked.1
  %.11 = getelementptr i8, ptr %.5, i64 24
  %.12 = load i32, ptr %.11, align 4
  %.13 = icmp eq i32 %.12, 2
  %.14 = getelementptr i8, ptr %.5, i64 56
  %.15 = load ptr, ptr %.14, align 8
  %.16 = getelementptr i8, ptr %.15, i64 24
  %.17 = load i64, ptr %.16, align 4
  %.18 = and i64 %.17, -4294836224
  %.19 = icmp eq i64 %.18, 47244640256
  %.20 = getelementptr i8, ptr %.5, i64 64
  %.21 = load i32, ptr %.20, align 8
  %.22 = and i32 %.21, 1282
  %.23 = icmp eq i32 %.22, 1282
  %.24 = and i1 %.13, %.19
  %.25 = and i1 %.24, %.23
  br i1 %.25, label %checked.3, label %miss, !prof !33

checked.3:                                        ; preds = %checked.2
  %.27 = getelementptr i8, ptr %.5, i64 32
  %.28 = load ptr, ptr %.27, align 8
  %.29 = load i64, ptr %.28, align 4
  %.30 = getelementptr i8, ptr %.28, i64 8
  %.31 = load i64, ptr %.30, align 4
  %.32 = icmp ne i64 %.29, 1
  %.33 = icmp ne i64 %.31, 1
  %.34 = and i1 %.32, %.33
  br i1 %.34, label %checked.4, label %miss, !prof !33

checked.4:                                        ; preds = %checked.3
  %.36 = getelementptr i8, ptr %.5, i64 16
  %.37 = load ptr, ptr %.36, align 8
  %.46 = tail call i1 @jc_float_errors_matter()
  br i1 %.46, label %miss, label %checked.5, !prof !34

checked.5:                                        ; preds = %checked.4
  %.49 = call i64 @h2_0(ptr %.37, i64 %.29, i64 %.31, ptr nonnull %stack.0)
  %.50 = icmp eq i64 %.49, 0
  br i1 %.50, label %success.6, label %error.7, !prof !33

common.ret:                                       ; preds = %success.6, %error.7
  %common.ret.op = phi ptr [ %.54, %error.7 ], [ %.56, %success.6 ]
  ret ptr %common.ret.op

error.7:                                          ; preds = %checked.5
  %.52 = getelementptr i8, ptr %self, i64 32
  %.53 = load ptr, ptr %.52, align 8
  %.54 = call ptr @jc_error(ptr %.53, i64 %.49, ptr nonnull %stack.0, ptr nonnull %args, i64 1)
  br label %common.ret

success.6:                                        ; preds = %checked.5
  %.56 = load ptr, ptr getelementptr inbounds nuw (i8, ptr @constants_h2_0, i64 8), align 8
  tail call void @Py_IncRef(ptr %.56)
  br label %common.ret

miss:                                             ; preds = %checked.4, %checked.3, %checked.2, %checked.1, %checks
  %next.slot = getelementptr i8, ptr %self, i64 24
  %next = load ptr, ptr %next.slot, align 8
  %other = musttail call ptr @PyObject_Vectorcall(ptr %next, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %other
}

attributes #0 = { nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }
attributes #1 = { nofree noinline norecurse nosync nounwind memory(readwrite, inaccessiblemem: none, target_mem0: none, target_mem1: none) "prefer-vector-width"="512" }
attributes #2 = { nounwind "prefer-vector-width"="512" }
attributes #3 = { mustprogress nofree norecurse nosync nounwind willreturn memory(none) }
attributes #4 = { nounwind }

!0 = !{!1}
!1 = distinct !{!1, !2}
!2 = distinct !{!2}
!3 = !{!4}
!4 = distinct !{!4, !2}
!5 = distinct !{!5, !6, !7}
!6 = !{!"llvm.loop.isvectorized", i32 1}
!7 = !{!"llvm.loop.unroll.runtime.disable"}
!8 = !{!"branch_weights", i32 8, i32 56}
!9 = distinct !{!9, !6, !7}
!10 = distinct !{!10, !11}
!11 = !{!"llvm.loop.unroll.disable"}
!12 = distinct !{!12, !6}
!13 = !{!14}
!14 = distinct !{!14, !15}
!15 = distinct !{!15}
!16 = !{!17}
!17 = distinct !{!17, !15}
!18 = distinct !{!18, !6, !7}
!19 = distinct !{!19, !6, !7}
!20 = distinct !{!20, !11}
!21 = distinct !{!21, !6}
!22 = distinct !{!22, !6, !7}
!23 = distinct !{!23, !6, !7}
!24 = distinct !{!24, !11}
!25 = distinct !{!25, !6}
!26 = !{!"branch_weights", i32 1, i32 2000}
!27 = !{!28}
!28 = distinct !{!28, !29}
!29 = distinct !{!29}
!30 = !{!31, !32}
!31 = distinct !{!31, !29}
!32 = distinct !{!32, !29}
!33 = !{!"branch_weights", !"expected", i32 2000, i32 1}
!34 = !{!"branch_weights", !"expected", i32 1, i32 2000}
