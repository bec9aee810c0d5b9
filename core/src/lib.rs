//! The truth: ids, units, jobs, nodes, partitions; State, Command, apply, authz and check. Pure.
