#!/bin/sh
# Parse the captures of fixtures/captures, each command shown before its result. $BIN is where toolgrammar is installed.
set -eu
bin=${BIN:-.venv/bin}
captures=fixtures/captures

# Exit code 1 says that something in the output is incomplete or malformed; that is what some captures are for.
show() {
    printf '\n$ toolgrammar parse %s\n' "$*"
    code=0
    "$bin/toolgrammar" parse --format pretty "$@" || code=$?
    if [ "$code" -gt 1 ]; then
        echo "error: exit code $code" >&2
        exit "$code"
    fi
}

printf '# Real outputs of a small model, one a line. It seldom does what its template says.\n'
show --model hermes --field raw $captures/qwen2.5-coder-0.5b.jsonl

printf '\n# One capture a format.\n'
for format in deepseek-v3 hermes qwen3-coder llama3-json harmony mistral kimi-k2 glm-4.5 gemma4 pythonic; do
    show --model "$format" --tools $captures/tools.json "$captures/$format.txt"
done

printf '\n# The prompt had opened the reasoning.\n'
show --model deepseek-v3.2 --start reasoning --tools $captures/tools.json $captures/deepseek-v3.2.txt

printf '\n# The model was cut off: the second call is incomplete, and said to be.\n'
show --model qwen3-coder --tools $captures/tools.json $captures/qwen3-coder.cut.txt
