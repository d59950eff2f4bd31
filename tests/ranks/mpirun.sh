#!/usr/bin/env bash
# mpirun.sh QKV: trains under mpirun on this machine. Exit status 77: skipped.
source "$(dirname "$0")/common.sh"
ranks=(mpirun --bind-to none --oversubscribe -n 2 "$qkv" train)
three="--accumulate 3"

# The same files as one process.
"$qkv" train $run $three --max-steps 4 --out one
"${ranks[@]}" $run $three --max-steps 4 --out two >out 2>&1 || fail "two ranks" out
for file in model.safetensors config.json log.jsonl tokenizer.json; do
  cmp one/$file two/$file || fail "$file differs from that of one process"
done

# Also with gradients in bf16, whose rounding gives other files than f32.
"$qkv" train $run $three --gradient-dtype bf16 --max-steps 4 --out one-bf16
"${ranks[@]}" $run $three --gradient-dtype bf16 --max-steps 4 --out two-bf16 >out 2>&1 || fail "two ranks, bf16" out
cmp one-bf16/model.safetensors two-bf16/model.safetensors || fail "bf16: the model differs from that of one process"
cmp -s one/model.safetensors one-bf16/model.safetensors && fail "--gradient-dtype bf16 gave the model of f32"

# Also on another device, whose memory no message can read.
"$qkv" train $run $three --device reference --max-steps 3 --out one-device
"${ranks[@]}" $run $three --device reference --max-steps 3 --out two-device >out 2>&1 || fail "two ranks, reference" out
cmp one-device/model.safetensors two-device/model.safetensors || fail "reference: the model differs from that of one process"

# Ranks without a batch.
"${ranks[@]}" $run --accumulate 1 --max-steps 4 --out few >out 2>&1 && fail "expected an error of ranks without a batch"
grep -q -- "--accumulate: expected a batch in each step for each of 2 ranks, found 1" out || fail "no message" out

# A signal to one saves all; one process continues to the same files.
"${ranks[@]}" $run $three --max-steps 100000 --out stopped >out 2>&1 &
mpi=$!
until [ -d stopped/checkpoints ] || ! kill -0 $mpi 2>/dev/null; do sleep 0.1; done
kill -HUP "$(of_rank 1)"
status=0; wait $mpi || status=$?
[ $status = 129 ] || fail "expected status 129 of a run that SIGHUP has stopped, found $status" out
mpi=
step=$(newest_step stopped)
"$qkv" train --resume stopped --max-steps $((step + 2)) --quiet
"${ranks[@]}" $run $three --max-steps $((step + 2)) --out whole >out 2>&1 || fail "two ranks" out
for file in model.safetensors log.jsonl; do
  cmp stopped/$file whole/$file || fail "$file of a resumed run differs"
done

# A rank that hangs ends all, and is named. Five seconds, because a busy machine may not run a rank for one.
"${ranks[@]}" $run $three --max-steps 100000 --out lost --rank-timeout 5 >out 2>&1 &
mpi=$!
until [ -d lost/checkpoints ] || ! kill -0 $mpi 2>/dev/null; do sleep 0.1; done
kill -STOP "$(of_rank 1)"
wait $mpi && fail "expected an error of a lost rank"
mpi=
grep -q "rank 1 ($(hostname)) has not answered for 5 s" out || fail "the lost rank is not named" out
compgen -G "tmp/qkv-rank-*" >/dev/null && fail "a rank has left $(ls -d tmp/qkv-rank-*)"
echo passed
