#!/bin/sh
# Build the speed build (mypyc) of the checkout in a folder of its own, $FOLDER, and run a command with it:
#   scripts/compiled.sh pytest -q tests/core        scripts/compiled.sh toolgrammar bench
# The checkout itself stays pure Python.
set -eu
bin=${BIN:-.venv/bin}
folder=${FOLDER:-build/compiled}
here=$(pwd)
"$bin/python" - "$folder" <<'PYTHON'
import shutil, sys
from pathlib import Path
from hatch_build import compiled

folder = Path(sys.argv[1])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
print(f"compiling {len(compiled(Path('.'), folder.resolve()))} files into {folder}", file=sys.stderr)
PYTHON
for part in grammars fixtures tests docs scripts README.md Makefile pyproject.toml hatch_build.py LICENSE; do
    ln -sfn "$here/$part" "$folder/$part"
done
PATH=$(cd "$bin" && pwd):$PATH
export PATH
cd "$folder"
PYTHONPATH=$(pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
case $1 in
    toolgrammar) shift; exec python -m toolgrammar.cli "$@" ;;
    *) exec python -m "$@" ;;
esac
