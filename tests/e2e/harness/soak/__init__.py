"""The soak: random clients, and an operator who does everything to pooler and PostgreSQL that operators do; then the accounts.

`clients` are the clients, `orders` is the operator, `accounts` is what must be left when all have gone, `world` runs them.
"""
