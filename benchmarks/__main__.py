"""``python -m benchmarks``."""

import signal
import sys

from benchmarks.command import main

# An ordinary end, so that servers are stopped and scratch databases dropped.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.exit(main())
