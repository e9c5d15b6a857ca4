from .learner import LEARN_JOB, Learning
from .rules import Statement, explicit_statements, has_statement

__all__ = ["LEARN_JOB", "Learning", "Statement", "explicit_statements", "has_statement"]
