"""`python -m realranks.cli`: the same as `realranks`."""

from realranks.cli import main

if __name__ == "__main__":
    main()
