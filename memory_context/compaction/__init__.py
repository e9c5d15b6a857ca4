"""Which parts leave the context, in what order, and what stays of them."""
