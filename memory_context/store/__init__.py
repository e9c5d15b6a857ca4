"""The store: the only package that knows SQL and the driver.

A key is handed out only after its row has committed; every str comes back identical; row-level security keeps users
apart; failures are `StoreError`, and `StoreUnavailableError` if a retry can help.
"""
