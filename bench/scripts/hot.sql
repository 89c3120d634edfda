update pgbench_branches set bbalance = bbalance + 1 where bid = 1;
