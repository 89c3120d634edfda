"""Poolers that share a port by so_reuseport, and are peers of each other."""

from harness import ports


def start_behind_one_port(make_pooler, cluster, kinds):
    """Starts a pooler of each of these kinds; returns the port and the poolers."""
    port = ports.take()
    settings = {"so_reuseport": 1, "listen_port": port}
    poolers = [make_pooler(cluster, settings=settings, start=False, which=kind) for kind in kinds]
    for number, pooler in enumerate(poolers, 1):
        pooler.port = port
        pooler.settings["peer_id"] = number
        pooler.peers = {i: f"host={other.dir} port={port}" for i, other in enumerate(poolers, 1)}
        pooler.write_ini()
        pooler.start()
    return port, poolers
