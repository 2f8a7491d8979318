"""What theory says of many constraints, measured on the problem of which everything is known."""
