"""Runs in the machine as PID 1 (``python3 -I -S``): finds the guest's code and hands over. Nothing else is on sys.path."""

import sys

sys.path.insert(0, "/usr/lib/karotte")

from guest import init

init.main()
