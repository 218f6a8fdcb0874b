"""A module that says who it is, and waits: for tests of the processes that run one."""

import os
import time

if __name__ == "__main__":
    print(os.getpid(), flush=True)
    time.sleep(60)
