"""What the end-to-end tests stand on: clusters, poolers, and a client that sees every message."""
