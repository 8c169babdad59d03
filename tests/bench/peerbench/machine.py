"""What machine this is, and who else was using it.

Every figure here comes from /proc, so on another system than Linux it is "unknown" or zero.
"""

import os
import platform
import time
from pathlib import Path


def describe():
    model = "unknown processor"
    memory = 0.0
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
        total = Path("/proc/meminfo").read_text().splitlines()[0]
        memory = int(total.split()[1]) / 2**20
    except OSError:
        pass
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def load():
    """Load averages of the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


class Others:
    """Cores used by processes other than the contestants, from one moment to another."""

    def __init__(self):
        self.start = time.perf_counter(), self._busy()

    def cores(self, own):
        """own: CPU seconds the contestants used since the constructor."""
        elapsed = time.perf_counter() - self.start[0]
        return max(0.0, (self._busy() - self.start[1] - own) / elapsed)

    @staticmethod
    def _busy():
        """CPU seconds all cores have spent not idle, or taken by a virtual machine's host."""
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return 0.0
        user, nice, system, _, _, interrupt, soft, steal = map(int, fields)
        return (user + nice + system + interrupt + soft + steal) / os.sysconf("SC_CLK_TCK")
