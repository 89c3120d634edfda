"""The console's rules of auth_hba_file count, whatever else a startup packet says."""

import pytest
from test_hba import with_rules

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer 1.26 lets such clients in")

RULES = "host replication all 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


@pytest.mark.parametrize("replication", ["true", "yes", "on", "1", "database"])
def test_a_rule_for_replication_does_not_open_the_console(pg15, make_pooler, replication):
    pooler = with_rules(make_pooler, pg15, RULES)
    with pytest.raises((wire.ServerError, wire.Closed)):
        pooler.connect(user="postgres", database="pgbouncer", options={"replication": replication}, password="wrong")
