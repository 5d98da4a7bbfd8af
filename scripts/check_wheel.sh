#!/bin/sh
# Check a built wheel: scripts/check_wheel.sh WHEEL. Its contents, then a fresh install of it that parses a capture
# from a folder outside the checkout, then its extra "serve" and the server.
set -eu
wheel=$(realpath "$1")
python=$(command -v "${PYTHON:-python3}")
here=$(cd "$(dirname "$0")/.." && pwd)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT

"$python" "$here/scripts/check_wheel.py" contents "$wheel" "$here/grammars"

"$python" -m venv "$away/venv"
"$away/venv/bin/python" -m pip install --quiet "$wheel"
cp "$here/fixtures/captures/deepseek-v3.txt" "$here/fixtures/captures/tools.json" "$here/scripts/check_wheel.py" "$away"

cd "$away"
unset PYTHONPATH
PATH="$away/venv/bin:$PATH"
toolgrammar parse --model deepseek-v3 --tools tools.json deepseek-v3.txt >parsed.jsonl
python check_wheel.py parsed parsed.jsonl
python check_wheel.py library deepseek-v3.txt
toolgrammar bench --formats hermes --workloads short --best-of 1 >bench.txt

"$away/venv/bin/python" -m pip install --quiet "toolgrammar[serve] @ file://$wheel"
python check_wheel.py served deepseek-v3.txt
