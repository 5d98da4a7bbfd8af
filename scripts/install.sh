#!/bin/sh
# Make the virtual environment $VENV with $PYTHON if it is not there, and install the project into it, editable, with
# the extras $1 (with commas between; dev if none are given).
set -eu
python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "error: $python is not there or older than 3.11" >&2
        echo "  hint: make PYTHON=/path/to/python3.11 ..." >&2
        exit 2
    fi
    echo "making $venv with $("$python" --version)"
    if ! "$python" -m venv --clear "$venv"; then
        echo "error: $python cannot make a virtual environment" >&2
        echo "  hint: on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 2
    fi
fi
extras=${1:-dev}
echo "installing toolgrammar[$extras] into $venv"
"$venv/bin/python" -m pip install --quiet --editable ".[$extras]"
