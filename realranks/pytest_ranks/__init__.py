"""The engine's door for test suites: a pytest plugin that runs marked tests on real ranks (docs/pytest.md).

`plugin` is what pytest loads in every run of an environment with the course, so it imports nothing of the engine.
`run_test` runs one test on a gang and makes pytest's outcome of it; `inside` and `rewriting` run in the ranks.
"""
