#!/bin/sh
# Fuzzes the library and the program: builds the targets of tests/fuzz with clang and runs them, two at a time.
#
#   scripts/fuzz.sh [MINUTES] [TARGET...]   MINUTES in all, default 60; default: every target. What they learn is kept in
#                                           fuzz-corpus/TARGET, inputs that fail in fuzz-corpus/findings
#   scripts/fuzz.sh --gate                  40 seconds in all, from the inputs of tests/fuzz/corpus; keeps nothing else
#   scripts/fuzz.sh --save TARGET...        inputs of fuzz-corpus/TARGET that together reach all that it reaches become
#                                           tests/fuzz/corpus/TARGET.hex
#
# The exit status is the number of targets that failed. A failing input goes to tests/fuzz/corpus/TARGET: the gate runs it
# from then on.
set -eu
cd "$(dirname "$0")/.."

limits() { # target: its options
    case $1 in
    gguf | tokenizer) echo "-max_len=60000" ;;
    dump) echo "-max_len=20000 -dict=tests/fuzz/dict/dump.dict" ;;
    chat) echo "-max_len=500 -len_control=0" ;;
    safetensors) echo "-max_len=4000 -dict=tests/fuzz/dict/hf.dict" ;;
    hf_config) echo "-max_len=4000 -dict=tests/fuzz/dict/hf.dict" ;;
    hf_tokenizer) echo "-max_len=8000 -dict=tests/fuzz/dict/hf.dict" ;;
    formats) echo "-max_len=4000 -dict=tests/fuzz/dict/formats.dict" ;;
    template) echo "-max_len=8000 -dict=tests/fuzz/dict/template.dict" ;;
    grammar) echo "-max_len=600 -dict=tests/fuzz/dict/grammar.dict" ;;
    http) echo "-max_len=600 -dict=tests/fuzz/dict/http.dict" ;;
    text) echo "-max_len=400 -len_control=0" ;;
    manifest) echo "-max_len=4000 -dict=tests/fuzz/dict/manifest.dict" ;;
    log) echo "-max_len=2000 -dict=tests/fuzz/dict/log.dict" ;;
    texts | bpe | reply) echo "-max_len=600" ;;
    *) echo "-max_len=200 -len_control=0" ;;
    esac
}

# The inputs to start from, in a folder: each golden file as it is (byte 0 of an input) with various options, and the
# lines of TARGET.hex.
seeds() { # target, folder
    python3 - "$1" "$2" <<'END'
import pathlib, sys
target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
inputs = []
if target in ("model", "embed", "convert", "chat", "api", "adapter", "checkpoint", "context"):
    inputs = [bytes(i * step % 256 for step in (1, 8, 3, 37, 5, 1, 7, 1)) for i in range(64)]
golden = pathlib.Path("tests/golden")
if target == "hf_config": inputs = [p.read_bytes() for p in golden.glob("hf*/**/config.json")]
if target == "reply":
    import json, re
    table = pathlib.Path("model/chat/reply_formats.c").read_text()
    calls, reasoning = (re.findall(r'\.name = "([^"]+)"', table[table.index(a):table.index(b)])
                        for a, b in (("calls[] =", "reasoning[] ="), ("reasoning[] =", "call_texts")))
    for line in open(golden / "replies/golden.jsonl", encoding="utf-8"):
        case = json.loads(line)
        second = reasoning.index(case.get("reasoning_format", "none")) << 2 | 2 | int(case.get("in_reasoning", False))
        inputs.append(bytes([calls.index(case["format"]), second, 7]) + case["reply"].encode())
if target == "formats":
    import json
    paths = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/infill"]
    events = b"\0\0\3abc\6\1\2de\2\0\0\4\0\2xx\7\0\3\xc3\xa4f\2\0\1x\3\0\0\1\0\2<>"
    for line in open("tests/server/data/requests.jsonl", encoding="utf-8"):
        case = json.loads(line)
        if len(line) > 2000: continue
        for more in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
            inputs.append(bytes([paths.index(case["path"])]) + json.dumps({**case["body"], **more}).encode() + b"\0" + events)
    inputs += [bytes([i]) + b'{"input": [[1, 2], "a"], "encoding_format": "base64", "model": "m", "tokens": [5], "content": "a", "with_pieces": true}' for i in range(5, 10)]
if target == "grammar":
    lines = (golden / "grammar/schema_suite.txt").read_text().splitlines()
    inputs = [bytes([i % 3]) + line[2:].encode() for i, line in enumerate(lines) if line.startswith("s ") and len(line) < 500]
    inputs += [bytes([5]) + line[2:].encode() for line in (golden / "grammar/masks.txt").read_text().splitlines() if line.startswith("r ")]
    inputs += [b'\3root ::= "a" root [b-z]* | x{2,3} (x | "")\nx ::= "x" | root x\0\1\2\3', b"\4hellohelp\0\5\6"]
if target == "template":
    import json
    inputs = [p.read_bytes() for p in golden.glob("templates/*.jinja") if p.stat().st_size < 8000]
    inputs += [json.loads(line)["source"].encode() for line in open(golden / "templates/cases.jsonl") if '"source"' in line]
if target == "safetensors":
    inputs = [p.read_bytes()[:4000] for p in golden.glob("hf/*/model*.safetensors")]
    inputs = [(len(h) - 8).to_bytes(2, "little") + h[8:] for h in inputs] + [b"\xff\xff" + h for h in inputs]
if target == "hf_tokenizer":
    import json
    for path in golden.glob("hf_tokenizers/*/tokenizer.json"): # the head of its vocabulary and merges, to be short
        t = json.loads(path.read_text())
        if t["model"]["type"] == "Unigram":
            t["model"]["vocab"] = t["model"]["vocab"][:40]
            inputs.append(json.dumps(t, ensure_ascii=False, separators=(",", ":")).encode())
            continue
        t["model"]["merges"] = t["model"]["merges"][:20]
        kept = {x for m in t["model"]["merges"] for x in [*(m if isinstance(m, list) else m.split(" ")), "".join(m).replace(" ", "")]}
        t["model"]["vocab"] = {k: v for k, v in t["model"]["vocab"].items() if v < 40 or k in kept}
        inputs.append(json.dumps(t, ensure_ascii=False, separators=(",", ":")).encode())
if target == "engine": # fuzz_engine.c: byte 0 has requests at a time, blocks, tokens of a step, a draft model, and the model
    step, cancel, request = b"\5", lambda i: bytes([4, i]), lambda *numbers: bytes([0, *numbers])
    scenes = [
        request(1, 40, 6, 0) + step * 2 + request(1, 40, 6, 1) + step * 4, # a prefix that is found
        request(2, 70, 9, 8) + request(4, 30, 9, 24) + step * 9 + cancel(0) + step + request(2, 70, 4, 16), # guesses, and a cancel
        request(3, 80, 12, 0) + request(5, 90, 9, 2) + step * 5 + request(7, 60, 5, 6) + step * 3, # priorities, few blocks
        request(6, 95, 39, 0) + request(0, 0, 3, 0) + request(0, 99, 3, 0) + cancel(0) + cancel(0), # the context is full; refusals
        b"".join(request(i, 9 * i + 1, i, 8 * i) + step for i in range(8)) + cancel(5) + cancel(2)] # more than run at a time
    inputs = [bytes([kind << 6 | options]) + scene for kind in range(4)
              for options, scene in zip((0b111101, 0b110011, 0b100001, 0b001000, 0b100110), scenes)]
saved = pathlib.Path("tests/fuzz/corpus") / (target + ".hex")
if saved.exists(): inputs += [bytes.fromhex(line) for line in saved.read_text().split()]
for i, data in enumerate(inputs): (folder / f"seed-{i}").write_bytes(data)
END
}

cpu_seconds() { # file with the output of `times`: the second line is user and system time of the programs it ran
    awk 'NR == 2 {split($1, a, "[ms]"); split($2, b, "[ms]"); printf "%.0f", 60 * (a[1] + b[1]) + a[2] + b[2]}' "$1"
}

run_one() { # corpus folder, target, seconds
    corpus=$1 target=$2 seconds=$3 status=0
    start=$(mktemp -d) log=$(mktemp)
    mkdir -p "$corpus/$target" "$corpus/findings"
    seeds "$target" "$start" || { echo "fuzz_$target: FAILED: no inputs to start from"; return 1; }
    # shellcheck disable=SC2046
    build/asan/fuzz_"$target" $(limits "$target") -max_total_time="$seconds" -timeout="${hang_s:-60}" -rss_limit_mb=2500 \
        -malloc_limit_mb=1000 -artifact_prefix="$corpus/findings/$target-" "$corpus/$target" "$start" \
        $(ls -d tests/fuzz/corpus/"$target" 2>/dev/null) >"$log" 2>&1 || status=1
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
    all=$(sed -n 's/.*tables (\([0-9]*\) PCs).*/\1/p' "$log")
    runs=$(sed -n 's/^#\([0-9][0-9]*\).*/\1/p' "$log" | tail -1)
    [ $status = 0 ] || tail -40 "$log"
    times >"$log"
    echo "fuzz_$target: $([ $status = 0 ] && echo ok || echo FAILED), ${runs:-0} runs, $(cpu_seconds "$log") s of CPU time," \
        "${edges:-0} of ${all:-0} edges"
    rm -rf "$start" "$log"
    return $status
}

save_one() { # target
    merged=$(mktemp -d) start=$(mktemp -d)
    seeds "$1" "$start"
    # shellcheck disable=SC2046
    build/asan/fuzz_"$1" $(limits "$1") -merge=1 -use_counters=0 "$merged" fuzz-corpus/"$1" "$start" \
        -artifact_prefix="$start/" >/dev/null 2>&1
    python3 - "$merged" <<'END' >tests/fuzz/corpus/"$1".hex
import pathlib, sys
for data in sorted((p.read_bytes() for p in pathlib.Path(sys.argv[1]).iterdir()), key=lambda d: (len(d), d)): print(data.hex())
END
    wc -lc tests/fuzz/corpus/"$1".hex
    rm -rf "$merged" "$start"
}

case ${1-} in
--one) shift; run_one "$@"; exit ;;
--save) shift; for target in "$@"; do save_one "$target"; done; exit ;;
--gate) seconds_in_all=40 corpus=$(mktemp -d) hang_s=600; export hang_s; shift ;; # beside other programs an input may take long
[0-9]*) seconds_in_all=$(($1 * 60)) corpus=fuzz-corpus; shift ;;
-*) sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
*) seconds_in_all=3600 corpus=fuzz-corpus ;;
esac
# shellcheck disable=SC2012
all_targets=$(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_\(.*\)\.c/\1/')
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all_targets

. scripts/setup.sh
# shellcheck disable=SC2086
need $BUILD_PACKAGES clang libclang-rt-14-dev python3
log=$(mktemp)
{ cmake --preset asan && ninja -C build/asan fuzz_targets; } >"$log" 2>&1 || { tail -40 "$log"; exit 99; }
rm "$log"

jobs=2
seconds=$((seconds_in_all * jobs / $#))
results=$(mktemp)
printf '%s\n' "$@" | xargs -P "$jobs" -I{} sh scripts/fuzz.sh --one "$corpus" {} "$seconds" | tee "$results" || true
failed=$(grep -c '^fuzz_.*: FAILED' "$results" || true)
rm "$results"
if [ "$failed" != 0 ]; then
    mkdir -p fuzz-corpus/findings
    [ "$corpus" = fuzz-corpus ] || cp "$corpus"/findings/* fuzz-corpus/findings/
    echo "inputs that failed: "; ls -d fuzz-corpus/findings/*
fi
[ "$corpus" = fuzz-corpus ] || rm -rf "$corpus"
exit "$failed"
