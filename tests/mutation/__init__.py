"""Mutation run: small faults are put into the package one by one, and the tests that cover them must notice.

`python -m tests.mutation` (`make mutate`) draws a seeded sample. Mutants are made by the operators of mutmut and three
of our own (`mutants`), tests are chosen by the lines they run (`coverage_map`), and each mutant runs in a process and
a copy of the repository of its own (`workspace`), so that no mutated file is ever written into the work tree.
"""
