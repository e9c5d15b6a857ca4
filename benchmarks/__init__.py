"""What the package promises in numbers, measured: `python -m benchmarks`, run from the repository.

`micro` compares operations with the work they cannot avoid, within one run. `replay` plays recorded agent runs, which
are third-party data and therefore not part of this repository: give their folder with `--traces`.
"""
