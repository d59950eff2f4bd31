"""The command `qkv` of the wheel: runs the program that lies in the package."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "qkv"
    os.execv(program, ["qkv", *sys.argv[1:]])
