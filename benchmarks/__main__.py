"""Entry point. Nothing heavy is imported here: `spawn` imports this module again in each of its ranks."""

if __name__ == "__main__":
    from benchmarks.cli import main

    raise SystemExit(main())
