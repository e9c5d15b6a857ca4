from .learner import LEARN_JOB, Learning
from .rules import Statement, ended_orders, explicit_statements, has_statement, orders_in

__all__ = ["LEARN_JOB", "Learning", "Statement", "ended_orders", "explicit_statements", "has_statement", "orders_in"]
