"""What the package promises in numbers, measured: `python -m benchmarks`, run from the repository.

`micro`, `deciding`, `storing` and `searching` compare operations with the work they cannot avoid, within one run.
`retrieval` asks questions whose answers are known; `needles` and `replay` play recorded agent runs. These are
third-party data and therefore not part of this repository: give their folders with `--retrieval` and `--traces`.
"""
