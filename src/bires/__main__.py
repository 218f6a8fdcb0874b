"""`python -m bires`."""

from bires.cli import script

if __name__ == "__main__":
    script()
