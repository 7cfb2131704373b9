"""where.py PREFIX: the folder for a module of a program that is installed in PREFIX, for this Python.

Below PREFIX where this Python looks there. Else, for a prefix of the whole system, Python's own folder; any
other prefix is not left, and PYTHONPATH has to name the folder (a line on standard error says so).
"""

import sys
import sysconfig

prefix = sys.argv[1].rstrip("/")
inside = [folder for folder in sys.path if folder.startswith(prefix + "/") and folder.endswith("-packages")]
if inside:
    print(min(inside, key=len))
elif prefix in ("/usr", "/usr/local"):
    print(sysconfig.get_path("purelib"))
else:
    folder = f"{prefix}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    print(f"-- {sys.executable} finds fdclient.py with PYTHONPATH={folder}", file=sys.stderr)
    print(folder)
