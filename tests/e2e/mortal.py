"""
Runs a program until the call with this number of one of its functions, and dies with it by SIGKILL: after a step whose
noise was drawn and not yet used, after a step was recorded, or before a file that was written replaces the old one.

    mortal.py step|pwrite|replace NUMBER PROGRAM [ARGUMENT...]

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os
import runpy
import signal
import sys

from epsilond.training import Noise

name, last = sys.argv[1], int(sys.argv[2])
del sys.argv[:3]
holder, die_first = {"step": (Noise, False), "pwrite": (os, False), "replace": (os, True)}[name]
function, calls = getattr(holder, name), 0


def mortal(*arguments):
    global calls
    calls += 1
    result = None if calls == last and die_first else function(*arguments)
    if calls == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


setattr(holder, name, mortal)
runpy.run_path(sys.argv[0], run_name="__main__")
