"""Nova's compute service, which also finds the drivers of the folder ``hypervisor``."""

import sys
from pathlib import Path

from nova import virt
from nova.cmd import compute

virt.__path__.append(str(Path(__file__).parent / "hypervisor"))
sys.exit(compute.main())
